"""discover(): measured series in, readable equations out. The stages in their order.

    prepare -> search (grow, train, prune) -> shortlist -> polish -> judge -> snap -> Discovery

Every stage takes one finished value and returns a new one; this is the only file that knows
the order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch

from odediscovery.cost import Free, price
from odediscovery.equations import Equations
from odediscovery.errors import FitError
from odediscovery.extract import network_of
from odediscovery.honesty import structured
from odediscovery.judge import (
    Candidate,
    Judged,
    choose,
    judged,
    non_dominated,
    score,
    shortlist,
)
from odediscovery.ladder import SETTLED
from odediscovery.monitor import Monitor
from odediscovery.polish import Polished, polish, residuals
from odediscovery.powersum import Array, PowerSum
from odediscovery.prepare import Prepared, linear_relation, pooled, prepare
from odediscovery.published import RECIPES, published
from odediscovery.result import Discovery, FrontRow, Network
from odediscovery.search import confirmed, search, window_length
from odediscovery.series import TimeSeries
from odediscovery.settings import Settings
from odediscovery.snap import merged_law, snapped
from odediscovery.stability import runs_away

# A candidate whose mean square is this many times the best one's is polished only roughly.
FAR = 10.0
# Members times windows are small tensors: a second thread waits longer than it works.
THREADS = 1
# Difference of the criterion below which another row is about as good.
CLOSE = 4.0
# Share of the variance that the best law leaves where it has lost the trajectories.
LOST = 0.3
# Multiple of what a law leaves of the windows that it may leave of trajectories it follows.
FOLLOWED = 2.0
# Laws that are looked at for that, and most evaluations of a polish.
LOOKED, MOST = 3, 25
# Share of an equation's largest term below which another one is no evidence.
NEGLIGIBLE = 1e-6
# Share of the variance that has to be explained before a law is claimed, and the same where what
# is left is clearly no noise.
POOR, DOUBTFUL = 0.5, 0.9


def discover(
    series: TimeSeries, settings: Settings | None = None, monitor: Monitor | None = None
) -> Discovery:
    """The ordinary differential equations behind measured series.

    Args:
        series: what was measured, from `load_csv` or `TimeSeries.from_arrays`.
        settings: options, see `Settings`; default recipe if not given.
        monitor: hears the progress and can stop the work; the best so far comes back.

    Raises:
        InputError: a setting is out of range.
        FitError: no law could be integrated through the data.
    """
    settings = (settings or Settings()).checked()
    monitor = monitor or Monitor(settings.max_seconds)
    torch.set_num_threads(settings.threads or THREADS)
    prepared = prepare(series)
    if settings.recipe in RECIPES:
        return _published(prepared, series, settings, monitor)
    if settings.grow:
        prepared = confirmed(prepared, monitor)
    candidates = search(prepared, settings, monitor)
    if lost(prepared, candidates) and not monitor.stopping():
        # From one start nobody can follow chaos, or a fast oscillation in noise, to its end.
        prepared = prepared.pieces(window_length(prepared))
    rows = _polished_front(prepared, candidates, monitor)
    if not rows:
        raise FitError(
            "no equations could be integrated through the data; more samples, or fewer states "
            "(--states), may help"
        )
    monitor.note(event="chosen", **_constants(prepared, rows[choose(rows)]))
    rows = _simplified(prepared, rows, monitor)
    return _result(prepared, rows, choose(rows), series, settings, monitor)


def lost(p: Prepared, candidates: list[Candidate]) -> bool:
    """Whether trajectories that are longer than the search looked cannot be followed to the end.

    None of the laws that are best on windows follows them: it explains too little of them, or in
    noise much less than of the windows. Which law happens to follow chaos would be luck.
    """
    longest = max(len(t.time) for t in p.data.trajectories)
    if longest <= 2 * window_length(p):
        return False
    floor = SETTLED if p.clean else 0.0
    listed = shortlist(candidates, p.samples, floor, around=1)
    values, moving = pooled(p.data), ~p.constant
    spread = np.nansum((values - np.nanmean(values, axis=0)) ** 2)
    for c in sorted(listed, key=lambda c: score(c, p.samples, floor))[:LOOKED]:
        found = _polished(p, c, c.law, c.free, MOST)
        left = float((found.squares / _sigma(p) ** 2)[moving].sum() / found.counts[moving].sum())
        explains = found.finite and found.plain_squares.sum() <= LOST * spread
        if explains and (p.clean or left <= FOLLOWED * c.mean_square):
            return False
    return True


def _sigma(p: Prepared) -> Array:
    """Standard deviation that residuals are divided by [states]."""
    return np.maximum(p.noise, p.floor)


def _polished(p: Prepared, c: Candidate, law: PowerSum, free: Free, most: int) -> Polished:
    initial = c.initial if p.heads is None else p.initial
    return polish(law, p.data, initial, _sigma(p), floor=p.floor, nonnegative=p.nonnegative,
                  free=free, most=most, shape=p.shape)  # fmt: skip


def _polished_front(p: Prepared, candidates: list[Candidate], monitor: Monitor) -> list[Judged]:
    """The shortlist with constants refined on whole trajectories, those that integrate."""
    floor = SETTLED if p.clean else 0.0
    around = 1 if monitor.stopping() else 4
    listed = shortlist(candidates, p.samples, floor, around=around)
    least = min((c.mean_square for c in listed), default=0.0) + floor
    monitor.stage("polish", len(listed))
    rows = []
    for i, c in enumerate(listed):
        # A row that is far from the data is there for the front, not for its constants.
        far = c.mean_square > FAR * least
        most = 3 if monitor.stopping() else 8 if far else MOST
        polished = _polished(p, c, c.law, c.free, most)
        law, free = without_negligible(polished.law, polished.free, pooled(p.smooth))
        if law is not polished.law and polished.finite:
            polished = _polished(p, c, law, free, most)
        if polished.finite:
            rows.append(judged(polished, _sigma(p), c.origin, fragile=_fragile(p, polished)))
        monitor.step(i + 1)
        monitor.note(event="candidate", origin=c.origin, complexity=c.law.complexity,
                     mean_square=c.mean_square, finite=polished.finite,
                     criterion=rows[-1].criterion if polished.finite else None)  # fmt: skip
    return rows


def _fragile(p: Prepared, found: Polished) -> bool:
    return not p.clean and runs_away(found.law, p.data, found.initial, p.start_errors,
                                     p.nonnegative)  # fmt: skip


def without_negligible(law: PowerSum, free: Free, x: Array) -> tuple[PowerSum, Free]:
    """The law without terms smaller than what the solvers that judge leave uncertain.

    Over a long or chaotic trajectory such a term can fit the error of the integration.

    Args:
        x: states at which terms are compared, [samples, states].
    """
    if not law.n_monomials:
        return law, free
    with np.errstate(over="ignore", invalid="ignore"):
        size = np.sqrt(np.mean(law.monomials(x) ** 2, axis=0)) * np.abs(law.coefficients)
    small = (law.coefficients != 0) & (size < NEGLIGIBLE * size.max(axis=1, keepdims=True))
    if not small.any():
        return law, free
    _, w, b, v = law.constants
    kept = law.with_constants(np.where(small, 0.0, law.coefficients), w, b, v)
    return merged_law(kept, free)


def _simplified(p: Prepared, rows: list[Judged], monitor: Monitor) -> list[Judged]:
    """Rows that could still win, with simple exponents where the data cannot tell."""
    best = rows[choose(rows)].criterion
    monitor.stage("snap", len(rows))

    def refit(law: PowerSum, free: Free, row: Judged) -> Judged:
        before = row.polished
        sigma = np.maximum(np.sqrt(before.squares / before.counts), p.floor)
        after = polish(law, p.data, before.initial, sigma, floor=p.floor,
                       nonnegative=p.nonnegative, free=free, shape=p.shape)  # fmt: skip
        return judged(after, _sigma(p), row.origin, fragile=row.fragile)

    simple = []
    for i, row in enumerate(rows):
        law, free = row.polished.law, row.polished.free
        gain = int(free[1].sum()) * price(law.n_states, row.polished.counts.sum())
        if row.criterion - gain < best and not monitor.stopping():
            row = snapped(row, partial(refit, row=row))
            best = min(best, row.criterion)
        simple.append(row)
        monitor.step(i + 1)
    return simple


def _constants(p: Prepared, row: Judged) -> dict[str, object]:
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


def _result(
    p: Prepared, rows: list[Judged], chosen: int, series: TimeSeries, settings: Settings,
    monitor: Monitor,
) -> Discovery:  # fmt: skip
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
    return _finished(series, settings, monitor, front, initial * p.scale.state, noise,
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


def _published(p: Prepared, series: TimeSeries, settings: Settings, monitor: Monitor) -> Discovery:
    """Members as a published recipe trains and reads them."""
    ended = published(series, p, settings, monitor)
    return _finished(series, settings, monitor, ended.front, ended.initial, ended.noise,
                     ended.network, ended.messages)  # fmt: skip


def _finished(
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
