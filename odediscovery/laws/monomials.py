"""Sums of products of powers, read from expressions as numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import sympy

from odediscovery.laws.power_sum import PowerSum
from odediscovery.runtime.thresholds import Thresholds, threshold


@dataclass(frozen=True)
class MonomialThresholds(Thresholds):
    """What is multiplied out."""

    max_terms: int = threshold(
        500,
        "a product of sums with more terms stays as it is",
        origin="cost: bounds memory; no readable law either way",
    )


READING = MonomialThresholds()


def read_power_sum(sides: Sequence[sympy.Expr], symbols: Sequence[sympy.Symbol]) -> PowerSum | None:
    """The law as numbers, 0 for inputs, or None where some side is no sum of monomials.

    Args:
        sides: right-hand sides, one a state.
        symbols: of the states, and behind them of the inputs.

    >>> x = sympy.Symbol("x")
    >>> read_power_sum([-2.0 * (-x) ** 0.5], [x]).mirrored
    (0,)
    """
    place = {symbol: k for k, symbol in enumerate(symbols)}
    found: dict[tuple[float, ...], dict[int, float]] = {}
    # Of each state either fractional powers of x or of -x.
    sides_of: dict[int, bool] = {}
    for i, side in enumerate(sides):
        terms = _terms(side)
        for term in terms or ():
            monomial = _monomial(term, place)
            if monomial is None:
                return None
            coefficient, powers, turned = monomial
            if any(sides_of.setdefault(k, minus) is not minus for k, minus in turned.items()):
                return None
            row = found.setdefault(powers, {})
            row[i] = row.get(i, 0.0) + coefficient
        if terms is None:
            return None
    kept = {powers: row for powers, row in found.items() if any(row.values())}
    coefficients = np.zeros((len(symbols), len(kept)))
    for j, row in enumerate(kept.values()):
        for i, coefficient in row.items():
            coefficients[i, j] = coefficient
    exponents = np.array(list(kept), dtype=np.float64).reshape(len(kept), len(symbols))
    return PowerSum(coefficients, exponents, mirrored=tuple(sorted(k for k in sides_of if sides_of[k])))


def _terms(side: sympy.Expr) -> tuple[sympy.Expr, ...] | None:
    """The terms of a sum, multiplied out if it stays short."""
    if side == 0:
        return ()
    if _count_terms(side) > READING.max_terms:
        return None
    multiplied = side.expand(power_base=False, power_exp=False, log=False, basic=False, complex=False)
    return tuple(sympy.Add.make_args(multiplied))


def _count_terms(side: sympy.Expr) -> float:
    """An upper bound of the number of terms after multiplying out."""
    if side.is_Add:
        return math.fsum(_count_terms(part) for part in side.args)
    if side.is_Mul:
        return float(np.prod([_count_terms(part) for part in side.args]))
    if side.is_Pow and side.exp.is_Integer and side.exp > 1 and not side.base.is_Symbol:
        return float(_count_terms(side.base) ** min(float(side.exp), 100.0))
    return 1.0


def _monomial(
    term: sympy.Expr, place: Mapping[sympy.Symbol, int]
) -> tuple[float, tuple[float, ...], dict[int, bool]] | None:
    """Coefficient, exponents, and whether a state's fractional power is one of -x instead of x."""
    coefficient, powers, turned = 1.0, [0.0] * len(place), dict[int, bool]()
    whole = [0.0] * len(place)
    for factor in sympy.Mul.make_args(term):
        base, exponent = factor.as_base_exp()
        if factor.is_Number:
            coefficient *= float(factor)
            continue
        minus = -base in place
        base = -base if minus else base
        if base not in place or not exponent.is_Number:
            return None
        k, power = place[base], float(exponent)
        powers[k] += power
        if not power.is_integer():
            if turned.setdefault(k, minus) is not minus:
                return None
        else:
            # sympy writes whole powers of -x as those of x.
            whole[k] += power
    for k in [k for k, minus in turned.items() if minus]:
        # x^p (-x)^q = (-1)^p (-x)^(p + q)
        coefficient *= (-1.0) ** whole[k]
        coefficient *= (-1.0) ** powers[k] if powers[k].is_integer() else 1.0
    turned = {k: minus for k, minus in turned.items() if not powers[k].is_integer()}
    return coefficient, tuple(powers), turned
