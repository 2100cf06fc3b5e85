"""The uncertainty of a finished result: bands around its curves, and prediction intervals.

    Var x(t) = D C D^T,    D = d x(t) / d (theta, x0)

to first order, for fitted constants theta and starts x0 with covariance C, and D from the variational equations. x(t)
+- t sqrt(Var x(t)), with t the 97.5 % point of Student's t, is a 95 % band of the curve; 95 % of new measurements are
within x(t) +- t sqrt(Var x(t) + s^2), with s^2 the variance of the residuals.

Source: Seber and Wild, Nonlinear Regression (1989), Sec. 5.1 and 5.2.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit

from odediscovery.data.series import TimeSeries, append_controls, pooled
from odediscovery.data.signals import Signal, Trajectory
from odediscovery.errors import InputError
from odediscovery.laws.power_sum import count
from odediscovery.laws.records import LEVEL, Estimates
from odediscovery.problem.problem import Problem, pose
from odediscovery.result.discovery import Discovery, from_start
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import Monitor
from odediscovery.runtime.workers import Backend, Processes, results_of_tasks
from odediscovery.solve.sensitivities import sensitivities


@dataclass(frozen=True, eq=False)
class Band:
    """A solution with the half widths of its 95 % intervals, in the data's units.

    Args:
        curve: the solution [times, states], nan from where it diverges.
        confidence: half width of the interval of the curve itself [times, states].
        prediction: half width for a new measurement, whose noise is that of the residuals.

    >>> ahead = Band(np.array([[5.0]]), np.array([[0.3]]), np.array([[0.5]]))
    >>> ahead.low.tolist(), ahead.high.tolist()
    ([[4.5]], [[5.5]])
    """

    curve: Array
    confidence: Array
    prediction: Array

    @property
    def low(self) -> Array:
        """Lower ends of the prediction intervals [times, states]."""
        return self.curve - self.prediction

    @property
    def high(self) -> Array:
        """Upper ends of the prediction intervals [times, states]."""
        return self.curve + self.prediction


def band(
    found: Discovery,
    times: Array | None = None,
    initial: Array | None = None,
    trajectory: int = 0,
    controls: Signal | None = None,
) -> Band:
    """Integrate the chosen equations, with 95 % intervals.

    Args:
        found: a result with its covariance.
        times: increasing times [n]; default: those of the trajectory.
        initial: values [states] at the first of `times`, assumed exact, so that only the constants
            are uncertain; default: the fitted values of the trajectory at its first time.
        trajectory: index of the trajectory with the fitted start.
        controls: the inputs (default: those of the trajectory).

    Raises:
        InputError: the covariance is unknown, or times lie before the start.

    >>> from odediscovery import Equations, fit_constants, simulate_system
    >>> form = Equations.parse(["N"], {"N": "0.4*N - 0.004*N**2"})
    >>> found = fit_constants(simulate_system("logistic", noise=0.05), form, exponents=False)
    >>> ahead = band(found, times=[0.0, 10.0, 50.0])
    >>> bool((ahead.prediction > ahead.confidence).all())
    True
    """
    estimates = checked_estimates(found)
    run = found.series.trajectories[trajectory]
    controls = controls or run.controls
    at = run.time if times is None else np.asarray(times, dtype=np.float64)
    fitted = initial is None
    first = float(run.time[0]) if fitted else float(at[0])
    start = found.initial_values[trajectory] if initial is None else np.asarray(initial, float)
    curve = found.equations.simulate(start, from_start(at, first), controls=controls)[-len(at) :]
    reached = at[np.isfinite(curve).all(axis=1)]
    deviations = np.full_like(curve, np.nan)
    if len(reached):
        deviations[: len(reached)] = _deviations(
            estimates, start, np.append(first, reached), controls, trajectory if fitted else None
        )
    student = float(stdtrit(found.degrees_of_freedom or np.inf, 0.5 + LEVEL / 2.0))
    noise = residual_deviation(found)
    return Band(curve, student * deviations, student * np.hypot(deviations, noise))


def with_intervals(
    found: Discovery,
    values: Array,
    times: Array,
    initial: Array | None,
    controls: Signal | None = None,
    trajectory: int = 0,
) -> tuple[tuple[str, ...], Array]:
    """Append interval ends to predicted states; return names S, I, ..., S_low, S_high, I_low, ..., and columns."""
    states = found.equations.states
    ends = tuple(f"{state}_{end}" for state in states for end in ("low", "high"))
    if taken := set(ends) & set(states):
        raise InputError(f"a state is called {min(taken)!r} as an end of an interval would be: rename the column")
    half = band(found, times, initial, trajectory, controls).prediction
    sides = np.stack([values - half, values + half], axis=2).reshape(len(values), -1)
    return (*states, *ends), np.hstack([values, sides])


def posed(found: Discovery) -> tuple[TimeSeries, Problem, Array]:
    """Return the series as the search saw it, its problem, and the noise of the residuals, 0 for inputs [variables]."""
    # States without a column are in the series already.
    series, p, _ = pose(found.series, dataclasses.replace(found.settings, hidden_states=()))
    return series, p, np.append(found.noise, np.zeros(len(series.controls)))


def ended(
    function: Callable[[Any], Any],
    tasks: Sequence[Any],
    here: Callable[[Any], Any],
    monitor: Monitor,
    jobs: int,
    backend: Backend | None,
) -> Iterator[tuple[int, Any]]:
    """Yield the numbers of tasks with their results, or `Failure`s, as they end, until the monitor stops.

    Without other processes, `here` does each task in this one; None from it means that it was stopped.
    """
    place = backend or Processes(jobs)
    if backend is not None or min(jobs, len(tasks)) > 1:
        yield from results_of_tasks(place, function, tasks, stopping=monitor.stopping)
        return
    for number, task in enumerate(tasks):
        if (result := here(task)) is None:
            return
        yield number, result


def residual_deviation(found: Discovery) -> Array:
    """Return the standard deviation of a measurement about the curve [states], corrected for fitted constants."""
    values = float(np.isfinite(pooled(found.series)).sum())
    return np.asarray(found.noise * np.sqrt(values / (found.degrees_of_freedom or values)))


def checked_estimates(found: Discovery) -> Estimates:
    """Return the estimates of a result, after a check that they belong to its equations."""
    if found.estimates is None:
        raise InputError(
            "this result has no covariance of its constants (it is of an earlier "
            "version or of a published recipe): fit the data again with the default "
            "recipe"
        )
    law = found.estimates.law.unscaled(found.estimates.scale.state, found.estimates.scale.time)
    x = pooled(append_controls(found.series))
    x = x[np.isfinite(x).all(axis=1)]
    if x.shape[1] == law.n_states:
        printed = np.nan_to_num(found.equations.rhs(x))
        apart = np.abs(np.nan_to_num(law.rhs(x))[:, : printed.shape[1]] - printed)
        # Printed constants are exact to 1e-15, merged terms less so.
        if (apart <= 1e-6 * np.abs(printed).max(axis=0, initial=0.0)).all():
            return found.estimates
    raise InputError("covariance.npz belongs to other equations than result.json: fit the data again")


def _deviations(
    estimates: Estimates, start: Array, times: Array, controls: Signal | None, trajectory: int | None
) -> Array:
    """Compute standard deviations of the curve after the first of `times`, [times - 1, states]."""
    scale, law, n = estimates.scale, estimates.law, len(start)
    k = count(estimates.free)
    places = np.arange(k)
    if trajectory is not None:
        places = np.append(places, k + trajectory * n + np.arange(n))
    covariance = estimates.covariance.part(places).matrix
    grid, index = _fine(times / scale.time)
    acting = None
    if controls is not None:
        # The solver restarts where an input has a kink or a jump.
        known = controls.scaled(scale.state[n:], scale.time)
        within = (known.times > grid[0]) & (known.times < grid[-1])
        joined = np.union1d(grid, known.times[within])
        index, grid = np.searchsorted(joined, grid[index]), joined
        acting = Signal(grid, known.at(grid), controls.held)
    run = Trajectory(grid, np.zeros((len(grid), law.n_states)), controls=acting)
    found = sensitivities(law, estimates.free, start / scale.state[:n], run)
    if found is None:
        return np.full((len(times) - 1, n), np.nan)
    slopes = found[1][index[1:], :n, : len(places)]
    return deviations_of(slopes, covariance) * scale.size[:n]


def deviations_of(slopes: Array, covariance: Array, noise: Array | float = 0.0) -> Array:
    """Compute standard deviations of a curve with noise [times, states], from its slopes [times, states, unknowns]."""
    variance = np.einsum("tip,pq,tiq->ti", slopes, covariance, slopes) + noise**2
    return np.asarray(np.sqrt(np.maximum(variance, 0.0)))


def _fine(times: Array) -> tuple[Array, Array]:
    """Insert times in long gaps; return all times and the places of the given ones."""
    gaps = np.diff(times)
    # Steps are at most a sample interval, as in the fit, unless there are too many for the memory.
    longest = max(1.0, float(gaps.sum()) / 200_000)
    # A first time that is given twice is kept once.
    pieces = np.ceil(gaps / longest).astype(int)
    grid = [
        a + gap * np.arange(1, count + 1) / count for a, gap, count in zip(times, gaps, pieces, strict=False) if count
    ]
    return np.concatenate([times[:1], *grid]), np.append(0, np.cumsum(pieces))
