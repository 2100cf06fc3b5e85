"""What a finished result says besides: samples far off its law, perhaps slips, and where it comes to rest."""

from __future__ import annotations

import numpy as np

from odediscovery.data.noise import NORMAL_MEDIAN
from odediscovery.data.series import pooled
from odediscovery.judge.extrapolation import resting_note, resting_point
from odediscovery.judge.notes import Note, Weight, listed
from odediscovery.laws.equations import Equations, Form
from odediscovery.laws.power_sum import count, filled, picked
from odediscovery.problem.problem import Problem
from odediscovery.result.discovery import Discovery, curve_of
from odediscovery.runtime.arrays import Array


def far_off(residuals: Array, least: Array) -> dict[int, float]:
    """Residuals that are far larger than usual, and than those of their neighbours: sample -> how many times.

        |r_k| > 6 s_k,    |r_{k-1}|, |r_{k+1}| < |r_k| / 2

    s_k is the largest of `least` (what they may be by themselves), the median |r| / 0.674 of all samples and that of
    the nearest twenty.
    """
    seen = np.flatnonzero(np.isfinite(residuals))
    size = np.abs(residuals[seen])
    if len(seen) < 20:  # too few to tell what is usual
        return {}
    wide = np.pad(size, 10, constant_values=np.nan)
    local = np.nanmedian(np.lib.stride_tricks.sliding_window_view(wide, 21), axis=1)
    usual = np.maximum(np.maximum(local, np.median(size)) / NORMAL_MEDIAN, least[seen])
    neighbours = np.maximum(np.append(size[1:], 0.0), np.append(0.0, size[:-1]))
    far = (usual > 0.0) & (size > 6.0 * usual) & (neighbours < 0.5 * size)
    # What one sample in twenty does is no slip.
    if np.count_nonzero(far) > max(0.05 * len(seen), 1.0):
        return {}
    return {int(k): float(r) for k, r in zip(seen[far], size[far] / usual[far], strict=True)}


def outliers(found: Discovery, p: Problem) -> list[Note]:
    """A sentence about samples that lie far off the claimed equations, if there are any."""
    series, named = found.series, list[tuple[float, str]]()
    if any(run.recorded is not None for run in series.trajectories):
        return []
    floor = p.floor * np.abs(p.scale.state)
    for k, (run, relative) in enumerate(zip(series.trajectories, p.relative_sigma, strict=True)):
        curve = curve_of(found, k)
        where = f" of trajectory {run.label!r}" if len(series.trajectories) > 1 else ""
        for i in np.flatnonzero(~p.constant[: series.n_states]):
            values, sigma = run.values[:, i], relative[:, i]
            least = np.maximum(floor[i], np.sqrt(np.maximum(curve[:, i], 1.0)) if _are_counts(values) else 0.0)
            for j, far in far_off((values - curve[:, i]) / sigma, least / sigma).items():
                named.append((far, f"{series.states[i]} at {series.time_name} = {run.time[j]:.6g}{where} ({far:.0f})"))
    if not named:
        return []
    texts = [text for _, text in sorted(named, reverse=True)]
    shown = texts[:3] + [f"{len(texts) - 3} more"] * (len(texts) > 3)
    told = (
        f"far off these equations, in standard deviations: {listed(shown)}; if that was a slip, empty the cell and fit "
        "again: all constants are pulled by it"
    )
    return [Note(told, Weight.CONSTANTS)]


def _are_counts(values: Array) -> bool:
    """Whether values may be counts, of which n is off by sqrt(n)."""
    seen = values[np.isfinite(values)]
    return bool((seen >= 0.0).all() and (seen == np.round(seen)).all())


def rest(found: Discovery, form: Form | None = None, covariance: Array | None = None) -> list[Note]:
    """A sentence about the point at which the solution of the first trajectory comes to rest, if it does.

    What comes to rest has estimates, or constants of a form with their covariance.
    """
    if found.series.controls or found.equations.states != found.series.states:
        return []
    start, estimates = found.initial_values[0], found.estimates
    if form is not None and covariance is not None and found.named is not None:
        constants = np.array(found.named.values)

        def equations(c: Array) -> Equations:
            return form.with_constants(c.tolist())

    elif estimates is not None:
        k, law = count(estimates.free), estimates.law
        constants, covariance = picked(law, estimates.free), estimates.covariance.matrix[:k, :k]

        def equations(c: Array) -> Equations:
            moved = law.with_constants(*filled(law.constants, estimates.free, c))
            scaled = moved.unscaled(estimates.scale.state, estimates.scale.time)
            return Equations.from_power_sum(found.series.states, scaled, time_name=found.series.time_name)

    else:
        return []

    def solve(c: Array, times: Array) -> Array:
        # A law that needs more evaluations than these is no simple one.
        return equations(c).simulate(start, times, 1e-8, most_evaluations=20_000)

    def rates(c: Array, x: Array) -> Array:
        return equations(c).rhs(x)

    values, time = pooled(found.series), found.series.trajectories[0].time
    span, low, high = (float(time[0]), float(time[-1])), np.nanmin(values, axis=0), np.nanmax(values, axis=0)
    at = resting_point(solve, rates, constants, covariance, span, low, high)
    return [] if at is None else [resting_note(found.series.states, *at)]
