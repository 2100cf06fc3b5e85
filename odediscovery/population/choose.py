r"""The structure that all groups share, chosen by the mixed model.

Sets of terms that the integral form likes are fitted to whole curves of every group; the best of them
as mixed models; the exponents of the best of those are set free, and set to simple numbers again where
the data allow.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np

from odediscovery.errors import FitError
from odediscovery.population.model.measured import ANY, GroupModel, Measured
from odediscovery.population.model.mixed import MIXED, MixedFit
from odediscovery.population.model.separate import SEPARATE, SeparateFit, fit_each
from odediscovery.population.model.structures import Entry, Structure, tied, without
from odediscovery.population.model.vary import criterion
from odediscovery.population.screen import SCREEN, combined, fine_doses, fine_times, screen
from odediscovery.population.sound import sound_model, with_spreads
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import JUDGING, SEARCHING, Monitor
from odediscovery.runtime.thresholds import Thresholds, threshold


@dataclass(frozen=True)
class ChoiceThresholds(Thresholds):
    """How many structures go how far."""

    screens: int = threshold(
        3, "times that terms are screened, each on the curves of the best law so far", origin="cost"
    )
    steps: int = threshold(12, "Levenberg-Marquardt steps of these", origin="cost")
    mixed: int = threshold(10, "structures that are fitted as mixed models", origin="cost")
    freed: int = threshold(3, "structures whose exponents are fitted", origin="cost")
    one_constant: float = threshold(
        0.35, "what leaves and what enters are one constant within this", unit="logarithm, median"
    )
    width: float = threshold(1.0, "how far constants of a group are from the median of all, loosely", unit="logarithm")
    near: float = threshold(2.5, "an exponent is set to a simple number within so many standard errors")
    proportional: float = threshold(
        6.0, "gain of -2 log likelihood from which noise is proportional", origin="BIC: strong"
    )
    kinds: int = threshold(3, "structures that are asked for the kind of noise", origin="cost")
    varied: int = threshold(4, "structures for which it is asked which constants vary", origin="cost")
    noise: float = threshold(0.05, "noise where structures are fitted to every group", unit="spread of the state")
    least_reach: float = threshold(1e-3, "an exponent so near to a simple number is set to it, however sure it is")


CHOICE = ChoiceThresholds()
T = TypeVar("T")
# Simple exponents: from -2 to 4, of these denominators.
DENOMINATORS = (1, 2, 3, 4)
SIMPLE = tuple(sorted({n / d for d in DENOMINATORS for n in range(-2 * d, 4 * d + 1)}))


@dataclass(frozen=True, eq=False)
class Begun:
    """A structure with constants of every group, fitted apart."""

    structure: Structure
    fit: SeparateFit
    score: float


def choose(measured: Measured, monitor: Monitor, integer: bool = False) -> tuple[list[MixedFit], Measured]:
    """Mixed models of the best structures, the best first, and the groups with the kind of noise that they show.

    Raises:
        FitError: no structure could be integrated through the groups.
    """
    whole = integer or any(start.kind == ANY for start in measured.starts)
    monitor.stage("terms for all groups", 3)
    begun = list[Begun]()
    for _ in range(CHOICE.screens):
        more = monitor.in_time(SEARCHING, partial(_screened, measured, whole, begun), begun)
        if more is begun or not more:
            break
        begun = more
    if not begun:
        raise FitError("no law could be integrated through the groups; fit them one by one")
    pairs = [(one.structure, one.fit.unknowns) for one in begun]
    kind = monitor.in_time(SEARCHING, partial(with_noise_seen, measured, pairs[: CHOICE.kinds]), measured)
    if kind is not measured:
        measured = kind
        begun = monitor.in_time(SEARCHING, partial(_fit_apart, measured, pairs), begun)
    monitor.step(1)
    rows = list[MixedFit]()
    for one in _best_of_each_size(begun, [one.structure.n_constants for one in begun], CHOICE.mixed):
        mixed = partial(sound_model, measured, one.structure, one.fit.unknowns)
        rows += monitor.in_time(SEARCHING if rows else JUDGING, mixed, [])
    if not rows:
        raise FitError("no law could be fitted to all groups; fit them one by one")
    rows.sort(key=criterion)
    monitor.step(2)
    for row in _best_of_each_size(rows, [row.model.n_constants for row in rows], CHOICE.freed):
        if not monitor.stopping() and not whole:
            rows.append(monitor.in_time(SEARCHING, partial(_with_own_exponents, row), row))
    rows = _distinct(sorted(rows, key=criterion))
    # A law whose constants all groups share is simpler than one of as many terms whose constants vary.
    for place, row in enumerate(rows[: CHOICE.varied] if not monitor.stopping() else []):
        rows[place] = monitor.in_time(SEARCHING, partial(with_spreads, row), row)
    monitor.step(3)
    return sorted(rows, key=criterion), measured


def _screened(measured: Measured, whole: bool, begun: list[Begun]) -> list[Begun]:
    """The structures so far and those whose terms are chosen on the curves of the best of them; these alone without."""
    curves = _curves(measured, begun[0]) if begun else None
    return _joined(begun, _fit_apart(measured, combined(measured, screen(measured, whole, curves))))


def _with_own_exponents(row: MixedFit) -> MixedFit:
    """The model with the terms and the exponents that the data want."""
    return shorter(simple_exponents(shorter(row)))


def _distinct(rows: Sequence[MixedFit]) -> list[MixedFit]:
    """Every set of terms once, in the same order."""
    found: dict[object, MixedFit] = {}
    for row in rows:
        structure = row.model.structure
        w = structure.exponents
        key = frozenset((e.state, e.sign, tuple(w[e.monomial])) for e in structure.entries)
        found.setdefault((key, structure.n_constants, structure.free), row)
    return list(found.values())


def _best_of_each_size(rows: Sequence[T], sizes: Sequence[int], most: int) -> list[T]:
    """The first of each size, then the first of all: a law that is one constant short may lack an exponent only."""
    first = [sizes.index(size) for size in dict.fromkeys(sizes)]
    chosen = sorted(dict.fromkeys([*first, *range(len(rows))][: max(most, len(first))]))
    return [rows[place] for place in chosen]


def _joined(begun: list[Begun], more: list[Begun]) -> list[Begun]:
    """All structures once, the best first."""
    found: dict[object, Begun] = {}
    for one in sorted([*begun, *more], key=lambda one: one.score):
        w = one.structure.exponents
        found.setdefault(frozenset((e.state, e.sign, tuple(w[e.monomial])) for e in one.structure.entries), one)
    return list(found.values())


def _curves(measured: Measured, one: Begun) -> Array:
    """Curves of a law that follows the samples, between them too [points, states, groups]."""
    times = fine_times(measured.data)
    values = np.full((len(times), *measured.data.values.shape[1:]), np.nan)
    fine = replace(measured, data=replace(measured.data, times=times, values=values, doses=fine_doses(measured.data)))
    found = GroupModel(one.structure, fine, scale=measured.data.scale).fitted(one.fit.unknowns)
    most = SCREEN.most * measured.data.scale[:, None]
    return np.nan_to_num(np.clip(found, -most, most))


def _tied(structure: Structure, logs: Array) -> tuple[Structure, Array]:
    """What leaves one state and enters another is one constant, where the numbers say so."""
    for a, b in itertools.combinations(range(structure.n_constants), 2):
        one, other = (next(e for e in structure.entries if e.constant == k) for k in (a, b))
        same = one.monomial == other.monomial and one.sign == -other.sign and one.state != other.state
        if same and abs(np.median(logs[a] - logs[b])) < CHOICE.one_constant:
            rest = np.delete(logs, b, axis=0)
            rest[a] = 0.5 * (logs[a] + logs[b])
            return _tied(tied(structure, a, b), rest)
    return structure, logs


def _fit_apart(measured: Measured, begins: Sequence[tuple[Structure, Array]]) -> list[Begun]:
    """Every structure fitted to every group, the best first; all of them are one batch.

    Every equation has as many places for terms as the longest of them needs.
    """
    groups, many, n = measured.data.n_groups, len(begins), measured.data.n_states
    longest = [max(sum(e.state == i for e in s.entries) for s, _ in begins) for i in range(n)]
    pattern = tuple(Entry(i, q, q, 1) for q, i in enumerate(np.repeat(np.arange(n), longest).tolist()))
    size, first = len(pattern), len(begins[0][1]) - begins[0][0].n_constants
    signs, w = np.zeros((size, many * groups)), np.zeros((size, n, many * groups))
    begin, places = np.zeros((size + first, many * groups)), []
    for s, (structure, x) in enumerate(begins):
        at, slot, own = slice(s * groups, (s + 1) * groups), np.cumsum([0, *longest]), []
        for e in structure.entries:
            q = int(slot[e.state])
            slot[e.state] += 1
            signs[q, at], begin[q, at] = e.sign, x[e.constant]
            w[q, :, at] = structure.exponents[e.monomial][:, None]
            own.append((e.constant, q))
        begin[size:, at] = x[structure.n_constants :]
        places.append([q for _, q in sorted(dict(own).items())])
    whole = Structure(np.ones((size, n)), pattern)
    starts = tuple(start._replace(value=np.tile(start.value, many)) for start in measured.starts)
    wide = replace(measured, data=measured.data.taken(np.tile(np.arange(groups), many)), starts=starts)
    centre = begin.copy()
    for s in range(many):
        at = slice(s * groups, (s + 1) * groups)
        centre[:size, at] = np.median(begin[:size, at], axis=1, keepdims=True)
    model, sigma = GroupModel(whole, wide, signs, w), CHOICE.noise * measured.spread()
    fit = fit_each(model, begin, sigma, centre, _widths(measured, size), CHOICE.steps)
    found = []
    for s, (structure, _) in enumerate(begins):
        at = slice(s * groups, (s + 1) * groups)
        logs, starts_of = fit.unknowns[places[s], at], fit.unknowns[size:, at]
        joined, kept = _tied(structure, logs)
        alone = SeparateFit(np.vstack([kept, starts_of]), fit.squares[:, at], fit.objective[at])
        found.append(_begun(measured, joined, alone))
    return sorted((one for one in found if np.isfinite(one.score)), key=lambda one: one.score)


def fit_apart(measured: Measured, structure: Structure, begin: Array) -> SeparateFit:
    """One structure fitted to every group, its constants about those of the middle group."""
    middle = np.median(begin, axis=1)
    model, sigma = GroupModel(structure, measured), CHOICE.noise * measured.spread()
    return fit_each(model, begin, sigma, middle, _widths(measured, structure.n_constants), CHOICE.steps)


def _widths(measured: Measured, constants: int) -> Array:
    """How far from the middle unknowns of groups are looked for [constants and starts]."""
    starts = [np.inf if measured.starts[i].kind == ANY else SEPARATE.loosely for i in measured.open_starts]
    return np.array([*[CHOICE.width] * constants, *starts])


def _begun(measured: Measured, structure: Structure, fit: SeparateFit) -> Begun:
    counts, spread = measured.counts(), measured.spread()
    mean = np.maximum(fit.squares.sum(axis=1) / np.maximum(counts, 1), MIXED.exact * spread**2)
    score = float(np.sum(counts * np.log(mean))) + 2.0 * structure.n_constants * measured.data.n_groups
    return Begun(structure, fit, score)


def with_noise_seen(measured: Measured, begun: Sequence[tuple[Structure, Array]]) -> Measured:
    """The groups with proportional noise, where the best laws are more likely with it.

    Args:
        begun: structures with their unknowns.
    """
    positive = np.array(
        [
            start.kind != ANY and bool(np.all(measured.data.values[:, i][measured.seen[:, i]] > 0))
            for i, start in enumerate(measured.starts)
        ]
    )
    if not positive.any():
        return measured
    kinds = [measured, measured.with_noise(positive)]
    rows = [[row for one in begun for row in sound_model(kind, *one)] for kind in kinds]
    plain, logs = (min((criterion(row) for row in kind), default=np.inf) for kind in rows)
    return kinds[1] if logs < plain - CHOICE.proportional else measured


def shorter(fit: MixedFit) -> MixedFit:
    """The model without terms that the criterion does not want."""
    best = fit
    for k in range(fit.model.n_constants):
        structure = without(fit.model.structure, k)
        if not structure.entries:
            continue
        gone = [k, *_lost_exponents(fit.model.structure, k)]
        for less in sound_model(fit.model.measured, structure, np.delete(fit.unknowns, gone, axis=0)):
            best = min(best, less, key=criterion)
    return best if best is fit else shorter(best)


def _lost_exponents(structure: Structure, constant: int) -> list[int]:
    """Unknowns of free exponents that nothing needs without the entries of one constant."""
    needed = {e.monomial for e in structure.entries if e.constant != constant}
    return [structure.n_constants + f for f, (j, _) in enumerate(structure.free) if j not in needed]


def simple_exponents(fit: MixedFit) -> MixedFit:
    """The model with exponents as the data want them: fitted, then set to simple numbers where these do.

    Two exponents of one equation may not be told apart, which their constants then run away from: where no
    fit of all of them is sound, each is fitted alone.
    """
    places = tuple((int(j), int(k)) for j, k in np.argwhere(fit.model.structure.exponents != 0))
    if not places or fit.model.n_free:
        return fit
    rows = [fit]
    for found in freed(fit, places) or [one for place in places for one in freed(fit, (place,))]:
        rows += [*_held(found, best_only=True), *_held(found, best_only=False)]
    return min(rows, key=criterion)


def freed(fit: MixedFit, places: tuple[tuple[int, int], ...]) -> list[MixedFit]:
    """The model with these exponents fitted; none where the numbers do not allow it."""
    structure, k = replace(fit.model.structure, free=places), fit.model.n_constants
    values = np.repeat(structure.free_values()[:, None], fit.unknowns.shape[1], axis=1)
    return sound_model(fit.model.measured, structure, np.vstack([fit.unknowns[:k], values, fit.unknowns[k:]]))


def _held(fit: MixedFit, best_only: bool) -> list[MixedFit]:
    """Exponents that simple numbers meet held there; the others stay free.

    Args:
        best_only: all of them at the nearest simple number, however far.
    """
    k, structure = fit.model.n_constants, fit.model.structure
    values = fit.unknowns[k : k + fit.model.n_free].mean(axis=1)
    errors = np.sqrt(np.maximum(np.diag(fit.estimate.covariance)[k : k + fit.model.n_free], 0.0))
    w, free, kept = structure.exponents.copy(), [], []
    for f, place in enumerate(structure.free):
        near = _nearest(values[f], errors[f])
        w[place] = values[f] if near is None and not best_only else near if near is not None else _closest(values[f])
        if near is None and not best_only:
            free.append(place)
            kept.append(k + f)
    rest = [*range(k), *kept, *range(k + fit.model.n_free, len(fit.unknowns))]
    return sound_model(fit.model.measured, replace(structure, exponents=w, free=tuple(free)), fit.unknowns[rest])


def _nearest(value: float, error: float) -> float | None:
    """The simplest number within the error: of the smallest denominator."""
    reach = max(CHOICE.near * error, CHOICE.least_reach)
    for d in DENOMINATORS:
        number = round(value * d) / d
        if abs(number - value) <= reach:
            return number if number else None
    return None


def _closest(value: float) -> float:
    """The nearest simple number; the least above 0 in the place of 0, which is no exponent."""
    return min(SIMPLE, key=lambda one: abs(one - value)) or 1 / max(DENOMINATORS)
