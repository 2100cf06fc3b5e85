r"""Choice of the structure that all groups share, by mixed models.

If all states were measured, the best sets of terms on the integral form are fitted to whole curves of every group, and
the best of these as mixed models. Then the exponents of the best models are fitted, and held at simple numbers again
where the data allow. If a state was not measured, all sets of linear flows between the states and out of them are
fitted to every group from several initial guesses. Groups that follow another law are excluded, so that they do not
distort the law of the others, if

    C(others) + \sum_g [ n_g (\ln 2 \pi \sigma^2 + 1) + k \ln N ] + margin < C(all)

C is the criterion of a mixed model, n_g the number of values of an excluded group, N that of all groups. An excluded
group counts as if its own law, with k constants, fitted it within the noise of the others. Candidates for exclusion
have much larger residuals than the other groups under any of the best laws, because the best law of all groups may be
one that also fits the odd group.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np

from odediscovery.errors import FitError
from odediscovery.population.groups import (
    ANY,
    LOOSELY,
    SCALED,
    Entry,
    GroupModel,
    Measured,
    Structure,
    fit_each,
    side_by_side,
)
from odediscovery.population.mixed import (
    FEW_ROUNDS,
    LEAST_SQUARE,
    ROUNDS,
    MixedFit,
    criterion,
    sound_model,
    with_spreads,
)
from odediscovery.population.screen import FARTHEST, between_samples, combined, screen
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask
from odediscovery.runtime.monitor import JUDGING, SEARCHING, Monitor

T = TypeVar("T")
DENOMINATORS = (1, 2, 3, 4)  # of simple exponents
OUTSIDE = -1
# Largest share of groups that may be excluded: the law must be that of most groups.
MOST_STRANGE = 0.25


class Begun(NamedTuple):
    """A structure with the unknowns of every group [unknowns, groups], fitted separately; lower scores are better."""

    structure: Structure
    unknowns: Array
    score: float


def choose(measured: Measured, monitor: Monitor, integer: bool = False) -> list[MixedFit]:
    """Mixed models of the best structures, the best first, with the more likely kind of noise."""
    whole = integer or any(start.kind == ANY for start in measured.starts)
    monitor.stage("terms for all groups", 3)
    begun = list[Begun]()
    for _ in range(3):  # each with the curves of the best law so far
        more = monitor.in_time(SEARCHING, partial(_screened, measured, whole, begun), begun)
        if more is begun or not more:
            break
        begun = more
    if not begun:
        raise FitError("no law could be integrated through the groups; fit them one by one")
    pairs = [one[:2] for one in begun]
    kind = monitor.in_time(SEARCHING, partial(with_noise_seen, measured, pairs[:3]), measured)
    if kind is not measured:
        measured = kind
        begun = monitor.in_time(SEARCHING, partial(_fit_structures, measured, pairs), begun)
    monitor.step(1)
    best = _best_of_each_size(begun, lambda one: one.structure.n_constants, 10)
    rows = _mixed(measured, best, monitor)
    if not rows:
        raise FitError("no law could be fitted to all groups; fit them one by one")
    monitor.step(2)
    for row in _best_of_each_size(rows, lambda row: row.model.n_constants, 3):
        if not monitor.stopping() and not whole:
            rows.append(monitor.in_time(SEARCHING, partial(_with_own_exponents, row), row))
    rows = _first_of_each(sorted(rows, key=criterion), lambda row: row.model.structure.kind())
    # Shared constants make a law simpler than varying ones, and may change the order.
    for place, row in enumerate(rows[:4] if not monitor.stopping() else []):
        rows[place] = monitor.in_time(SEARCHING, partial(with_spreads, row), row)
    monitor.step(3)
    return sorted(rows, key=criterion)


def _mixed(measured: Measured, begun: Iterable[Begun], monitor: Monitor, rounds: int = FEW_ROUNDS) -> list[MixedFit]:
    """Sound mixed models of some structures, the best first."""
    rows = list[MixedFit]()
    for one in begun:
        mixed = partial(sound_model, measured, one.structure, one.unknowns, rounds)
        rows += monitor.in_time(SEARCHING if rows else JUDGING, mixed, [])
    return sorted(rows, key=criterion)


def _screened(measured: Measured, whole: bool, begun: list[Begun]) -> list[Begun]:
    """The structures so far and those screened with the curves of the best of them, without duplicates."""
    curves = _curves(measured, begun[0]) if begun else None
    more = _fit_structures(measured, combined(measured, screen(measured, whole, curves)))
    return _first_of_each(sorted([*begun, *more], key=lambda one: one.score), lambda one: one.structure.kind()[0])


def _with_own_exponents(row: MixedFit) -> MixedFit:
    return shorter(simple_exponents(shorter(row)))


def _first_of_each(rows: Iterable[T], kind: Callable[[T], object]) -> list[T]:
    found: dict[object, T] = {}
    for row in rows:
        found.setdefault(kind(row), row)
    return list(found.values())


def _best_of_each_size(rows: Sequence[T], size: Callable[[T], int], most: int) -> list[T]:
    """The first row of each size and the first of all, since a law with too few constants may only lack an exponent."""
    first = _first_of_each(range(len(rows)), lambda place: size(rows[place]))
    chosen = sorted(dict.fromkeys([*first, *range(len(rows))][: max(most, len(first))]))
    return [rows[place] for place in chosen]


def _curves(measured: Measured, one: Begun) -> Array:
    """Curves of a fitted law at and between the samples [points, states, groups]."""
    model = GroupModel(one.structure, between_samples(measured), scale=measured.scale)
    most = FARTHEST * measured.scale[:, None]
    return np.nan_to_num(np.clip(model.fitted(one.unknowns), -most, most))


def _tied(structure: Structure, logs: Array) -> tuple[Structure, Array]:
    """Merge the constants of a loss of one state and an equal gain of another, where their values agree."""
    for a, b in itertools.combinations(range(structure.n_constants), 2):
        one, other = (next(e for e in structure.entries if e.constant == k) for k in (a, b))
        same = one.monomial == other.monomial and one.sign == -other.sign and one.state != other.state
        if same and abs(np.median(logs[a] - logs[b])) < 0.35:
            rest = np.delete(logs, b, axis=0)
            rest[a] = 0.5 * (logs[a] + logs[b])
            return _tied(structure.tied(a, b), rest)
    return structure, logs


def _fit_structures(measured: Measured, begins: Sequence[tuple[Structure, Array]]) -> list[Begun]:
    """Fits of all structures to all groups in one batch, the best first."""
    groups, many = measured.n_groups, len(begins)
    model, places = side_by_side([structure for structure, _ in begins], measured)
    size = model.n_constants
    begin = np.zeros((model.n_unknowns, many, groups))
    for s, (structure, x) in enumerate(begins):
        begin[places[s], s] = x[[e.constant for e in structure.entries]]
        begin[size:, s] = x[structure.n_constants :]
    centre = begin.copy()
    centre[:size] = np.median(begin[:size], axis=2, keepdims=True)
    found, left = fit_apart(model, begin.reshape(len(begin), -1), centre.reshape(len(begin), -1))
    unknowns, squares = found.reshape(begin.shape), left.reshape(-1, many, groups)
    counts, spread, rows = measured.counts(), measured.spread(), []
    for s, (structure, _) in enumerate(begins):
        own = {e.constant: place for e, place in zip(structure.entries, places[s], strict=True)}
        joined, kept = _tied(structure, unknowns[[own[k] for k in sorted(own)], s])
        mean = np.maximum(squares[:, s].sum(axis=1) / np.maximum(counts, 1), LEAST_SQUARE * spread**2)
        score = float(np.sum(counts * np.log(mean))) + 2.0 * joined.n_constants * groups
        rows.append(Begun(joined, np.vstack([kept, unknowns[size:, s]]), score))
    return sorted((one for one in rows if np.isfinite(one.score)), key=lambda one: one.score)


def fit_apart(model: GroupModel, begin: Array, centre: Array | None = None) -> tuple[Array, Array]:
    """Unknowns of every group, held near `centre` or their median, and their sums of squared residuals."""
    measured = model.measured
    starts = [np.inf if measured.starts[i].kind == ANY else LOOSELY for i in measured.open_starts]
    width = np.array([*[1.0] * model.n_constants, *starts])
    centre = np.median(begin, axis=1, keepdims=True) if centre is None else centre
    return fit_each(model, begin, 0.05 * measured.spread(), centre, width, steps=12)


def with_noise_seen(measured: Measured, begun: Sequence[tuple[Structure, Array]]) -> Measured:
    """The groups with proportional noise where that makes the best laws more likely, else unchanged."""
    seen, values = measured.seen, measured.values
    positive = np.all((values > 0) | ~seen, axis=(0, 2)) & [start.kind != ANY for start in measured.starts]
    if not positive.any():
        return measured
    kinds = measured, replace(measured, logarithmic=positive)
    plain, logs = (
        min((criterion(row) for one in begun for row in sound_model(kind, *one)), default=np.inf) for kind in kinds
    )
    return kinds[1] if logs < plain - 6.0 else measured  # strong evidence by BIC


def shorter(fit: MixedFit) -> MixedFit:
    """The model without the terms whose removal improves the criterion."""
    best, structure = fit, fit.model.structure
    for k in range(fit.model.n_constants):
        if not (fewer := structure.without(k)).entries:
            continue
        # Unused exponents are removed, too.
        needed = {e.monomial for e in structure.entries if e.constant != k}
        gone = [k, *(structure.n_constants + f for f, (j, _) in enumerate(structure.free) if j not in needed)]
        for less in sound_model(fit.model.measured, fewer, np.delete(fit.unknowns, gone, axis=0)):
            best = min(best, less, key=criterion)
    return best if best is fit else shorter(best)


def simple_exponents(fit: MixedFit) -> MixedFit:
    """The model with fitted exponents, held at simple numbers where the criterion prefers these.

    If the data cannot distinguish two exponents of an equation, its constants diverge: if no fit of all
    exponents is sound, each is fitted alone.
    """
    places = tuple((int(j), int(k)) for j, k in np.argwhere(fit.model.structure.exponents != 0))
    if not places or fit.model.n_free:
        return fit
    rows = [fit]
    for found in freed(fit, places) or [one for place in places for one in freed(fit, (place,))]:
        rows += [*_held(found, best_only=True), *_held(found, best_only=False)]
    return min(rows, key=criterion)


def freed(fit: MixedFit, places: tuple[tuple[int, int], ...]) -> list[MixedFit]:
    """The model with these exponents fitted; no model if the fit is not sound."""
    structure, k = fit.model.structure, fit.model.n_constants
    values = [np.full(fit.unknowns.shape[1], structure.exponents[place]) for place in places]
    begin = np.vstack([fit.unknowns[:k], *values, fit.unknowns[k:]])
    return sound_model(fit.model.measured, replace(structure, free=places), begin)


def _held(fit: MixedFit, best_only: bool) -> list[MixedFit]:
    """The model with exponents held at simple numbers within their errors, the others free or, if `best_only`, held."""
    model, k = fit.model, fit.model.n_constants
    w, free, kept = model.structure.exponents.copy(), list[tuple[int, int]](), list[int]()
    means, errors = fit.unknowns[k : model.first_start].mean(axis=1), fit.estimate.errors[k : model.first_start]
    for f, (place, value, error) in enumerate(zip(model.structure.free, means, errors, strict=True), start=k):
        # The nearest number of each denominator; 0 would remove the factor.
        rounded = [round(value * d) / d for d in DENOMINATORS]
        near = next((x for x in rounded if abs(x - value) <= max(2.5 * error, 1e-3)), 0.0)
        if near or best_only:
            w[place] = near or min(rounded, key=lambda x: abs(x - value)) or 1 / max(DENOMINATORS)
        else:
            w[place] = value
            free.append(place)
            kept.append(f)
    rest = [*range(k), *kept, *range(model.first_start, len(fit.unknowns))]
    return sound_model(model.measured, replace(model.structure, exponents=w, free=tuple(free)), fit.unknowns[rest])


def choose_flows(measured: Measured, monitor: Monitor) -> list[MixedFit]:
    """Mixed models of the best sets of flows if a state was not measured, the best first."""
    n = measured.n_states
    hidden = {i for i in range(n) if not np.isfinite(measured.values[:, i]).any()}
    ways = [(i, j) for i in range(n) for j in [*range(n), OUTSIDE] if i != j]
    sets = [flows for k in (1, 2, 3) for flows in itertools.combinations(ways, k) if _is_fed(flows, hidden, n)]
    monitor.stage("flows of all groups", len(sets))
    begun = list[Begun]()
    for place, flows in enumerate(sets, start=1):
        first = monitor.in_time(SEARCHING, partial(_begun, measured, _structure(flows, n)), None)
        if first is None:
            break
        begun.append(first)
        monitor.step(place)
    if rows := _mixed(measured, sorted(begun, key=lambda one: one.score)[:4], monitor, ROUNDS):
        return rows
    raise FitError("no set of flows could be fitted to all groups; fit them one by one")


def _is_fed(flows: tuple[tuple[int, int], ...], hidden: set[int], n: int) -> bool:
    """Whether every state has a flow and affects a measured one, and every unmeasured state has an outflow."""
    every = set(range(n))
    reached = every - hidden
    for _ in range(n):
        reached |= {i for i, j in flows if j in reached}
    return reached == every and {k for flow in flows for k in flow} >= every and {i for i, _ in flows} >= hidden


def _structure(flows: tuple[tuple[int, int], ...], n: int) -> Structure:
    """The structure of flows, each proportional to the state that it leaves."""
    sources = sorted({i for i, _ in flows})
    entries = [Entry(i, sources.index(i), k, -1) for k, (i, _) in enumerate(flows)]
    # Two flows out of a state are two entries of one term with two constants.
    entries += [Entry(j, sources.index(i), k, 1) for k, (i, j) in enumerate(flows) if j != OUTSIDE]
    return Structure(np.eye(n)[sources], tuple(sorted(entries)))


def _begun(measured: Measured, structure: Structure) -> Begun:
    """The fit of a structure from the best of several initial guesses, with its score in units of -2 log likelihood."""
    k, scale = structure.n_constants, measured.scale
    span = max(float(np.median(measured.times[-1] - measured.times[0])), ABOVE_ZERO)
    # Slow, medium and fast rates that the samples can resolve.
    rates = np.log(np.array(list(itertools.product((1.0, 5.0, 25.0), repeat=k))) / span)
    counts, first = measured.counts(), measured.first_starts()
    highest = np.where(np.isfinite(measured.values), measured.values, -np.inf).max(axis=0)
    height = max(float(np.nanmedian(highest[counts > 0])), ABOVE_ZERO)
    for row, i in enumerate(measured.open_starts):
        if measured.starts[i].kind == SCALED:
            # The largest single amount, a start or a dose; groups without any have no information on the factor.
            amount = np.maximum(measured.starts[i].value, measured.doses[:, i].max(axis=0))
            first[row] = np.log(height) - np.log(np.where(amount > 0, amount, np.median(amount[amount > 0])))
    begin = np.vstack([np.repeat(rates.T, measured.n_groups, axis=1), np.tile(first, (1, len(rates)))])
    model, width = GroupModel(structure, measured.repeated(len(rates))), np.full(len(begin), 2.0)
    unknowns, squares = fit_each(model, begin, 0.1 * scale, begin, width, steps=20)
    value = (np.where(counts > 0, 1.0 / scale**2, 0.0) @ squares).reshape(len(rates), -1).sum(axis=1)
    # The same guess for all groups, because the roles of the constants may differ between guesses.
    best, total = int(np.argmin(value)), counts.sum()
    score = float(total * np.log(max(value[best] / total, ABOVE_ZERO))) + 2.0 * k * measured.n_groups
    return Begun(structure, unknowns.reshape(len(begin), len(rates), -1)[:, best], score)


def odd_groups(fit: MixedFit) -> Mask:
    """Mask of the groups that the law fits much worse than the others [groups]."""
    residual = fit.model.residual(fit.unknowns)
    count = fit.model.seen.sum(axis=(0, 1))
    ratio = np.sqrt(np.einsum("tig,i->g", residual**2, 1.0 / fit.estimate.sigma**2) / np.maximum(count, 1))
    # Any law fits two values.
    return np.asarray((ratio > 3.0 * max(float(np.median(ratio)), 1e-12)) & (count >= 3))


def leave_out_strangers(rows: Sequence[MixedFit], monitor: Monitor) -> tuple[MixedFit, Mask]:
    """The best law of all groups, or of those that follow it, and a mask of the excluded groups [groups]."""
    best, least = rows[0], criterion(rows[0]) - 10.0  # very strong evidence by BIC
    out = np.zeros(best.model.measured.n_groups, bool)
    for row in rows[:6]:
        odd = odd_groups(row)
        if not 0 < odd.sum() <= MOST_STRANGE * len(odd):
            continue
        for less in monitor.in_time(SEARCHING, partial(_without, row, odd), list[MixedFit]()):
            cost = criterion(less) + _own_cost(row.model.measured, odd, less.estimate.sigma)
            if cost < least:
                best, least, out = less, cost, odd
    return best, out


def _without(row: MixedFit, odd: Mask) -> list[MixedFit]:
    """The same law without some groups, with its spreads chosen again."""
    kept = np.flatnonzero(~odd)
    found = sound_model(row.model.measured.taken(kept), row.model.structure, row.unknowns[:, kept])
    return [with_spreads(one) for one in found]


def _own_cost(measured: Measured, odd: Mask, sigma: Array) -> float:
    """The criterion of excluded groups, as if their own laws fitted them within the noise of the others."""
    own = measured.taken(np.flatnonzero(odd))
    counts = own.counts()
    noise = float(counts[counts > 0] @ (np.log(2.0 * math.pi * sigma[counts > 0] ** 2) + 1.0))
    # Most laws have about five constants and start values.
    price = 5 * math.log(max(float(measured.counts().sum()), 2.0))
    return noise + own.jacobian_of_logs() + price * own.n_groups
