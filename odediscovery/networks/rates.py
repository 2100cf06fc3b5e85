"""Any chain of units as pruning sees it: rates and their derivatives on arrays.

Trained sums of powers are a `Chain`, whose derivatives are written out; every other chain asks its units (`pull`),
which is correct for each of them and slower.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from odediscovery.networks.chain import AnyChain, Chain, Linearisation, Pair, Rhs
from odediscovery.networks.vector_field import VectorField
from odediscovery.runtime.arrays import Array, Indices, Mask
from odediscovery.units import NAU, AbstractUnit
from odediscovery.units.npu import AbstractPowerUnit


@dataclass(frozen=True, eq=False)
class UnitRates:
    """A `VectorField` of any units on arrays.

    >>> from odediscovery.units import NAU
    >>> rates = UnitRates(VectorField.of([NAU(1, 1, init_weight=-2.0)]))
    >>> f, f_x, f_theta = rates.linearisation(rates.theta, np.array([[0]]))(np.array([[[3.0]]]))
    >>> f.item(), f_x.item(), f_theta.item()
    (-6.0, -2.0, 3.0)
    """

    field: VectorField

    @property
    def n_states(self) -> int:
        """Number of states."""
        return self.field.n_states

    @property
    def members(self) -> int:
        """Number of networks side by side."""
        return self.field.members

    @cached_property
    def theta(self) -> Array:
        """Parameters [members, P]."""
        found: Array = self.field.theta.numpy()
        return found

    @cached_property
    def free(self) -> Mask:
        """Which of them may change, [members, P]."""
        return np.asarray(self.field.free.numpy())

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """None: whether two rows of a layer are the same is not asked of any unit."""
        return ()

    def places(self) -> list[tuple[slice, slice]]:
        """None, as there are no pairs."""
        return []

    def rhs(self, theta: Array) -> Rhs:
        """The function x [members, batch, states] -> dx/dt for parameters theta [members, P]."""
        with torch.no_grad():
            inner = self.field.rhs(torch.as_tensor(theta))

        @torch.no_grad()
        def dx_dt(x: Array) -> Array:
            found: Array = inner(torch.as_tensor(x)).numpy()
            return found

        return dx_dt

    def linearisation(self, theta: Array, columns: Indices) -> Linearisation:
        """The function x -> (f, df/dx, df/dtheta in `columns` [members, F])."""
        parts = self.field.unpack(torch.as_tensor(theta))
        own = torch.as_tensor(columns)[:, None, None, :]

        @torch.no_grad()
        def by_chain_rule(x: Array) -> tuple[Array, Array, Array]:
            f, f_x, f_theta = _pulled_through(self.field.units, parts, torch.as_tensor(x))
            asked = torch.take_along_dim(f_theta, own.expand(*f_theta.shape[:-1], -1), dim=-1)
            return f.numpy(), f_x.numpy(), asked.numpy()

        return by_chain_rule


def _pulled_through(
    units: Sequence[AbstractUnit], parts: Sequence[dict[str, Tensor]], x: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """f [members, batch, states], df/dx [..., states, states] and df/dtheta [..., states, P] of a chain at x."""
    inputs = []
    for unit, p in zip(units, parts, strict=True):
        inputs.append(x)
        x = unit.compute(p, x)
    cotangents = torch.eye(x.shape[-1], dtype=x.dtype).expand(*x.shape, -1)
    slopes: list[Tensor] = []
    for unit, p, before in zip(reversed(units), reversed(parts), reversed(inputs), strict=True):
        cotangents, of_p = unit.pull(p, before, cotangents)
        slopes[:0] = [of_p[name].flatten(3) for name in p]
    return x, cotangents, torch.cat(slopes, dim=-1)


def on_arrays(field: VectorField) -> tuple[AnyChain, Indices]:
    """A trained field on arrays, and where its parameters lie in theta: as sums of powers where it is one."""
    columns = _columns_of_powers(field)
    if columns is None:
        return UnitRates(field), np.arange(field.theta.shape[1])
    powers, sums = field.units[::2], field.units[1::2]
    pairs = [
        Pair(power.positive.numpy(), power.n_out, total.n_out)
        for power, total in zip(powers, sums, strict=True)
        if isinstance(power, AbstractPowerUnit)
    ]
    theta, free = field.theta.numpy()[:, columns], field.free.numpy()[:, columns]
    return Chain(field.n_states, (), tuple(pairs), theta, free), columns


def _is_power(unit: AbstractUnit) -> bool:
    return isinstance(unit, AbstractPowerUnit) and type(unit).compute is AbstractPowerUnit.compute and unit.clip is None


def _columns_of_powers(field: VectorField) -> Indices | None:
    """Exponents and weights in theta, where units are power units and sums in turn, gates are 1 and exponents real."""
    powers, sums = field.units[::2], field.units[1::2]
    plain = all(isinstance(unit, NAU) and type(unit).compute is NAU.compute and not unit.clip for unit in sums)
    if len(powers) != len(sums) or not plain or not all(_is_power(unit) for unit in powers):
        return None
    found = []
    for _, name, place, _ in field.slices():
        if name in ("real", "weight"):
            found.append(np.arange(place.start, place.stop))
        elif bool((field.theta[:, place] != (1.0 if name == "gate" else 0.0)).any()):
            return None
    return np.concatenate(found)
