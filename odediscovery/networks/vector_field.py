"""Vector fields in torch: any chain of units with all its parameters in one tensor.

    dx/dt = unit_L(... unit_1(x))        for all members at once

The mask `free` marks the parameters that may change: pruning fixes an entry (at 0, or a gate at 1) instead of building
a new network, and members of different width differ only in it. For pruning, trained sums of powers become a `Chain`,
whose derivatives are written out; any other chain uses the slower `pull` of its units.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import sympy
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from odediscovery.laws.power_sum import PowerSum
from odediscovery.networks.chain import Chain, Linearisation, Pair, Rhs
from odediscovery.runtime.arrays import Array, Indices
from odediscovery.runtime.monitor import check_time
from odediscovery.units import NAU, AbstractUnit
from odediscovery.units.npu import AbstractPowerUnit


@dataclass(frozen=True, eq=False)
class VectorField:
    """A chain of units with the parameters of every member: dx/dt = units(x; theta).

    Args:
        units: the chain, input first.
        theta: parameters [members, P], laid out unit by unit in the order of `unit.shapes()`.
        free: bool [members, P]; an entry that is not free keeps its value in theta.
        stoichiometry: [states, states], a matrix that multiplies the chain's outputs where equations follow
            from others (default: none).

    >>> from odediscovery.units import NAU, RealNPU
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
    def of(cls, units: Sequence[AbstractUnit]) -> VectorField:
        """Build a field from the units' own parameters, in float64; units without an axis of members are one member,
        and parameters that require no gradient are not free."""
        own = [getattr(u, name) for u in units for name in u.shapes()]
        rows = [value.detach().double().cpu().reshape(units[0].members or 1, -1) for value in own]
        free = [torch.full(row.shape, value.requires_grad) for row, value in zip(rows, own, strict=True)]
        return cls(tuple(units), torch.cat(rows, dim=1), torch.cat(free, dim=1))

    def modules(self, member: int | None = None) -> nn.Sequential:
        """The chain as torch modules with these parameters.

        Args:
            member: the member to return, without an axis of members; None for all of them.
        """
        found = []
        for unit, values in zip(self.units, self.unpack(self.theta.detach().cpu()), strict=True):
            own = copy.deepcopy(unit)
            own.members = self.members if member is None else None
            for name, value in values.items():
                kept = (value if member is None else value[member]).clone()
                setattr(own, name, nn.Parameter(kept, requires_grad=getattr(unit, name).requires_grad))
            found.append(own)
        return nn.Sequential(*found)

    @classmethod
    def random(cls, units: Sequence[AbstractUnit], members: int, generator: torch.Generator | None) -> VectorField:
        """Draw `members` members from the random initialisers of the units by `generator`, with all parameters
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
        """Split theta [members, P] into one dictionary of parameters for each unit (views, no copies)."""
        parts: list[dict[str, Tensor]] = [{} for _ in self.units]
        for i, name, place, shape in self.slices():
            parts[i][name] = theta[:, place].reshape(theta.shape[0], *shape)
        return parts

    def place(self, unit: int, name: str) -> slice:
        """The slice of theta with the parameter `name` of a `unit`, given by its index."""
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

    def select(self, index: Tensor | Sequence[int]) -> VectorField:
        """The members at `index` [any number], in that order (repeats allowed)."""
        index = torch.as_tensor(index)
        return dataclasses.replace(self, theta=self.theta[index], free=self.free[index])

    def replace(self, theta: Tensor, free: Tensor | None = None) -> VectorField:
        """The same chain with other parameters theta [members, P] and, if given, other `free`."""
        return dataclasses.replace(self, theta=theta, free=self.free if free is None else free)

    def arrays(self, member: int) -> list[dict[str, NDArray[np.float64]]]:
        """The parameters of a `member` as arrays [*shape], one dictionary for each unit."""
        parts = self.unpack(self.theta[member : member + 1].detach())
        return [{k: v[0].cpu().numpy().copy() for k, v in p.items()} for p in parts]

    def symbolic(self, member: int, symbols: Sequence[sympy.Symbol]) -> list[sympy.Expr]:
        """The right-hand sides of a `member` in `symbols` [states], exact for its weights."""
        x: list[sympy.Expr] = list(symbols)
        for unit, p in zip(self.units, self.arrays(member), strict=True):
            x = unit.symbolic(p, x)
        if self.stoichiometry is None:
            return x
        return [
            sum((m * y for m, y in zip(row, x, strict=True) if m), sympy.S.Zero) for row in self.stoichiometry.tolist()
        ]


def trained_laws_of(field: VectorField) -> list[PowerSum]:
    """Convert trained members, RealNPU -> NAU or NPU -> NAU with gates at 1, to laws with equal monomials merged;
    imaginary exponents are discarded."""
    mix = None if field.stoichiometry is None else np.asarray(field.stoichiometry)
    members = map(field.arrays, range(field.members))
    return [PowerSum(total["weight"], power["real"], None, mix).merged().compact() for power, total in members]


@dataclass(frozen=True, eq=False, kw_only=True)
class UnitRates(Chain):
    """A `VectorField` of any units, evaluated on arrays; without pairs, pruning does not look for equal rows."""

    field: VectorField

    @classmethod
    def of(cls, field: VectorField) -> UnitRates:
        """The rates of a field."""
        return cls(field.n_states, (), (), field.theta.numpy(), field.free.numpy(), field=field)

    def rhs(self, theta: Array) -> Rhs:
        with torch.no_grad():
            inner = self.field.rhs(torch.as_tensor(theta))

        @torch.no_grad()
        def dx_dt(x: Array) -> Array:
            found: Array = inner(torch.as_tensor(x)).numpy()
            return found

        return dx_dt

    def linearisation(self, theta: Array, columns: Indices) -> Linearisation:
        parts = self.field.unpack(torch.as_tensor(theta))
        own = torch.as_tensor(columns)[:, None, None, :]

        @torch.no_grad()
        def by_chain_rule(x: Array) -> tuple[Array, Array, Array]:
            same = torch.eye(self.n_states, dtype=torch.float64).expand(*x.shape, -1)
            f, f_x, f_theta = pulled_through(self.field.units, parts, torch.as_tensor(x), same)
            asked = torch.take_along_dim(f_theta, own.expand(*f_theta.shape[:-1], -1), dim=-1)
            return f.numpy(), f_x.numpy(), asked.numpy()

        return by_chain_rule


def pulled_through(
    units: Sequence[AbstractUnit], parts: Sequence[dict[str, Tensor]], x: Tensor, cotangents: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """A chain's output y [members, batch, n_out] at x, and `cotangents` [..., K, n_out] of y pulled back to x
    [..., K, n_in] and theta [..., K, P]."""
    inputs = []
    for unit, p in zip(units, parts, strict=True):
        inputs.append(x)
        x = unit.compute(p, x)
    slopes: list[Tensor] = []
    for unit, p, before in zip(reversed(units), reversed(parts), reversed(inputs), strict=True):
        cotangents, of_p = unit.pull(p, before, cotangents)
        slopes[:0] = [of_p[name].flatten(3) for name in p]
    return x, cotangents, torch.cat(slopes, dim=-1)


def on_arrays(field: VectorField) -> tuple[Chain, Indices]:
    """A trained field on arrays, as a `Chain` if it is a sum of powers, and the places of its parameters in theta."""
    powers, sums, places = field.units[::2], field.units[1::2], field.slices()
    read = {"gate": 1.0, "imaginary": 0.0}  # their values in a plain product of real powers
    if not (
        len(powers) == len(sums)
        and all(map(_is_power, powers))
        and all(map(_is_sum, sums))
        and all(bool((field.theta[:, place] == read[name]).all()) for _, name, place, _ in places if name in read)
    ):
        return UnitRates.of(field), np.arange(field.theta.shape[1])
    columns = np.concatenate([np.arange(place.start, place.stop) for _, name, place, _ in places if name not in read])
    pairs = [
        Pair(power.positive.numpy(), power.n_out, total.n_out)
        for power, total in zip(powers, sums, strict=True)
        if isinstance(power, AbstractPowerUnit)
    ]
    theta, free = field.theta.numpy()[:, columns], field.free.numpy()[:, columns]
    return Chain(field.n_states, (), tuple(pairs), theta, free), columns


def _is_power(unit: AbstractUnit) -> bool:
    return isinstance(unit, AbstractPowerUnit) and type(unit).compute is AbstractPowerUnit.compute and unit.clip is None


def _is_sum(unit: AbstractUnit) -> bool:
    return isinstance(unit, NAU) and type(unit).compute is NAU.compute and not unit.clip
