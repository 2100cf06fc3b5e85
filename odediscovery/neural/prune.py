"""Pruning a trained field: a path of ever smaller networks, each refitted without penalty.

An L1 penalty finds the support but biases the weights. So parameters are removed one after another, first the one
whose removal worsens the fit least, and the others refitted (optimal brain surgeon). From the path, the data choose by

    BIC = n log(mean square + f) + k log n        n measured values, k parameters, f the error of integration
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from odediscovery.data.series import TimeSeries
from odediscovery.errors import FitError
from odediscovery.fitting.windows import Residuals, finite_squares, levenberg_marquardt
from odediscovery.laws.records import SETTLED
from odediscovery.networks.vector_field import VectorField, on_arrays
from odediscovery.neural.field import Field, posed, scaled, units_of
from odediscovery.neural.train import binarise_gates
from odediscovery.problem.problem import Problem, has_little_noise
from odediscovery.runtime.arrays import Array, Mask
from odediscovery.runtime.monitor import Monitor, drawn
from odediscovery.stages.prune import Elimination, Pruned, prune_chain


@dataclass(frozen=True, eq=False)
class PrunedField:
    """A network on the pruning path.

    Args:
        field: the network, removed parameters at 0.
        parameters: number of remaining parameters.
        mean_square: of its residuals, in units of the noise (or of the increments between samples without noise).
        criterion: BIC, lower is better.

    >>> from odediscovery.units import NAU
    >>> PrunedField(Field(nn.Sequential(NAU(1, 1)), torch.ones(1)), 1, 1e-9, -800.0).parameters
    1
    """

    field: Field
    parameters: int
    mean_square: float
    criterion: float


@dataclass(frozen=True, eq=False)
class PruningPath:
    """The pruning path: the best network for each number of parameters, from large to small.

    Args:
        steps: the networks.

    >>> from odediscovery.units import NAU
    >>> step = PrunedField(Field(nn.Sequential(NAU(1, 1)), torch.ones(1)), 1, 1e-9, -800.0)
    >>> len(PruningPath((step,))), PruningPath((step,)).best.members
    (1, None)
    """

    steps: tuple[PrunedField, ...]

    def __iter__(self) -> Iterator[PrunedField]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def chosen(self) -> PrunedField:
        """The step with the lowest criterion."""
        return min(self.steps, key=lambda step: step.criterion)

    @property
    def best(self) -> Field:
        """The network with the lowest criterion."""
        return self.chosen.field


def prune(
    field: nn.Module, series: TimeSeries, *, max_seconds: float | None = None, monitor: Monitor | None = None
) -> PruningPath:
    """Prune a trained field to ever smaller networks, of which the data choose one.

    Args:
        field: from `train`, or any chain of arithmetic units; all its members are pruned side by side. Imaginary
            exponents of an NPU are removed first.
        series: the series that it was trained on.
        max_seconds: time limit, after which the path so far is returned.
        monitor: receives the progress; without one a bar is drawn in notebooks and on terminals.

    Raises:
        InputError: not a chain of arithmetic units, a wrong width, or a series that the field does not suit.
        FitError: no member can be integrated through the data.

    >>> from odediscovery import equations, simulate_system
    >>> from odediscovery.units import NAU
    >>> series = simulate_system("pendulum", {"angle": 0.001})
    >>> path = prune(nn.Sequential(NAU(2, 2)), series)
    >>> equations(path.best, series.states, digits=3)
    {'angle': speed, 'speed': -9.81*angle}
    """
    p, start = posed(field, series, "prune"), binarise_gates(_without_imaginary(VectorField.of(units_of(field))))
    start = start.replace(start.theta, start.free & (start.theta != 0.0))
    steps: list[PrunedField] = []
    with drawn(monitor, max_seconds) as hears:
        # Samples count as exact first, and remain so if a network has no residuals beyond integration error.
        for q in (p.without_noise(None), p) if has_little_noise(p) else (p,):
            found = _path(q, start, hears)
            steps = steps if steps and hears.stopping() else found or steps
            exact = q.clean and any(step.mean_square < SETTLED for step in found)
            if exact or hears.stopping():
                break
    if not steps:
        raise FitError("none of the networks could be integrated through the data: train them first, or more members")
    return PruningPath(tuple(steps))


def _without_imaginary(field: VectorField) -> VectorField:
    theta = field.theta.clone()
    for values in field.unpack(theta):
        if "imaginary" in values:
            values["imaginary"].zero_()
    return field.replace(theta)


def _path(p: Problem, field: VectorField, monitor: Monitor) -> list[PrunedField]:
    """The best network for each number of parameters, from large to small, refitted to convergence: refits during
    pruning end early, since two monomials that nearly cancel form a long valley until one is removed."""
    rates, columns = on_arrays(field)
    # Members that fit a hundred times worse than the best are not pruned.
    path = prune_chain(p, rates, Elimination(hopeless=100.0), monitor)
    smallest: dict[int, Pruned] = {}
    for pruned in path.networks:
        before = smallest.get(pruned.size)
        if before is None or pruned.sum_of_squares < before.sum_of_squares:
            smallest[pruned.size] = pruned
    steps = [smallest[size] for size in sorted(smallest, reverse=True)]
    if not steps:
        return []
    unknowns = np.stack([step.unknowns for step in steps])
    free = np.ones(unknowns.shape, dtype=bool)
    free[:, : len(columns)] = [step.free for step in steps]
    fit = levenberg_marquardt(path.problem, unknowns, free, 200, tolerance=1e-8, monitor=monitor)
    floor = SETTLED if p.clean else 0.0
    unread = _without_unread(path.problem, fit.unknowns, free, len(columns))
    found = []
    for step, own, squares in zip(steps, unread, fit.sum_of_squares.tolist(), strict=True):
        member, mean_square = field.select([step.member]), squares / path.samples
        theta = member.theta.clone()
        theta[:, columns] = torch.as_tensor(own[: len(columns)])
        criterion = path.samples * math.log(mean_square + floor) + step.size * math.log(path.samples)
        found.append(PrunedField(scaled(member.replace(theta), p.scale, 0), step.size, mean_square, criterion))
    return found


def _without_unread(problem: Residuals, unknowns: Array, free: Mask, parameters: int) -> Array:
    """Set removed parameters to 0 wherever that does not change the fit, as it would for a weight beyond its clip."""
    found, squares = unknowns.copy(), finite_squares(problem.residuals(unknowns))
    for row, own in enumerate(unknowns):
        places = np.flatnonzero(~free[row, :parameters] & (own[:parameters] != 0.0))
        if len(places):
            trials = np.repeat(own[None], len(places), axis=0)
            trials[np.arange(len(places)), places] = 0.0
            same = np.isclose(finite_squares(problem.residuals(trials)), squares[row], rtol=1e-9, atol=0.0)
            found[row, places[same]] = 0.0
    return found
