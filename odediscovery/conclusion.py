"""The judged laws as a result: equations in the user's units, front, outcome, what is open.

Numbers become dimensionless in `prepare`; here they come back, with their standard errors.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from odediscovery.equations import Equations
from odediscovery.extract import network_of
from odediscovery.honesty import structured
from odediscovery.judge import Judged, non_dominated
from odediscovery.monitor import Monitor
from odediscovery.polish import Polished, residuals
from odediscovery.powersum import Array, PowerSum
from odediscovery.prepare import Prepared, linear_relation, pooled
from odediscovery.result import Discovery, FrontRow, Network
from odediscovery.series import TimeSeries
from odediscovery.settings import Settings

# Difference of the criterion below which another row is about as good.
CLOSE = 4.0
# Share of the variance that has to be explained before a law is claimed, and the same where what
# is left is clearly no noise.
POOR, DOUBTFUL = 0.5, 0.9


def constants(p: Prepared, row: Judged) -> dict[str, object]:
    """The constants of a law in the user's units before snapping, for the log."""
    law = row.polished.law.unscaled(p.scale.state, p.scale.time)
    return {"coefficients": law.coefficients.tolist(), "exponents": law.exponents.tolist(),
            "exponent_errors": row.polished.errors.exponents.tolist()}  # fmt: skip


def _equations(p: Prepared, row: Judged, series: TimeSeries) -> Equations:
    """A polished law as equations in the user's units, with standard errors."""
    polished = row.polished
    law = polished.law.unscaled(p.scale.state, p.scale.time)
    if law.inputs is not None:
        return Equations.from_power_sum(series.states, law, time_name=series.time_name)
    return Equations.from_power_sum(
        series.states, law, time_name=series.time_name,
        standard_errors=_unscaled_errors(p, polished),
        snapped=(np.zeros(law.coefficients.shape, dtype=bool),
                 (polished.law.exponents != 0) & ~polished.free[1]),
    )  # fmt: skip


def _unscaled_errors(p: Prepared, polished: Polished) -> PowerSum:
    """Standard errors in the user's units.

    A user's coefficient is A (s_i / T) prod_k s_k^-W[j, k]: its relative error also feels the
    exponents, d ln A' = d ln A - sum_k ln(s_k) dW[j, k].
    """
    law, (free_a, free_w, *_) = polished.law, polished.free
    a_places, w_places = np.argwhere(free_a), np.argwhere(free_w)
    user = law.unscaled(p.scale.state, p.scale.time).coefficients
    errors = np.zeros_like(law.coefficients)
    log_scale = np.log(p.scale.state)
    for row, (i, j) in enumerate(a_places):
        gradient = np.zeros(len(polished.covariance))
        gradient[row] = user[i, j] / law.coefficients[i, j]
        for column, (monomial, k) in enumerate(w_places, start=len(a_places)):
            if monomial == j:
                gradient[column] = -user[i, j] * log_scale[k]
        errors[i, j] = np.sqrt(max(float(gradient @ polished.covariance @ gradient), 0.0))
    return PowerSum(errors, polished.errors.exponents)


def _front_row(p: Prepared, row: Judged, series: TimeSeries, selected: bool) -> FrontRow:
    squares = row.polished.plain_squares * p.scale.state**2
    values = pooled(series)
    spread = np.nansum((values - np.nanmean(values, axis=0)) ** 2)
    equations = _equations(p, row, series)
    return FrontRow(
        equations, equations.complexity,
        float(squares.sum() / row.polished.counts.sum()),
        float(1.0 - squares.sum() / spread) if spread > 0 else 1.0, row.criterion, selected,
    )  # fmt: skip


def _front(
    p: Prepared, rows: list[Judged], chosen: int, series: TimeSeries
) -> tuple[FrontRow, ...]:
    """Rows better than every simpler one, one a complexity: that of the chosen row is its own."""
    best = non_dominated(rows, chosen, p.scale.state)
    listed = sorted((_front_row(p, rows[i], series, i == chosen) for i in best),
                    key=lambda row: (row.complexity, row.mse))  # fmt: skip
    taken = next(row.complexity for row in listed if row.selected)
    return tuple(
        row for i, row in enumerate(listed)
        if row.selected
        or (row.complexity != taken and all(row.mse < other.mse for other in listed[:i]))
    )  # fmt: skip


def conclude(
    p: Prepared, rows: list[Judged], chosen: int, series: TimeSeries, settings: Settings,
    monitor: Monitor,
) -> Discovery:  # fmt: skip
    """The judged rows as a result, with what its reader should know.

    Args:
        p: what the rows were judged on, whole trajectories or pieces of them.
        rows: judged laws.
        chosen: index of the one that is claimed.
    """
    best = rows[chosen].polished
    front = _front(p, rows, chosen, series)
    notes = [f"{series.states[i]} never changes: its equation is zero"
             for i in np.flatnonzero(p.constant)]  # fmt: skip
    notes += _undecided(p, front, series)
    if any(row.equations.power_sum is None for row in front):
        notes.append("complexity counts constants and states of sums of monomials, and nodes of "
                     "the expression trees of other equations")  # fmt: skip
    if rows[chosen].fragile:
        notes.append("the equations run away from starts that are as likely as the fitted one")
    if best.law.inputs is not None:
        notes.append("standard errors are printed for sums of monomials only")
    initial = best.initial if p.heads is None else best.initial[list(p.heads)]
    if p.heads is not None:
        size = len(p.data.trajectories[0].time)
        notes.append("whole trajectories cannot be followed from one start: laws were judged, and "
                     f"mse and r2 are, on pieces of {size} samples")  # fmt: skip
    noise = np.sqrt(best.plain_squares / best.counts.clip(1)) * p.scale.state
    left = [] if p.clean else structured(residuals(best.law, p.data, best.initial))
    notes += [f"what the equations leave of {series.states[i]} is no noise: {found} runs of one "
              f"sign where about {expected} are expected"
              for i, found, expected in left]  # fmt: skip
    return finished(series, settings, monitor, front, initial * p.scale.state, noise,
                     network_of(best.law, p.scale), notes,
                     least=DOUBTFUL if left else POOR)  # fmt: skip


def _undecided(p: Prepared, front: tuple[FrontRow, ...], series: TimeSeries) -> list[str]:
    """What the data cannot tell apart, one sentence each."""
    notes = []
    chosen = next(row for row in front if row.selected)
    close = [str(row.complexity) for row in front
             if not row.selected and row.criterion < chosen.criterion + CLOSE]  # fmt: skip
    if close:
        notes.append("the data hardly prefer these equations to those of complexity "
                     f"{', '.join(close)}")  # fmt: skip
    relation = linear_relation(p)
    if relation is not None:
        weights, value = relation
        terms = [f"{abs(c):.4g}*{state}".removeprefix("1*")
                 for state, c in zip(series.states, weights, strict=True) if c]  # fmt: skip
        signs = ["-" if c < 0 else "+" for c in weights if c]
        text = " ".join(f"{sign} {term}" for sign, term in zip(signs, terms, strict=True))
        text = text.removeprefix("+ ")
        notes.append(f"{text} = {value:.4g} in all samples: equations that differ by this relation "
                     "cannot be told apart; a trajectory with another value of it can")  # fmt: skip
    return notes


def finished(
    series: TimeSeries, settings: Settings, monitor: Monitor, front: tuple[FrontRow, ...],
    initial: Array, noise: Array, network: Network | None, notes: Sequence[str],
    least: float = POOR,
) -> Discovery:  # fmt: skip
    """The result with what its reader should know.

    Args:
        least: share of the variance that the equations have to explain.
    """
    top = next(row for row in front if row.selected)
    messages, outcome = list(series.messages), "converged"
    if top.r2 < least:
        outcome = "poor-fit"
        messages.append(f"the best equations explain only {top.r2:.0%} of the variance: they are "
                        f"no law of these data")  # fmt: skip
    if reason := monitor.stopping():
        outcome = "stopped"
        messages.append(f"stopped ({reason}) after {monitor.seconds():.1f} s: this is the best so "
                        f"far, not all members were finished")  # fmt: skip
    return Discovery(
        series=series, equations=top.equations, initial_values=initial, front=front, mse=top.mse,
        r2=top.r2, r2_heldout=None, noise=noise, outcome=outcome,
        messages=(*messages, *notes), settings=settings, seconds=round(monitor.seconds(), 3),
        network=network, log=tuple(monitor.log),
    )  # fmt: skip
