"""Which of the laws that fit about as well is claimed: what they do with what they did not see decides.

    keep what predicts blocks of time  ->  what stays near the data when continued

The criterion asks how closely a law follows the samples it was fitted to. A law that follows them by
constants that mean nothing shows itself on samples that it did not see: blocks of time that are left
out, one after the other, and the time after the last sample. The claimed law is fitted to all samples.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from odediscovery.data.series import TimeSeries
from odediscovery.judge.criterion import CRITERION, Verdict, count_constants, judge_on
from odediscovery.judge.doubt import runs_away
from odediscovery.judge.notes import Note, simpler_and_nearer, weaker_between
from odediscovery.laws.power_sum import count
from odediscovery.problem.problem import Problem
from odediscovery.result.discovery import Discovery
from odediscovery.result.front import FrontRow
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import JUDGING, Monitor
from odediscovery.search.refinement import refined, residual_sigma, sigma_of
from odediscovery.solve.sensitivities import residuals
from odediscovery.stages.values import Judged


@dataclass(frozen=True)
class PreferenceThresholds:
    """Which laws are compared on samples that they did not see."""

    blocks: int = 5  # blocks of time, each left out once
    rivals: int = 3  # simpler laws that are tried against the claimed one
    hopeful: float = 30.0  # a simpler law whose criterion is farther behind is no rival [criterion]
    evaluations: int = 6  # most evaluations of a refit
    samples: float = 4.0  # samples a fitted number from which on blocks are left out


PREFERENCE = PreferenceThresholds()


def charge_fragile(verdict: Verdict, monitor: Monitor) -> Verdict:
    """The verdict once laws pay for running away from starts that the data allow.

    Only those that may be claimed are asked, the likeliest first: running away makes no law likelier.
    """
    p, rows = verdict.p, list(verdict.rows)
    if p.clean:
        return verdict
    least = math.inf
    for i in sorted(range(len(rows)), key=lambda i: rows[i].criterion):
        found, before = rows[i].polished, rows[i].criterion
        if before > least + PREFERENCE.hopeful:
            break
        ask = partial(runs_away, found.law, p.data, found.initial, p.start_errors, p.nonnegative)
        if monitor.in_time(JUDGING, ask, False):
            rows[i] = judge_on(p, found, rows[i].origin, fragile=True)
        least = min(least, rows[i].criterion)
    return Verdict.of(p, rows)


def prefer_what_predicts(verdict: Verdict, monitor: Monitor) -> Verdict:
    """The verdict for a simpler law where that clearly predicts left-out blocks of time better."""
    p, best = verdict.p, verdict.best
    if p.clean or p.heads is not None or monitor.stopping() or not allows_blocks(p, best):
        return verdict
    size = count_constants(best.polished, p.scale.state)
    simpler = [
        i
        for i, row in enumerate(verdict.rows)
        if count_constants(row.polished, p.scale.state) < size and row.criterion < best.criterion + PREFERENCE.hopeful
    ]
    simpler = sorted(simpler, key=lambda i: verdict.rows[i].criterion)[: PREFERENCE.rivals]
    if not simpler:
        return verdict
    monitor.stage("blocks", 1 + len(simpler))
    own, chosen = block_misfits(p, best), verdict.chosen
    least = float(own.sum()) - CRITERION.no_evidence
    for k, i in enumerate(simpler):
        if monitor.stopping():
            return verdict
        each = block_misfits(p, verdict.rows[i])
        monitor.step(k + 2)
        if each.sum() < least and (each < own).sum() > len(own) / 2:
            least, chosen = float(each.sum()), i
    if chosen == verdict.chosen:
        return verdict
    monitor.note(event="blocks", complexity=verdict.rows[chosen].polished.law.complexity)
    return verdict.passed_over(chosen, weaker_between)


def allows_blocks(p: Problem, row: Judged) -> bool:
    """Whether there are enough samples to leave a block of them out."""
    fitted = count(row.polished.free) + row.polished.initial.size
    runs = [np.isfinite(t.values).any(axis=1).sum() for t in p.data.trajectories]
    return p.samples >= PREFERENCE.samples * fitted and min(runs) >= 2 * PREFERENCE.blocks


def block_misfits(p: Problem, row: Judged) -> Array:
    """Misfit of each left-out block, of a law that was fitted to all others [blocks]; inf where it is lost.

    Residuals count in units of what noise, rounding and integration explain, at most with their logarithm.
    """
    found, sigma = row.polished, sigma_of(p)
    misfits = np.full(PREFERENCE.blocks, np.inf)
    for b in range(PREFERENCE.blocks):
        without, blocks = without_block(p.data, b)
        q = dataclasses.replace(p, data=without)
        fitted = refined(q, found.law, found.free, found.initial, residual_sigma(p, found), PREFERENCE.evaluations)
        if not fitted.finite:
            continue
        left = residuals(fitted.law, p.data, fitted.initial)
        squares = np.concatenate([r[block] ** 2 for r, block in zip(left, blocks, strict=True)])
        misfits[b] = misfit_of_block(squares, sigma)
    return misfits


def misfit_of_block(squares: Array, sigma: Array) -> float:
    """sum of n ln(mean square + sigma^2) over the states that have samples in a block [samples, states]."""
    n, seen = np.isfinite(squares).sum(axis=0), np.isfinite(squares).any(axis=0)
    mean = np.nansum(squares, axis=0)[seen] / n[seen]
    return float((n[seen] * np.log(mean + sigma[seen] ** 2)).sum())


def without_block(series: TimeSeries, b: int) -> tuple[TimeSeries, list[slice]]:
    """The series without block b of each trajectory, and where that is."""
    runs, blocks = [], []
    for k, run in enumerate(series.trajectories):
        edges = np.linspace(0, len(run.time), PREFERENCE.blocks + 1).round().astype(int)
        # Other trajectories lose other parts, so that no time is left out everywhere.
        part = (b + k) % PREFERENCE.blocks
        block = slice(int(edges[part]), int(edges[part + 1]))
        values = run.values.copy()
        values[block, ~series.is_control] = np.nan
        runs.append(dataclasses.replace(run, values=values))
        blocks.append(block)
    return dataclasses.replace(series, trajectories=tuple(runs)), blocks


def explain_dominated(found: Discovery) -> list[Note]:
    """Why a row of the front that is simpler and nearer to the data than the chosen one was passed over."""
    chosen = next(row for row in found.front if row.selected)
    rows = [row for row in found.front if row.complexity < chosen.complexity and row.mse < chosen.mse]
    if not rows:
        return []
    row = min(rows, key=lambda row: row.mse)
    return [simpler_and_nearer(row.complexity, _reason(row, chosen, found.series.states))]


def _told_apart(less: float, more: float) -> tuple[str, str]:
    """Two shares with as many digits as tell them apart.

    >>> _told_apart(0.21, 0.87), _told_apart(0.999971, 0.999976)
    (('0.2100', '0.8700'), ('0.99997', '0.99998'))
    """
    pairs = [(f"{less:.{digits}f}", f"{more:.{digits}f}") for digits in range(4, 13)]
    return next((pair for pair in pairs if pair[0] != pair[1]), pairs[-1])


def _reason(row: FrontRow, chosen: FrontRow, states: tuple[str, ...]) -> str:
    """In words: a state that the row explains worse, or what else counts against it."""
    if row.state_r2 is not None and chosen.state_r2 is not None:
        with np.errstate(divide="ignore", invalid="ignore"):
            loss = np.nan_to_num(np.log((1.0 - row.state_r2) / (1.0 - chosen.state_r2)), nan=-np.inf)
        i = int(np.argmax(loss))
        if loss[i] > 0.0:
            less, more = _told_apart(float(row.state_r2[i]), float(chosen.state_r2[i]))
            return f"they explain less of {states[i]} (R2 = {less} instead of {more}), and every state counts alike"
    if chosen.name and not row.name:
        return f"they are hardly likelier than a law with a name ({chosen.name})"
    return (
        "more of their constants are fitted, or they hold for these samples only, which costs them more than they gain"
    )
