"""What a gradient costs: all members in one batch, in JAX with diffrax, and in a plain loop.

The same random members (RealNPU -> NAU), windows of clean fSIR and Runge-Kutta steps, float64; a
call ends when the losses and gradients of all members are there. Before anything is timed, all
must agree.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from odediscovery.bench.peers import diffrax_peer, plain_loop
from odediscovery.bench.rows import Row
from odediscovery.bench.speed.task import MEMBERS, ROUNDING_DIFFERENCE
from odediscovery.bench.speed.timing import alternate
from odediscovery.errors import FitError
from odediscovery.fitting.optimise import loss_and_gradient
from odediscovery.fitting.training import TrainingWindows
from odediscovery.fitting.windows import short_windows
from odediscovery.laws.systems import simulate_system
from odediscovery.networks.vector_field import VectorField
from odediscovery.neural.members import random_members
from odediscovery.problem.prepare import prepare
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.device import use_threads
from odediscovery.runtime.resources import keep_freed_memory
from odediscovery.search.published.trajectories import Trajectories
from odediscovery.settings import Settings
from odediscovery.solve.fixed_step import GRIDS
from odediscovery.solve.grids import DEFAULT_GRID

# The loop is so slow that it is timed on some of the members.
LOOPED = 4

Evaluate = Callable[[], tuple[Array, Array]]


@dataclass(frozen=True, eq=False)
class GradientCase:
    """Random members and what they are compared with.

    Args:
        windows: one-interval windows of the dimensionless series.
        whole: the same series as one trajectory, from its first sample.
    """

    field: VectorField
    windows: TrainingWindows
    whole: Trajectories

    @classmethod
    def of_fsir(cls, members: int = MEMBERS, hidden: int | None = None, seed: int = 0) -> GradientCase:
        """So many members of one hidden size (default: that of a fit) on clean fSIR."""
        p = prepare(simulate_system("fsir"))
        field = random_members(p, [hidden or Settings().hidden] * members, seed)
        return cls(field, TrainingWindows.of(short_windows(p)), Trajectories.of(p.data, p.initial, "rk4"))


def measure_gradients(what: str, members: int = MEMBERS, seed: int = 0, seconds: float = 10.0) -> list[Row]:
    """Seconds of loss and gradient of all members by ours and by the peers, one row each.

    Args:
        what: "windows" (one interval each) or "whole" (one trajectory from its first sample).
        seconds: that each may take, about.

    Raises:
        FitError: a peer computes something else.
    """
    # As training does; the peers in this process have it too.
    keep_freed_memory()
    case = GradientCase.of_fsir(members, seed=seed)
    ours, loop, peers = _WAYS[what](case)
    named: dict[str, Evaluate] = {"ours": ours, plain_loop.NAME: loop, **peers}
    found, compiling = {}, {}
    for name, way in named.items():
        began = time.perf_counter()
        found[name] = way()
        compiling[name] = time.perf_counter() - began
    for name, (loss, gradient) in found.items():
        _check_same(name, (loss, gradient), tuple(part[: len(loss)] for part in found["ours"]))
    timings = alternate(named, seconds)
    looped = min(LOOPED, members)
    rows = []
    for name, timing in timings.items():
        scale = members / looped if name == plain_loop.NAME else 1.0
        rows.append(
            {"method": name, "members": members, **timing.row(scale)} | {"first_seconds": compiling[name] * scale}
        )
    return rows


def _check_same(name: str, found: tuple[Array, ...], ours: tuple[Array, ...]) -> None:
    for mine, other in zip(ours, found, strict=True):
        off = np.abs(mine - other).max() / np.abs(mine).max()
        if not off <= ROUNDING_DIFFERENCE:
            raise FitError(f"{name} computes another loss or gradient than ours: {off:.1g} apart")


def _of_windows(case: GradientCase) -> tuple[Evaluate, Evaluate, Mapping[str, Evaluate]]:
    field, w = case.field, case.windows
    grid = GRIDS[DEFAULT_GRID]
    start, target, weight = w.start, w.target[:, 0], w.weight[:, 0]
    # Equal ones, as a user of torchdiffeq would need them.
    length = float(w.duration[0, 0])

    def gradient(network: plain_loop.PowerNetwork) -> Tensor:
        return plain_loop.window_gradient(network, start, length, target, weight, grid)

    peers: Mapping[str, diffrax_peer.Evaluate] = {}
    if diffrax_peer.installed():
        peers = diffrax_peer.window_gradients(
            start.numpy(), w.duration[:, 0].numpy(), target.numpy(), weight.numpy(), grid.numpy()
        )
    return _ours(field, w.loss), _looped(field, gradient), _bound(field, peers)


def _of_whole(case: GradientCase) -> tuple[Evaluate, Evaluate, Mapping[str, Evaluate]]:
    field, whole = case.field, case.whole
    ((times, steps, start, values),) = whole.parts

    def gradient(network: plain_loop.PowerNetwork) -> Tensor:
        return plain_loop.whole_gradient(network, start[0, 0], times, values, steps)

    peers: Mapping[str, diffrax_peer.Evaluate] = {}
    if diffrax_peer.installed():
        peers = diffrax_peer.whole_gradients(start[0, 0].numpy(), times.numpy(), values.numpy(), steps.numpy())
    return _ours(field, whole.mse), _looped(field, gradient), _bound(field, peers)


_WAYS: Mapping[str, Callable[[GradientCase], tuple[Evaluate, Evaluate, Mapping[str, Evaluate]]]] = {
    "windows": _of_windows,
    "whole": _of_whole,
}


def _ours(field: VectorField, loss: Callable[[VectorField, Tensor], Tensor]) -> Evaluate:
    """As training calls it, with its own number of threads."""

    def evaluate() -> tuple[Array, Array]:
        before = torch.get_num_threads()
        use_threads(None)
        try:
            value, gradient = loss_and_gradient(lambda t, _: loss(field, t), field.theta, 0.0)
        finally:
            torch.set_num_threads(before)
        return value.numpy(), gradient.numpy()

    return evaluate


def _looped(field: VectorField, gradient: Callable[[plain_loop.PowerNetwork], Tensor]) -> Evaluate:
    networks = [plain_loop.PowerNetwork(theta, field.n_states, True) for theta in field.theta[:LOOPED]]

    def evaluate() -> tuple[Array, Array]:
        losses = torch.stack([gradient(network) for network in networks])
        return losses.numpy(), torch.stack([network.flat() for network in networks]).numpy()

    return evaluate


def _bound(field: VectorField, ways: Mapping[str, diffrax_peer.Evaluate]) -> dict[str, Evaluate]:
    theta = field.theta.numpy()
    return {f"diffrax, {name}": functools.partial(way, theta) for name, way in ways.items()}
