"""Grow laws term by term on the integral form, without solving an ODE.

Given the exponents, the coefficients are linear and are eliminated (variable projection), so that only exponents are
searched. Each law refines the path of the states between the samples, which removes the interpolation error from its
residuals. The steps, in the order of this file:

1. Grow each equation alone and join them, sharing monomials that coincide; repeat on the path refined by the joined
   law, where the terms of one equation are candidates for the others. Stop at a short law that fits exactly.
2. Extend an equation by the candidates that explain most of its residuals, keeping a few laws of each size, until
   another term gains nothing.
3. Search subsets of a large library by linear algebra alone; fit only the best of each size.
4. Remove constants from rich laws: try those with the smallest Wald statistics side by side and continue from the best
   refit. Also tried: merging two similar monomials or two sums over the same monomials, and replacing an exponential
   that is nearly linear over the data. An information criterion ranks all laws found.
5. Fit exponents and constants of sums of many laws side by side by Levenberg-Marquardt, as stacks of arrays.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TypeAlias

import numpy as np

from odediscovery.families import POWERS, Family, Terms
from odediscovery.fitting.windows import damped_steps
from odediscovery.laws.power_sum import NO_SUMS, PowerSum, Sums
from odediscovery.problem.problem import Problem
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Indices, Mask
from odediscovery.runtime.monitor import Monitor, check_time
from odediscovery.stages.integral_form import (
    LEAST,
    LEAST_EXPONENT,
    MOST_EXPONENT,
    MOST_LOG,
    RIDGE,
    SHARED,
    Draft,
    Fit,
    Integral,
    Path,
    Projected,
    columns_of,
    exp_features,
    features_for,
    grid_for,
    with_sum,
)

# Most monomials of a law, and in a quick search.
MOST_MONOMIALS, QUICK_MONOMIALS = 8, 5
# Columns with a larger correlation count as equal.
ALIKE = 0.98
# Number of new monomials, or pairs of them, tried for every law.
TRIED = 6
# A law with a larger mean square residual on the first path is wrong [variance due to noise and path].
PROMISING = 1e4
# A column is linearly dependent if its part orthogonal to the others is a smaller share of its norm.
DEPENDENT = 1e-5
# Most subsets kept of each size.
BEAM = 100
# Most intervals of exact samples on which laws grow: they are many more than the constants of a law need.
MOST_INTERVALS = 150
# Numbers per batch: subsets times their columns times columns of the library.
AT_ONCE = 100_000


def grow(
    p: Problem,
    *,
    family: Family = POWERS,
    max_monomials: int = MOST_MONOMIALS,
    monitor: Monitor | None = None,
    alone: Alone | None = None,
) -> tuple[PowerSum, ...]:
    """Grow laws dx_i/dt = sum_j A[i, j] prod_k y_k^W[j, k] of several sizes, and return the best first.

    Args:
        p: the data, dimensionless.
        family: what the monomials are made of.
        max_monomials: most monomials of one law.
        monitor: can stop the search early; the laws found so far are returned.
        alone: how equations are grown (default: term by term).
    """
    monitor = monitor or Monitor()
    integer = ~p.nonnegative | p.integer_exponents
    values = np.concatenate([t.values for t in p.data.trajectories])
    # A dimensionless state with a smaller range is constant.
    changing = np.nanmax(values, axis=0) - np.nanmin(values, axis=0) > 1e-12
    features = features_for(family, integer, changing, p.scale.state)
    problem = Integral.of(p.data, p.noise, family.whole(integer), features, ~integer)
    equations = np.flatnonzero(changing & ~p.data.is_control)
    if not len(equations):
        return ()
    # Residuals below a tenth of their expected size count as zero.
    fit = Fit(problem, equations, problem.counts[equations], np.full(len(equations), 0.1**2))
    grid = grid_for(problem, family, integer, changing)
    if not len(grid):
        return ()
    fit, starts = separately(fit, grid, alone or TermByTerm(max_monomials), monitor)
    # A plain sum of products is pruned later on the differential equations; but an idle inner sum would burden every
    # later stage with another constant.
    rich = [m for m in starts[:1] if len(m.sums) or not is_plain(fit, m)]
    found = descents(fit, rich, monitor, settle=True)
    return tuple(fit.law(m) for m in best_of_each(fit, found + starts)[:12])


# 1. Equations grown alone, and joined.


# A way to grow the equations of a fit alone, from a grid of candidates, on a path: laws of every equation,
# the best first. The number counts the rounds before, each of which refined the path.
Alone: TypeAlias = "Callable[[Fit, Path, Terms, int, Monitor], list[list[Projected]]]"


def separately(fit: Fit, grid: Terms, alone: Alone, monitor: Monitor) -> tuple[Fit, list[Projected]]:
    """Grow each equation and join them, repeatedly on the path that the joined law refines."""
    path = fit.problem.interpolated()
    fit = on_path(fit, path, grid)
    found: list[Projected] = []
    for around in range(6):
        singles = alone(fit, path, grid, around, monitor)
        if not all(singles):
            break
        law = settled(fit, optimise_all(fit, [joined(fit, [laws[0] for laws in singles], path)])[0])
        if not found and law.squares.min() > PROMISING:
            # The right monomials have much smaller residuals even on the first path, so neither a better path nor
            # the terms of the other equations can help.
            return fit, [law]
        path = law.path
        fit = on_path(fit, path, grid)
        law = settled(fit, fit.model(law))
        if found and fit.criterion(law) > fit.criterion(found[-1]) - 1.0:
            break
        found.append(law)
        # In noise, the path of the first round is too rough to stop at, and shared terms are not yet tried.
        if is_plain(fit, law) and (around or not fit.problem.noisy.any()):
            break
    return fit, found[::-1]


class TermByTerm:
    """Equations grown term by term; terms of one equation are candidates for the others in the next round."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.others: Terms | None = None

    def __call__(self, fit: Fit, path: Path, grid: Terms, around: int, monitor: Monitor) -> list[list[Projected]]:
        """Return laws of every equation, the best first."""
        problem, path = fit.problem.thinned(path, MOST_INTERVALS)
        fit = Fit(problem, fit.equations, problem.counts[fit.equations], fit.floor)
        wider = grid if self.others is None else grid.and_also(self.others)
        found = [single_laws(fit.of(i), path, wider, self.most, monitor) for i in range(len(fit.equations))]
        if all(found):
            self.others = functools.reduce(Terms.and_also, [terms_of(fit, laws[0]) for laws in found])
        return found


def on_path(fit: Fit, path: Path, grid: Terms) -> Fit:
    """Return the same fit with intervals weighted by the accuracy of the candidates' integrals on this path."""
    problem = fit.problem.weighted(path, grid.rows[:400])
    return Fit(problem, fit.equations, problem.counts[fit.equations], fit.floor)


def is_plain(fit: Fit, law: Projected) -> bool:
    """Whether a law is exact with at most three terms in each equation, and needs no further search."""
    return fit.exact(law) and bool(law.used.sum(axis=1).max() <= 3)


def single_laws(fit: Fit, path: Path, grid: Terms, most: int, monitor: Monitor) -> list[Projected]:
    """Grow laws for one equation on a given path, the best first."""
    levels = climb_sizes(fit, path, grid, most, monitor)
    starts = [m for level in levels[-2:] for m in level]
    if starts and min(m.squares.max() for m in starts) > PROMISING:
        starts = starts[-1:]
    return best_of_each(fit, descents(fit, starts, monitor, settle=False))


def joined(fit: Fit, parts: Sequence[Projected], path: Path) -> Draft:
    """Join laws of single equations into one law with shared monomials and sums."""
    first, sums, places = fit.problem.features.size, NO_SUMS, list[Indices]()
    for part in parts:
        at = []
        for k in range(len(part.sums)):
            sums, place = with_sum(sums, part.sums.select(np.array([k])), 1.0 + SHARED)
            at.append(place)
        places.append(first + np.array(at, dtype=int))
    exponents, used = list[Array](), list[Mask]()
    for i, (part, at_sums) in enumerate(zip(parts, places, strict=True)):
        for short in part.exponents:
            row = np.zeros(first + len(sums))
            row[:first], row[at_sums] = short[:first], short[first:]
            near = [k for k, w in enumerate(exponents) if np.abs(w - row).max() < SHARED]
            same = [k for k in near if np.array_equal(exponents[k] != 0, row != 0)]
            if not same:
                exponents.append(row)
                used.append(np.zeros(len(parts), dtype=bool))
            used[same[0] if same else -1][i] = True
    w = np.array(exponents).reshape(-1, first + len(sums))
    return Draft(w, np.array(used).reshape(-1, len(parts)).T, w != 0, sums, path)


def terms_of(fit: Fit, model: Projected) -> Terms:
    """Return the monomials of a law without sums as candidates."""
    first = fit.problem.features.size
    return Terms(model.exponents[~model.exponents[:, first:].any(axis=1)][:, :first])


# 2. One equation, monomial by monomial.


def climb_sizes(fit: Fit, path: Path, grid: Terms, most: int, monitor: Monitor) -> list[list[Projected]]:
    """Find the three best laws with 1, 2, ... monomials on one path, until another monomial gains nothing."""
    levels = [[empty(fit, path)]]
    penalty = 2 * np.log(fit.counts.sum())
    columns = columns_of(grid, fit.problem, path, fit.equations)
    while len(levels) <= most and monitor.stopping() is None:
        wider = ((model, [c]) for model in levels[-1] for c in proposals(fit, model, columns))
        # One level of a long series takes minutes, so the time limit is checked within it.
        chosen = list(itertools.takewhile(lambda _: monitor.stopping() is None, wider))
        if not chosen:
            break
        if len(levels) == 2:
            chosen += [(levels[0][0], pair) for pair in pairs(fit, columns)]
        found = optimise_all(fit, [extended(fit, model, grid, new) for model, new in chosen], monitor)
        kept: list[Projected] = []
        # Of laws with the same score, the smallest is kept.
        for model in sorted(found, key=lambda m: (round(m.score), m.size)):
            if all(abs(model.score - k.score) > 1e-2 for k in kept):
                kept.append(model)
            if len(kept) == 3:
                break
        levels.append(kept)
        # Two terms may explain what neither explains alone: one idle level is allowed.
        if len(levels) > 2 and levels[-3][0].score - kept[0].score < 2 * penalty:
            break
        if fit.exact(kept[0]):
            break
    return levels[1:]


def empty(fit: Fit, path: Path) -> Projected:
    """Return the law without monomials."""
    w = np.zeros((0, fit.problem.features.size))
    return fit.model(Draft(w, np.zeros((len(fit.equations), 0), dtype=bool), w != 0, NO_SUMS, path))


def extended(fit: Fit, model: Projected, terms: Terms, new: Sequence[int]) -> Draft:
    """Add monomials to every equation of a law."""
    more = np.pad(terms.rows[list(new)], ((0, 0), (0, len(model.sums))))
    w = np.vstack([model.exponents, more])
    used = np.hstack([model.used, np.ones((len(fit.equations), len(new)), dtype=bool)])
    return Draft(w, used, w != 0, model.sums, model.path)


def gains(fit: Fit, model: Projected, columns: Array) -> tuple[Array, Array]:
    """Return what each further column would explain [equations, candidates], and the parts of the columns beyond the
    law's own.
    """
    linear = fit.linear(model)
    columns = linear.projected(columns)
    norm = np.linalg.norm(columns, axis=1, keepdims=True)
    columns = np.where(norm > 1e-7, columns / np.where(norm > 1e-7, norm, 1.0), 0.0)
    explained = np.einsum("itc,it->ic", columns, linear.residual) ** 2 / fit.counts[:, None]
    left = np.maximum(model.squares[:, None] - explained, 0.0) + fit.floor[:, None]
    gain = fit.counts[:, None] * np.log((model.squares + fit.floor)[:, None] / left)
    return gain, columns


def proposals(fit: Fit, model: Projected, columns: Array) -> list[int]:
    """Return the candidates that explain most of the residuals, without near duplicates."""
    gain, columns = gains(fit, model, columns)
    chosen: list[int] = []
    for c in np.argsort(-gain.sum(axis=0), kind="stable"):
        cosines = np.einsum("it,itd->id", columns[:, :, c], columns[:, :, chosen])
        if not chosen or np.abs(cosines).max(axis=0).max() < ALIKE:
            chosen.append(int(c))
        if len(chosen) == TRIED:
            break
    return chosen


def pairs(fit: Fit, columns: Array) -> list[list[int]]:
    """Return the pairs of candidates that together explain most of the first equation."""
    unit, y = columns[0], fit.target[0]
    taken, chosen = np.zeros(unit.shape[1]), list[list[int]]()
    for pair in _best_pairs(unit.T @ unit, unit.T @ y, float(y @ y), 2000, 1e-7)[0].tolist():
        # Neighbouring pairs on the grid lead to the same law.
        if taken[pair].max() < 2:
            chosen.append(pair)
            taken[pair] += 1
        if len(chosen) == TRIED:
            break
    return chosen


# 3. Subsets of a large library.


def best_subsets(
    columns: Array,
    y: Array,
    most: int,
    listed: int,
    *,
    alike: float = ALIKE,
    children: int = 10,
    pairs: bool = False,
    beam: int = BEAM,
    own: Indices | None = None,
    others: Mask | None = None,
) -> list[list[tuple[int, ...]]]:
    """Return the best subsets S of 1, 2, ..., `most` columns of norm 1 [samples, C], `listed` per size, best first.

        minimise |y - sum_{c in S} a_c column_c|^2

    Greedy growth misses terms that explain little alone, so a wide `beam` of subsets is kept. Each subset gets up to
    `children` extensions, no two with a correlation above `alike`; with `pairs`, all pairs of columns are compared.
    Subsets grow by one column at a time and then lose one at a time: three columns that explain little in pairs are
    found as four of which one is idle. With `own`, every subset begins with one of these columns and goes on with
    `others` [C], and `beam` and `listed` count for each of them.

    Source: orthogonal least squares (Chen, Billings and Luo, Int. J. Control 50, 1989) with a beam; backward steps
    as in the floating search of Pudil, Novovicova and Kittler (Pattern Recognition Letters 15, 1994).

    >>> t = np.linspace(0.0, 1.0, 9)
    >>> library = np.stack([t**0, t, t**2, t**3], axis=1)
    >>> library /= np.linalg.norm(library, axis=0)
    >>> best_subsets(library, 2 * t - t**3, 2, 1)[1]
    [(1, 3)]
    """
    alone = np.argsort(-np.abs(columns.T @ y), kind="stable")[: 2000 if own is None else None]
    columns = columns[:, alone]
    gram, b, total = columns.T @ columns, columns.T @ y, float(y @ y)
    others = np.ones(len(b), dtype=bool) if others is None else others[alone]
    # Columns that explain little alone may be needed, so the search starts from many.
    first, fixed = (np.arange(min(len(b), 150)), 0) if own is None else (np.argsort(alone)[own], 1)
    best, levels = [first[:, None]], list[tuple[Indices, Array]]()
    for size in range(2, most + 1):
        found = [_best_pairs(gram[:1500, :1500], b[:1500], total, 3 * beam, DEPENDENT)] if pairs and size == 2 else []
        for part in _parts(best[-1], len(b)):
            check_time()
            found.append(_extensions(gram, b, total, part, others, alike, children))
        if not sum(len(left) for _, left in found):
            break
        levels.append(_different(found, fixed))
        best.append(_best(levels[-1], beam, fixed))
    # Columns that explain little in pairs enter with a fourth one, which may then be removed.
    for k in range(len(levels) - 1, 0, -1):
        fewer = [_without_one(gram, b, total, part, fixed) for part in _parts(best[k + 1], len(b))]
        levels[k - 1] = _different([levels[k - 1], *fewer], fixed)
        best[k] = _best(levels[k - 1], beam, fixed)
    shown = [best[0][:listed], *(_best(level, listed, fixed) for level in levels)]
    return [list(map(tuple, np.sort(alone[level], axis=1).tolist())) for level in shown]


def _best_pairs(gram: Array, b: Array, total: float, most: int, dependent: float) -> tuple[Indices, Array]:
    """Return the pairs of columns [pairs, 2] with the smallest sums of squared residuals, and these sums [pairs]."""
    rows = max(AT_ONCE // max(len(b), 1), 1)
    best: list[tuple[float, int, int]] = []
    for first in range(0, len(b), rows):
        # The matrix is symmetric: only the part to the right of this block's diagonal is needed.
        rho, own, other = gram[first : first + rows, first:], b[first : first + rows, None], b[first:]
        apart = 1.0 - rho**2
        explained = (own**2 + other**2 - 2.0 * rho * (own * other)) / np.maximum(apart, dependent)
        left = np.maximum(total - explained, 0.0)
        left[np.tri(*left.shape, dtype=np.bool_) | (apart <= dependent)] = np.inf
        worst = best[-1][0] if len(best) == most else np.inf
        k, m = np.nonzero(left < worst)
        if len(k) > most:
            few = np.argpartition(left[k, m], most)[:most]
            k, m = k[few], m[few]
        found = zip(left[k, m].tolist(), (k + first).tolist(), (m + first).tolist(), strict=True)
        best = sorted([*best, *found])[:most]
    return np.array([pair for _, *pair in best]).reshape(-1, 2), np.array([squares for squares, *_ in best])


def _inverse_root(gram: Array, subsets: Indices) -> Array:
    """Return L^-1 [subsets, size, size], where L L^T = G is the Gram matrix of each subset."""
    inside = gram[subsets[:, :, None], subsets[:, None]] + DEPENDENT**2 * np.eye(subsets.shape[1])
    found: Array = np.linalg.inv(np.linalg.cholesky(inside))
    return found


def _without_one(gram: Array, b: Array, total: float, subsets: Indices, fixed: int) -> tuple[Indices, Array]:
    """Return each subset [subsets, size] without each of its columns but the `fixed` first, and the squares left.

    Removing column j adds a_j^2 / (G^-1)_jj to the squares.
    """
    inverse = _inverse_root(gram, subsets)
    of_y = (inverse @ b[subsets][:, :, None])[:, :, 0]
    a = (of_y[:, None] @ inverse)[:, 0]
    left, more = total - (of_y**2).sum(axis=1), a**2 / (inverse**2).sum(axis=1)
    size = subsets.shape[1]
    others = np.nonzero(~np.eye(size, dtype=np.bool_))[1].reshape(size, size - 1)[fixed:]
    return subsets[:, others].reshape(-1, size - 1), np.maximum(left[:, None] + more[:, fixed:], 0.0).ravel()


def _parts(beam: Indices, columns: int) -> Iterator[Indices]:
    """Split the subsets of one size into batches that fit in the cache."""
    many = max(AT_ONCE // max(columns * beam.shape[1], 1), 1)
    yield from (beam[first : first + many] for first in range(0, len(beam), many))


def _different(found: Sequence[tuple[Indices, Array]], fixed: int) -> tuple[Indices, Array]:
    """Return the different ones of subsets [subsets, size], in any order after the `fixed` first, and their squares."""
    subsets, left = np.concatenate([s for s, _ in found]), np.concatenate([each for _, each in found])
    subsets[:, fixed:] = np.sort(subsets[:, fixed:], axis=1)
    order = np.lexsort(subsets.T)
    is_new = np.append(True, (np.diff(subsets[order], axis=0) != 0).any(axis=1))
    kept = np.sort(order[is_new])
    return subsets[kept], left[kept]


def _best(found: tuple[Indices, Array], most: int, fixed: int) -> Indices:
    """Return the subsets with the smallest residuals, or those of each `fixed` first column."""
    subsets, left = found
    order = np.argsort(left, kind="stable")
    if fixed:
        order = order[np.argsort(subsets[order, 0], kind="stable")]
        _, begin, count = np.unique(subsets[order, 0], return_index=True, return_counts=True)
        return subsets[order[np.arange(len(order)) - np.repeat(begin, count) < most]]
    return subsets[order[:most]]


def _extensions(
    gram: Array, b: Array, total: float, subsets: Indices, others: Mask, alike: float, children: int
) -> tuple[Indices, Array]:
    """Return each subset [subsets, size] with one of the best `others` [C] to add, and the sums of squared residuals.

    All subsets are solved side by side, since each is a small system.
    """
    inverse = _inverse_root(gram, subsets)
    projected = inverse @ gram[subsets]
    of_y = (inverse @ b[subsets][:, :, None])[:, :, 0]
    norm = np.sqrt(np.maximum(1.0 - np.einsum("skc,skc->sc", projected, projected), 0.0))
    usable = others & (norm > DEPENDENT)
    scaled = np.where(usable, b - (of_y[:, None] @ projected)[:, 0], 0.0) / np.where(usable, norm, 1.0)
    left = np.maximum(total - (of_y**2).sum(axis=1)[:, None] - scaled**2, 0.0)
    first = min(10 * children, len(b))
    best = np.argpartition(left, first - 1, axis=1)[:, :first]
    best = np.take_along_axis(best, np.lexsort((best, np.take_along_axis(left, best, axis=1))), axis=1)
    free, size = np.take_along_axis(usable, best, axis=1), np.take_along_axis(norm, best, axis=1)
    within, each = np.take_along_axis(projected, best[:, None], axis=2), np.arange(len(subsets))
    wider, squares = list[Indices](), list[Array]()
    for _ in range(children):
        k = free.argmax(axis=1)
        of, column = np.flatnonzero(free[each, k]), best[each, k]
        wider.append(np.column_stack([subsets[of], column[of]]))
        squares.append(left[of, column[of]])
        if not len(of):
            break
        shared = (within[each, :, k][:, None] @ within)[:, 0]
        free &= np.abs(gram[column[:, None], best] - shared) < alike * size[each, k][:, None] * size
        free[each, k] = False
    return np.concatenate(wider), np.concatenate(squares)


# 4. Simplification, one constant at a time.


def descents(fit: Fit, models: Sequence[Projected], monitor: Monitor, *, settle: bool) -> list[Projected]:
    """Simplify each law down to a single constant and return all laws met; with `settle`, each refines its path."""
    found, live = list(models), [model for model in models if model.size > 1]
    while live and monitor.stopping() is None:
        tried = [simpler(fit, model) for model in live]
        fitted = iter(optimise_all(fit, [model for own in tried for model in own]))
        best = [min(itertools.islice(fitted, len(own)), key=fit.criterion) for own in tried if own]
        found += (after := [settled(fit, model) for model in best] if settle else best)
        live = [model for model in after if model.size > 1]
    return found


def best_of_each(fit: Fit, models: Sequence[Projected]) -> list[Projected]:
    """Keep the best model of each structure, and sort them by the criterion."""
    best: dict[object, Projected] = {}
    for model in models:
        if model.structure not in best or model.score < best[model.structure].score:
            best[model.structure] = model
    return sorted(best.values(), key=fit.criterion)


def simpler(fit: Fit, model: Projected) -> list[Draft]:
    """Propose laws with one constant less, merged monomials or sums, or a linear factor for an exponential."""
    constants = (model.used, model.powers, model.sums.weights != 0)
    places = [
        (statistic[row, column], kind, row, column)
        for kind, (statistic, free) in enumerate(zip(wald(fit, model), constants, strict=True))
        for row, column in np.argwhere(free)
    ]
    found = [
        *_with_one_sum_less(fit, model),
        *_without_slow_rates(fit, model),
        *_without_saturation(fit, model),
        *_with_fractions_joined(fit, model),
    ]
    for _, kind, row, column in sorted(places)[:3]:
        left = [free.copy() for free in constants]
        left[kind][row, column] = False
        if left[0].any():
            found.append(tidied(fit, model, *left))
    return [*found, *_with_nearest_merged(fit, model)]


def tidied(fit: Fit, model: Draft, used: Mask, powers: Mask, weights: Mask) -> Draft:
    """Restrict a law to the given constants, and drop unused and duplicate monomials and sums."""
    first = fit.problem.features.size
    exponents, used, rows = np.where(powers, model.exponents, 0.0), used.copy(), list[int]()
    exponents[:, first:][:, ~weights.any(axis=1)] = 0.0
    for j in np.flatnonzero(used.any(axis=0)):
        twin = next((k for k in rows if np.abs(exponents[j] - exponents[k]).max() < 1e-6), None)
        if twin is None:
            rows.append(int(j))
        else:
            used[:, twin] |= used[:, j]
    w, used = exponents[rows], used[:, rows]
    kept = np.flatnonzero(np.any(w[:, first:] != 0, axis=0))
    sums = Sums(np.where(weights, model.sums.weights, 0.0), model.sums.exponents).select(kept)
    w = w[:, [*range(first), *(first + kept)]]
    return Draft(w, used, w != 0, sums, model.path)


def _with_nearest_merged(fit: Fit, model: Projected) -> list[Draft]:
    """Merge the two nearest monomials, if their exponents differ by at most half a power."""
    w = model.exponents.copy()
    gaps = [(float(np.abs(w[a] - w[b]).max()), a, b) for a, b in itertools.combinations(range(len(w)), 2)]
    nearest, a, b = min(gaps, default=(np.inf, 0, 0))
    if nearest > 0.5:
        return []
    weight = np.abs(model.coefficients[:, [a, b]]).sum(axis=0)
    share = weight[0] / max(weight.sum(), ABOVE_ZERO)
    mixed = share * w[a] + (1 - share) * w[b]
    whole = np.zeros(len(mixed), dtype=bool)
    whole[: len(fit.problem.integer)] = fit.problem.integer
    w[a] = np.where(whole, np.round(mixed), mixed)
    used = model.used.copy()
    used[:, a] |= used[:, b]
    w, used = np.delete(w, b, axis=0), np.delete(used, b, axis=1)
    return [Draft(w, used, w != 0, model.sums, model.path)]


def _with_one_sum_less(fit: Fit, model: Projected) -> list[Draft]:
    """Merge each sum into an earlier one over the same monomials."""
    first, found = fit.problem.features.size, []
    for a in range(len(model.sums)):
        later = np.arange(a + 1, len(model.sums))
        b = model.sums.select(later).alike(model.sums.select(np.array([a])), np.inf)
        if b is not None:
            w = model.exponents.copy()
            w[:, first + a] += w[:, first + later[b]]
            w[:, first + later[b]] = 0.0
            changed = Draft(w, model.used, w != 0, model.sums, model.path)
            found.append(tidied(fit, changed, model.used, w != 0, model.sums.weights != 0))
    return found


def _without_saturation(fit: Fit, model: Projected) -> list[Draft]:
    """Return laws without the 1 of a sum: 1 + b z + c y as z (1 + (c/b) y/z), for each of its products z."""
    first, sums, found = fit.problem.features.size, model.sums, []
    for k, weights in enumerate(sums.weights):
        of = np.flatnonzero(weights)
        for z in of:
            w, others = model.exponents.copy(), of[of != z]
            w[:, :first] += w[:, [first + k]] * sums.exponents[z]
            b = np.pad(np.where(np.arange(len(sums))[:, None] == k, 0.0, sums.weights), ((0, 0), (0, len(others))))
            b[k, sums.weights.shape[1] :] = weights[others] / weights[z]
            changed_sums = Sums(b, np.vstack([sums.exponents, sums.exponents[others] - sums.exponents[z]]))
            law = Draft(w, model.used, w != 0, changed_sums, model.path)
            found.append(tidied(fit, law, model.used, w != 0, b != 0.0))
    return found


def _with_fractions_joined(fit: Fit, model: Projected) -> list[Draft]:
    """Return laws with another of the terms of m = m / u + sum_k b_k m z_k / u, u = 1 + sum_k b_k z_k, for two of them.

    Thus c m - c m / (1 + b z) becomes c b m z / (1 + b z).
    """
    first, w, found = fit.problem.features.size, model.exponents, list[Draft]()
    for k, weights in enumerate(model.sums.weights):
        inside = np.pad(model.sums.exponents[weights != 0.0], ((0, 0), (0, len(model.sums))))
        over = -np.eye(w.shape[1])[first + k]
        divided = w[w[:, first + k] == -1.0] - over
        for m in np.unique(np.concatenate([divided, *(divided - z for z in inside)]), axis=0):
            terms = np.vstack([m, m + over, m + over + inside])
            same = np.asarray((np.abs(terms[:, None] - w) < 1e-9).all(axis=2))
            among = [int(place.argmax()) if place.any() else None for place in same]
            for i, j in itertools.combinations([c for c in among if c is not None], 2):
                for t in (t for t, place in enumerate(among) if place is None):
                    changed = np.where(np.arange(len(w))[:, None] == i, terms[t], w)
                    used = model.used & (np.arange(len(w)) != j)
                    used[:, i] |= model.used[:, j]
                    law = Draft(changed, used, changed != 0, model.sums, model.path)
                    found.append(tidied(fit, law, used, changed != 0, model.sums.weights != 0.0))
    return found


def _without_slow_rates(fit: Fit, model: Projected) -> list[Draft]:
    """Return laws with a slow exponential as a line or as 1: exp(r x) ~ 1 + r x for r < 0.3 / rms of the state."""
    n, found = len(fit.problem.row), []
    for j, k in np.argwhere(model.powers):
        if k in exp_features(fit.problem) and abs(model.exponents[j, k]) < 0.3:
            function = fit.problem.features.functions[k - n]
            line = -1.0 if function.kind.of_inverse else 1.0
            for power in (line, 0.0):
                w = model.exponents.copy()
                w[j, function.state] += power
                w[j, k] = 0.0
                found.append(
                    tidied(
                        fit,
                        Draft(w, model.used, w != 0, model.sums, model.path),
                        model.used,
                        w != 0,
                        model.sums.weights != 0,
                    )
                )
    return found


def wald(fit: Fit, model: Projected) -> tuple[Array, Array, Array]:
    """Compute (constant / standard error)^2 of A [equations, m], W [m, features] and B; inf for unused ones.

    A whole exponent is judged with all others held fixed.
    """
    linear = fit.linear(model)
    sigma = np.sqrt(model.squares + fit.floor)
    of_free, of_b, of_v = fit.places(model)
    places = np.argwhere(model.powers)
    now = evaluated(fit, model.path, Constants.of([model], fit.problem.features.size))
    all_places = [Places.of_each([kind]) for kind in (places, of_b, of_v)]
    jac = jacobian(fit, model.path, now, all_places)[0].swapaxes(1, 2)
    inside = linear.q.transpose(0, 2, 1) @ jac
    weighted = (jac - linear.q @ inside) / sigma[:, None, None]
    flat = weighted.reshape(linear.residual.size, jac.shape[2])
    free = np.ones(jac.shape[2], dtype=bool)
    free[: len(places)] = (places[:, None] == of_free[None]).all(axis=2).any(axis=1)
    covariance = np.zeros((len(free), len(free)))
    normal = flat[:, free].T @ flat[:, free]
    covariance[np.ix_(free, free)] = np.linalg.pinv(normal, rcond=1e-14, hermitian=True)
    inverse = np.linalg.inv(linear.r)
    change = inverse @ inside
    variance = np.einsum("imk,imk->im", inverse, inverse) * sigma[:, None] ** 2
    variance = variance + np.einsum("imp,pr,imr->im", change, covariance, change)
    scaled = linear.coefficients * linear.scale
    of_a = np.where(model.used, scaled**2 / np.maximum(variance, ABOVE_ZERO), np.inf)
    held = 1.0 / np.maximum(np.einsum("tp,tp->p", flat, flat), ABOVE_ZERO)
    spread = np.where(free, np.diag(covariance), held)
    of_w, of_sums = np.full(model.exponents.shape, np.inf), np.full(model.sums.weights.shape, np.inf)
    squares = np.concatenate([model.exponents[tuple(places.T)], model.sums.weights[tuple(of_b.T)]]) ** 2
    with np.errstate(over="ignore"):  # inf where the variance is zero
        statistic = squares / np.maximum(spread[: len(squares)], ABOVE_ZERO)
    of_w[tuple(places.T)], of_sums[tuple(of_b.T)] = np.split(statistic, [len(places)])
    return of_a, of_w, of_sums


# 5. Fits of many small laws side by side.


def optimise_all(fit: Fit, laws: Sequence[Draft], monitor: Monitor | None = None, steps: int = 20) -> list[Projected]:
    """Fit all free constants of every law by Levenberg-Marquardt; results are in the order of the laws.

        (J'J + lambda diag J'J) d(W, B, V) = -J'r    for every law at once, each with its own lambda

    J is Kaufman's Jacobian (BIT 15, 1975): the derivative of the integrals times A, projected off the integrals.
    `fitting.windows.levenberg_marquardt` does not apply: the objective is a likelihood whose variances change with
    every step, exponents have bounds, and whole exponents are fixed. Once the monitor requests a stop, laws not yet
    started are omitted.
    """
    found: dict[int, Projected] = {}
    for alike in _stacks(laws):
        if found and monitor is not None and monitor.stopping() is not None:
            break
        found |= zip(alike, _optimised(fit, [laws[k] for k in alike], steps), strict=True)
    return [found[k] for k in sorted(found)]


def settled(fit: Fit, model: Projected) -> Projected:
    """Alternate between fitting the constants and refining the path, until neither helps."""
    best, worse = model, 0
    for _ in range(12):
        (model,) = optimise_all(fit, [model.along(fit.problem.refined(fit.rates_of(model)))])
        if not np.isfinite(model.score):
            break
        gain = best.score - model.score
        # The error of a path may rise for a round before it falls.
        worse = 0 if gain > 0 else worse + 1
        best = model if gain > 0 else best
        if abs(gain) < 0.5 or worse == 2 or fit.exact(best):
            break
    return best


def _stacks(laws: Sequence[Draft]) -> Iterator[list[int]]:
    """Split the laws into batches on the same path that are fitted together; yield their indices."""
    paths: dict[int, list[int]] = {}
    for k, law in enumerate(laws):
        paths.setdefault(id(law.path), []).append(k)
    for places in paths.values():
        largest = max(len(laws[k].exponents) + len(laws[k].sums) for k in places)
        values = laws[places[0]].path.log[..., 0].size * max(largest, 1)
        # Monomials at the nodes of a batch are about a million values.
        together = max(1_000_000 // values, 1)
        yield from (places[k : k + together] for k in range(0, len(places), together))


def _optimised(fit: Fit, laws: Sequence[Draft], steps: int) -> list[Projected]:
    path = laws[0].path
    free = tuple(Places.of_each(kind) for kind in zip(*(fit.places(law) for law in laws), strict=True))
    # With whole exponents only, monomials inside sums are constant.
    whole_inside = not free[2].own.size
    now = evaluated(fit, path, Constants.of(laws, fit.problem.features.size))
    size = sum(p.own.shape[1] for p in free)
    normal, gradient = np.empty((len(laws), size, size)), np.empty((len(laws), size))
    damping, moved = np.full(len(laws), 1e-3), np.ones(len(laws), dtype=bool)
    live = np.flatnonzero(np.concatenate([p.own for p in free], axis=1).any(axis=1))
    for _ in range(steps):
        if not len(live):
            break
        if len(new := live[moved[live]]):
            normal[new], gradient[new] = normal_equations(fit, path, now.take(new), [p.take(new) for p in free])
        shift = damped_steps(normal[live], gradient[live], damping[live], 1e-13, ABOVE_ZERO)
        trial = _moved(fit, now, live, [p.take(live) for p in free], shift)
        tried = evaluated(fit, path, trial, now.inside[live] if whole_inside else None)
        gain = now.score[live] - tried.score
        moved[live] = better = gain > 0
        now.put(live[better], tried.take(np.flatnonzero(better)))
        damping[live] = np.where(better, np.maximum(damping[live] / 10.0, 1e-9), damping[live] * 10.0)
        # Converged, or no step helps.
        ended = np.where(better, gain < 1e-3, damping[live] > 1e4)
        live = live[~ended]
    return [now.model(k, law) for k, law in enumerate(laws)]


def _moved(fit: Fit, now: Stack, live: Indices, free: Sequence[Places], shift: Array) -> Constants:
    """Move the constants of the live laws by a step, within their bounds."""
    w, b, v = now.w[live], now.b[live], now.v[live]
    ends = np.cumsum([p.own.shape[1] for p in free])
    step_w, step_b, step_v = (part[p.own] for part, p in zip(np.split(shift, ends[:-1], axis=1), free, strict=True))
    of_w, of_b, of_v = (p.index for p in free)
    # Exponents move by half a whole power at most, and rates stay below 30 / rms of the state.
    rates = np.isin(of_w[2], exp_features(fit.problem))
    least, most = np.where(rates, -30.0, LEAST_EXPONENT), np.where(rates, 30.0, MOST_EXPONENT)
    w[of_w] = (w[of_w] + step_w.clip(-0.5, 0.5)).clip(least, most)
    half = 0.5 * np.abs(b[of_b])
    b[of_b] += step_b.clip(-half, half)
    if len(step_v):
        most = np.where(np.isin(of_v[2], exp_features(fit.problem)), 30.0, 12.0)
        v[of_v] = (v[of_v] + step_v.clip(-0.5, 0.5)).clip(-most, most)
    return Constants(w, b, v, now.used[live])


@dataclass(frozen=True, eq=False)
class Constants:
    """Constants of many laws in shared arrays, since NumPy calls for one law at a time would dominate the run time.

        rate_i = sum_j A[i, j] prod_k y_k ** W[j, k],  y = (x, f(x), u),  u_l = 1 + sum_j B[l, j] prod_k x_k ** V[j, k]

    Laws with fewer monomials or sums than others are padded with unused monomials and with sums equal to 1. Nodes and
    samples are the last axis throughout.
    """

    w: Array  # W, [laws, monomials, features], sums last
    b: Array  # B, [laws, sums, monomials inside]
    v: Array  # V, [laws, monomials inside, states and functions]
    used: Mask  # which coefficients are free, [laws, equations, monomials]

    @classmethod
    def of(cls, laws: Sequence[Draft], first: int) -> Constants:
        """Collect the constants of laws of `first` states and functions."""
        m, sums = max(len(d.exponents) for d in laws), max(len(d.sums) for d in laws)
        inside = max(len(d.sums.exponents) for d in laws)
        w, b = np.zeros((len(laws), m, first + sums)), np.zeros((len(laws), sums, inside))
        v, used = np.zeros((len(laws), inside, first)), np.zeros((len(laws), len(laws[0].used), m), dtype=bool)
        for k, d in enumerate(laws):
            w[k, : len(d.exponents), : d.exponents.shape[1]] = d.exponents
            used[k, :, : len(d.exponents)] = d.used
            if len(d.sums):
                b[k, : len(d.sums), : len(d.sums.exponents)] = d.sums.weights
                v[k, : len(d.sums.exponents)] = d.sums.exponents
        return cls(w, b, v, used)


@dataclass(frozen=True, eq=False)
class Stack(Constants):
    """Laws with the best coefficients."""

    inside: Array  # monomials inside sums at the nodes, [laws, monomials inside, nodes]
    u: Array  # sums, [laws, sums, nodes]
    values: Array  # monomials, [laws, monomials, nodes]
    q: Array  # orthonormal columns that span their integrals, [laws, equations, samples, monomials]
    coefficients: Array  # A, [laws, equations, monomials]
    residual: Array  # [laws, equations, samples]
    squares: Array  # mean square residual of every equation, [laws, equations]
    score: Array  # the minimised likelihood, [laws]

    def take(self, laws: Indices) -> Stack:
        """Select some of the laws."""
        return Stack(*(getattr(self, f.name)[laws] for f in fields(self)))

    def put(self, laws: Indices, others: Stack) -> None:
        """Replace some of the laws by others."""
        for f in fields(self):
            getattr(self, f.name)[laws] = getattr(others, f.name)

    def model(self, k: int, law: Draft) -> Projected:
        """Return law k, which started as `law`."""
        m, sums, inside = len(law.exponents), len(law.sums), len(law.sums.exponents)
        w = self.w[k, :m, : law.exponents.shape[1]]
        own = Sums(self.b[k, :sums, :inside], self.v[k, :inside]) if sums else law.sums
        a, squares, score = self.coefficients[k, :, :m], self.squares[k], float(self.score[k])
        return Projected(w, law.used, law.powers, own, law.path, a, squares, score)


@dataclass(frozen=True, eq=False)
class Places:
    """Places of the free constants of one kind in every law, padded to the same number."""

    row: Indices  # [laws, places]
    of: Indices  # columns, [laws, places]
    own: Mask  # which places are a law's own, [laws, places]

    @classmethod
    def of_each(cls, places: Sequence[Indices]) -> Places:
        """Build from rows and columns of every law, [places, 2]."""
        most = max(map(len, places))
        own = np.arange(most) < np.array([[len(p)] for p in places])
        index = np.zeros((len(places), most, 2), dtype=np.int64)
        index[own] = np.concatenate(places)
        return cls(index[..., 0], index[..., 1], own)

    def take(self, laws: Indices) -> Places:
        """Select some of the laws."""
        return Places(self.row[laws], self.of[laws], self.own[laws])

    @property
    def index(self) -> tuple[Indices, Indices, Indices]:
        """Law, row and column of every place, one law after the other."""
        law, place = np.nonzero(self.own)
        return law, self.row[law, place], self.of[law, place]


def _products(path: Path, exponents: Array, more: Array | None = None) -> Array:
    """Compute prod_k x_k ** W[l, j, k], times exp(more), at the nodes, [laws, monomials, nodes]."""
    log = exponents @ path.log_rows
    if more is not None:
        log += more
    values: Array = np.exp(np.minimum(log, MOST_LOG, out=log), out=log)
    if path.negative.any():
        odd = np.round(exponents) % 2
        values *= 1.0 - 2.0 * ((odd @ path.negative.reshape(-1, exponents.shape[2]).T) % 2)
    return values


def evaluated(fit: Fit, path: Path, at: Constants, inside: Array | None = None) -> Stack:
    """Solve for the best coefficients of every law, as `solve` does; `inside` is reused where it is known."""
    check_time()
    first = at.v.shape[2]
    with np.errstate(all="ignore"):  # trial exponents may be anything
        if inside is None:
            inside = _products(path, at.v)
        u = np.maximum(1.0 + at.b @ inside, LEAST)
        values = _products(path, at.w[:, :, :first], at.w[:, :, first:] @ np.log(u) if u.shape[1] else None)
        columns = np.where(at.used[..., None], fit.problem.rows(values[:, None], fit.equations), 0.0)
        size = np.sqrt(np.einsum("lemt,lemt->lem", columns, columns))
        size[~(size > 0)] = 1.0
        columns /= size[..., None]
        laws, n, m, samples = columns.shape
        ridge = np.broadcast_to(RIDGE * np.eye(m), (laws, n, m, m))
        q, r = np.linalg.qr(np.concatenate([columns, ridge], axis=3).swapaxes(2, 3))
        q, target = q[:, :, :samples], fit.target
        scaled = np.linalg.solve(r, (target[:, None] @ q).swapaxes(2, 3))[..., 0]
        scaled = np.where(at.used, scaled, 0.0)
        residual = target - (scaled[:, :, None] @ columns)[:, :, 0]
        squares = np.sum(residual**2, axis=2) / fit.counts
        score = np.sum(fit.counts * np.log(squares + fit.floor), axis=1)
    return Stack(at.w, at.b, at.v, at.used, inside, u, values, q, scaled / size, residual, squares, score)


def jacobian(fit: Fit, path: Path, now: Stack, free: Sequence[Places]) -> Array:
    """Compute d residual / d (W, B, V) with A fixed, [laws, equations, places, samples]; 0 in padded places."""
    first, law = now.v.shape[2], np.arange(len(now.w))[:, None]
    of_w, of_b, of_v = free
    # A law of constant rates has no places at all.
    found = [np.zeros((*now.residual.shape[:2], 0, now.residual.shape[2]))]
    with np.errstate(all="ignore"):  # trial exponents may be anything
        if of_w.own.size:
            y = path.log_rows[np.minimum(of_w.of, first - 1)]
            summed = of_w.of >= first
            if summed.any():
                y[summed] = np.log(now.u[np.nonzero(summed)[0], of_w.of[summed] - first])
            nodes = (now.values[law, of_w.row] * y)[:, None]
            slope = now.coefficients[law, :, of_w.row].swapaxes(1, 2)
            found.append(fit.problem.rows(nodes, fit.equations) * slope[..., None])
        if of_b.own.size or of_v.own.size:
            # d rate_i / d ln u_l = sum_j A[i, j] W[j, l] monomial_j
            weights = now.coefficients[:, :, None] * now.w[:, None, :, first:].swapaxes(2, 3)
            slope = (weights @ now.values[:, None]) / now.u[:, None]
            nodes = slope[law, :, of_b.row].swapaxes(1, 2) * now.inside[law, of_b.of][:, None]
            if of_v.own.size:
                through = (now.b.swapaxes(1, 2)[:, None] @ slope) * now.inside[:, None]
                of_each = through[law, :, of_v.row].swapaxes(1, 2) * path.log_rows[of_v.of][:, None]
                nodes = np.concatenate([nodes, of_each], axis=2)
            found.append(fit.problem.rows(nodes, fit.equations))
    own = np.concatenate([p.own for p in free], axis=1)
    result: Array = np.where(own[:, None, :, None], -np.concatenate(found, axis=2), 0.0)
    return result


def normal_equations(fit: Fit, path: Path, now: Stack, free: Sequence[Places]) -> tuple[Array, Array]:
    """Compute normal matrices [laws, places, places] and gradients [laws, places] of the weighted residuals."""
    jac = jacobian(fit, path, now, free)
    with np.errstate(all="ignore"):
        jac -= (jac @ now.q) @ now.q.swapaxes(2, 3)
        weight = 1.0 / np.sqrt(now.squares + fit.floor)
        laws, _, size, _ = jac.shape
        flat = (jac * weight[..., None, None]).swapaxes(1, 2).reshape(laws, size, now.residual[0].size)
        left = (now.residual * weight[..., None]).reshape(laws, -1, 1)
        return flat @ flat.swapaxes(1, 2), (flat @ left)[..., 0]
