"""The vector field dx/dt = unit_L(... unit_1(x)): a chain of units, all members at once.

The parameters of the whole chain lie in one tensor theta [members, parameters], so that every
optimiser sees one vector a member, and `free` says which of them may still change: pruning
fixes an entry (at 0, or a gate at 1) instead of building a new network. Members of different
width differ only by `free`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import sympy
import torch
from numpy.typing import NDArray
from torch import Tensor

from odediscovery.runtime.monitor import check_time
from odediscovery.units import NAU, AbstractUnit, RealNPU

Linearisation: TypeAlias = Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]


@dataclass(frozen=True, eq=False)
class VectorField:
    """dx/dt = units(x; theta) for every member.

    Args:
        units: the chain, input first.
        theta: parameters [members, P], laid out unit by unit in the order of `unit.shapes()`.
        free: bool [members, P]; an entry that is not free keeps its value in theta.
        stoichiometry: [states, states], what the chain's outputs are multiplied by where equations follow
            from others (default: nothing).

    >>> chain = (RealNPU(2, 3), NAU(3, 2))
    >>> field = VectorField.random(chain, 4, torch.Generator().manual_seed(0))
    >>> field.rhs(field.theta)(torch.ones(4, 5, 2, dtype=torch.float64)).shape
    torch.Size([4, 5, 2])
    """

    units: tuple[AbstractUnit, ...]
    theta: Tensor
    free: Tensor
    stoichiometry: Tensor | None = None

    @classmethod
    def random(cls, units: Sequence[AbstractUnit], members: int, generator: torch.Generator) -> VectorField:
        """That many `members` from the units' own random initialisation by `generator`, everything
        free."""
        parts = [u.initial(members, generator) for u in units]
        theta = torch.cat([v.reshape(members, -1) for p in parts for v in p.values()], dim=1)
        return cls(tuple(units), theta, torch.ones_like(theta, dtype=torch.bool))

    @property
    def members(self) -> int:
        """Number of networks side by side."""
        return self.theta.shape[0]

    @property
    def n_states(self) -> int:
        """Number of states."""
        return self.units[0].n_in

    def slices(self) -> list[tuple[int, str, slice, tuple[int, ...]]]:
        """(unit's index, parameter's name, place in theta, shape) of every parameter."""
        places, start = [], 0
        for i, unit in enumerate(self.units):
            for name, shape in unit.shapes().items():
                stop = start + math.prod(shape)
                places.append((i, name, slice(start, stop), shape))
                start = stop
        return places

    def unpack(self, theta: Tensor) -> list[dict[str, Tensor]]:
        """theta [members, P] as one dictionary of parameters a unit (views, no copies)."""
        parts: list[dict[str, Tensor]] = [{} for _ in self.units]
        for i, name, place, shape in self.slices():
            parts[i][name] = theta[:, place].reshape(theta.shape[0], *shape)
        return parts

    def place(self, unit: int, name: str) -> slice:
        """Where the parameter `name` of a unit (its index) lies in theta."""
        return next(p for i, n, p, _ in self.slices() if i == unit and n == name)

    def rhs(self, theta: Tensor) -> Callable[[Tensor], Tensor]:
        """The function x [members, batch, states] -> dx/dt for parameters theta [members, P]."""
        chain = [u.bound(p) for u, p in zip(self.units, self.unpack(theta), strict=True)]

        def dx_dt(x: Tensor) -> Tensor:
            check_time()
            for unit in chain:
                x = unit(x)
            return x if self.stoichiometry is None else x @ self.stoichiometry.T

        return dx_dt

    def _by_chain(self, theta: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """f, df/dx [members, batch, states, states] and df/dtheta [..., states, P] at x."""
        parts, inputs = self.unpack(theta), []
        for unit, p in zip(self.units, parts, strict=True):
            inputs.append(x)
            x = unit.compute(p, x)
        n = x.shape[-1]
        cotangents = torch.eye(n, dtype=x.dtype, device=x.device).expand(*x.shape[:-1], n, n)
        pulled: list[list[Tensor]] = []
        for unit, p, z in zip(reversed(self.units), reversed(parts), reversed(inputs), strict=True):
            cotangents, grads = unit.pull(p, z, cotangents)
            pulled.insert(0, [grads[name].flatten(3) for name in unit.shapes()])
        return x, cotangents, torch.cat([g for unit in pulled for g in unit], dim=-1)

    def linearisation(self, theta: Tensor, columns: Tensor | None = None) -> Linearisation:
        """The function x -> (f, df/dx, df/dtheta in some columns) for these parameters.

        Args:
            theta: parameters [members, P].
            columns: which parameters of each member, [members, F] (default: all P).

        Returns:
            f [members, batch, states], df/dx [..., states, states] and df/dtheta [..., states, F].
        """
        if columns is None:
            columns = torch.arange(theta.shape[1], device=theta.device).expand(len(theta), -1)
        power, total = self.units[0], self.units[-1]
        if self.stoichiometry is not None:
            return self._mixed(self.stoichiometry, dataclasses.replace(self, stoichiometry=None), theta, columns)
        plain = len(self.units) == 2 and isinstance(total, NAU) and not total.clip
        if plain and isinstance(power, RealNPU):
            gates = self.place(0, "gate")
            if not ((columns >= gates.start) & (columns < gates.stop)).any():
                return self._sum_of_powers(power, theta, columns)

        def by_chain(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            f, f_x, f_theta = self._by_chain(theta, x)
            at = columns[:, None, None, :].expand(*f_theta.shape[:-1], -1)
            return f, f_x, f_theta.gather(-1, at)

        return by_chain

    @staticmethod
    def _mixed(stoichiometry: Tensor, field: VectorField, theta: Tensor, columns: Tensor) -> Linearisation:
        """The linearisation of a chain whose outputs are mixed afterwards."""
        inner = field.linearisation(theta, columns)

        def mixed(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            f, f_x, f_theta = inner(x)
            return f @ stoichiometry.T, stoichiometry @ f_x, stoichiometry @ f_theta

        return mixed

    def _sum_of_powers(self, power: RealNPU, theta: Tensor, columns: Tensor) -> Linearisation:
        """The same for RealNPU -> NAU: dA[i, j] of f_i is y_j, dW[j, k] is A[i, j] dy_j/dW[j, k].

        Each column is a number a member and state times one a sample: no full gradient is made.
        """
        parts, (h, n) = self.unpack(theta), power.shapes()["real"]
        a, first, last = parts[1]["weight"], self.place(0, "real"), self.place(1, "weight")
        of_power = (columns >= first.start) & (columns < first.stop)
        of_sum = (columns >= last.start) & (columns < last.stop)
        row = torch.where(of_power, (columns - first.start) // n, (columns - last.start) % h)
        row = row.clamp(0, h - 1)
        equation = ((columns - last.start) // h).clamp(0, a.shape[1] - 1)
        one = torch.nn.functional.one_hot(equation, a.shape[1]).transpose(1, 2).to(a)
        through = a.gather(2, row[:, None].expand(-1, a.shape[1], -1))
        factor = torch.where(of_power[:, None], through, one * of_sum[:, None])[:, None]
        state = torch.where(of_power, (columns - first.start) % n, 0)
        slopes = power.slopes(parts[0])

        def by_columns(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            y, y_x, y_w = slopes(x)
            rows = row[:, None].expand(-1, x.shape[1], -1)
            own = torch.where(of_power[:, None], y_w(rows, state), y.gather(2, rows))
            return y @ a.transpose(1, 2), a[:, None] @ y_x, factor * own[:, :, None]

        return by_columns

    def select(self, index: Tensor | Sequence[int]) -> VectorField:
        """The members at `index` [any number], in that order (repeats allowed)."""
        index = torch.as_tensor(index)
        return dataclasses.replace(self, theta=self.theta[index], free=self.free[index])

    def replace(self, theta: Tensor, free: Tensor | None = None) -> VectorField:
        """The same chain with other parameters theta [members, P] and, if given, other `free`."""
        return dataclasses.replace(self, theta=theta, free=self.free if free is None else free)

    def arrays(self, member: int) -> list[dict[str, NDArray[np.float64]]]:
        """One member's parameters as arrays [*shape], a dictionary a unit."""
        parts = self.unpack(self.theta[member : member + 1].detach())
        return [{k: v[0].cpu().numpy().copy() for k, v in p.items()} for p in parts]

    def symbolic(self, member: int, symbols: Sequence[sympy.Symbol]) -> list[sympy.Expr]:
        """The right-hand sides of one member over `symbols` [states], exact for its weights."""
        x: list[sympy.Expr] = list(symbols)
        for unit, p in zip(self.units, self.arrays(member), strict=True):
            x = unit.symbolic(p, x)
        if self.stoichiometry is None:
            return x
        return [
            sum((m * y for m, y in zip(row, x, strict=True) if m), sympy.S.Zero) for row in self.stoichiometry.tolist()
        ]
