r"""Choice of terms: each equation separately, on the integral form, with separate coefficients for each group.

    x_i(t) - x_i(t_0) - D_i(t) = \sum_j a_{gj} \int_{t_0}^{t} m_j(x) dt'

with D the sum of doses before t. The coefficients a of every group g and its start value are eliminated group by
group, so that the choice of terms uses the data of all groups although they share no constants.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator, make_smoothing_spline

from odediscovery.population.groups import ANY, EXACT, KNOWN, SCALED, Measured, Structure, structure_of
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, products_by_column
from odediscovery.runtime.monitor import check_time

# Points of the quadrature between two samples, limited by its cost.
POINTS = 8
# Bound of the curves between samples [largest sample].
FARTHEST = 3.0


class Candidate(NamedTuple):
    """Terms of one equation."""

    terms: tuple[tuple[int, tuple[float, ...]], ...]  # (sign, exponents [states]) of each
    coefficients: Array  # absolute values [terms, groups]
    score: float  # in units of -2 log likelihood, lower is better


def library(n: int, whole: bool) -> list[tuple[float, ...]]:
    """Candidate terms, products of powers of n states; states of both signs need whole exponents.

    >>> library(1, True)
    [(0.0,), (1.0,), (2.0,), (3.0,)]
    """
    powers: list[dict[int, float]] = [{}]
    powers += [{k: p} for k in range(n) for p in (0.5, 1.0, 1.5, 2.0, 3.0) if n == 1 or p <= 2]
    pairs = ((1.0, 1.0), (0.5, 0.5), (1.0, 0.5), (0.5, 1.0), (1.0, 2.0), (2.0, 1.0))
    powers += [{k: p, q: r} for k, q in itertools.combinations(range(n), 2) for p, r in pairs]
    rows = (tuple(row.get(i, 0.0) for i in range(n)) for row in powers)
    return [row for row in rows if not whole or all(p == int(p) for p in row)]


def between_samples(measured: Measured) -> Measured:
    """The groups at the points of the quadrature, `POINTS` for each interval between samples, without values."""
    share = np.arange(POINTS)[:, None] / POINTS
    parts = [a + share * (b - a) for a, b in itertools.pairwise(measured.times)]
    times = np.vstack([*parts, measured.times[-1:]])
    doses = np.zeros((len(times), *measured.values.shape[1:]))
    doses[::POINTS] = measured.doses
    return replace(measured, times=times, values=np.full(doses.shape, np.nan), doses=doses)


def screen(measured: Measured, whole: bool, curves: Array | None = None) -> list[list[Candidate]]:
    """The best sets of terms of every equation, the best first.

    Curves [points, states, groups] are solutions of a fitted law `between_samples`, before a dose; by default they are
    splines through the samples.
    """
    rows = library(measured.n_states, whole)
    integrals = _integrals(measured, rows, curves)
    return [_equation(measured, i, rows, integrals) for i in range(measured.n_states)]


def _integrals(measured: Measured, rows: Sequence[tuple[float, ...]], curves: Array | None = None) -> Array:
    """Integrals of products of powers from the start to the samples of every group [products, samples, groups]."""
    fine = between_samples(measured)
    factors = np.array([[start.factor] for start in measured.starts])
    if curves is None:
        given = measured.given() * factors
        smoothed = (_smoothed(measured, g, fine.times[:, g], given[:, :, g]) for g in range(measured.n_groups))
        curves = np.stack([*smoothed], axis=2)
    w = np.array(rows)
    least = np.where(w % 1 == 0, -np.inf, 0.0)
    before, after = (
        products_by_column(np.moveaxis(x, 1, 2), w, least) for x in (curves, curves + fine.doses * factors)
    )
    steps = 0.5 * (before[1:] + after[:-1]) * np.diff(fine.times, axis=0)[:, :, None]
    sums = np.pad(np.cumsum(steps, axis=0), ((1, 0), (0, 0), (0, 0)))[::POINTS]
    return np.ascontiguousarray(np.moveaxis(sums, 2, 0))


def _smoothed(measured: Measured, g: int, fine: Array, given: Array) -> Array:
    """Smooth curves through the samples of one group, before a dose [points, states].

    The doses given before each sample [samples, states] are subtracted first, so that the smoothed data have no jumps.
    """
    times, curves = measured.times[:, g], []
    count = 1 + int(np.sum(np.diff(times) > 0))
    # At the start of an interval, its dose has not been given yet.
    index = np.minimum(np.ceil(np.arange(len(fine)) / POINTS).astype(int), len(times) - 1)
    for i, start in enumerate(measured.starts):
        values, before = measured.values[:count, i, g], given[index, i]
        seen = np.isfinite(values)
        t, y, left = times[:count][seen], values[seen], (values - given[:count, i])[seen]
        if len(t) < 2:
            curves.append((left[0] if len(left) else 0.0) + before)
            continue
        few = len(t) < 6
        spline = PchipInterpolator(t, left, extrapolate=True) if few else make_smoothing_spline(t, left)
        x = spline(np.clip(fine, t[0], t[-1]) if few else fine) + before
        if start.kind != ANY:
            x = np.maximum(x, 0.5 * y.min() if y.min() > 0 else 0.0)
        curves.append(np.clip(x, -FARTHEST * measured.scale[i], FARTHEST * measured.scale[i]))
    return np.stack(curves, axis=1)


class _Normal(NamedTuple):
    """Normal equations of one equation on the integral form: the start value, then every monomial."""

    gram: Array  # of every group, scaled by `norm`
    moment: Array
    norm: Array  # scale of the columns [groups, 1 + monomials]
    square: Array  # sum of squares to be explained [groups]
    samples: int  # of all groups

    def solved(self, at: NDArray[np.intp]) -> tuple[Array, Array]:
        """Coefficients of the start and some monomials [groups, terms], and sums of squared residuals [groups]."""
        g = self.gram[:, at][:, :, at] + 1e-9 * np.eye(len(at))
        c = np.linalg.solve(g, self.moment[:, at][:, :, None])[:, :, 0]
        return c / self.norm[:, at], self.square - np.einsum("gp,gp->g", c, self.moment[:, at])


def _normal(measured: Measured, i: int, integrals: Array) -> _Normal:
    """Normal equations of state i from the integrals of all monomials [monomials, samples, groups]."""
    start, given, y = measured.starts[i], measured.given()[:, i], measured.values[:, i]
    fixed = start.kind in (KNOWN, EXACT)
    if start.kind == SCALED:  # amounts in a fitted unit
        first = start.value + given
    else:
        y = y - given - (start.value if fixed else 0.0)
        first = np.full(y.shape, 0.0 if fixed else 1.0)
    seen = np.isfinite(y)
    y = np.where(seen, y, 0.0)
    design = np.where(seen, np.concatenate([first[None], integrals]), 0.0).transpose(2, 1, 0)
    gram, moment = design.swapaxes(1, 2) @ design, np.einsum("gtp,tg->gp", design, y)
    norm = np.sqrt(np.maximum(np.einsum("gpp->gp", gram), ABOVE_ZERO))
    square = np.einsum("tg,tg->g", y, y)
    return _Normal(gram / norm[:, :, None] / norm[:, None, :], moment / norm, norm, square, int(seen.sum()))


def _equation(measured: Measured, i: int, rows: Sequence[tuple[float, ...]], integrals: Array) -> list[Candidate]:
    """The best sets of terms of one equation."""
    normal, found, ranked = _normal(measured, i, integrals), list[Candidate](), list[tuple[int, ...]]()
    for k in (1, 2, 3):
        every = math.comb(len(rows), k) <= 30_000 or not ranked
        # If there are too many sets of k terms, the best smaller ones with one additional term.
        longer = (tuple(sorted((*s, j))) for s in ranked[:30] for j in range(len(rows)) if j not in s)
        sets = dict.fromkeys(itertools.combinations(range(len(rows)), k) if every else longer)
        sized = [(one, s) for s in sets if (one := _fitted(s, normal, rows))]
        sized.sort(key=lambda pair: pair[0].score)
        ranked = [s for _, s in sized]
        found += [one for one, _ in sized[: 5 if measured.n_states > 1 else 12]]
    return sorted(found, key=lambda one: one.score)


def _fitted(chosen: Sequence[int], normal: _Normal, rows: Sequence[tuple[float, ...]]) -> Candidate | None:
    """One set of terms fitted to all groups; None if a term changes its sign between groups."""
    check_time()
    coefficients, left = normal.solved(np.array([0, *(j + 1 for j in chosen)]))
    a, square, count = coefficients[:, 1:].T, normal.square, normal.samples
    # A group without values of the state has no information on its terms.
    share = np.sum(a > 0, axis=1) / np.maximum(np.sum(a != 0, axis=1), 1)
    if np.any((share < 0.8) & (share > 1 - 0.8)):
        return None
    signs = np.where(share > 0.5, 1, -1)
    squares = max(float(np.sum(np.maximum(left, 0.0))), 1e-12 * float(square.sum()))
    free = count - (len(chosen) + 1) * len(square)  # every group has a start, too
    score = count * np.log(squares / max(free, 1)) + 2.0 * len(chosen) * np.log(max(count, 2))
    terms = tuple((int(s), rows[j]) for s, j in zip(signs, chosen, strict=True))
    return Candidate(terms, _sizes(a, signs), float(score))


def _sizes(a: Array, signs: NDArray[np.intp]) -> Array:
    """Positive sizes of the coefficients [terms, groups]: the median over groups where one has another sign."""
    told = np.abs(a) if a.all() else np.ma.masked_equal(np.abs(a), 0.0)
    middle = np.ma.filled((np.median if a.all() else np.ma.median)(told, axis=1, keepdims=True), 0.0)
    usual = np.clip(np.abs(a), middle / 5.0, middle * 5.0)
    own = np.where(np.sign(a) == signs[:, None], usual, middle)
    return np.maximum(own, 1e-12)  # whose logarithm is fitted


def first_constants(measured: Measured, structure: Structure) -> Array:
    """Initial guesses of the logarithms of the constants of given terms, from the integral form [constants, groups]."""
    integrals = _integrals(measured, [tuple(row) for row in structure.exponents.tolist()])
    logs, count = np.zeros((structure.n_constants, measured.n_groups)), np.zeros((structure.n_constants, 1))
    for i in range(structure.n_states):
        own = [e for e in structure.entries if e.state == i]
        a = _normal(measured, i, integrals).solved(np.array([0, *(e.monomial + 1 for e in own)]))[0][:, 1:].T
        for e, size in zip(own, _sizes(a, np.array([e.sign for e in own])), strict=True):
            logs[e.constant] += np.log(size)
            count[e.constant] += 1.0
    # A constant of several terms is their mean.
    return np.asarray(logs / count)


def combined(measured: Measured, lists: Sequence[Sequence[Candidate]]) -> list[tuple[Structure, Array]]:
    """Systems from the best sets of terms of their equations, with initial guesses of the unknowns."""
    first, values = measured.first_starts(), float(measured.counts().sum())
    chosen = dict[tuple[int, ...], None]()
    # Penalty of a term per observed value [-2 log likelihood]: the error of the smooth curves is unknown, so laws of
    # every length are kept.
    for price in (0.0, 0.05, 0.2, 1.0, 5.0):
        # The best sums of one row per list: the best of more lists contain the best of fewer.
        best: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
        for rows in lists:
            costs = [one.score + price * values * len(one.terms) for one in rows]
            more = ((total + cost, (*at, k)) for total, at in best for k, cost in enumerate(costs))
            best = sorted(more)[:16]
        chosen.update(dict.fromkeys(at for _, at in best))
    systems = ([rows[k] for rows, k in zip(lists, at, strict=True)] for at in chosen)
    return [
        (structure_of([one.terms for one in own]), np.vstack([*(np.log(one.coefficients) for one in own), first]))
        for own in systems
    ]
