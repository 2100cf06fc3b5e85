"""Warm start: a law grown one product of powers at a time on the integral form.

The coefficients are linear given the exponents and are eliminated (variable projection), so
that only exponents are searched: the candidates of a grid by what they would explain, then all
exponents together by Levenberg-Marquardt. Each law refines the path of the states between the
samples, which takes the error of the interpolation out of its own residuals. From rich laws
single constants are removed, weakest first; an information criterion ranks what it meets.

Equations are grown one by one and joined, monomials that coincide being shared, and also all
at once: the first is the smaller search, the second has more data for every exponent.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from odediscovery.families import POWERS, Family, Terms
from odediscovery.laws.power_sum import NO_SUMS, PowerSum, Sums
from odediscovery.problem.problem import Problem
from odediscovery.runtime.arrays import Array, Mask
from odediscovery.runtime.monitor import Monitor
from odediscovery.stages.grow.integral_form import Integral, Path
from odediscovery.stages.grow.libraries import columns_of, features_for, grid_for
from odediscovery.stages.grow.shrink import best_of_each, descents
from odediscovery.stages.grow.side_by_side import optimise_all, settled
from odediscovery.stages.grow.subsets import best_subsets
from odediscovery.stages.grow.variable_projection import Draft, Fit, Projected


@dataclass(frozen=True)
class GrowThresholds:
    """How widely laws are grown, and when one is good enough."""

    max_monomials: int = 8  # most monomials of a law
    quick_monomials: int = 5  # most monomials of a law that is only looked for quickly
    beam: int = 3  # laws kept of each size on the way up
    listed: int = 12  # laws returned at most
    rounds: int = 6  # times the equations are grown anew on the path that they refine
    residual_floor: float = 0.1  # residual that counts as none [what is expected]
    tried: int = 6  # new monomials tried on every law
    alike: float = 0.98  # correlation from which on two new monomials are one
    shared: float = 0.05  # difference of exponents up to which equations share a monomial or sum
    plain_terms: int = 3  # terms up to which an exact equation needs no second look with the others' monomials
    promising: float = 1e4  # below it a law may be the right one [mean square of what the path leaves uncertain]
    # Below it a law made of few candidates is believed [mean square of what the path leaves uncertain]
    as_certain: float = 1.0
    subset_terms: int = 5  # most terms of an equation from a large library
    subsets: int = 24  # subsets of each size that are fitted a few steps
    subset_steps: int = 4  # these steps
    subsets_fitted: int = 5  # subsets of each size that are fitted to the end
    one_column: float = 0.9999  # correlation from which on two of a few candidates are one
    many_children: int = 30  # columns that a subset of a few candidates is extended by
    pairs: int = 2000  # pairs of candidates that are looked at
    weighing: int = 400  # candidates that tell how certain an integral is
    equal_score: float = 1e-2  # difference below which two laws explain the same
    same_sum: float = 4.0  # factor within which constants of a sum are one and the same


GROWING = GrowThresholds()
# A dimensionless state that spreads by less is a constant.
STILL = 1e-12


def proposals(fit: Fit, model: Projected, columns: Array) -> list[int]:
    """The candidates that explain most of the residuals, no two of them alike."""
    linear = fit.linear(model)
    columns = linear.projected(columns)
    norm = np.linalg.norm(columns, axis=1, keepdims=True)
    columns = np.where(norm > 1e-7, columns / np.where(norm > 1e-7, norm, 1.0), 0.0)
    explained = np.einsum("itc,it->ic", columns, linear.residual) ** 2 / fit.counts[:, None]
    left = np.maximum(model.squares[:, None] - explained, 0.0) + fit.floor[:, None]
    gain = fit.counts[:, None] * np.log((model.squares + fit.floor)[:, None] / left)
    chosen: list[int] = []
    for c in np.argsort(-gain.sum(axis=0), kind="stable"):
        cosines = np.einsum("it,itd->id", columns[:, :, c], columns[:, :, chosen])
        if not chosen or np.abs(cosines).max(axis=0).max() < GROWING.alike:
            chosen.append(int(c))
        if len(chosen) == GROWING.tried:
            break
    return chosen


def pairs(fit: Fit, columns: Array) -> list[list[int]]:
    """The pairs of candidates that explain most of one equation together."""
    unit, y = columns[0], fit.target[0]
    gram, b = unit.T @ unit, unit.T @ y
    a, c = np.triu_indices(len(b), 1)
    rho = gram[a, c]
    apart = 1.0 - rho**2
    explained = (b[a] ** 2 + b[c] ** 2 - 2 * rho * b[a] * b[c]) / np.maximum(apart, 1e-7)
    explained[apart < 1e-7] = -np.inf
    best = np.argpartition(-explained, min(GROWING.pairs, len(a) - 1))[: GROWING.pairs] if len(a) else a
    taken = np.zeros(len(b))
    chosen: list[list[int]] = []
    for k in best[np.argsort(-explained[best], kind="stable")]:
        # Neighbours of a pair on the grid lead to the same law.
        if max(taken[a[k]], taken[c[k]]) < 2:
            chosen.append([int(a[k]), int(c[k])])
            taken[[a[k], c[k]]] += 1
        if len(chosen) == GROWING.tried:
            break
    return chosen


def extended(fit: Fit, model: Projected, terms: Terms, new: Sequence[int]) -> Draft:
    """The law with more monomials in every equation."""
    sums, places, first, old = model.sums, list[int | None](), terms.rows.shape[1], len(model.exponents)
    for c in new:
        place = None
        if terms.constant[c]:
            own = Sums(terms.constant[c : c + 1, None], terms.inner[c : c + 1])
            place = sums.alike(own, GROWING.same_sum)
            if place is None:
                place, sums = len(sums), sums.and_also(own)
        places.append(place)
    w = np.zeros((old + len(new), first + len(sums)))
    w[:old, : model.exponents.shape[1]], w[old:, :first] = model.exponents, terms.rows[list(new)]
    for k, (c, place) in enumerate(zip(new, places, strict=True), start=old):
        if place is not None:
            w[k, first + place] = terms.power[c]
    used = np.hstack([model.used, np.ones((len(fit.equations), len(new)), dtype=bool)])
    return Draft(w, used, w != 0, sums, model.path)


def empty(fit: Fit, path: Path) -> Projected:
    """No monomials."""
    w = np.zeros((0, fit.problem.features.size))
    return fit.model(w, np.zeros((len(fit.equations), 0), dtype=bool), w != 0, path)


def climb_sizes(fit: Fit, path: Path, grid: Terms, most: int, beam: int, monitor: Monitor) -> list[list[Projected]]:
    """The best laws with 1, 2, ... monomials on one path, until one more gains nothing."""
    levels = [[empty(fit, path)]]
    penalty = 2 * np.log(fit.counts.sum())
    columns = columns_of(grid, fit.problem, path, fit.equations)
    while len(levels) <= most and monitor.stopping() is None:
        wider = ((model, [c]) for model in levels[-1] for c in proposals(fit, model, columns))
        # One level of a long series takes minutes: a limit must hold within it.
        chosen = list(itertools.takewhile(lambda _: monitor.stopping() is None, wider))
        if not chosen:
            break
        if len(levels) == 2 and len(fit.equations) == 1:
            chosen += [(levels[0][0], pair) for pair in pairs(fit, columns)]
        found = optimise_all(fit, [extended(fit, model, grid, new) for model, new in chosen], monitor)
        kept: list[Projected] = []
        # Of laws that explain the same the smallest is kept.
        for model in sorted(found, key=lambda m: (round(m.score), m.size)):
            if all(abs(model.score - k.score) > GROWING.equal_score for k in kept):
                kept.append(model)
            if len(kept) == beam:
                break
        levels.append(kept)
        # Two terms may explain what neither explains alone: one idle level is allowed.
        if len(levels) > 2 and levels[-3][0].score - kept[0].score < 2 * penalty:
            break
        if fit.exact(kept[0]):
            break
    return levels[1:]


def single_laws(fit: Fit, i: int, path: Path, grid: Terms, most: int, beam: int, monitor: Monitor) -> list[Projected]:
    """Laws for one equation alone, the best first, judged with the error of the path."""
    one = Fit(fit.problem, fit.equations[[i]], fit.counts[[i]], fit.floor[[i]])
    if grid.many:
        return rich_laws(one, path, grid, monitor)
    levels = climb_sizes(one, path, grid, most, beam, monitor)
    starts = [m for level in levels[-2:] for m in level]
    if most <= GROWING.quick_monomials and starts and min(m.squares.max() for m in starts) > GROWING.promising:
        starts = starts[-1:]
    return best_of_each(one, descents(one, starts, monitor, settle=False))


def shared_laws(fit: Fit, i: int, path: Path, grid: Terms, others: Terms, monitor: Monitor) -> list[Projected]:
    """Laws of one equation made of low powers and what the other equations were found to be made of.

    A flux that leaves one state and enters another stands in both equations. Among thousands of candidates
    it is missed where many others explain nearly as much alone; among a few it is found.

    Returns:
        None but those that leave no more than the path leaves uncertain.
    """
    one = Fit(fit.problem, fit.equations[[i]], fit.counts[[i]], fit.floor[[i]])
    low = np.all((grid.rows >= 0) & (grid.rows == np.round(grid.rows)), axis=1) & (grid.rows.sum(axis=1) <= 2)
    functions = grid.rows[:, fit.problem.features.states :].any(axis=1)
    plain = (grid.constant == 0) & low & ~functions
    # m / (1 + b z) and m z / (1 + b z) differ by a multiple of m: the shorter law may need either.
    with_inner = Terms(others.rows + others.inner, others.constant, others.inner, others.power)
    shared = others.and_also(with_inner)
    # Among many candidates others explain nearly as much alone: the fewest come first.
    for short in (plain, plain | (grid.lengths <= 1)):
        few = grid.select(np.flatnonzero(short)).and_also(shared)
        found = best_of_each(one, subset_laws(one, path, few, monitor, few=True))
        if found and (one.exact(found[0]) or found[0].squares.max() < GROWING.as_certain):
            return found
    return []


def rich_laws(fit: Fit, path: Path, grid: Terms, monitor: Monitor) -> list[Projected]:
    """Laws of one equation from a large library: the best subsets, fitted, of short terms before all.

    Only those that leave next to nothing are worth a way down.
    """
    found = best_of_each(fit, subset_laws(fit, path, grid.select(np.flatnonzero(grid.lengths <= 1)), monitor, few=True))
    # Enough short terms meet any curve: fewer terms that are longer may be the law.
    if not (found and plain(fit, found[0])):
        found = best_of_each(fit, found + subset_laws(fit, path, grid, monitor))
    near = [m for m in found[:2] if m.squares.max() < GROWING.promising]
    return best_of_each(fit, found + descents(fit, near, monitor, settle=False))


def subset_laws(fit: Fit, path: Path, grid: Terms, monitor: Monitor, *, few: bool = False) -> list[Projected]:
    """The best subsets of 1, 2, ... terms as laws, until one is exact.

    Args:
        few: the candidates are so few that none has to stand for those that are like it.
    """
    columns = columns_of(grid, fit.problem, path, fit.equations)
    alike, children = (GROWING.one_column, GROWING.many_children) if few else (None, None)
    start, found = empty(fit, path), list[Projected]()
    for level in best_subsets(
        columns[0],
        fit.target[0],
        grid.kinds,
        GROWING.subset_terms,
        GROWING.subsets,
        pairs=bool(grid.constant.any()),
        alike=alike,
        children=children,
    ):
        if monitor.stopping() is not None:
            break
        begun = [extended(fit, start, grid, subset) for subset in level]
        quick = sorted(optimise_all(fit, begun, steps=GROWING.subset_steps), key=lambda model: model.score)
        found += optimise_all(fit, quick[: GROWING.subsets_fitted])
        if any(fit.exact(model) for model in found):
            break
    return found


def joined(fit: Fit, parts: Sequence[Projected], path: Path) -> Projected:
    """The laws of single equations as one law with shared monomials and sums."""
    first, sums = fit.problem.features.size, NO_SUMS
    places = []
    for part in parts:
        own = [part.sums.select(np.array([k])) for k in range(len(part.sums))]
        at = []
        for one in own:
            place = sums.alike(one, 1.0 + GROWING.shared)
            at.append(len(sums) if place is None else place)
            sums = sums.and_also(one) if place is None else sums
        places.append(first + np.array(at, dtype=int))
    exponents: list[Array] = []
    used: list[Mask] = []
    for i, (part, at_sums) in enumerate(zip(parts, places, strict=True)):
        for short in part.exponents:
            row = np.zeros(first + len(sums))
            row[:first], row[at_sums] = short[:first], short[first:]
            near = [k for k, w in enumerate(exponents) if np.abs(w - row).max() < GROWING.shared]
            same = [k for k in near if np.array_equal(exponents[k] != 0, row != 0)]
            if not same:
                exponents.append(row)
                used.append(np.zeros(len(parts), dtype=bool))
            used[same[0] if same else -1][i] = True
    w = np.array(exponents).reshape(-1, first + len(sums))
    uses = np.array(used).reshape(-1, len(parts)).T
    return settled(fit, optimise_all(fit, [Draft(w, uses, w != 0, sums, path)])[0])


def terms_of(fit: Fit, model: Projected) -> Terms:
    """The monomials of a law as candidates, those with one sum over one monomial at most."""
    first, found = fit.problem.features.size, []
    for row in model.exponents:
        of = np.flatnonzero(row[first:])
        own = model.sums.select(of)
        if not len(of):
            found.append((row[:first], 0.0, np.zeros(first), 0.0))
        elif len(of) == 1 and own.weights.size == 1:
            found.append((row[:first], own.weights[0, 0], own.exponents[0], row[first + of[0]]))
    rows, constant, inner, power = zip(*found, strict=True) if found else ((), (), (), ())
    return Terms(
        np.array(rows).reshape(-1, first), np.array(constant), np.array(inner).reshape(-1, first), np.array(power)
    )


def separately(fit: Fit, grids: Sequence[Terms], most: int, beam: int, monitor: Monitor) -> tuple[Fit, list[Projected]]:
    """Equations grown one by one and joined, again and again on the path that this refines.

    What one equation is made of is a candidate for the others in the next round.

    Args:
        grids: candidates of every equation.
    """
    grid = max(grids, key=len)
    path = fit.problem.interpolated()
    fit = on_path(fit, path, grid)
    found: list[Projected] = []
    others = Terms.products(np.zeros((0, fit.problem.features.size)))
    for around in range(GROWING.rounds):
        singles: list[list[Projected]] = []
        for i, own in enumerate(grids):
            near = shared_laws(fit, i, path, own, others, monitor) if around and own.many else []
            singles.append(near or single_laws(fit, i, path, own.and_also(others), most, beam, monitor))
        if not all(singles):
            break
        law = joined(fit, [laws[0] for laws in singles], path)
        if not found and law.squares.min() > GROWING.promising:
            # Right monomials leave much less on the first path already: no better path helps these, and
            # no equation has terms that could help another.
            return fit, [law]
        path = law.path
        fit = on_path(fit, path, grid)
        law = settled(fit, fit.model(law.exponents, law.used, law.powers, path, law.sums))
        if found and fit.criterion(law) > fit.criterion(found[-1]) - 1.0:
            break
        found.append(law)
        others = functools.reduce(Terms.and_also, [terms_of(fit, laws[0]) for laws in singles])
        # In noise the path of the first round is too rough to end with, and equations share terms.
        if plain(fit, law) and (around or not fit.problem.noisy.any()):
            break
    return fit, found[::-1]


def plain(fit: Fit, law: Projected) -> bool:
    """Whether a law leaves nothing and has few terms in every equation."""
    return fit.exact(law) and bool(law.used.sum(axis=1).max() <= GROWING.plain_terms)


def on_path(fit: Fit, path: Path, grid: Terms) -> Fit:
    """The same fit with intervals weighted by how certain their integrals are on this path."""
    problem = fit.problem.weighted(path, grid.rows[grid.constant == 0][: GROWING.weighing])
    e = fit.equations
    return Fit(problem, e, problem.counts[e], fit.floor)


def grow(
    p: Problem,
    *,
    family: Family = POWERS,
    known: PowerSum | None = None,
    doubtful: Mask | None = None,
    max_monomials: int | None = None,
    monitor: Monitor | None = None,
) -> tuple[PowerSum, ...]:
    """Laws dx_i/dt = sum_j A[i, j] prod_k y_k^W[j, k] of several sizes, the best first.

    Args:
        p: the data, dimensionless.
        family: what the monomials are made of.
        known, doubtful: a law of powers, and the equations [states] that are sought anew; the
            others are made of its terms (default: all are sought).
        max_monomials: most monomials of one law (default: that of `GROWING`).
        monitor: can end the growing early; what was found so far is returned.
    """
    monitor = monitor or Monitor()
    most = GROWING.max_monomials if max_monomials is None else max_monomials
    integer = ~p.nonnegative | p.integer_exponents
    values = np.concatenate([t.values for t in p.data.trajectories])
    changing = np.nanmax(values, axis=0) - np.nanmin(values, axis=0) > STILL
    features = features_for(family, integer, changing, p.scale.state)
    problem = Integral.of(p.data, p.noise, family.whole(integer), features, ~integer & family.real_inside)
    equations = np.flatnonzero(changing & ~p.data.is_control)
    if not len(equations):
        return ()
    floor = np.full(len(equations), GROWING.residual_floor**2)
    fit = Fit(problem, equations, problem.counts[equations], floor)
    grid = grid_for(problem, family, integer, changing)
    if not len(grid):
        return ()
    grids = [grid] * len(equations)
    if known is not None and doubtful is not None:
        for e in np.flatnonzero(~doubtful[equations]):
            rows = known.exponents[known.coefficients[equations[e]] != 0]
            grids[e] = Terms.products(np.pad(rows, ((0, 0), (0, features.size - features.states))))
    fit, starts = separately(fit, grids, most, GROWING.beam, monitor)
    thorough = family.real_exponents and most > GROWING.quick_monomials
    if thorough and len(equations) > 1 and not any(fit.exact(m) for m in starts):
        path = starts[0].path if starts else problem.interpolated()
        levels = climb_sizes(fit, path, grids[0], most, GROWING.beam, monitor)
        starts += [settled(fit, m) for level in levels[-2:] for m in level]
    # Of a plain sum of products, pruning on the differential equations tells what may go; a sum that does nothing
    # would be one more constant to every stage behind this one.
    rich = [m for m in starts[:1] if len(m.sums) or not plain(fit, m)]
    found = descents(fit, rich, monitor, settle=True)
    return tuple(fit.law(m) for m in best_of_each(fit, found + starts)[: GROWING.listed])
