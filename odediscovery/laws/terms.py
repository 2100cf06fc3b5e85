"""Laws as trees of terms, factors and constants, from which they are printed in every notation with their errors.

    dx_i/dt = sum of terms,    term = coefficient * product of bases ** exponents

A base is a variable, a function of a sum of terms, or a sum in brackets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

import numpy as np

from odediscovery.families import EXP, STATE_FUNCTIONS
from odediscovery.laws.expressions import join_terms, latex_name, latex_number, law_constant, order, third_of
from odediscovery.laws.power_sum import Features, PowerSum, as_written, signs
from odediscovery.runtime.arrays import Array


@dataclass(frozen=True)
class Number:
    """A constant; its standard error is 0 if it is held, and nan if it is unknown."""

    value: float
    error: float = 0.0
    # Digits beyond the two of its error, for constants that are only meaningful together.
    spare: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Name:
    """A state or an input under the user's name."""

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
    """base ** exponent; the exponent is an expression only in laws that were not fitted here."""

    base: Base
    exponent: Number | Bracket = Number(1.0)


@dataclass(frozen=True)
class Term:
    """coefficient * product of powers; a constant without factors."""

    coefficient: Number
    factors: tuple[Power, ...] = ()
    monomial: int | None = None  # its place in a sum of powers


Base: TypeAlias = Name | Call | Bracket
Side: TypeAlias = tuple[Term, ...]

ONE = Number(1.0)


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


def sides_of_law(
    law: PowerSum, names: Sequence[str], errors: tuple[Array, Array, Array, Array], spare: int
) -> list[Side]:
    """The terms of every equation of a law, in the order of printing.

    Args:
        law: in the user's units.
        names: of its variables.
        errors: standard errors of its constants, 0 for those held fixed, nan where unknown.
        spare: digits of a constant beyond the two of its error.
    """
    a_error, w_error, b_error, v_error = errors
    features = law.features or Features(len(names))
    simple: list[Base] = [Name(name) for name in names]
    for f in features.functions:
        name = Name(names[f.state])
        if STATE_FUNCTIONS[f.name].of_inverse:
            simple.append(Call(EXP.name, (Term(Number(1.0 / f.plain_rate), (Power(name, Number(-1.0)),)),)))
        else:
            simple.append(Call(f.name, (Term(Number(f.plain_rate), (Power(name),)),)))
    b, (w, v, first) = features.sums.weights, as_written(law)

    def products(bases: Sequence[Base], rows: Array, errors: Array) -> list[tuple[Power, ...]]:
        return [_powers(bases, *of, law.mirrored, spare) for of in zip(rows, errors, strict=True)]

    ones, inner = products(simple, first, np.zeros_like(first)), products(simple, v, v_error)
    sums = [
        Bracket((Term(ONE, one), *_terms(row, errors, v, inner, spare)))
        for row, errors, one in zip(b, b_error, ones, strict=True)
    ]
    outer = products([*simple, *sums], w, w_error)
    return [_terms(*of, w, outer, spare) for of in zip(law.coefficients, a_error, strict=True)]


class Notation(NamedTuple):
    """How sums of products are written."""

    name: Callable[[str], str]  # a variable
    number: Callable[[str], str]  # a number printed by `law_constant`
    times: str
    power: Callable[[str], str]
    brackets: str  # with {} for the sum


PLAIN = Notation(str, str, "*", lambda power: f"^({power})" if "/" in power else f"^{power}", "({})")
LATEX = Notation(latex_name, latex_number, r"\,", lambda power: f"^{{{power}}}", r"\left({}\right)")


class Writer(NamedTuple):
    """Writes the terms of a law."""

    notation: Notation
    digits: int  # of a constant whose error is unknown
    thirds: bool  # whether held exponents that are thirds are written as fractions

    def sum(self, side: Side, *, divided: bool = False) -> str:
        """A sum of terms; if `divided`, variables to held negative powers are divisors, as sums always are."""
        terms = []
        for term in side:
            number, above, below = self._number(term.coefficient), list[str](), list[str]()
            for base, exponent in ((p.base, p.exponent) for p in term.factors):
                assert isinstance(exponent, Number)
                if exponent.error == 0.0 > exponent.value and (divided or _is_sum(base)):
                    below.append("/" + self._power(base, replace(exponent, value=-exponent.value)))
                else:
                    above.append(self._power(base, exponent))
            if number != "1" or not above:
                above.insert(0, number)
            terms.append((term.coefficient.value < 0, self.notation.times.join(above) + "".join(below)))
        return join_terms(terms)

    def _power(self, base: Base, exponent: Number) -> str:
        third = third_of(exponent.value) if self.thirds and exponent.error == 0.0 else ""
        written = third or law_constant(exponent.value, exponent.error, self.digits, exponent.spare)
        return self._base(base) + ("" if written == "1" else self.notation.power(written))

    def _base(self, base: Base) -> str:
        match base:
            case Name(name):
                return self.notation.name(name)
            case Call(function, inside):
                if function != EXP.name:  # rates that are not fitted have six digits
                    inside = tuple(replace(t, coefficient=Number(float(f"{t.coefficient.value:.6g}"))) for t in inside)
                return f"{function}({self.sum(inside, divided=True)})"
            case Bracket(inside):
                return self.notation.brackets.format(self.sum(inside))

    def _number(self, number: Number) -> str:
        """The absolute value of a constant."""
        return self.notation.number(law_constant(abs(number.value), number.error, self.digits, number.spare))


def _is_sum(base: Base) -> bool:
    return isinstance(base, Bracket) and len(base.inside) > 1
