"""Warm start in noise: laws of products of whole powers, by regression on the integral form.

    x(t_{j+1}) - x(t_j) = sum_m A[., m] integral of prod_k x_k^W[m, k] dt over the interval

With the exponents given, the coefficients are linear. In noise the data often cannot tell
which power it was, and a law of whole powers is all that can be claimed; regression finds such
laws in a moment, and pruning on whole trajectories makes them good. Each equation loses its
weakest term, by t statistic, until an information criterion no longer falls; a strict and a
loose penalty give smaller and larger laws to prune from, none the whole of a small library.

Source: weak-form SINDy; Schaeffer and McCalla, Sparse model selection via integral terms (2017).

Where states depend on each other, laws differ in their terms and agree in their rates: the shortest one is meant.

While S + I + R stays N, an epidemic recovers by g I or by g (S I + I^2 + I R) / N alike. Removing terms one by one
finds the one or the other, as chance has it; which terms alone give the rates of a law is a regression.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from odediscovery.data.samples import pooled
from odediscovery.laws.power_sum import PowerSum, constant_penalty
from odediscovery.problem.problem import Problem
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask, column_norms
from odediscovery.runtime.monitor import check_time
from odediscovery.stages.grow.grow import best_subsets


@dataclass(frozen=True)
class PolynomialThresholds:
    """Which libraries of whole powers are regressed, and what a term has to gain."""

    degrees: tuple[int, ...] = (1, 2, 3, 4, 5)  # highest degrees, each a library of its own
    alone: int = 3  # highest degree of which every equation may be made; of higher ones are those that gain by it
    spare: float = 2.0  # fewest intervals for each product of these
    library: int = 200  # most coefficients over all equations
    whole_library: int = 60  # most coefficients of a law with a whole library in every equation
    selected_library: int = 200  # the same of a law whose equations lose the terms that they do not need first
    gap_power: float = 3.0  # power of a gap by which it weighs less where samples are interpolated
    penalties: tuple[float, ...] = (1.5, 0.3, 0.0)  # what a term has to gain, a law each [penalty of a constant]
    unpruned: int = 30  # most coefficients of a library that is pruned as a whole
    ridge: float = 1e-10  # ridge of normal equations [squares of a column]
    shared_degrees: tuple[int, ...] = (2, 3)  # highest degrees of products that equations share
    most_shared: int = 5  # most products that equations share
    sets: int = 20_000  # most sets of products that are compared
    # Sets that leave so much more than the best are not proposed [logarithm of the squares, mean of all equations]
    behind: float = 1.5
    kept_sets: int = 2  # sets of each size that are proposed


POLYNOMIALS = PolynomialThresholds()


def polynomials(p: Problem) -> list[PowerSum]:
    """A law for each library and penalty, and one whose equations are each of the best degree; equal ones once."""
    n = p.data.n_states
    laws: dict[bytes, PowerSum] = {}
    # Of each penalty and equation: the least score so far, and the equation as a law of its own.
    best: dict[float, list[tuple[float, PowerSum]]] = {}
    if not _has_paths(p):
        return []
    for degree in POLYNOMIALS.degrees:
        if degree > 1 and n * math.comb(n + degree, degree) > POLYNOMIALS.library:
            continue
        exponents = products(n, degree)
        columns, increments = _integral_form(p, exponents)
        samples = len(increments)
        if degree > POLYNOMIALS.alone and samples < POLYNOMIALS.spare * len(exponents):
            break
        increments = increments - _of_known(p)
        allowed = allowed_products(p, exponents)
        ways = [_Selection.of(columns[:, own], y) for own, y in zip(allowed, increments.T, strict=True)]
        for factor in POLYNOMIALS.penalties:
            if factor == 0.0 and n * len(exponents) > POLYNOMIALS.unpruned:
                continue
            worth = factor * constant_penalty(n, increments.size)
            a, equations = np.zeros((n, len(exponents))), list[tuple[float, PowerSum]]()
            for i, way in enumerate(ways):
                a[i, allowed[i]], score = way.best(worth, samples)
                equations.append((score, PowerSum(np.where(np.arange(n)[:, None] == i, a, 0.0), exponents)))
            earlier = best.get(factor, equations)
            best[factor] = [min(pair, key=lambda one: one[0]) for pair in zip(earlier, equations, strict=True)]
            if degree <= POLYNOMIALS.alone:
                law = PowerSum(a, exponents).merged()
                laws.setdefault(_structure(law), law)
    for equations in (of_each for factor, of_each in best.items() if factor > 0.0):
        a = np.hstack([one.coefficients for _, one in equations])
        law = PowerSum(a, np.vstack([one.exponents for _, one in equations])).merged()
        laws.setdefault(_structure(law), law)
    return [law for law in laws.values() if law.n_monomials]


def shared_products(p: Problem, known: PowerSum | None = None) -> list[PowerSum]:
    """Laws whose equations consist of the same few products, for what leaves one state enters another.

        minimise  sum_i ln min_a |x_i(t_{j+1}) - x_i(t_j) - sum_{m in S} a_m integral of product m dt|^2

    over all sets S of one size, the best few of each size unless they leave far more than others. In noise each
    equation alone is explained by many products about as well; all together by few sets.

    Args:
        known: a law that was found otherwise. Where its products are the best set of their number, this confirms
            it, and there is nothing to propose.
    """
    moving, found = ~p.constant, list[tuple[float, PowerSum]]()
    if p.knowledge is not None or moving.sum() < 2 or not _has_paths(p):
        return []
    for degree in POLYNOMIALS.shared_degrees:
        if len(moving) * math.comb(len(moving) + degree, degree) > POLYNOMIALS.library:
            break
        exponents = products(len(moving), degree)
        columns, increments = _integral_form(p, exponents)
        size = column_norms(columns)
        # A product that is 0 throughout, such as those of an absent species, has no size.
        kept = np.flatnonzero((size > 0.0) & np.isfinite(size))
        for most in range(1, POLYNOMIALS.most_shared + 1):
            if most > len(kept) or math.comb(len(kept), most) > POLYNOMIALS.sets:
                break
            for misfit, few, a in _best_sets(columns[:, kept] / size[kept], increments[:, moving], most):
                law = PowerSum(np.zeros((len(moving), most)), exponents[kept[few]])
                law.coefficients[moving] = a / size[kept[few]]
                found.append((misfit, law))
    if known is not None and known.features is None:
        used = _products_of(known)
        as_many = [pair for pair in found if len(_products_of(pair[1])) == len(used)]
        if as_many and _products_of(min(as_many, key=lambda pair: pair[0])[1]) == used:
            return []
    least = min((misfit for misfit, _ in found), default=0.0)
    near = [law for misfit, law in found if misfit < least + POLYNOMIALS.behind]
    return list({_structure(law): law for law in near}.values())


def _best_sets(columns: Array, y: Array, most: int) -> list[tuple[float, NDArray[np.int64], Array]]:
    """The sets of columns that explain all of y [rows, states] best: misfit, set, coefficients [states, columns]."""
    sets = np.array(list(itertools.combinations(range(columns.shape[1]), most)))
    gram, b = columns.T @ columns + POLYNOMIALS.ridge * np.eye(columns.shape[1]), columns.T @ y
    a = np.linalg.solve(gram[sets[:, :, None], sets[:, None, :]], b[sets])
    left = np.maximum((y**2).sum(axis=0) - (a * b[sets]).sum(axis=1), ABOVE_ZERO)
    misfits = np.log(left).mean(axis=1)
    best = np.argsort(misfits, kind="stable")[: POLYNOMIALS.kept_sets]
    return [(float(misfits[k]), sets[k], a[k].T) for k in best]


def _products_of(law: PowerSum) -> set[tuple[float, ...]]:
    """Exponents of the products that any equation has."""
    return set(map(tuple, law.exponents[(law.coefficients != 0).any(axis=0)].tolist()))


def _structure(law: PowerSum) -> bytes:
    found: bytes = law.exponents.tobytes() + (law.coefficients != 0).tobytes()
    return found


def products(n: int, degree: int) -> Array:
    """Exponents of all products of n states up to a degree, [products, states]."""
    factors = itertools.combinations_with_replacement(range(n + 1), degree)
    rows = sorted(np.bincount(group, minlength=n + 1)[1:].tolist() for group in factors)
    return np.array(rows, dtype=float)


def allowed_products(p: Problem, exponents: Array) -> Mask:
    """Which products each equation may have, [states, products]."""
    found: Mask = np.repeat(~p.constant[:, None], len(exponents), axis=1)
    known = p.knowledge
    if known is not None:
        forbidden = known.forbidden.astype(float) @ (exponents != 0).T > 0
        found &= ~forbidden & ~(known.fully_known | known.tied)[:, None]
    return found


def _of_known(p: Problem) -> Array:
    """Integrals of the known parts of the right-hand sides, [intervals, states] (0 if none)."""
    n = p.data.n_states
    if p.knowledge is None:
        return np.zeros(n)
    nothing = PowerSum(np.zeros((n, 0)), np.zeros((0, n)))
    law = p.knowledge.impose(nothing)
    if not law.n_monomials:
        return np.zeros(n)
    columns, _ = _integral_form(p, law.exponents)
    integrals: Array = columns @ law.coefficients.T
    return integrals


def library_law(p: Problem, degree: int) -> PowerSum | None:
    """All products up to a degree in every equation, by least squares; None if there are far too many.

    Of a large library each equation keeps only what it needs: the rest would cost more than it tells.
    """
    n = p.data.n_states
    size = n * math.comb(n + degree, degree)
    if size > POLYNOMIALS.selected_library or not _has_paths(p):
        return None
    exponents = products(n, degree)
    columns, increments = _integral_form(p, exponents)
    # Over a long gap interpolation tells little.
    gaps = np.concatenate([np.diff(t.time) for t in p.smooth.trajectories if len(t.time) >= 3])
    weights = (gaps.min() / gaps)[:, None] ** POLYNOMIALS.gap_power
    columns, increments = columns * weights, increments * weights
    if size > POLYNOMIALS.whole_library:
        worth = constant_penalty(n, increments.size)
        solution = np.stack([_Selection.of(columns, y).best(worth, len(y))[0] for y in increments.T])
    else:
        # A product that is 0 throughout, such as those of an absent species, has no size.
        scale = column_norms(columns)
        scale = np.where(scale > 0.0, scale, 1.0)
        solution = np.linalg.lstsq(columns / scale, increments, rcond=1e-10)[0].T / scale
    law = PowerSum(np.where(p.constant[:, None], 0.0, solution), exponents)
    return law if size <= POLYNOMIALS.whole_library else law.merged()


def _has_paths(p: Problem) -> bool:
    """Whether any trajectory is long enough for a path between its samples."""
    return any(len(t.time) >= 3 for t in p.smooth.trajectories)


def _integral_form(p: Problem, exponents: Array) -> tuple[Array, Array]:
    """Integrals of the products [intervals, monomials] and increments [intervals, states]."""
    nodes, weights = np.polynomial.legendre.leggauss(3)
    law = PowerSum(np.zeros((p.data.n_states, len(exponents))), exponents)
    columns, increments = [], []
    for t in p.smooth.trajectories:
        if len(t.time) < 3:
            continue
        path = CubicSpline(t.time, t.values)
        half = np.diff(t.time)[:, None] / 2
        at = t.time[:-1, None] + half * (1.0 + nodes)
        x = path(at)
        if t.controls is not None:
            x[..., p.data.is_control] = t.controls.at(at)
        columns.append((law.monomials(x) * (half * weights)[..., None]).sum(axis=1))
        increments.append(np.diff(t.values, axis=0))
    return np.concatenate(columns), np.concatenate(increments)


@dataclass(frozen=True, eq=False)
class _Selection:
    """Coefficients on the way of backward elimination by t statistic, from all columns to none.

    Args:
        size: monomials there are.
        coefficients: of each step [monomials].
        misfits: squares that they leave.
    """

    size: int
    coefficients: list[Array]
    misfits: list[float]

    @classmethod
    def of(cls, columns: Array, y: Array) -> _Selection:
        """The way of y [rows] on columns [rows, monomials]."""
        scale = column_norms(columns)
        kept = np.flatnonzero((scale > 0) & np.isfinite(scale))
        # As many rows as unknowns say the same.
        both: Array = np.linalg.qr(np.column_stack([columns[:, kept] / scale[kept], y]))[1]
        scaled, y, of_kept = both[:, :-1], both[:, -1], np.arange(len(kept))
        found = cls(columns.shape[1], [], [])
        while len(of_kept):
            check_time()
            x = scaled[:, of_kept]
            inverse = np.linalg.pinv(x.T @ x + POLYNOMIALS.ridge * np.eye(len(of_kept)), hermitian=True)
            solution = inverse @ (x.T @ y)
            found.coefficients.append(np.zeros(columns.shape[1]))
            found.coefficients[-1][kept[of_kept]] = solution / scale[kept[of_kept]]
            found.misfits.append(float(np.sum((y - x @ solution) ** 2)) + 1e-16 * float(y @ y))
            statistic = solution**2 / np.maximum(inverse.diagonal(), ABOVE_ZERO)
            of_kept = np.delete(of_kept, int(np.argmin(statistic)))
        return found

    def best(self, worth: float, samples: int) -> tuple[Array, float]:
        """The step that an information criterion prefers, and its score.

        Args:
            worth: what a term has to gain.
            samples: values that the rows stand for.
        """
        chosen, least = np.zeros(self.size), math.inf
        for a, misfit in zip(self.coefficients, self.misfits, strict=True):
            score = samples * math.log(max(misfit, ABOVE_ZERO) / samples) + worth * np.count_nonzero(a)
            if score < least:
                chosen, least = a, float(score)
        return chosen, least


@dataclass(frozen=True)
class FewestThresholds:
    """When fewer terms are the same law."""

    same: float = 1e-5  # what fewer terms may miss of the rates of a law [their rms]
    library: int = 500  # products above which none are looked through
    samples: int = 500  # samples in which rates are compared


FEWEST = FewestThresholds()


def fewest_terms(law: PowerSum, p: Problem) -> PowerSum | None:
    """The law with the fewest products of whole powers that has the same rates in all samples.

        minimise |S_i| so that sum_{m in S_i} a_im x^w_m = f_i(x) in all samples x, for each equation i

    Args:
        law: sum of products of whole powers, dimensionless.

    Returns:
        None where no equation is shorter than it is.
    """
    used = law.coefficients != 0
    degree = int(law.exponents[used.any(axis=0)].sum(axis=1).max(initial=0.0))
    # What a user knows is no choice of terms.
    if law.features is not None or law.constants[3].size or p.knowledge is not None or not degree:
        return None
    exponents = products(law.n_states, degree)
    if len(exponents) > FEWEST.library:
        return None
    values = pooled(p.data)
    x = values[np.unique(np.linspace(0, len(values) - 1, FEWEST.samples).astype(int))]
    columns = np.prod(x[:, None, :] ** exponents, axis=2)
    allowed, rates = allowed_products(p, exponents), law.rhs(x)
    shorter = np.zeros((law.n_states, len(exponents)))
    kept = law.coefficients.copy()
    for i in np.flatnonzero(used.sum(axis=1) > 1):
        found = _alone(columns[:, allowed[i]], rates[:, i], int(used[i].sum()) - 1)
        if found is not None:
            shorter[i, allowed[i]], kept[i] = found, 0.0
    if not shorter.any():
        return None
    return PowerSum(np.hstack([kept, shorter]), np.vstack([law.exponents, exponents])).merged()


def _alone(columns: Array, rates: Array, most: int) -> Array | None:
    """Coefficients of the fewest columns, `most` or fewer, that are the rates; None where so few are not."""
    size = np.linalg.norm(columns, axis=0)
    size = np.where(size > 0.0, size, 1.0)
    for level in best_subsets(columns / size, rates, np.arange(len(size)), most, 1, pairs=True):
        subset = list(level[0])
        values = np.linalg.lstsq(columns[:, subset] / size[subset], rates, rcond=None)[0] / size[subset]
        missed = np.linalg.norm(columns[:, subset] @ values - rates)
        if missed <= FEWEST.same * np.linalg.norm(rates):
            coefficients = np.zeros(len(size))
            coefficients[subset] = values
            return coefficients
    return None
