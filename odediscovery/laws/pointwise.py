"""Right-hand sides for solvers that go step by step: what depends on constants alone is computed once.

    dx_i/dt = sum_j A[i, j] * prod_k y_k ** W[j, k]

Such a solver evaluates the right-hand sides of a few states some thousand times in a row. On the numbers of a single
point a call of numpy takes far longer than the arithmetic, so the entries of A and W that are not
0 are listed once and evaluated as plain numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np

from odediscovery.families import STATE_FUNCTIONS
from odediscovery.laws.power_sum import EQUAL, Features, PowerSum, expanded, least_bases
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, SparsePowers, products_by_column
from odediscovery.runtime.thresholds import Thresholds, threshold


@dataclass(frozen=True)
class PointThresholds(Thresholds):
    """When plain numbers are evaluated."""

    max_constants: int = threshold(200, "with more constants numpy is faster", origin="cost: measured time of a call")


POINTWISE = PointThresholds()

# (t, states) -> their rates.
Rates: TypeAlias = Callable[[float, Array], Sequence[float] | Array]
# Products as a function of bases and powers.
_Products: TypeAlias = list[Callable[[Sequence[float]], Any]]


def point_field(law: PowerSum, states: int | None = None) -> Rates:
    """The function (t, x) -> dx/dt of states [states] for solvers that call it often.

    It is that of `PowerSum.rhs`, also where a number becomes too large.

    Args:
        law: whose rates they are.
        states: how many of its variables have rates that are asked for, the first ones (default: all).

    >>> law = PowerSum(np.array([[1.0, -0.5]]), np.array([[1.0], [2.0]]))
    >>> list(point_field(law)(0.0, np.array([2.0])))
    [0.0]
    """
    size = np.count_nonzero(law.coefficients) + np.count_nonzero(law.exponents)
    if size > POINTWISE.max_constants or law.mirrored:
        return lambda t, x: law.rhs(x)[:states]
    bases, powered = _bases(law.features), _powered(law.exponents)
    rows, beyond = [_combination(row) for row in _rows(expanded(law).coefficients)[:states]], vector_field(law)

    def dx_dt(t: float, x: Array) -> Sequence[float] | Array:
        try:
            products = powered(bases(x.tolist()))
            return [row(products) for row in rows]
        except (ArithmeticError, ValueError):
            with np.errstate(all="ignore"):
                return beyond(t, x)[:states]

    return dx_dt


def vector_field(law: PowerSum) -> Callable[[float, Array], Array]:
    """The function (t, x) -> dx/dt of any number of points x [..., states]; warnings are the caller's concern."""
    wide = law.exponents.shape[1] > EQUAL.wide
    if law.mirrored or (wide and law.features is not None):
        return lambda t, x: law.rhs(x)
    a, products = expanded(law).coefficients.T, _products_of(law.exponents)
    if law.features is None:
        return lambda t, x: products(x) @ a
    features, sums = law.features, law.features.sums
    inner, b = _products_of(sums.exponents), sums.weights.T

    def dx_dt(t: float, x: Array) -> Array:
        z = features.base(x)
        rates: Array = products(np.concatenate([z, 1.0 + inner(z) @ b], axis=-1) if len(sums) else z) @ a
        return rates

    return dx_dt


def _products_of(w: Array) -> Callable[[Array], Array]:
    """Products of powers W [products, bases] of bases [..., bases]."""
    least = least_bases(w)
    if w.shape[1] > EQUAL.wide:
        return SparsePowers.of(w, least).products
    times, maximum = np.multiply.reduce, np.maximum

    def products(y: Array) -> Array:
        if y[..., 0].size >= EQUAL.many:
            return products_by_column(y, w, least)
        found: Array = times(maximum(y[..., None, :], least) ** w, axis=-1)
        return found

    return products


def _rows(a: Array) -> list[list[tuple[float, int]]]:
    """What is not 0 in each row of A: (coefficient, monomial)."""
    return [[(float(row[j]), int(j)) for j in np.flatnonzero(row)] for row in a]


def _combination(row: Sequence[tuple[float, int]]) -> Callable[[Sequence[float]], float]:
    """Products -> their sum with these coefficients; of the usual few without a loop."""
    if not row:
        return lambda p: 0.0
    if len(row) == 1:
        ((c, j),) = row
        return lambda p: c * p[j]
    if len(row) == 2:
        (c, j), (d, k) = row
        return lambda p: c * p[j] + d * p[k]
    if len(row) == 3:
        (c, j), (d, k), (e, i) = row
        return lambda p: c * p[j] + d * p[k] + e * p[i]
    return lambda p: sum([c * p[j] for c, j in row], 0.0)


def _powered(exponents: Array) -> Callable[[list[float]], list[float]]:
    """Bases -> products of their powers; bases are added to."""
    count = exponents.shape[1]
    factors = [[(int(k), float(row[k])) for k in np.flatnonzero(row)] for row in exponents]
    # Without the first ones; whole powers stand before real ones, which have a least base.
    powers = sorted({f for row in factors for f in row if f[1] != 1.0}, key=lambda f: (f[1] != round(f[1]), f))
    place = {f: count + number for number, f in enumerate(powers)}
    products: _Products = [_product([place.get(f, f[0]) for f in row]) for row in factors]
    whole, real = ([f for f in powers if (f[1] == round(f[1])) is is_whole] for is_whole in (True, False))

    def of(y: list[float]) -> list[float]:
        for k, w in whole:
            y.append(y[k] ** w)
        for k, w in real:
            base = y[k]
            y.append((ABOVE_ZERO if base < ABOVE_ZERO else base) ** w)
        return [product(y) for product in products]

    return of


def _product(places: list[int]) -> Callable[[Sequence[float]], Any]:
    if not places:
        return lambda y: 1.0
    if len(places) == 2:  # most of them; two indices are faster than a general product
        first, second = places
        return lambda y: y[first] * y[second]
    factors = itemgetter(*places)
    return factors if len(places) == 1 else lambda y: math.prod(factors(y))


def _bases(features: Features | None) -> Callable[[list[float]], list[float]]:
    """States -> what the power layer sees."""
    if features is None:
        return lambda x: x
    functions = [(STATE_FUNCTIONS[f.name].plain, f.rate, f.state) for f in features.functions]
    weights, powered = _rows(features.sums.weights), _powered(features.sums.exponents)

    def of(x: list[float]) -> list[float]:
        z = x + [f(rate * x[k]) for f, rate, k in functions]
        if not weights:
            return z
        products = powered(list(z))
        return z + [1.0 + sum([c * products[j] for c, j in row]) for row in weights]

    return of
