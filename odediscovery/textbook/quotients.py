"""Laws with quotients and functions of a state read from expressions as numbers.

    a x y / (c + d x)  =  (a / c) x y (1 + (d / c) x)^-1

Constants that a textbook ties to each other are numbers of their own here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import sympy

from odediscovery.families import STATE_FUNCTIONS, Function
from odediscovery.laws.power_sum import NO_SUMS, Features, PowerSum, Sums

# What a factor may be raised to: a state's index, a sum's constant and exponents, or a function of a state.
_Key = int | tuple[float, tuple[float, ...]] | tuple[str, int, float]


def read_quotients(sides: Sequence[sympy.Expr], symbols: Sequence[sympy.Symbol]) -> PowerSum | None:
    """The law as numbers, or None where a factor is no power of a state, of 1 + b m, or of a function of a state.

    Args:
        sides: right-hand sides, one a state.
        symbols: of the states.

    >>> x = sympy.Symbol("x")
    >>> law = read_quotients([-3.0 * x / (2.0 + x)], [x])
    >>> law.coefficients.tolist(), law.features.sums.weights.tolist()
    ([[-1.5]], [[0.5]])
    """
    place = {symbol: k for k, symbol in enumerate(symbols)}
    read = []
    for i, side in enumerate(sides):
        for term in sympy.Add.make_args(side.expand(power_base=False, power_exp=False, log=False)):
            found = _factors(term, place) if term != 0 else (0.0, {})
            if found is None:
                return None
            read.append((i, *found))
    keys = list(dict.fromkeys(key for _, _, powers in read for key in powers if not isinstance(key, int)))
    functions = [key for key in keys if len(key) == 3]
    sums = [key for key in keys if len(key) == 2]
    columns = {key: len(symbols) + k for k, key in enumerate([*functions, *sums])}
    coefficients, exponents = [], []
    for i, coefficient, powers in read:
        row = np.zeros(len(symbols) + len(columns))
        for key, power in powers.items():
            row[key if isinstance(key, int) else columns[key]] += power
        exponents.append(row)
        coefficients.append(coefficient * (np.arange(len(sides)) == i))
    simple = len(symbols) + len(functions)
    inner = np.array([[*key[1], *[0.0] * len(functions)] for key in sums]).reshape(len(sums), simple)
    own = Sums(np.diag([float(key[0]) for key in sums]), inner) if sums else NO_SUMS
    features = Features(len(symbols), tuple(Function(*key) for key in functions), own) if columns else None
    return PowerSum(np.array(coefficients).T, np.array(exponents), features).merged()


def _factors(
    term: sympy.Expr, place: Mapping[sympy.Symbol, int], *, inside: bool = False
) -> tuple[float, dict[_Key, float]] | None:
    """The coefficient of a product, and the powers of its factors."""
    coefficient, powers = 1.0, dict[_Key, float]()
    for factor in sympy.Mul.make_args(term):
        # sympy takes exp(x) for a power of e.
        base, exponent = (factor, sympy.Integer(1)) if factor.func is sympy.exp else factor.as_base_exp()
        if factor.is_Number:
            coefficient *= float(factor)
            continue
        if base in place:
            read: tuple[_Key, float] | None = (place[base], 1.0)
        else:
            read = None if inside else _sum(base, place) or _function(base, place)
        if read is None or not exponent.is_Number:
            return None
        key, before = read
        coefficient *= before ** float(exponent)
        powers[key] = powers.get(key, 0.0) + float(exponent)
    return coefficient, powers


def _sum(base: sympy.Expr, place: Mapping[sympy.Symbol, int]) -> tuple[_Key, float] | None:
    """c + d m as 1 + (d / c) m, and c."""
    if not base.is_Add or len(base.args) != 2:
        return None
    number, rest = base.as_independent(*place, as_Add=True)
    found = _factors(rest, place, inside=True)
    if not number.is_Number or float(number) <= 0.0 or found is None:
        return None
    inner = np.zeros(len(place))
    for key, power in found[1].items():
        assert isinstance(key, int)  # inside a sum are states alone
        inner[key] = power
    return (found[0] / float(number), tuple(inner.tolist())), float(number)


def _function(base: sympy.Expr, place: Mapping[sympy.Symbol, int]) -> tuple[_Key, float] | None:
    """f(r x) of a state x."""
    name = type(base).__name__
    if name not in STATE_FUNCTIONS or len(base.args) != 1:
        return None
    rate, state = base.args[0].as_independent(*place, as_Add=False)
    return ((name, place[state], float(rate)), 1.0) if state in place and rate.is_Number else None
