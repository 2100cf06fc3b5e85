"""The vector field of a Neural ODE: any `nn.Sequential` of arithmetic units, in a `Field` once it is trained."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from odediscovery.data.series import Scale, TimeSeries, check_series
from odediscovery.errors import InputError
from odediscovery.networks.vector_field import VectorField
from odediscovery.problem.problem import Problem, pose
from odediscovery.runtime.arrays import Array
from odediscovery.settings import Settings
from odediscovery.units import AbstractUnit


class Field(nn.Module):
    """dx/dt = s / T chain(x / s): a chain of units in the units of the data, as `torchdiffeq.odeint` calls it.

    Args:
        chain: consecutive units, with or without members.
        state: s, the scale by which each state is divided, [states], in its unit.
        time: T, the time unit of the chain's rates.

    Raises:
        InputError: not a chain of arithmetic units, a wrong number of states, a scale of 0, or a time not above 0.

    >>> from torchdiffeq import odeint
    >>> from odediscovery.units import NAU
    >>> decay = Field(nn.Sequential(NAU(1, 1, init_weight=-1.0)), torch.ones(1), 2.0)
    >>> x = odeint(decay, torch.ones(1, dtype=torch.float64), torch.tensor([0.0, 2.0]).double())
    >>> round(x[-1].item(), 4)
    0.3679
    """

    state: Tensor
    time: Tensor

    def __init__(self, chain: nn.Sequential, state: Tensor | Array, time: float = 1.0) -> None:
        super().__init__()
        units = units_of(chain)
        self.chain = copy.deepcopy(chain).double()
        self.register_buffer("state", torch.as_tensor(state, dtype=torch.float64))
        self.register_buffer("time", torch.tensor(float(time), dtype=torch.float64))
        if self.state.shape != (units[0].n_in,) or not bool((self.state != 0).all()) or not float(time) > 0:
            raise InputError(
                f"a scale of {units[0].n_in} states is as many numbers that are not 0, and a time above 0, "
                f"got {self.state.tolist()} and {time}"
            )

    def forward(self, t: Tensor | float, x: Tensor) -> Tensor:
        """Evaluate dx/dt [..., states] at x [..., states] in the units of the data, at any time t; members, if any, are
        the leading axis."""
        found: Tensor = self.chain(x / self.state) * (self.state / self.time)
        return found

    @property
    def members(self) -> int | None:
        """Number of networks side by side; None without an axis of members."""
        found: int | None = units_of(self)[0].members
        return found

    def member(self, index: int) -> Field:
        """Return the network at `index` among those side by side, without an axis of members.

        Raises:
            InputError: there is no such member.
        """
        field = VectorField.of(units_of(self))
        if not 0 <= index < field.members:
            raise InputError(f"a member from 0 to {field.members - 1} is expected, got {index}")
        return Field(field.modules(index), self.state.clone(), float(self.time))


def units_of(field: nn.Module) -> tuple[AbstractUnit, ...]:
    """Return the units of a chain (a unit, an `nn.Sequential` or a `Field`), input first, if they fit together."""
    chain = tuple(_parts(field))
    for part in chain:
        if not isinstance(part, AbstractUnit):
            raise InputError(
                f"a field is a chain of arithmetic units (odediscovery.units), got {type(part).__name__} in it; "
                'an ordinary layer is Dense(n_in, n_out, activation="tanh")'
            )
    for before, behind in itertools.pairwise(chain):
        if before.n_out != behind.n_in:
            raise InputError(f"{behind!r} stands behind {before!r}: it should take {before.n_out} inputs")
    if not chain:
        raise InputError("a field is a chain of arithmetic units (odediscovery.units), got none")
    if len({unit.members for unit in chain}) > 1:
        raise InputError(f"units of one chain have the same number of members, got {[u.members for u in chain]}")
    return chain


def _parts(field: nn.Module) -> list[Any]:
    chain = field.chain if isinstance(field, Field) else field
    return [part for inner in chain for part in _parts(inner)] if isinstance(chain, nn.Sequential) else [chain]


def restarts(units: tuple[AbstractUnit, ...], members: int, generator: torch.Generator | None) -> VectorField:
    """Return the chain with restarts drawn from its units' initialisers, or its own members, if it has any."""
    own = VectorField.of(units)
    if units[0].members is not None or members == 1:
        return own
    others = VectorField.random(units, members - 1, generator)
    # Parameters without a gradient are known, so restarts keep them.
    begin = torch.where(own.free, others.theta, own.theta)
    return own.replace(torch.cat([own.theta, begin]), own.free.expand(members, -1).clone())


def posed(field: nn.Module, series: TimeSeries, verb: str) -> Problem:
    """Pose a series as a dimensionless problem; InputError if the chain cannot be trained or pruned on it."""
    check_series(series, verb)
    if series.controls:
        raise InputError(f"a field is trained on states alone, got the inputs {', '.join(series.controls)}")
    units = units_of(field)
    if (units[0].n_in, units[-1].n_out) != (series.n_states, series.n_states):
        raise InputError(
            f"a field of the {series.n_states} states {', '.join(series.states)} has as many inputs and outputs, "
            f"got {units[0].n_in} and {units[-1].n_out}"
        )
    if any(name not in unit._parameters for unit in units for name in unit.shapes()):
        raise InputError(
            "weights that are parametrised or masked cannot be trained or pruned here: make them permanent first "
            "(remove_parametrizations, torch.nn.utils.prune.remove)"
        )
    p = pose(series, Settings())[1]
    if p.constant.all():
        raise InputError("no state of the series changes: there is nothing to train on")
    if isinstance(field, Field):
        own, data = [*field.state.tolist(), float(field.time)], [*p.scale.state.tolist(), p.scale.time]
        if not np.allclose(own, data, rtol=torch.finfo(field.state.dtype).eps, atol=0.0):
            raise InputError(
                "the field was trained on data of another size or sample interval: train it on this series, or fit "
                "both as trajectories of one series"
            )
    return p


def scaled(field: VectorField, scale: Scale, member: int | None = None) -> Field:
    """A batch of networks, or one of its members, in the units of the data."""
    return Field(field.modules(member), torch.tensor(scale.state), scale.time)
