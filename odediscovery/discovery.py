"""discover(): measured series in, readable equations out. The stages in their order.

    prepare -> search (grow, train, prune) -> shortlist -> polish -> judge -> snap -> conclude

Every stage takes one finished value and returns a new one; this is the only file that knows
the order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial

import numpy as np
import torch

from odediscovery.agreement import agreed_with
from odediscovery.balance import balanced
from odediscovery.beyond import beyond
from odediscovery.conclusion import conclude, constants, finished
from odediscovery.cost import Free, none_free, price
from odediscovery.errors import FitError, InputError
from odediscovery.hidden import revealed, widely_prepared, with_hidden
from odediscovery.holdout import continued, split
from odediscovery.inputs import augmented, check_known, unaugmented
from odediscovery.judge import Candidate, Judged, choose, judged, score, shortlist
from odediscovery.knowledge import Knowledge, knowledge
from odediscovery.ladder import SETTLED
from odediscovery.monitor import Monitor
from odediscovery.openness import confounded, undecided
from odediscovery.polish import Polished, polish
from odediscovery.powersum import Array, PowerSum
from odediscovery.prepare import Prepared, pooled, redundant
from odediscovery.published import RECIPES, published
from odediscovery.result import Discovery
from odediscovery.search import BRIEF, TURNS, again, confirmed, search, settled, window_length
from odediscovery.series import TimeSeries
from odediscovery.settings import Settings
from odediscovery.shooting import joined
from odediscovery.snap import merged_law, snapped
from odediscovery.stability import runs_away
from odediscovery.undetermined import said
from odediscovery.unmeasured import competed

# A candidate whose mean square is this many times the best one's is polished only roughly.
FAR = 10.0
# Members times windows are small tensors: a second thread waits longer than it works.
THREADS = 1
# Share of the variance that the best law leaves where it has lost the trajectories.
LOST = 0.3
# Multiple of what a law leaves of the windows that it may leave of trajectories it follows.
FOLLOWED = 2.0
# Laws that are looked at for that, and most evaluations of a polish.
LOOKED, MOST = 3, 25
# Share of the estimated noise's variance below which what a law leaves shows that it is smaller.
QUIET = 0.5
# Share of an equation's largest term below which another one is no evidence.
NEGLIGIBLE = 1e-6


def discover(
    series: TimeSeries, settings: Settings | None = None, monitor: Monitor | None = None, *,
    before: Sequence[PowerSum] = (),
) -> Discovery:  # fmt: skip
    """The ordinary differential equations behind measured series.

    Args:
        series: what was measured, from `load_csv` or `TimeSeries.from_arrays`.
        settings: options, see `Settings`; default recipe if not given.
        monitor: hears the progress and can stop the work; the best so far comes back.
        before: laws that compete with what is found, such as those of an earlier fit (`resume`),
            in the user's units.

    Raises:
        InputError: a setting is out of range, or `holdout` leaves too few samples.
        FitError: no law could be integrated through the data.
    """
    settings = (settings or Settings()).checked()
    earlier, later = split(series, settings.holdout)
    found = _found(earlier, settings, monitor or Monitor(settings.max_seconds), before)
    return found if later is None else continued(found, earlier, later)


def _found(
    series: TimeSeries, settings: Settings, monitor: Monitor, before: Sequence[PowerSum]
) -> Discovery:
    torch.set_num_threads(settings.threads or THREADS)
    if series.inputs and settings.recipe in RECIPES:
        raise InputError(f"inputs ({', '.join(series.inputs)}) need --recipe default: the "
                         "published recipes know none")  # fmt: skip
    series, prepared, known = informed(series, settings)
    if settings.recipe in RECIPES:
        return _published(prepared, series, settings, monitor)
    if not prepared.measured.all():
        if series.inputs:
            raise InputError("unmeasured states that no conserved sum tells cannot have inputs "
                             "beside them yet: leave --inputs or --hidden-states out")  # fmt: skip
        return _of_flows(prepared, known, series, settings, monitor)
    if settings.grow:
        prepared = confirmed(prepared, monitor)
    candidates = again(prepared, before, monitor)
    if not (prepared.clean and settled(candidates)):
        candidates += search(prepared, settings, monitor)
    whole, prepared = prepared, followed(prepared, candidates, monitor)
    rows = _polished_front(prepared, candidates, monitor)
    if not rows:
        raise FitError(
            "no equations could be integrated through the data; more samples, or fewer states "
            "(--states), may help"
        )
    prepared, rows = quieter(prepared, rows)
    monitor.note(event="chosen", **constants(prepared, rows[choose(rows)]))
    rows = _simplified(prepared, rows, monitor)
    chosen = choose(rows)
    if prepared is not whole and not monitor.stopping():
        rows[chosen] = _lengthened(whole, prepared, rows[chosen], monitor)
    rows = [_balanced(prepared, row) for row in rows]
    wide = [] if prepared.clean or monitor.stopping() else _open(prepared, rows[chosen])
    found = conclude(prepared, rows, chosen, series, settings, monitor)
    notes = [*wide, *confounded(prepared, rows[chosen].polished)]
    if not series.inputs:
        notes += beyond(found.equations, series, found.initial_values)
    return dataclasses.replace(found, messages=(*found.messages, *notes, *known.sentences()))


def informed(series: TimeSeries, settings: Settings) -> tuple[TimeSeries, Prepared, Knowledge]:
    """The series with the states that knowledge tells, made dimensionless, and that knowledge.

    Raises:
        InputError: what is said to be known cannot be read, or does not fit the series.
    """
    whole = augmented(with_hidden(series, settings.hidden_states))
    known = knowledge(
        whole.states, known=settings.known, conserve=settings.conserve, forbid=settings.forbid,
        bounds=settings.bounds, integer_exponents=settings.integer_exponents,
    )  # fmt: skip
    check_known(known, whole)
    whole = revealed(whole, settings.hidden_states, known)
    prepared = widely_prepared(whole, known)
    spared = redundant(prepared) & (settings.recipe not in RECIPES)
    imposed = known.without(spared)
    if not imposed.empty:
        scaled = imposed.rescaled(prepared.scale.state, prepared.scale.time)
        prepared = dataclasses.replace(prepared, knowledge=scaled, given=imposed)
    notes = [f"{whole.states[i]} hardly changes and follows from the other states: terms with it "
              "could not be told from terms without, so there are none"
              for i in np.flatnonzero(spared & ~known.mentioned)]  # fmt: skip
    prepared = dataclasses.replace(prepared, messages=(*prepared.messages, *notes))
    return unaugmented(whole), prepared, known


def _of_flows(
    p: Prepared, known: Knowledge, series: TimeSeries, settings: Settings, monitor: Monitor
) -> Discovery:
    """Laws of flows, where states are unmeasured."""
    won = competed(p, known, settings, monitor)
    found = conclude(won.p, won.rows, won.chosen, series, settings, monitor)
    notes = (*said(won, series.states), *known.sentences())
    return dataclasses.replace(found, messages=(*found.messages, *notes))


def followed(whole: Prepared, candidates: list[Candidate], monitor: Monitor) -> Prepared:
    """The series in pieces that the laws which are best on windows can follow.

    From one start nobody can follow chaos, or a fast oscillation in noise, to its end.
    """
    p = whole
    for turns in (TURNS, BRIEF):
        length = window_length(whole, turns)
        if monitor.stopping() or not lost(p, candidates, length):
            break
        p = whole.pieces(length)
    return p


def lost(p: Prepared, candidates: list[Candidate], length: int) -> bool:
    """Whether trajectories much longer than `length` intervals cannot be followed to the end.

    None of the laws that are best on windows follows them: it explains too little of them, or in
    noise much less than of the windows. Which law happens to follow chaos would be luck.
    """
    longest = max(len(t.time) for t in p.data.trajectories)
    if longest <= 2 * length:
        return False
    floor = SETTLED if p.clean else 0.0
    listed = shortlist(candidates, p.samples, floor, around=1)
    values, moving = pooled(p.data), ~p.constant
    spread = np.nansum((values - np.nanmean(values, axis=0))[:, moving] ** 2)
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
    found = _refined(p, law, free, initial, _sigma(p), most)
    if p.knowledge is not None and found.finite and not p.knowledge.allows(found.law):
        # Exponents have left their bounds: they are held there.
        found = _refined(p, found.law, found.free, found.initial, _sigma(p), most)
    return found


def _refined(
    p: Prepared, law: PowerSum, free: Free, initial: Array, sigma: Array, most: int = MOST
) -> Polished:
    """The law, as what is known wants it, with constants at the maximum of the likelihood."""
    law, free = agreed_with(p, law, free)
    return polish(law, p.data, initial, sigma, floor=p.floor, nonnegative=p.nonnegative,
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
        kept = polished.finite and _printable(p, polished.law)
        if kept:
            rows.append(judged(polished, _sigma(p), c.origin, fragile=_fragile(p, polished)))
        monitor.step(i + 1)
        monitor.note(event="candidate", origin=c.origin, complexity=c.law.complexity,
                     mean_square=c.mean_square, finite=polished.finite,
                     criterion=rows[-1].criterion if kept else None)  # fmt: skip
    return rows


def quieter(p: Prepared, rows: list[Judged]) -> tuple[Prepared, list[Judged]]:
    """The rows judged anew where a law leaves far less than what was taken for noise.

    What is sampled a few times a turn looks noisier than it is, until a law is known.
    """
    left = np.stack([r.polished.squares / r.polished.counts.clip(1) for r in rows])
    share = (left / _sigma(p) ** 2).min(axis=0)
    if p.clean or not (share < QUIET).any():
        return p, rows
    noise = np.where(share < QUIET, np.sqrt(share) * p.noise, p.noise)
    p = dataclasses.replace(p, noise=noise)
    return p, [judged(r.polished, _sigma(p), r.origin, fragile=r.fragile) for r in rows]


def _printable(p: Prepared, law: PowerSum) -> bool:
    """Whether numbers are large enough for its coefficients in the user's units."""
    return bool(np.isfinite(law.unscaled(p.scale.state, p.scale.time).coefficients).all())


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
        sigma = np.maximum(np.sqrt(before.squares / before.counts.clip(1)), p.floor)
        after = _refined(p, law, free, before.initial, sigma)
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


def _open(p: Prepared, row: Judged) -> list[str]:
    """Exponents of the chosen law that the data leave open, one sentence each."""
    found = row.polished
    sigma = np.maximum(np.sqrt(found.squares / found.counts.clip(1)), p.floor)
    return undecided(p, found, lambda law, free: _refined(p, law, free, found.initial, sigma))


def _lengthened(whole: Prepared, p: Prepared, row: Judged, monitor: Monitor) -> Judged:
    """The row with constants refined on longer pieces, judged on the same ones as before."""
    monitor.stage("join pieces", 1)

    def refit(q: Prepared, found: Polished) -> Polished:
        return _refined(q, found.law, found.free, found.initial, _sigma(q))

    return _with_constants(p, row, joined(whole, p, row.polished, refit))


def _balanced(p: Prepared, row: Judged) -> Judged:
    """The row without terms that a conserved sum does not need."""
    return row if p.knowledge is None else _with_constants(p, row, balanced(row.polished))


def _with_constants(p: Prepared, row: Judged, better: Polished) -> Judged:
    """The row with constants that were found elsewhere, judged on the same data as before."""
    if better is row.polished:
        return row
    law, found = better.law, row.polished
    here = polish(law, p.data, found.initial, _sigma(p), floor=p.floor, shape=p.shape,
                  nonnegative=p.nonnegative, free=none_free(law))  # fmt: skip
    if not here.finite:
        return row
    joint = better.joint
    if better.initial.shape != here.initial.shape:
        # Starts of other pieces: they depend on the constants as they do here.
        there = polish(law, p.data, here.initial, _sigma(p), floor=p.floor, shape=p.shape,
                       nonnegative=p.nonnegative, free=better.free, most=0)  # fmt: skip
        joint = there.joint.with_first(better.joint.part(slice(len(better.covariance))))
    polished = dataclasses.replace(here, free=better.free, errors=better.errors, joint=joint)
    return judged(polished, _sigma(p), row.origin, fragile=row.fragile)


def _published(p: Prepared, series: TimeSeries, settings: Settings, monitor: Monitor) -> Discovery:
    """Members as a published recipe trains and reads them."""
    ended = published(series, p, settings, monitor)
    return finished(series, settings, monitor, ended.front, ended.initial, ended.noise,
                     ended.network, ended.messages)  # fmt: skip
