"""The judged laws as a result: equations in the user's units, front, outcome, what is open.

Numbers become dimensionless in `prepare`; here they come back, with their standard errors.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from odediscovery.data.controls import explain_two_values
from odediscovery.data.samples import pooled
from odediscovery.data.series import TimeSeries
from odediscovery.judge.criterion import non_dominated, penalty
from odediscovery.judge.residual_tests import autocorrelated, autocorrelation_inflation, too_few_runs, walk_misfit
from odediscovery.laws.cost import constant_penalty, count
from odediscovery.laws.equations import Equations
from odediscovery.laws.estimates import Estimates
from odediscovery.laws.power_sum import expanded
from odediscovery.networks.translate import network_of
from odediscovery.problem.impose import in_units
from odediscovery.problem.prepare import Prepared, linear_relation
from odediscovery.result.discovery import Discovery, FrontRow, Network
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import Monitor
from odediscovery.settings import Settings
from odediscovery.solve.trajectories import residuals
from odediscovery.stages.polish.user_units import unscaled_errors
from odediscovery.stages.values import Judged, Polished, freedom

# Difference of the criterion below which another row is about as good.
CLOSE = 4.0
# Share of the variance that has to be explained before a law is claimed, and the same where what
# is left is clearly no noise.
POOR, DOUBTFUL = 0.5, 0.95


def constants(p: Prepared, row: Judged) -> dict[str, object]:
    """The constants of a law in the user's units before snapping, for the log."""
    law = row.polished.law.unscaled(p.scale.state, p.scale.time)
    return {
        "coefficients": law.coefficients.tolist(),
        "exponents": law.exponents.tolist(),
        "exponent_errors": row.polished.errors.exponents.tolist(),
    }


def _equations(p: Prepared, row: Judged, series: TimeSeries) -> Equations:
    """A polished law as equations in the user's units, with standard errors."""
    polished = row.polished
    law = expanded(in_units(p, polished.law))
    errors = unscaled_errors(polished, p.scale)
    return Equations.from_power_sum(
        series.states,
        law,
        time_name=series.time_name,
        standard_errors=errors,
        controls=series.controls,
        snapped=((law.coefficients != 0) & (errors.coefficients == 0), (law.exponents != 0) & (errors.exponents == 0)),
    )


def estimates(p: Prepared, polished: Polished) -> Estimates:
    """The fitted constants and the start values of the trajectories, not of pieces of them."""
    heads = np.arange(len(polished.initial)) if p.heads is None else np.array(p.heads)
    k, n = count(polished.free), polished.initial.shape[1]
    starts = k + heads[:, None] * n + np.arange(n)
    kept = np.concatenate([np.arange(k), starts.ravel()])
    return Estimates(
        polished.law,
        polished.free,
        polished.initial[heads],
        polished.joint.part(kept),
        p.nonnegative[~p.data.is_control],
        p.scale,
    )


def _front_row(p: Prepared, row: Judged, series: TimeSeries, selected: bool) -> FrontRow:
    squares = row.polished.plain_squares * p.scale.state**2
    values = pooled(series)[:, p.measured[: series.n_states]]
    spread = np.nansum((values - np.nanmean(values, axis=0)) ** 2)
    equations, own = _equations(p, row, series), ~p.data.is_control
    heads = range(len(row.polished.initial)) if p.heads is None else p.heads
    return FrontRow(
        equations,
        equations.complexity,
        float(squares.sum() / row.polished.counts.sum()),
        float(1.0 - squares.sum() / spread) if spread > 0 else 1.0,
        row.criterion,
        selected,
        row.polished.initial[list(heads)] * p.scale.state[own],
    )


def _front(p: Prepared, rows: list[Judged], chosen: int, series: TimeSeries) -> tuple[FrontRow, ...]:
    """Rows better than every simpler one, one a complexity: that of the chosen row is its own."""
    best = non_dominated(rows, chosen, p.scale.state)
    listed = sorted(
        (_front_row(p, rows[i], series, i == chosen) for i in best), key=lambda row: (row.complexity, row.mse)
    )
    taken = next(row.complexity for row in listed if row.selected)
    return tuple(
        row
        for i, row in enumerate(listed)
        if row.selected or (row.complexity != taken and all(row.mse < other.mse for other in listed[:i]))
    )


def conclude(
    p: Prepared, rows: list[Judged], chosen: int, series: TimeSeries, settings: Settings, monitor: Monitor
) -> Discovery:
    """The judged rows as a result, with what its reader should know.

    Args:
        p: what the rows were judged on, whole trajectories or pieces of them.
        rows: judged laws.
        chosen: index of the one that is claimed.
    """
    best, own = rows[chosen].polished, ~p.data.is_control
    unexplained = [] if p.clean else residuals(best.law, p.data, best.initial)
    left = [] if p.clean else too_few_runs(unexplained)
    near = [] if p.clean else autocorrelated(unexplained)
    wider = 1.0 if p.clean else autocorrelation_inflation(unexplained)
    if wider > 1.0:
        # Residuals that are alike tell less than as many independent ones.
        best = best.widened(wider)
        rows = [*rows[:chosen], dataclasses.replace(rows[chosen], polished=best), *rows[chosen + 1 :]]
    front = _front(p, rows, chosen, series)
    notes = [f"{p.data.states[i]} never changes: its equation is zero" for i in np.flatnonzero(p.constant & own)]
    notes += [*p.messages, *explain_two_values(p.data)]
    notes += _undecided(p, front)
    if any(row.equations.power_sum is None for row in front):
        notes.append(
            "complexity counts constants and states of sums of monomials, and nodes of "
            "the expression trees of other equations"
        )
    if rows[chosen].fragile:
        notes.append("the equations run away from starts that are as likely as the fitted one")
    fitted = estimates(p, best)
    if p.heads is not None:
        size = len(p.data.trajectories[0].time)
        notes.append(
            "whole trajectories cannot be followed from one start: laws were judged, and "
            f"mse and r2 are, on pieces of {size} samples"
        )
    noise = np.sqrt(best.plain_squares / best.counts.clip(1)) * p.scale.size
    noise = np.where(p.measured, noise, np.nan)
    notes += [
        f"what the equations leave of {series.states[i]} is no noise: {found} runs of one "
        f"sign where about {expected} are expected"
        for i, found, expected in left
    ]
    notes += [
        f"what the equations leave of {series.states[i]} is no noise: neighbouring residuals correlate by {r:.2f}"
        for i, r in near
        if i not in [state for state, *_ in left]
    ]
    if wider > 1.0:
        notes.append(
            f"neighbouring residuals are alike: standard errors are {wider:.1f} times as "
            "large as they would be in noise without memory"
        )
    return build_result(
        series,
        settings,
        monitor,
        front,
        fitted.initial * p.scale.state[own],
        noise[own],
        network_of(best.law, p.scale, series.n_states),
        notes,
        least=DOUBTFUL if left or near else POOR,
        freedom=freedom(best),
        explained=_explained(p, best) if p.heads is not None else None,
        fitted=fitted,
        walk=not p.clean and walks(p, best),
    )


def walks(p: Prepared, found: Polished) -> bool:
    """Whether a random walk, which knows no law, explains the data as well as the law does."""
    seen = (found.counts > 0) & ~p.constant
    n, starts, states = found.counts[seen], found.initial.size, found.law.n_states
    samples = float(found.counts.sum())
    with np.errstate(divide="ignore"):
        law = np.sum(n * np.log(found.squares[seen] / n))
    law += penalty(found.law, found.free, samples, starts)
    walk = walk_misfit(p.data, p.shape)[seen].sum()
    fitted = int(seen.sum())
    walk += fitted * constant_penalty(states, samples) * samples / max(samples - fitted - starts - 2.0, 1.0)
    return bool(walk < law)


def _undecided(p: Prepared, front: tuple[FrontRow, ...]) -> list[str]:
    """What the data cannot tell apart, one sentence each."""
    notes = []
    chosen = next(row for row in front if row.selected)
    close = [str(row.complexity) for row in front if not row.selected and row.criterion < chosen.criterion + CLOSE]
    if close:
        notes.append(f"the data hardly prefer these equations to those of complexity {', '.join(close)}")
    relation = linear_relation(p)
    if relation is not None:
        weights, value = relation
        terms = [
            f"{abs(c):.4g}*{state}".removeprefix("1*") for state, c in zip(p.data.states, weights, strict=True) if c
        ]
        signs = ["-" if c < 0 else "+" for c in weights if c]
        text = " ".join(f"{sign} {term}" for sign, term in zip(signs, terms, strict=True))
        text = text.removeprefix("+ ")
        notes.append(
            f"{text} = {value:.4g} in all samples: equations that differ by this relation "
            "cannot be told apart; a trajectory with another value of it can"
        )
    return notes


def _explained(p: Prepared, found: Polished) -> float:
    """Share of the variance within pieces: their starts, which are fitted, explain the rest."""
    own = ~p.data.is_control
    within = sum(np.nansum((t.values - np.nanmean(t.values, axis=0))[:, own] ** 2) for t in p.data.trajectories)
    return float(1.0 - found.plain_squares.sum() / within) if within > 0 else 1.0


def build_result(
    series: TimeSeries,
    settings: Settings,
    monitor: Monitor,
    front: tuple[FrontRow, ...],
    initial: Array,
    noise: Array,
    network: Network | None,
    notes: Sequence[str],
    least: float = POOR,
    freedom: int | None = None,
    explained: float | None = None,
    walk: bool = False,
    fitted: Estimates | None = None,
) -> Discovery:
    """The result with what its reader should know.

    Args:
        least: share of the variance that the equations have to explain.
        freedom: residual degrees of freedom, if standard errors are known.
        explained: the share that they do explain (default: R2 of the chosen row).
        walk: whether a random walk explains the data as well.
        fitted: constants and starts with their covariance, if it is known.
    """
    top = next(row for row in front if row.selected)
    messages, outcome = list(series.messages), "converged"
    explained = top.r2 if explained is None else explained
    if explained < least:
        outcome = "poor-fit"
        messages.append(
            f"the best equations explain only {explained:.0%} of the variance: they are no law of these data"
        )
    elif walk:
        outcome = "poor-fit"
        messages.append("a random walk, which knows no law, explains the data as well as the best equations do")
    if reason := monitor.stopping():
        outcome = "stopped"
        messages.append(
            f"stopped ({reason}) after {monitor.seconds():.1f} s: this is the best so "
            f"far, not all members were finished"
        )
    return Discovery(
        series=series,
        equations=top.equations,
        initial_values=initial,
        front=front,
        mse=top.mse,
        r2=top.r2,
        r2_heldout=None,
        noise=noise,
        outcome=outcome,
        messages=(*messages, *notes),
        settings=settings,
        seconds=round(monitor.seconds(), 3),
        network=network,
        log=tuple(monitor.log),
        degrees_of_freedom=freedom,
        estimates=fitted,
        initial_value_errors=None if fitted is None else fitted.start_errors(),
    )
