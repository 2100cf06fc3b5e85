"""Samples that lie far off the claimed law, alone among neighbours that do not: slips of the measurement, perhaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from odediscovery.data.noise import NORMAL_MEDIAN
from odediscovery.judge.note import Note, Weight
from odediscovery.judge.notes import listed
from odediscovery.result.discovery import Discovery
from odediscovery.runtime.arrays import ABOVE_ZERO, Array
from odediscovery.runtime.thresholds import Thresholds, threshold


@dataclass(frozen=True)
class OutlierThresholds(Thresholds):
    """When a sample is told as an outlier."""

    far: float = threshold(
        6.0,
        "residuals from which on a sample lies far off",
        unit="standard deviations, by the median of all",
        origin="chosen: never among normal ones, and heavier tails are common",
    )
    alone: float = threshold(
        0.5, "residuals of its neighbours up to which it is alone", unit="its own", origin="chosen: a misfit lasts"
    )
    least: int = threshold(20, "samples of a state", origin="the median of fewer tells their spread poorly")
    most: float = threshold(0.05, "most samples that are outliers", unit="share of all", origin="chosen: more are none")
    named: int = threshold(3, "outliers that a message names", origin="a line of text")


OUTLIERS = OutlierThresholds()


def far_off(residuals: Array) -> dict[int, float]:
    """Residuals that are far larger than usual, and than those of their neighbours: sample -> how many times.

        |r_k| > 6 s,    |r_{k-1}|, |r_{k+1}| < |r_k| / 2,    s = median |r| / 0.674

    Args:
        residuals: of one state, over their relative sigma [samples], nan where nothing was measured.

    >>> r = np.sin(np.arange(40.0))
    >>> r[17] = 12.0
    >>> {k: round(far, 1) for k, far in far_off(r).items()}
    {17: 12.3}
    """
    seen = np.flatnonzero(np.isfinite(residuals))
    size = np.abs(residuals[seen])
    if len(seen) < OUTLIERS.least:
        return {}
    usual = max(float(np.median(size)) / NORMAL_MEDIAN, ABOVE_ZERO)
    beside = np.maximum(np.append(size[1:], 0.0), np.append(0.0, size[:-1]))
    far = (size > OUTLIERS.far * usual) & (beside < OUTLIERS.alone * size)
    if np.count_nonzero(far) > max(OUTLIERS.most * len(seen), 1.0):
        return {}
    return {int(k): float(r) for k, r in zip(seen[far], size[far] / usual, strict=True)}


def outliers(found: Discovery, relative_sigma: Sequence[Array]) -> list[Note]:
    """A sentence about samples that lie far off the claimed equations, if there are any.

    Args:
        relative_sigma: noise of each sample relative to the others, [samples, states] a trajectory.
    """
    series, named = found.series, list[tuple[float, str]]()
    if any(run.recorded is not None for run in series.trajectories):
        return []
    for k, (run, relative) in enumerate(zip(series.trajectories, relative_sigma, strict=True)):
        curve = found.equations_of(k).simulate(found.initial_values[k], run.time, controls=run.controls)
        left = (run.values - curve) / relative[:, : series.n_states]
        where = f" of trajectory {run.label!r}" if len(series.trajectories) > 1 else ""
        for state, column in zip(series.states, left.T, strict=True):
            for j, far in far_off(column).items():
                named.append((far, f"{state} at {series.time_name} = {run.time[j]:.6g}{where} ({far:.0f})"))
    texts = [text for _, text in sorted(named, reverse=True)]
    more = len(texts) - OUTLIERS.named
    shown = [*texts[: OUTLIERS.named], *([f"{more} more"] if more > 0 else [])]
    return [far_off_note(shown)] if texts else []


def far_off_note(which: Sequence[str]) -> Note:
    """Samples that lie far off the equations.

    >>> print(far_off_note(["N at t = 8.7 (17)"]))  # doctest: +NORMALIZE_WHITESPACE
    far off these equations, in standard deviations: N at t = 8.7 (17); if that was a slip, empty the cell and fit
    again: all constants are pulled by it
    """
    return Note(
        f"far off these equations, in standard deviations: {listed(which)}; if that was a slip, empty the cell and fit "
        "again: all constants are pulled by it",
        Weight.CONSTANTS,
    )
