"""Equations taken apart: terms, factors and constants with their errors, for any kind of law.

    dx_i/dt = sum of terms,    term = coefficient * product of bases ** exponents

A base is a state or an input, a function of a sum of terms, or a sum in brackets. Sums of powers
and laws with functions and inner sums keep the standard errors of their constants; any other
expression is walked, and the errors of its constants are unknown. What is typeset and what is
read aloud both start from here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import numpy as np
import sympy

from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import Features, PowerSum, signs
from odediscovery.laws.printing import order
from odediscovery.runtime.arrays import Array


@dataclass(frozen=True)
class Number:
    """A constant; its standard error is 0 where it is held and nan where it is unknown.

    Args:
        spare: digits beyond the two of its error, for constants that mean something together only.
    """

    value: float
    error: float = 0.0
    spare: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Name:
    """A state or an input, as the user called it."""

    name: str


@dataclass(frozen=True)
class Call:
    """A function of a sum of terms."""

    function: str
    inside: Side


@dataclass(frozen=True)
class Bracket:
    """A sum of terms in brackets."""

    inside: Side


@dataclass(frozen=True)
class Power:
    """base ** exponent; the exponent is an expression only in laws that nobody fitted here."""

    base: Base
    exponent: Number | Bracket = Number(1.0)


@dataclass(frozen=True)
class Term:
    """coefficient * product of powers; no factors: a constant.

    Args:
        monomial: its place among the monomials of a sum of powers, None in other laws.
    """

    coefficient: Number
    factors: tuple[Power, ...] = ()
    monomial: int | None = None


Base: TypeAlias = Name | Call | Bracket
Side: TypeAlias = tuple[Term, ...]

ONE = Number(1.0)
# Decimals of an exponent that somebody set; one with more was fitted.
ROUND = 6


def sides(equations: Equations) -> list[Side]:
    """The terms of every equation, in the order in which they are printed.

    >>> law = Equations.parse(["x"], {"x": "2 - 0.5*x**2"})
    >>> [(term.coefficient.value, term.factors) for term in sides(law)[0]][0]
    (2.0, ())
    """
    law = equations.law
    if law is None:
        by_symbol = dict(zip(equations.symbols, equations.variables, strict=True))
        return [_of_sum(side, by_symbol) for side in equations.right_hand_sides]
    a_error, w_error, b_error, v_error = _errors(equations, law)
    names, spare = list(equations.variables), equations.spare
    features = law.features or Features(len(names))
    simple = _simple(features, names)
    v, b = features.sums.exponents, features.sums.weights
    inner = [_powers(simple, row, errors, law.mirrored, spare) for row, errors in zip(v, v_error, strict=True)]
    brackets: list[Base] = [
        Bracket((Term(ONE), *_terms(row, errors, v, inner, spare))) for row, errors in zip(b, b_error, strict=True)
    ]
    outer = [
        _powers([*simple, *brackets], row, errors, law.mirrored, spare)
        for row, errors in zip(law.exponents, w_error, strict=True)
    ]
    rows = list(zip(law.coefficients, a_error, strict=True))[: len(equations.states)]
    return [_terms(row, errors, law.exponents, outer, spare) for row, errors in rows]


def _errors(equations: Equations, law: PowerSum) -> tuple[Array, Array, Array, Array]:
    """Standard errors in the places of the law's constants: nan unknown, 0 held."""
    known = equations.standard_errors
    if known is None:
        a, w, b, v = law.constants
        a, b = np.full_like(a, np.nan), np.full_like(b, np.nan)
        # A round exponent is read as one that was set.
        w, v = (np.where(np.round(x, ROUND) == x, 0.0, np.nan) for x in (w, v))
    else:
        a, w, b, v = known.constants
    if equations.snapped is not None:
        a, w = np.where(equations.snapped[0], 0.0, a), np.where(equations.snapped[1], 0.0, w)
    return a, w, b, v


def _simple(features: Features, names: Sequence[str]) -> list[Base]:
    """States and functions of states."""
    found: list[Base] = [Name(name) for name in names]
    for f in features.functions:
        found.append(Call(f.name, (Term(Number(f.plain_rate), (Power(Name(names[f.state])),)),)))
    return found


def _terms(row: Array, errors: Array, exponents: Array, products: Sequence[tuple[Power, ...]], spare: int) -> Side:
    places = sorted(np.flatnonzero(row).tolist(), key=lambda j: order(float(row[j]), exponents[j]))
    return tuple(Term(Number(float(row[j]), float(errors[j]), spare), products[j], j) for j in places)


def _powers(bases: Sequence[Base], row: Array, errors: Array, mirrored: Sequence[int], spare: int) -> tuple[Power, ...]:
    found = []
    turned = (signs(row[None], mirrored)[0] < 0.0).tolist()
    for base, w, error, of_minus in zip(bases, row.tolist(), errors.tolist(), turned, strict=True):
        if w == 0.0:
            continue
        if of_minus:
            found.append(Power(Bracket((Term(Number(-1.0), (Power(base),)),)), Number(w, error, spare)))
        elif isinstance(base, Call) and base.function == "exp":
            # exp(r x) ** w is exp(w r x).
            (term,) = base.inside
            rate = term.coefficient.value
            inside = Term(Number(rate * w, abs(rate) * error, spare), term.factors)
            found.append(Power(Call("exp", (inside,))))
        else:
            found.append(Power(base, Number(w, error, spare)))
    return tuple(found)


# Expressions of which no numbers are kept: from a file, or from a published recipe.


def _of_sum(expression: sympy.Expr, names: dict[sympy.Symbol, str]) -> Side:
    terms = [_of_product(part, names) for part in sympy.Add.make_args(expression) if part != 0]
    return tuple(sorted(terms, key=_place))


def _place(term: Term) -> tuple[bool, float]:
    degrees = [p.exponent.value for p in term.factors if isinstance(p.exponent, Number)]
    return term.coefficient.value < 0, round(math.fsum(degrees), 1)


def _of_product(term: sympy.Expr, names: dict[sympy.Symbol, str]) -> Term:
    coefficient, factors = 1.0, []
    for part in sympy.Mul.make_args(term):
        if part.is_Number:
            coefficient *= float(part)
        else:
            factors.append(_of_power(part, names))
    rank = list(names.values())
    factors.sort(key=lambda p: rank.index(p.base.name) if isinstance(p.base, Name) else len(rank))
    return Term(Number(coefficient, 0.0 if factors and abs(coefficient) == 1.0 else math.nan), tuple(factors))


def _of_power(part: sympy.Expr, names: dict[sympy.Symbol, str]) -> Power:
    if isinstance(part, sympy.exp):
        return Power(Call("exp", _of_sum(part.args[0], names)))
    base, exponent = part.as_base_exp()
    within = partial(_of_sum, names=names)
    raised: Number | Bracket
    if exponent.is_Number:
        value = float(exponent)
        raised = Number(value, 0.0 if value == round(value, ROUND) else math.nan)
    else:
        raised = Bracket(within(exponent))
    if base in names:
        return Power(Name(names[base]), raised)
    if isinstance(base, sympy.Function) and len(base.args) == 1:
        return Power(Call(base.func.__name__, within(base.args[0])), raised)
    return Power(Bracket(within(base)), raised)
