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

from odediscovery.beyond import beyond
from odediscovery.conclusion import conclude, constants, finished
from odediscovery.cost import Free, price
from odediscovery.device import device_of
from odediscovery.errors import FitError, InputError
from odediscovery.hidden import revealed, widely_prepared, with_hidden
from odediscovery.holdout import continued, split
from odediscovery.inputs import augmented, check_known, unaugmented
from odediscovery.judge import Candidate, Judged, choose, judged, penalty, score, shortlist
from odediscovery.knowledge import Knowledge, check_signs, knowledge
from odediscovery.ladder import SETTLED
from odediscovery.monitor import Monitor
from odediscovery.openness import confounded, undecided
from odediscovery.polish import Polished
from odediscovery.powersum import Array, PowerSum
from odediscovery.prepare import Prepared, measured, pooled, prepare, redundant
from odediscovery.pruning import TURNS, window_length
from odediscovery.published import RECIPES, published
from odediscovery.refinement import (
    MOST,
    follows,
    lengthened,
    on_all_samples,
    refined,
    sigma_of,
    without_excess,
)
from odediscovery.result import Discovery
from odediscovery.search import BRIEF, again, confirmed, search, settled
from odediscovery.series import TimeSeries
from odediscovery.settings import Settings
from odediscovery.snap import merged_law, snapped
from odediscovery.stability import runs_away
from odediscovery.thinning import thinned
from odediscovery.undetermined import said
from odediscovery.unmeasured import competed

# A candidate whose mean square is this many times the best one's is polished only roughly: most
# evaluations in noise and on clean data, where it will not turn out to be right.
FAR, ROUGHLY = 10.0, (8, 4)
# Members times windows are small tensors: a second thread waits longer than it works.
THREADS = 1
# Multiple of what a law leaves of the windows that it may leave of trajectories it follows.
FOLLOWED = 2.0
# Laws that are looked at for that.
LOOKED = 3
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

    >>> from odediscovery import settings_for, simulate_system
    >>> found = discover(simulate_system("torricelli"), settings_for(members=0))
    >>> sorted(found.equations.power_sum.exponents.ravel().tolist())
    [0.0, 0.5]
    """
    settings = (settings or Settings()).checked()
    earlier, later = split(series, settings.holdout)
    found = _found(earlier, settings, monitor or Monitor(settings.max_seconds), before)
    return found if later is None else continued(found, earlier, later)


def _found(
    series: TimeSeries, settings: Settings, monitor: Monitor, before: Sequence[PowerSum]
) -> Discovery:
    torch.set_num_threads(settings.threads or THREADS)
    device_of(settings.device)  # A device that is missing is missed at once.
    if series.inputs and settings.recipe in RECIPES:
        raise InputError(f"inputs ({', '.join(series.inputs)}) need --recipe default: the "
                         "published recipes know none")  # fmt: skip
    series, known = told(series, settings)
    thin = settings.recipe not in RECIPES and measured(series).all()
    few = thinned(series) if thin else series
    prepared = imposed(few, known, settings)
    every, series = series, unaugmented(series)
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
    whole, (prepared, before_front) = prepared, followed(prepared, candidates, monitor)
    rows = _polished_front(prepared, candidates, before_front, monitor)
    if not rows:
        raise FitError("no equations could be integrated through the data; more samples, or "
                       "fewer states (--states), may help")  # fmt: skip
    prepared, rows = quieter(prepared, rows)
    monitor.note(event="chosen", **constants(prepared, rows[choose(rows)]))
    rows = _simplified(prepared, rows, monitor)
    chosen = choose(rows)
    if prepared is not whole and not monitor.stopping():
        rows[chosen] = lengthened(whole, prepared, rows[chosen], monitor)
    rows = [without_excess(prepared, row) for row in rows]
    wide = [] if prepared.clean or monitor.stopping() else _open(prepared, rows[chosen])
    if few is not every:
        prepared, rows, chosen, series = _widened(every, few, prepared, rows, chosen, monitor)
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
    whole, known = told(series, settings)
    return unaugmented(whole), imposed(whole, known, settings), known


def told(series: TimeSeries, settings: Settings) -> tuple[TimeSeries, Knowledge]:
    """The series with the states that knowledge tells and inputs as last ones; that knowledge.

    Raises:
        InputError: what is said to be known cannot be read, or does not fit the series.
    """
    whole = augmented(with_hidden(series, settings.hidden_states))
    known = knowledge(
        whole.states, known=settings.known, conserve=settings.conserve, forbid=settings.forbid,
        bounds=settings.bounds, integer_exponents=settings.integer_exponents,
    )  # fmt: skip
    check_known(known, whole)
    return revealed(whole, settings.hidden_states, known), known


def imposed(
    series: TimeSeries, known: Knowledge, settings: Settings, *, smoothing: bool = True
) -> Prepared:
    """A series from `told` made dimensionless, with what is known and does not spoil the rest."""
    prepared = widely_prepared(series, known, smoothing=smoothing)
    spared = redundant(prepared) & (settings.recipe not in RECIPES)
    imposed = known.without(spared)
    if not imposed.empty:
        scaled = imposed.rescaled(prepared.scale.state, prepared.scale.time)
        check_signs(imposed, scaled)
        prepared = dataclasses.replace(prepared, knowledge=scaled, given=imposed)
    notes = [f"{series.states[i]} hardly changes and follows from the other states: terms with it "
              "could not be told from terms without, so there are none"
              for i in np.flatnonzero(spared & ~known.mentioned)]  # fmt: skip
    return dataclasses.replace(prepared, messages=(*prepared.messages, *notes))


def _of_flows(
    p: Prepared, known: Knowledge, series: TimeSeries, settings: Settings, monitor: Monitor
) -> Discovery:
    """Laws of flows, where states are unmeasured."""
    won = competed(p, known, settings, monitor)
    found = conclude(won.p, won.rows, won.chosen, series, settings, monitor)
    notes = (*said(won, series.states), *known.sentences())
    return dataclasses.replace(found, messages=(*found.messages, *notes))


def _widened(
    every: TimeSeries, few: TimeSeries, p: Prepared, rows: list[Judged], chosen: int,
    monitor: Monitor,
) -> tuple[Prepared, list[Judged], int, TimeSeries]:  # fmt: skip
    """What was found on few of the samples judged on all of them, if the chosen law follows."""
    counts = [sum(len(t.time) for t in s.trajectories) for s in (few, every)]
    note = f"equations were looked for in {counts[1]} samples thinned to {counts[0]}"
    if p.heads is None and not monitor.stopping():
        whole = prepare(every, smoothing=False)
        given = p.given and p.given.rescaled(whole.scale.state, whole.scale.time)
        of_all = f"{note}; constants, errors and scores are those of all"
        whole = dataclasses.replace(whole, knowledge=given, given=p.given,
                                    messages=(*p.messages, of_all))  # fmt: skip
        # Among all samples one may have the other sign.
        turned = (np.sign(whole.scale.state) != np.sign(p.scale.state)).any()
        moved = None if turned else on_all_samples(whole, p, rows, chosen, monitor)
        if moved is not None:
            return whole, *moved, every
    note += ": constants, errors and scores are of these only"
    return dataclasses.replace(p, messages=(*p.messages, note)), rows, chosen, few


def followed(
    whole: Prepared, candidates: list[Candidate], monitor: Monitor
) -> tuple[Prepared, dict[Candidate, Polished]]:
    """The series in pieces that the laws which are best on windows can follow; some polished there.

    From one start nobody can follow chaos, or a fast oscillation in noise, to its end.
    """
    p = whole
    for turns in (TURNS, BRIEF):
        length, polished = window_length(whole, turns), dict[Candidate, Polished]()
        if monitor.stopping() or not lost(p, candidates, length, polished):
            return p, polished
        p = whole.pieces(length)
    return p, {}


def lost(
    p: Prepared, candidates: list[Candidate], length: int, polished: dict[Candidate, Polished]
) -> bool:
    """Whether trajectories much longer than `length` intervals cannot be followed to the end.

    None of the laws that are best on windows follows them: it explains too little of them, or in
    noise much less than of the windows. Which law happens to follow chaos would be luck.

    Args:
        polished: is given the laws that were looked at.
    """
    longest = max(len(t.time) for t in p.data.trajectories)
    if longest <= 2 * length:
        return False
    floor, moving = SETTLED if p.clean else 0.0, ~p.constant
    listed = shortlist(candidates, p.samples, floor, around=1)
    for c in sorted(listed, key=lambda c: score(c, p.samples, floor))[:LOOKED]:
        found = polished[c] = _polished(p, c, c.law, c.free, MOST)
        left = float((found.squares / sigma_of(p) ** 2)[moving].sum() / found.counts[moving].sum())
        if follows(p, found) and (p.clean or left <= FOLLOWED * c.mean_square):
            return False
    return True


def _polished(p: Prepared, c: Candidate, law: PowerSum, free: Free, most: int) -> Polished:
    initial = c.initial if p.heads is None else p.initial
    found = refined(p, law, free, initial, sigma_of(p), most)
    if p.knowledge is not None and found.finite and not p.knowledge.allows(found.law):
        # Exponents have left their bounds: they are held there.
        found = refined(p, found.law, found.free, found.initial, sigma_of(p), most)
    return found


def _polished_front(
    p: Prepared, candidates: list[Candidate], known: dict[Candidate, Polished], monitor: Monitor
) -> list[Judged]:
    """The shortlist with constants refined on whole trajectories, those that integrate.

    What is more complex than a law that leaves nothing could only fit rounding: it is left out.

    Args:
        known: laws that are polished already.
    """
    floor = SETTLED if p.clean else 0.0
    around = 1 if monitor.stopping() else 4
    listed = shortlist(candidates, p.samples, floor, around=around)
    least = min((c.mean_square for c in listed), default=0.0) + floor
    monitor.stage("polish", len(listed))
    rows: list[Judged] = []
    for i, c in enumerate(listed):
        if any(_needless(p, c, row) for row in rows):
            continue
        # A row that is far from the data is there for the front, not for its constants.
        far = c.mean_square > FAR * least
        most = 3 if monitor.stopping() else ROUGHLY[p.clean] if far else MOST
        polished = known.get(c) or _polished(p, c, c.law, c.free, most)
        law, free = without_negligible(polished.law, polished.free, pooled(p.smooth))
        if law is not polished.law and polished.finite:
            polished = _polished(p, c, law, free, most)
        kept = polished.finite and _printable(p, polished.law)
        if kept:
            rows.append(judged(polished, sigma_of(p), c.origin, fragile=_fragile(p, polished)))
        monitor.step(i + 1)
        monitor.note(event="candidate", origin=c.origin, complexity=c.law.complexity,
                     mean_square=c.mean_square, finite=polished.finite,
                     criterion=rows[-1].criterion if kept else None)  # fmt: skip
    if not rows and len(listed) < len(candidates):
        # What is best on windows may blow up beyond them if there was no time to refine it.
        return _polished_front(p, [c for c in candidates if c not in listed], known, monitor)
    return rows


def _needless(p: Prepared, c: Candidate, row: Judged) -> bool:
    """Whether clean data leave a candidate nothing to win from a row that is simpler.

    What the row leaves of whole trajectories is explained by rounding and integration.
    """
    best = row.polished
    if not p.clean or c.law.complexity <= best.law.complexity:
        return False
    starts = c.initial.size
    dearer = (penalty(c.law, c.free, p.samples, starts)
              >= penalty(best.law, best.free, p.samples, starts))  # fmt: skip
    return dearer and bool((best.squares <= best.counts * sigma_of(p) ** 2).all())


def quieter(p: Prepared, rows: list[Judged]) -> tuple[Prepared, list[Judged]]:
    """The rows judged anew where a law leaves far less than what was taken for noise.

    What is sampled a few times a turn looks noisier than it is, until a law is known.
    """
    left = np.stack([r.polished.squares / r.polished.counts.clip(1) for r in rows])
    share = (left / sigma_of(p) ** 2).min(axis=0)
    if p.clean or not (share < QUIET).any():
        return p, rows
    noise = np.where(share < QUIET, np.sqrt(share) * p.noise, p.noise)
    p = dataclasses.replace(p, noise=noise)
    return p, [judged(r.polished, sigma_of(p), r.origin, fragile=r.fragile) for r in rows]


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
        after = refined(p, law, free, before.initial, sigma)
        return judged(after, sigma_of(p), row.origin, fragile=row.fragile)

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
    return undecided(p, found, lambda law, free: refined(p, law, free, found.initial, sigma))


def _published(p: Prepared, series: TimeSeries, settings: Settings, monitor: Monitor) -> Discovery:
    """Members as a published recipe trains and reads them."""
    ended = published(series, p, settings, monitor)
    return finished(series, settings, monitor, ended.front, ended.initial, ended.noise,
                     ended.network, ended.messages)  # fmt: skip
