"""Warm start in noise: laws of products of whole powers, by regression on the integral form.

    x(t_{j+1}) - x(t_j) = sum_m A[., m] integral of prod_k x_k^W[m, k] dt over the interval

With the exponents given, the coefficients are linear. In noise the data often cannot tell
which power it was, and a law of whole powers is all that can be claimed; regression finds such
laws in a moment, and pruning on whole trajectories makes them good. Each equation loses its
weakest term, by t statistic, until an information criterion no longer falls; a strict and a
loose penalty give smaller and larger laws to prune from, none the whole of a small library.

Source: weak-form SINDy; Schaeffer and McCalla, Sparse model selection via integral terms (2017).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from scipy.interpolate import CubicSpline

from odediscovery.laws.cost import constant_penalty
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.problem import Problem
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask, column_norms
from odediscovery.runtime.monitor import check_time
from odediscovery.runtime.thresholds import Thresholds, threshold


@dataclass(frozen=True)
class PolynomialThresholds(Thresholds):
    """Which libraries of whole powers are regressed, and what a term has to gain."""

    degrees: tuple[int, ...] = threshold(
        (1, 2, 3), "highest degrees, each a library of its own", origin="what few products explain is lost among many"
    )
    library: int = threshold(150, "most coefficients over all equations", origin="cost")
    whole_library: int = threshold(
        60, "most coefficients of a law with a whole library in every equation", origin="cost"
    )
    selected_library: int = threshold(
        200, "the same of a law whose equations lose the terms that they do not need first", origin="cost"
    )
    gap_power: float = threshold(3.0, "power of a gap by which it weighs less where samples are interpolated")
    penalties: tuple[float, ...] = threshold(
        (1.5, 0.3, 0.0), "what a term has to gain, a law each", unit="penalty of a constant"
    )
    unpruned: int = threshold(30, "most coefficients of a library that is pruned as a whole", origin="cost")


POLYNOMIALS = PolynomialThresholds()


def polynomials(p: Problem) -> list[PowerSum]:
    """A law for each library and penalty, dimensionless; equal ones once."""
    n = p.data.n_states
    laws: dict[bytes, PowerSum] = {}
    if not _has_paths(p):
        return []
    for degree in POLYNOMIALS.degrees:
        if degree > 1 and n * math.comb(n + degree, degree) > POLYNOMIALS.library:
            continue
        exponents = products(n, degree)
        columns, increments = _integral_form(p, exponents)
        increments = increments - _of_known(p)
        allowed = allowed_products(p, exponents)
        for factor in POLYNOMIALS.penalties:
            if factor == 0.0 and n * len(exponents) > POLYNOMIALS.unpruned:
                continue
            worth = factor * constant_penalty(n, increments.size)
            a = np.zeros((n, len(exponents)))
            for i, y in enumerate(increments.T):
                a[i, allowed[i]] = _selected(columns[:, allowed[i]], y, worth)
            law = PowerSum(a, exponents).merged()
            laws.setdefault(law.exponents.tobytes() + (law.coefficients != 0).tobytes(), law)
    return [law for law in laws.values() if law.n_monomials]


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
        solution = np.stack([_selected(columns, y, worth) for y in increments.T])
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


def _selected(columns: Array, y: Array, worth: float) -> Array:
    """Coefficients of one equation after backward elimination, [monomials]."""
    scale = column_norms(columns)
    scaled = columns / np.where(scale > 0, scale, 1.0)
    kept = np.flatnonzero(scale > 0)
    best, best_score = np.zeros(columns.shape[1]), np.inf
    while len(kept):
        check_time()
        x = scaled[:, kept]
        inverse = np.linalg.pinv(x.T @ x + 1e-10 * np.eye(len(kept)), hermitian=True)
        solution = inverse @ (x.T @ y)
        misfit = float(np.sum((y - x @ solution) ** 2)) + 1e-16 * float(y @ y)
        score = len(y) * np.log(max(misfit, ABOVE_ZERO) / len(y)) + worth * len(kept)
        if score < best_score:
            best, best_score = np.zeros(columns.shape[1]), score
            best[kept] = solution / scale[kept]
        statistic = solution**2 / np.maximum(np.diag(inverse), ABOVE_ZERO)
        kept = np.delete(kept, int(np.argmin(statistic)))
    return best
