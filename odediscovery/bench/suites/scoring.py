"""Is a found sum of products of powers the true one, term by term?"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from odediscovery.bench.suites.family import ConstantErrors
from odediscovery.laws.power_sum import PowerSum
from odediscovery.runtime.arrays import Array

# A term of this share of the largest one is what rounding left of a term that cancels.
_CANCELLED = 1e-13

# The terms of one equation: coefficients [n] and exponents [n, states].
_Terms = tuple[Array, Array]


def distance(found: PowerSum, truth: PowerSum, size: Array | None = None) -> ConstantErrors | None:
    """How far the constants of two laws with the same terms are apart; None for other terms.

    Every true term is paired with one found term of the same equation, states and sign, so that
    the exponents are as near as they can be, and none is left over. A monomial that stands in
    several equations may have another exponent in each.

    Args:
        size: how large each state becomes [states], 1 if not given; it shows which terms are no more
            than what rounding has left.

    >>> truth = PowerSum(np.array([[-0.5]]), np.array([[1.0]]))
    >>> near = distance(PowerSum(np.array([[-0.4]]), np.array([[0.98]])), truth)
    >>> round(near.inner, 4), round(near.outer, 4)
    (0.02, 0.2)
    """
    if found.features is not None or truth.features is not None or found.n_states != truth.n_states:
        return None
    size = np.ones(truth.n_states) if size is None else np.where(size > 0, size, 1.0)
    rows = [_paired(a, b) for a, b in zip(_terms(found, size), _terms(truth, size), strict=True)]
    alike = [row for row in rows if row is not None]
    if len(alike) < len(rows):
        return None
    return ConstantErrors(max(row.inner for row in alike), max(row.outer for row in alike))


def same_terms(found: PowerSum, truth: PowerSum, tolerance: float = 0.05) -> bool:
    """Whether both have exactly the same terms.

    Args:
        tolerance: largest difference of exponents, absolute, relative above 1.

    >>> decay = PowerSum(np.array([[-0.5]]), np.array([[1.0]]))
    >>> same_terms(PowerSum(np.array([[-0.4]]), np.array([[0.98]])), decay)
    True
    """
    apart = distance(found, truth)
    return apart is not None and apart.inner_within(tolerance)


def worst_errors(found: PowerSum, truth: PowerSum) -> tuple[float, float]:
    """Largest error of an exponent, absolute, relative above 1, and largest relative error of a
    coefficient; infinite where the terms are not the same."""
    apart = distance(found, truth)
    return (np.inf, np.inf) if apart is None else (apart.inner, apart.outer)


def _terms(law: PowerSum, size: Array) -> list[_Terms]:
    law = law.merged()
    monomials = np.exp(np.clip(law.exponents @ np.log(size), -300.0, 300.0))
    rows = []
    for a in law.coefficients:
        terms = np.abs(a) * monomials
        there = (a != 0) & (terms > _CANCELLED * terms.max(initial=0.0))
        rows.append((a[there], law.exponents[there]))
    return rows


def _paired(found: _Terms, truth: _Terms) -> ConstantErrors | None:
    """Each true term paired with one found term of the same states and sign."""
    (a, w), (b, v) = found, truth
    if len(a) != len(b):
        return None
    if not len(b):
        return ConstantErrors(0.0, 0.0)
    apart = np.abs(w[:, None] - v) / np.maximum(np.abs(v), 1.0)
    # A factor x**0.01 is one state too many, not an exponent that is nearly right.
    alike = ((w[:, None] != 0) == (v != 0)).all(axis=2) & (np.sign(a)[:, None] == np.sign(b))
    cost = np.where(alike, apart.max(axis=2), 1e6)
    k, j = linear_sum_assignment(cost)
    if not alike[k, j].all():
        return None
    return ConstantErrors(float(cost[k, j].max()), float(np.abs(a[k] / b[j] - 1.0).max()))
