"""A term library of the user's own as a family of laws, from terms written as text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import sympy

from odediscovery.errors import InputError, unknown_name
from odediscovery.families import STATE_FUNCTIONS, Family, Function, Seen, Terms
from odediscovery.laws.equations import Equations

_Factors = dict[tuple[str, int, float], float]


def term_library(name: str, states: Sequence[str], terms: Sequence[str]) -> Family:
    """A family whose laws are sums of some of these terms, with coefficients that are fitted.

        dx_i/dt = sum_c A[i, c] term_c(x)

    Args:
        name: of the family, one or two words.
        states: names of the states, in the order of the data.
        terms: products of powers of states and of functions of single states, such as "x*y^2" or
            "sin(2*x)/y"; known functions are those of `families.STATE_FUNCTIONS`.

    Raises:
        InputError: a term that cannot be read, or is no such product.

    >>> family = term_library("waves", ["x", "y"], ["x", "x*sin(2*y)"])
    >>> family.placed
    (Function(name='sin', state=1, rate=2.0),)
    """
    read = [_factors(states, term) for term in terms]
    placed = tuple(dict.fromkeys(Function(*key) for factors in read for key in factors if key[0]))
    rows = np.zeros((len(read), len(states) + len(placed)))
    for row, factors in zip(rows, read, strict=True):
        for (function, state, rate), power in factors.items():
            place = len(states) + placed.index(Function(function, state, rate)) if function else state
            row[place] = power

    def candidates(seen: Seen) -> Terms:
        if seen.n_states != len(states):
            raise InputError(f"the library {name!r} is of {len(states)} states, got data of {seen.n_states}")
        # Candidates without the states that are constant in these data.
        constant = np.flatnonzero(~seen.changing)
        return Terms.products(rows[~np.any(rows[:, constant] != 0.0, axis=1)], many=True)

    return Family(
        name,
        f"sums of {len(terms)} terms given by the user",
        "Functions -> NPU -> NAU",
        richness=0,
        candidates=candidates,
        in_noise=True,
        placed=placed,
    )


def _factors(states: Sequence[str], term: str) -> _Factors:
    """Exponents of the factors of a term: (function or "", state, rate) -> exponent."""
    text = term.replace("^", "**")
    equations = Equations.parse(states, {s: text if s == states[0] else "0" for s in states})
    place = {symbol.name: k for k, symbol in enumerate(equations.symbols)}
    found: _Factors = {}
    for factor in sympy.Mul.make_args(equations.right_hand_sides[0]):
        # sympy takes exp(x) for the power E^x.
        base, power = (factor, sympy.Integer(1)) if isinstance(factor, sympy.exp) else factor.as_base_exp()
        if factor.is_Number and factor != 1:
            raise InputError(f"the term {term!r} has a factor {factor}: coefficients are fitted, leave it out")
        if factor == 1:
            continue
        if not power.is_Number:
            raise InputError(f"the term {term!r}: expected powers with fixed exponents, got {factor}")
        key = ("", place[str(base)], 1.0) if base.is_Symbol else _function(base, place, term)
        found[key] = found.get(key, 0.0) + float(power)
    return found


def _function(base: sympy.Expr, place: dict[str, int], term: str) -> tuple[str, int, float]:
    rate, state = base.args[0].as_coeff_Mul() if len(base.args) == 1 else (1, None)
    if not isinstance(state, sympy.Symbol):
        raise InputError(f"the term {term!r}: expected powers of states and of functions of one state, got {base}")
    name = type(base).__name__
    if name not in STATE_FUNCTIONS:
        raise unknown_name("function", name, STATE_FUNCTIONS)
    return name, place[state.name], float(rate)
