"""Laws grown factor by factor: sums of products of powers of sums, the chain NAU -> NPU -> NAU.

    x' = sum_j a_j prod_k x_k^w_jk prod_l u_l^-1,    u_l = 1 + sum_m b_lm prod_k x_k^v_mk

Many published rate laws, in which several states limit one rate, have this form: Monod's for two substrates,
Beddington's and DeAngelis's, inhibition, ratio dependence, and with functions among the factors Gompertz's, Ivlev's,
Arrhenius's, drag, gates and diodes. They are found on the integral form, on the path through exact samples; in noise
see `stages.terms`. Each equation is found alone, in three ways from quick to slow:

1. Regression of D(x) x' = N(x), which is linear in both, gives quotients with one denominator: by backward
elimination, and, since that fails where many columns are alike, by forward selection beside each z x' alone,
D = 1 + sum d z.
2. Sums of a few low products, norms, exponentials of any rate and monomials of other equations: a flux has the same
form in the equation that it leaves and in the one that it enters.
3. Growth: every law is changed by one constant in each way that a score test recommends, and the best few go on.

The simplest vocabulary comes first. What is found is simplified constant by constant, as all grown laws are.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from odediscovery.families import EXP, Family, Inner, Seen, Terms
from odediscovery.laws.power_sum import PowerSum, Sums, value_penalty
from odediscovery.problem.problem import Problem
from odediscovery.runtime.arrays import ABOVE_ZERO, SQUARED, Array, Indices, Mask, column_norms
from odediscovery.runtime.monitor import Monitor
from odediscovery.stages.grow import (
    BEAM,
    MOST_INTERVALS,
    best_of_each,
    best_subsets,
    descents,
    empty,
    gains,
    grow,
    optimise_all,
    proposals,
    tidied,
)
from odediscovery.stages.integral_form import (
    SLOPE,
    Draft,
    Fit,
    Path,
    Product,
    Projected,
    exp_features,
    made_of,
    products_of,
    unit_columns,
)

# Laws of one equation that grow side by side, and the steps after each of which found equations help others.
SIDE_BY_SIDE, STEPS = 4, (5, 3)
# Vocabularies in which at least one equation is found, if growing finds any.
EASY = 3
# Most constants of a quotient by backward elimination, and most terms beside one z x' by forward selection.
MOST_OF_QUOTIENT, MOST_BESIDE = 9, 5
# Subsets of each size that forward selection keeps on exact samples, where elimination finds most quotients.
BEAM_IF_EXACT = 15
# Changes of single monomials and sums of a law that are fitted.
LIKELY_CHANGES = 40
# Rates of exponentials on a grid [1 / rms of the state].
RATES = tuple(sign * 0.3 * 2.0**k for sign in (-1.0, 1.0) for k in range(5))
# Coefficients, those inside sums included, and rates of a law that is not sought in a richer vocabulary.
SHORT = 6
# Those of a law than which no other vocabulary is likely to have a shorter one.
SHORTEST = 3
# A law of one equation with a smaller mean square residual may be right [variance due to noise and path].
NEAR_PATH, NEAR_PATH_IF_SHORT = 10.0, 1000.0


def product_columns(fit: Fit, products: Sequence[Product], path: Path) -> Array:
    """Integrals of products along a path as columns of norm 1, [equations, samples, products]."""
    return unit_columns(fit.problem, np.stack([p.values(path) for p in products], axis=-1), fit.equations)


def grow_chains(p: Problem, *, family: Family, **more: Any) -> tuple[PowerSum, ...]:
    """Grow laws of a family with inner layers factor by factor; see `grow`.

    None are grown unless regression finds a quotient or a function in one of their equations.
    """
    assert family.inner is not None
    return grow(p, family=family, alone=FactorByFactor(family.inner), **more)


class FactorByFactor:
    """Equations grown factor by factor; monomials of one equation are candidates for the others.

    What leaves one state may enter another: the easy equations come first, and the others grow by their monomials too.
    A simple vocabulary comes before a rich one, in which wrong laws are near the data as well.

    Args:
        inner: gives the vocabularies, from simple to rich.
    """

    def __init__(self, inner: Callable[[Seen], Sequence[Inner]]) -> None:
        self.inner = inner
        self.fluxes: list[Product] = []  # monomials of laws that are near the data
        self.words: dict[int, list[Inner]] = {}  # the vocabulary in which an equation was found on the last path

    def __call__(self, fit: Fit, path: Path, grid: Terms, around: int, monitor: Monitor) -> list[list[Projected]]:
        """Return laws of every equation, the best first."""
        problem, path = fit.problem.thinned(path, MOST_INTERVALS)
        # The error of a path is smooth, so that flexible laws fit it: less is no evidence.
        floor, n = np.full(len(fit.equations), 0.5**2), problem.features.states
        fit = Fit(problem, fit.equations, problem.counts[fit.equations], floor)
        changing = np.isin(np.arange(n), fit.equations) | (np.arange(n) >= n - problem.given.shape[2])
        functions = problem.features.functions
        inner = self.inner(Seen(functions, (), ~problem.real_inside[:n], changing, path.monomials))
        found: dict[int, list[Projected]] = {}
        every = range(len(fit.equations))
        growing = [growths(fit.of(i), path, grid, self.words.get(i, inner), monitor) for i in every]
        self._take_easy(found, growing)
        # A better path makes more of regression; what did not grow to a law on the first path will not on the next.
        chains = [laws for laws in found.values() if laws and is_chain(fit, laws[0])]
        if not around and chains:
            for steps in STEPS:
                for k in range(len(inner)):
                    # Where no equation is easy in the first vocabularies, none of them will be found by growing.
                    if k == EASY and not found:
                        break
                    for i in every:
                        one = growing[i][k]
                        if i in found or one.is_near:
                            continue
                        one.combine(self.fluxes)
                        one.grow(steps, self.fluxes)
                        if laws := short_laws([one]):
                            self._take(found, i, [one], laws)
        elif not around and len(found) < len(every):
            # Beside sums of products of powers, an equation is more likely to be a sum of real powers.
            return [[]]
        for i in set(every) - set(found):
            found[i] = best_of_each(fit.of(i), [law for one in growing[i] for law in one.laws()])
        return [found[i] for i in every]

    def _take_easy(self, found: dict[int, list[Projected]], growing: Sequence[Sequence[Growth]]) -> None:
        """Take the laws that regression finds, the shortest first: their monomials make others shorter."""
        left = [i for i, every in enumerate(growing) if every]
        while left:
            tried: dict[int, list[Growth]] = {i: [] for i in left}
            # Every vocabulary is heard before one of them is believed, unless an equation is found beyond doubt.
            for k in range(max(len(growing[i]) for i in left)):
                # An equation that was found on the path before has its own vocabulary alone.
                for i in (i for i in left if k < len(growing[i])):
                    growing[i][k].combine(self.fluxes)
                    tried[i].append(growing[i][k])
                if any(every[-1].is_beyond_doubt for every in tried.values()):
                    break
            near = {i: laws for i, every in tried.items() if (laws := short_laws(every))}
            fit = growing[left[0]][0].fit
            shortest = min((constants_of(fit, laws[0]) for laws in near.values()), default=0)
            for i in near:
                if constants_of(fit, near[i][0]) == shortest:
                    self._take(found, i, tried[i], near[i])
            left = [i for i in left if i not in found] if near else []

    def _take(self, found: dict[int, list[Projected]], i: int, tried: Sequence[Growth], laws: list[Projected]) -> None:
        """Take the laws of an equation, the best first, that were found in one of these vocabularies."""
        fit, found[i] = tried[0].fit, laws
        self.fluxes += products_of(laws[0].exponents, laws[0].sums)
        best = min((one for one in tried if one.is_near), key=lambda one: fit.criterion(one.beam[0]))
        self.words[i] = [best.inner]


def short_laws(tried: Sequence[Growth]) -> list[Projected]:
    """The laws of one equation that are near the data, the best first, if the best is short; else none."""
    near, fit, monitor = [one for one in tried if one.is_near], tried[0].fit, tried[0].monitor
    # The best two show whether there is a short law.
    best = distinct(fit, [one.beam[0] for one in near], 2)
    laws = best_of_each(fit, [*(law for one in near for law in one.found), *descents(fit, best, monitor, settle=False)])
    return laws if laws and is_short(fit, laws[0]) else []


def is_chain(fit: Fit, model: Projected) -> bool:
    """Whether a law has quotients or functions of states."""
    w, n = model.exponents, fit.problem.features.states
    return bool((w[:, n:] != 0.0).any() or (w < 0.0).any())


def constants_of(fit: Fit, model: Projected) -> int:
    """Number of coefficients and rates of a law, those inside sums included."""
    rates = np.count_nonzero(model.exponents[:, exp_features(fit.problem)])
    return int(model.used.sum() + np.count_nonzero(model.sums.weights) + rates)


def is_short(fit: Fit, model: Projected) -> bool:
    """Whether a law has so few constants that no richer vocabulary is likely to need fewer."""
    return constants_of(fit, model) <= SHORT


class Growth:
    """Sums of products of powers of sums, grown to one equation.

        x' = sum_j a_j prod_k x_k^w_jk prod_l u_l^-1,    u_l = 1 + sum_m b_lm prod_k x_k^v_mk

    A few laws grow side by side. Every step changes each of them in all the ways of `changed`, each by one constant,
    until one is near the data, or two steps in a row gain nothing. What regression finds is kept
    in `quotients`, which vocabularies with the same sums share.
    """

    def __init__(
        self,
        fit: Fit,
        path: Path,
        grid: Terms,
        inner: Inner,
        quotients: dict[tuple[bytes, int], list[Projected]],
        monitor: Monitor,
    ) -> None:
        self.fit, self.inner, self.inside, self.monitor = fit, inner, (inside := inner.sums), monitor
        self.quotients = quotients
        low = (grid.rows >= 0).all(axis=1) & (grid.rows.sum(axis=1) <= 2)
        self.library = [Product(row) for row in (*grid.rows[low], *inner.factors)]
        self.sizes = np.median(np.abs(path.monomials(inside)).reshape(-1, len(inside)), axis=0)
        rates = exp_features(fit.problem)
        known = rates[(inner.factors[:, rates] != 0.0).any(axis=0)]
        self.shapes = [Product.of(shape, fit.problem.features.size) for shape in inner.shapes]
        # Exponentials, and with states what monomials may be multiplied by.
        self.rates = known.tolist()
        self.bases = [*range(fit.problem.features.states), *self.rates]
        self.start = empty(fit, path)
        states = path.log[..., : fit.problem.features.states]
        self.changing = np.flatnonzero(np.ptp(states.reshape(-1, states.shape[-1]), axis=0) > 0.0).tolist()
        self.grid = grid
        self.heard: int | None = None  # number of monomials of other equations at the last regression
        self.beam, self.found, self.least, self.idle = [self.start], list[Projected](), np.inf, 0

    def _beside_exponentials(self, every: Sequence[Product], columns: Array) -> list[Draft]:
        """Return the best sums of an exponential of any rate and a few products: a rate must begin nearly right."""
        fit, features = self.fit, self.fit.problem.features
        unit, first = np.eye(features.size), features.states
        places = [first + k for k, f in enumerate(features.functions) if f.name == EXP.name]
        factors = [np.zeros(features.size), *unit[self.changing if len(self.changing) <= 3 else []]]
        rows = [rate * unit[k] + factor for k in places for rate in RATES for factor in factors]
        all_of_them = [*every, *(Product(row) for row in rows)]
        columns = np.hstack([columns, product_columns(fit, all_of_them[len(every) :], self.start.path)[0]])
        is_own = np.arange(len(all_of_them)) >= len(every)
        subsets = _beside(columns, fit.target[0], is_own, ~is_own, 5, 3, 1)
        return [made_of([all_of_them[c] for c in subset], self.start) for subset in subsets]

    @property
    def is_near(self) -> bool:
        """Whether the error of the path explains most of the residuals of the best law.

        On exact samples a short law may leave more, unless it has exponentials, which approximate too much.
        """
        left, law = self.beam[0].squares.max(), self.beam[0]
        rates = law.exponents[:, exp_features(self.fit.problem)].any()
        return bool(left < NEAR_PATH or (left < NEAR_PATH_IF_SHORT and is_short(self.fit, law) and not rates))

    @property
    def is_beyond_doubt(self) -> bool:
        """Whether the best law is near exact samples, and has so few constants that none is likely to have fewer."""
        if not self.is_near:
            return False
        law = self.beam[0]
        rates = law.exponents[:, exp_features(self.fit.problem)].any()
        # With more, a quotient of one state also meets an exponential.
        return constants_of(self.fit, law) <= (SHORTEST if rates or law.squares.max() > 1.0 else SHORTEST + 1)

    def combine(self, fluxes: Sequence[Product]) -> None:
        """Fit sums of a few low products and monomials of other equations; go on from these if they are near.

        If none is, also fit quotients beside monomials of other equations.
        """
        if len(fluxes) == self.heard or self.monitor.stopping() is not None:
            return
        fit, near = self.fit, [near for flux in fluxes for near in flux.neighbours(self.fit.problem.features.states)]
        every = [*self.library, *self.shapes, *near]
        columns = product_columns(fit, every, self.start.path)[0]
        is_first = self.heard is None
        if is_first:
            self.found = list(self._quotients())
            # What regression does not find is no start for growth.
            self.beam = [*self.found, self.start]
            self.beam = self.beam if self.is_near else [self.start]
        self.heard = len(fluxes)
        levels = best_subsets(columns, fit.target[0], 5, 12, alike=0.9999, children=30)
        levels.append(list(map(tuple, _eliminated(columns, fit.target[0], np.arange(len(every))))))
        tried = ([made_of([every[c] for c in subset], self.start) for subset in level] for level in levels)
        first = (self._beside_exponentials(every, columns) for _ in range(bool(self.rates) and is_first))
        sums = (self.fitted(drafts, SIDE_BY_SIDE) for drafts in itertools.chain(first, tried))
        beside = (self._quotients(fluxes) for _ in range(bool(fluxes)))
        for found in itertools.chain(sums, beside):
            if self.monitor.stopping() is not None:
                return
            self.found += found
            before, self.beam = self.beam, distinct(fit, [*self.beam, *found], SIDE_BY_SIDE)
            if not (self.is_near and any(self.beam[0] is law for law in found)):
                self.beam = before
            elif self.is_near:
                return

    def _quotients(self, fluxes: Sequence[Product] = ()) -> list[Projected]:
        """Return the best quotients by regression, beside monomials of other equations if there are any."""
        key = self.inside.tobytes(), len(fluxes)
        if key not in self.quotients:
            drafts = quotients_of(self.fit, self.start.path, self.grid, self.inside, self.monitor, fluxes)
            self.quotients[key] = self.fitted(
                drafts, SIDE_BY_SIDE if fluxes else SIDE_BY_SIDE - 1
            )  # beside the empty law
        return self.quotients[key]

    def grow(self, steps: int, fluxes: Sequence[Product]) -> None:
        """Make at most so many steps more; `fluxes` are monomials of other equations."""
        fit = self.fit
        for _ in range(steps):
            if self.is_near or self.idle == 2 or self.monitor.stopping() is not None:
                return
            drafts = [draft for law in self.beam for draft in self.changes_of(law, fluxes)]
            beam = distinct(fit, self.fitted(drafts, 3 * SIDE_BY_SIDE), SIDE_BY_SIDE, self.beam)
            if not beam:
                return
            self.beam, self.found = beam, self.found + beam
            criterion = fit.criterion(beam[0])
            self.idle = 0 if criterion < self.least - 4.0 else self.idle + 1
            self.least = min(self.least, criterion)

    def changes_of(self, law: Projected, fluxes: Sequence[Product] = ()) -> Iterator[Draft]:
        """Yield what `changed` does of this vocabulary and monomials of other equations."""
        return changed(self.fit, law, [*self.library, *fluxes], self.inside, self.sizes, self.bases)

    def fitted(self, drafts: Sequence[Draft], most: int) -> list[Projected]:
        """Fit the constants of the likeliest laws, which a few steps show."""
        tried = optimise_all(self.fit, drafts, self.monitor, steps=5)
        likely = distinct(self.fit, tried, most)
        return distinct(self.fit, optimise_all(self.fit, likely, self.monitor), most)

    def laws(self) -> list[Projected]:
        """The laws that were met, and those with fewer constants than the best if it may be right; the best first."""
        near = self.beam[:1] if self.is_near else []
        return best_of_each(self.fit, self.found + descents(self.fit, near, self.monitor, settle=False))


def growths(fit: Fit, path: Path, grid: Terms, inner: Sequence[Inner], monitor: Monitor) -> list[Growth]:
    """Begin to grow one equation in each vocabulary."""
    quotients: dict[tuple[bytes, int], list[Projected]] = {}
    return [Growth(fit, path, grid, words, quotients, monitor) for words in inner]


def quotients_of(
    fit: Fit, path: Path, grid: Terms, inside: Array, monitor: Monitor, fluxes: Sequence[Product] = ()
) -> list[Draft]:
    """Laws N(x) / D(x) + c f(x) of one equation by regression: D(x) x' = N(x) + D(x) c f(x) is linear in all constants.

    x(t_b) - x(t_a) = sum_j n_j int m_j dt - sum_k d_k int z_k x' dt + sum_k c_k int z_k f dt

    With `fluxes` f, monomials of other equations, only laws that contain one of them are returned.
    """
    low = (grid.rows >= 0).all(axis=1) & (grid.rows.sum(axis=1) <= 3)
    n_states, width = fit.problem.features.states, inside.shape[1]
    below, states = inside[~inside[:, n_states:].any(axis=1)], np.eye(width)[:n_states]
    # Terms beside the quotient are multiplied by D.
    times_of = [np.vstack([z, z + states]) for z in below]
    above = np.unique(np.vstack([grid.rows[low], *times_of]), axis=0)
    x = np.exp(path.log[..., fit.equations[0]]) * np.where(path.negative[..., fit.equations[0]], -1.0, 1.0)
    slope, z = (x @ SLOPE.T) / fit.problem.step[:, None], path.monomials(below)
    carried = [z_k * flux.values(path)[..., None] for flux in fluxes for z_k in (np.ones_like(z[..., :1]), z)]
    nodes = np.concatenate([path.monomials(above), -z * slope[..., None], *carried], axis=-1)
    columns = fit.problem.integrals(nodes, fit.equations)[0]
    size = column_norms(columns, axis=0)
    found, n, ends = list[Draft](), len(above), len(above) + len(below)
    target, usable = fit.target[0], (size > 0) & (size < SQUARED)
    low_ones = (above[:, None] == grid.rows[low]).all(axis=2).any(axis=1)
    own = np.array([low_ones | (above[:, None] == rows).all(axis=2).any(axis=1) for rows in times_of])
    z_of_flux = np.arange(len(columns.T) - ends) % (1 + len(below)) - 1  # -1 for the flux itself
    beam = BEAM if fit.problem.noise.any() else BEAM_IF_EXACT
    # With all z without negative powers at once, or with one alone and its products with states: powers are nearly
    # collinear.
    unit, every = columns / np.where(usable, size, 1.0), np.arange(len(below))
    positive = (below >= 0).all(axis=1)
    few = np.concatenate([low_ones, positive, (z_of_flux < 0) | np.isin(z_of_flux, np.flatnonzero(positive))])
    subsets = _eliminated(unit, target, np.flatnonzero(usable & few))
    for k in every[usable[n:ends]].tolist():
        if monitor.stopping() is not None:
            break
        few = np.concatenate([own[k], every == k, (z_of_flux < 0) | (z_of_flux == k)])
        subsets += _eliminated(unit, target, np.flatnonzero(usable & few))
    if monitor.stopping() is None:
        is_below = (np.arange(len(usable)) >= n) & (np.arange(len(usable)) < ends)
        subsets += _beside(unit, target, usable & is_below, usable, beam, MOST_BESIDE, SIDE_BY_SIDE)
    for at in {tuple(sorted(subset.tolist())): np.sort(subset) for subset in subsets}.values():
        over = (at >= n) & (at < ends)
        of_flux = np.unique((at[at >= ends] - ends) // (1 + len(below)))
        if not over.any() or not (at < n).any() or (fluxes and not len(of_flux)):
            continue
        d = np.linalg.lstsq(unit[:, at], target, rcond=None)[0] / size[at]
        if (d[over] < 0.0).any():
            continue
        sums = Sums(d[None, over], below[at[over] - n])
        w = np.column_stack([above[at[at < n]], -np.ones((at < n).sum())])
        quotient = Draft(w, np.ones((1, len(w)), dtype=bool), w != 0, sums, path)
        found.append(made_of([fluxes[k] for k in of_flux.tolist()], quotient))
    return found


def _beside(columns: Array, y: Array, own: Mask, others: Mask, beam: int, most: int, listed: int) -> list[Indices]:
    """Return subsets with one of the columns `own` [C], a few of each size, that explain most of y [samples]."""
    levels = best_subsets(columns, y, 1 + most, listed, alike=0.9999, beam=beam, own=np.flatnonzero(own), others=others)
    return [np.array(subset) for level in levels[1:] for subset in level]


def _eliminated(columns: Array, y: Array, left: Indices) -> list[Indices]:
    """Return what is left of some `columns` [samples, C] while the least significant go one by one.

    On exact samples this finds five terms of which no four explain much, unless there are more columns than samples.
    """
    found = list[Indices]()
    while 2 < len(left) < len(y):
        if len(left) <= MOST_OF_QUOTIENT:
            found.append(left)
        q, r = np.linalg.qr(columns[:, left])
        inverse = np.linalg.pinv(r)
        statistic = (inverse @ (q.T @ y)) ** 2 / np.maximum((inverse**2).sum(axis=1), ABOVE_ZERO)
        left = np.delete(left, np.argmin(statistic))
    return found


def distinct(fit: Fit, models: Sequence[Projected], most: int, known: Sequence[Projected] = ()) -> list[Projected]:
    """The best models by the criterion, none of which explains exactly as much as another or as a known one."""
    kept: list[Projected] = []
    for model in sorted(models, key=fit.criterion):
        if np.isfinite(model.score) and all(abs(model.score - k.score) > 1e-2 for k in (*kept, *known)):
            kept.append(model)
        if len(kept) == most:
            break
    return kept


def changed(
    fit: Fit, model: Projected, library: Sequence[Product], inside: Array, sizes: Array, bases: Sequence[int]
) -> Iterator[Draft]:
    """Yield the law with one constant more, or less.

    m -> m + n, m -> m / (1 + b z), m -> m z / (1 + b z), m -> m x, m -> m / x, u -> u + b z, m -> m / u, and m -> 0
    for monomials m and n, products z, states and exponentials x, and sums u. A score test tells which of the changes
    are worth a fit: what the law would gain by the changed monomial beside its own.
    """
    w, sums, first = model.exponents, model.sums, fit.problem.features.size
    of_law = [Product(p.row, sums.select(np.array([k])), np.array([-1.0])) for k in range(len(sums)) for p in library]
    wider = [*library, *of_law]
    # What gains less than its price is no change for the better.
    worth, columns = value_penalty(float(fit.counts.sum())), product_columns(fit, wider, model.path)
    chosen = proposals(fit, model, columns)
    for c, equations in zip(chosen, (gains(fit, model, columns[..., chosen])[0] > worth).T, strict=True):
        if equations.any():
            yield wider[c].added_to(model, equations)
    nodes, made = _single_changes(fit, model, inside, sizes, bases)
    if made:
        gain = gains(fit, model, unit_columns(fit.problem, np.stack(nodes, axis=-1), fit.equations))[0].sum(axis=0)
        for c in np.argsort(-gain, kind="stable")[:LIKELY_CHANGES]:
            yield from made[c]
    for j, row in enumerate(w):
        for k in (first + np.flatnonzero(row[first:] == 0.0)).tolist():
            yield _with_row(model, j, np.where(np.arange(len(row)) == k, -1.0, row), sums)
    for j in range(len(w) if len(w) > 1 else 0):
        left = model.used & (np.arange(len(w)) != j)
        yield tidied(fit, model, left, model.powers, sums.weights != 0.0)


def _single_changes(
    fit: Fit, model: Projected, inside: Array, sizes: Array, bases: Sequence[int]
) -> tuple[list[Array], list[list[Draft]]]:
    """Return the values along the path that stand for changes of single monomials and sums, and the changed laws."""
    w, sums, features = model.exponents, model.sums, fit.problem.features
    m, z, u = model.seen.monomials(w), model.path.monomials(inside), model.seen.log[..., features.size :]
    nodes, made = list[Array](), list[list[Draft]]()
    for j, row in enumerate(w):
        for k, (inner, size) in enumerate(zip(inside, sizes, strict=True)):
            nodes.append(m[..., j] / (1.0 + z[..., k] / size))
            # From b = 0, and from infinity.
            made.append([_with_factor(model, j, inner, 0.3 / size), _with_factor(model, j, inner, 3.0 / size, 1.0)])
        for k, step in itertools.product(bases, (1.0, -1.0)):
            changed_row = row + step * (np.arange(len(row)) == k)
            if abs(changed_row[k]) <= 3.0:
                nodes.append(model.seen.monomials(changed_row[None])[..., 0])
                made.append([_with_row(model, j, changed_row, sums)])
    for k, weights in enumerate(sums.weights):
        each = model.coefficients * w[:, features.size + k]
        slope = (m @ each[np.abs(each).max(axis=1).argmax()]) / np.exp(u[..., k])
        known = sums.exponents[weights != 0.0]
        for c, (inner, size) in enumerate(zip(inside, sizes, strict=True)):
            if not (known == inner).all(axis=1).any():
                b = np.pad(sums.weights, ((0, 0), (0, 1)))
                b[k, -1] = 0.3 / size
                wider = Sums(b, np.vstack([sums.exponents, inner]))
                nodes.append(slope * z[..., c])
                made.append([Draft(w, model.used, w != 0, wider, model.path)])
    return nodes, made


def _with_factor(model: Draft, j: int, inner: Array, b: float, power: float = 0.0) -> Draft:
    """Return the law with monomial j times z^power / (1 + b z)."""
    row = np.append(model.exponents[j], -1.0)
    row[: len(inner)] += power * inner
    return _with_row(model, j, row, model.sums.and_also(Sums(np.array([[b]]), inner[None])))


def _with_row(model: Draft, j: int, row: Array, sums: Sums) -> Draft:
    """The law with other exponents of monomial j, perhaps of one more sum."""
    w = np.pad(model.exponents, ((0, 0), (0, len(row) - model.exponents.shape[1])))
    w[j] = row
    return Draft(w, model.used, w != 0, sums, model.path)
