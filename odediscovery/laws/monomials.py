"""Laws read from expressions as numbers.

    a x y / (c + d x)  =  (a / c) x y (1 + (d / c) x)^-1

Constants that are tied to each other in the expressions are numbers of their own here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
import sympy

from odediscovery.families import STATE_FUNCTIONS, Function
from odediscovery.laws.power_sum import NO_SUMS, Features, PowerSum, Sums


@dataclass(frozen=True)
class MonomialThresholds:
    """What is multiplied out."""

    max_terms: int = 500  # a product of sums with more terms stays as it is


READING = MonomialThresholds()


class _Sum(NamedTuple):
    """1 + weight * product of powers of the states."""

    weight: float
    exponents: tuple[float, ...]


# What a factor is a power of; a state goes by its index.
_Base: TypeAlias = int | Function | _Sum


@dataclass
class _Term:
    """A coefficient, the powers of its factors, and states of which it takes fractional powers of -x or x."""

    coefficient: float = 1.0
    powers: dict[_Base, float] = field(default_factory=dict)
    turned: dict[int, bool] = field(default_factory=dict)


def read_law(
    sides: Sequence[sympy.Expr], symbols: Sequence[sympy.Symbol], *, features: bool = False
) -> PowerSum | None:
    """The law as numbers, 0 for inputs, or None where some side is no sum of products of powers.

    Args:
        sides: right-hand sides, one a state.
        symbols: of the states, and behind them of the inputs.
        features: whether factors may be powers of 1 + b m, m a product of powers, and functions of a state.

    >>> x = sympy.Symbol("x")
    >>> read_law([-2.0 * (-x) ** 0.5], [x]).mirrored
    (0,)
    >>> law = read_law([-3.0 * x / (2.0 + x)], [x], features=True)
    >>> law.coefficients.tolist(), law.features.sums.weights.tolist()
    ([[-1.5]], [[0.5]])
    """
    place = {symbol: k for k, symbol in enumerate(symbols)}
    found: dict[tuple[tuple[_Base, float], ...], dict[int, float]] = {}
    # Of each state either fractional powers of x or of -x.
    sides_of: dict[int, bool] = {}
    for i, side in enumerate(sides):
        terms = _terms(side)
        if terms is None:
            return None
        for expression in terms:
            term = _term(expression, place, features)
            if term is None or any(sides_of.setdefault(k, minus) is not minus for k, minus in term.turned.items()):
                return None
            row = found.setdefault(tuple(sorted(term.powers.items(), key=str)), {})
            row[i] = row.get(i, 0.0) + term.coefficient
    kept = {powers: row for powers, row in found.items() if any(row.values())}
    bases = list(dict.fromkeys(base for powers in kept for base, _ in powers))
    functions = [base for base in bases if isinstance(base, Function)]
    sums = [base for base in bases if isinstance(base, _Sum)]
    simple = len(symbols) + len(functions)
    columns: dict[_Base, int] = {k: k for k in range(len(symbols))}
    features_seen: list[_Base] = [*functions, *sums]
    columns |= {base: len(symbols) + k for k, base in enumerate(features_seen)}
    coefficients, exponents = np.zeros((len(symbols), len(kept))), np.zeros((len(kept), simple + len(sums)))
    for j, (powers, row) in enumerate(kept.items()):
        coefficients[list(row), j] = list(row.values())
        for base, power in powers:
            exponents[j, columns[base]] = power
    seen = None
    if functions or sums:
        inner = np.zeros((len(sums), simple))
        for own, one in zip(inner, sums, strict=True):
            own[: len(symbols)] = one.exponents
        of_sums = Sums(np.diag([one.weight for one in sums]), inner) if sums else NO_SUMS
        seen = Features(len(symbols), tuple(functions), of_sums)
    mirrored = tuple(sorted(k for k in sides_of if sides_of[k]))
    return PowerSum(coefficients, exponents, seen, mirrored=mirrored)


def _terms(side: sympy.Expr) -> tuple[sympy.Expr, ...] | None:
    """The terms of a sum, multiplied out if it stays short."""
    if side == 0:
        return ()
    if _count_terms(side) > READING.max_terms:
        return None
    multiplied = side.expand(power_base=False, power_exp=False, log=False, basic=False, complex=False)
    return tuple(term for term in sympy.Add.make_args(multiplied) if term != 0)


def _count_terms(side: sympy.Expr) -> float:
    """An upper bound of the number of terms after multiplying out."""
    if side.is_Add:
        return math.fsum(_count_terms(part) for part in side.args)
    if side.is_Mul:
        return float(np.prod([_count_terms(part) for part in side.args]))
    if side.is_Pow and side.exp.is_Integer and side.exp > 1 and not side.base.is_Symbol:
        return float(_count_terms(side.base) ** min(float(side.exp), 100.0))
    return 1.0


def _term(expression: sympy.Expr, place: Mapping[sympy.Symbol, int], features: bool) -> _Term | None:
    """A product of powers; None where a factor is none that may stand."""
    term, whole = _Term(), [0.0] * len(place)
    for factor in sympy.Mul.make_args(expression):
        # sympy takes exp(x) for a power of e.
        base, exponent = (factor, sympy.Integer(1)) if factor.func is sympy.exp else factor.as_base_exp()
        if factor.is_Number:
            term.coefficient *= float(factor)
            continue
        if not exponent.is_Number:
            return None
        minus, power = -base in place, float(exponent)
        if minus or base in place:
            k = place[-base if minus else base]
            term.powers[k] = term.powers.get(k, 0.0) + power
            if power.is_integer():
                # sympy writes whole powers of -x as those of x.
                whole[k] += power
            elif term.turned.setdefault(k, minus) is not minus:
                return None
            continue
        read = (_sum(base, place) or _function(base, place)) if features else None
        if read is None:
            return None
        term.coefficient *= read[1] ** power
        term.powers[read[0]] = term.powers.get(read[0], 0.0) + power
    for k in [k for k, minus in term.turned.items() if minus]:
        # x^p (-x)^q = (-1)^p (-x)^(p + q)
        power = term.powers[k]
        term.coefficient *= (-1.0) ** whole[k] * ((-1.0) ** power if power.is_integer() else 1.0)
    term.turned = {k: minus for k, minus in term.turned.items() if not term.powers[k].is_integer()}
    term.powers = {base: power for base, power in term.powers.items() if power}
    return term


def _sum(base: sympy.Expr, place: Mapping[sympy.Symbol, int]) -> tuple[_Base, float] | None:
    """c + d m as 1 + (d / c) m, and c."""
    if not base.is_Add or len(base.args) != 2:
        return None
    constant, rest = base.as_independent(*place, as_Add=True)
    found = _term(rest, place, features=False)
    if not constant.is_Number or float(constant) <= 0.0 or found is None or any(found.turned.values()):
        return None
    inner = np.zeros(len(place))
    for k, power in found.powers.items():
        assert isinstance(k, int)  # inside a sum are states alone
        inner[k] = power
    return _Sum(found.coefficient / float(constant), tuple(inner.tolist())), float(constant)


def _function(base: sympy.Expr, place: Mapping[sympy.Symbol, int]) -> tuple[_Base, float] | None:
    """f(r x) of a state x."""
    name = type(base).__name__
    if name not in STATE_FUNCTIONS or len(base.args) != 1:
        return None
    rate, state = base.args[0].as_independent(*place, as_Add=False)
    return (Function(name, place[state], float(rate)), 1.0) if state in place and rate.is_Number else None
