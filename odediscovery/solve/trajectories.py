"""Accurate solutions of a law through whole trajectories, and what they leave of the data.

scipy's LSODA at tight tolerance: an adaptive solver of another family than training used. Nothing
that is judged or printed depends on the step grids of training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from odediscovery.data.series import TimeSeries
from odediscovery.data.signals import Trajectory, control_slopes
from odediscovery.ivp.lsoda import solve_whole
from odediscovery.laws.compiled import FilledForm, point_field
from odediscovery.laws.power_sum import PowerSum
from odediscovery.runtime.arrays import Array


@dataclass(frozen=True)
class SolutionThresholds:
    """How accurate the solutions are from which constants are printed."""

    finest_rtol: float = 1e-9  # relative tolerance for data without noise
    loosest_rtol: float = 1e-6  # relative tolerance at most, however large the noise
    noise_share: float = 1e-5  # share of the noise that the solver may add [standard deviations]
    rtol_over_atol: float = 100.0  # relative over absolute tolerance, states having an rms of 1
    largest_state: float = 1e10  # a state this large is nowhere near the data any more [rms of the state]


SOLUTIONS = SolutionThresholds()


def tolerance(sigma: Float[Array, " states"]) -> float:
    """Relative tolerance of solves that are compared with residuals of size sigma [states]."""
    return float(np.clip(SOLUTIONS.noise_share * np.min(sigma), SOLUTIONS.finest_rtol, SOLUTIONS.loosest_rtol))


def integrate(
    law: PowerSum | FilledForm, start: Float[Array, " own"], run: Trajectory, rtol: float
) -> Float[Array, "samples states"] | None:
    """States at the run's times [times, states], None where the law blows up or the solver fails.

    The solver begins anew where a straight line of the controls ends.
    """
    rhs, u, slopes = point_field(law), run.controls, control_slopes([run])
    atol, largest = rtol / SOLUTIONS.rtol_over_atol, SOLUTIONS.largest_state
    if u is None:
        return solve_whole(rhs, start, run.time, rtol, atol, largest)
    found = np.hstack([np.tile(start, (len(run.time), 1)), u.values])
    for first, last in u.straight_pieces():

        def driven(t: float, x: Array, slope: Array = slopes[first]) -> Array:
            total: Array = np.asarray(rhs(t, x)) + slope
            return total

        part = solve_whole(driven, found[first], run.time[first : last + 1], rtol, atol, largest)
        if part is None:
            return None
        found[first : last + 1, : len(start)] = part[:, : len(start)]
    return found


def residual_squares(
    law: PowerSum | FilledForm,
    series: TimeSeries,
    initial: Float[Array, "trajectories own"],
    relative_sigma: Sequence[Array] | None = None,
    rtol: float | None = None,
) -> tuple[Float[Array, " states"], Float[Array, " states"], Float[Array, " states"]]:
    """Sums of squared residuals, weighted and plain, and number of values of every state.

    Args:
        relative_sigma: noise of each sample relative to the others (default: all alike).
        rtol: relative tolerance of the solver (default: the finest).
    """
    squares, plain, counts = (np.zeros(law.n_states) for _ in range(3))
    relative_sigma = relative_sigma or [np.ones_like(t.values) for t in series.trajectories]
    for r, t, s in zip(residuals(law, series, initial, rtol), series.trajectories, relative_sigma, strict=True):
        r[:, series.is_control] = np.nan
        counts += t.told.sum(axis=0) * ~series.is_control
        of_noise = np.nansum((r / s) ** 2, axis=0)
        lost = np.isinf(r).any()
        squares += np.inf if lost else of_noise
        plain += np.inf if lost else np.nansum(t.plain(r) ** 2, axis=0)
    return squares, plain, counts


def solutions(
    law: PowerSum | FilledForm, series: TimeSeries, initial: Float[Array, "trajectories own"], rtol: float | None = None
) -> list[Float[Array, "_ states"]]:
    """The law's states at all times [samples, states] a trajectory, inf where it blows up."""
    rtol = SOLUTIONS.finest_rtol if rtol is None else rtol
    found = []
    for t, x0 in zip(series.trajectories, initial, strict=True):
        y = integrate(law, x0, t, rtol)
        found.append(np.full_like(t.values, np.inf) if y is None else y)
    return found


def residuals(
    law: PowerSum | FilledForm, series: TimeSeries, initial: Float[Array, "trajectories own"], rtol: float | None = None
) -> list[Float[Array, "_ states"]]:
    """Law minus data [samples, states] a trajectory: nan where missing, inf where it blows up."""
    found = solutions(law, series, initial, rtol)
    return [t.left(y) for y, t in zip(found, series.trajectories, strict=True)]


def plain_residuals(series: TimeSeries, left: Float[Array, "_ states"]) -> Float[Array, "_ states"]:
    """Law minus data of what `residuals` gives, of all trajectories one below the other [samples, states]."""
    if all(t.recorded is None for t in series.trajectories):
        return left
    blocks = np.split(left, np.cumsum([len(t.time) for t in series.trajectories])[:-1])
    plain: Array = np.concatenate([t.plain(r) for t, r in zip(series.trajectories, blocks, strict=True)])
    return plain
