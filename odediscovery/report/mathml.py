"""Equations of any kind split into terms, factors and constants, and typeset.

Sums of products keep the standard errors of their constants; in other expressions these are unknown.

Each term is a separate formula in MathML, so that a long equation breaks between terms. Fixed exponents of 1/2 become
a root, fixed negative ones a fraction.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import sympy
from markupsafe import Markup

from odediscovery.laws.equations import Equations
from odediscovery.laws.expressions import (
    ONE,
    Bracket,
    Call,
    Name,
    Number,
    Power,
    Side,
    Term,
    law_constant,
    sides_of_law,
    third_of,
)

# Most decimals of an exponent that was set; one with more was fitted.
ROUND = 6


def sides(equations: Equations) -> list[Side]:
    """Split every equation into terms, in the order of printing."""
    law = equations.law
    if law is None:
        by_symbol = dict(zip(equations.symbols, equations.variables, strict=True))
        return [_of_sum(side, by_symbol) for side in equations.right_hand_sides]
    a, w, b, v = (equations.standard_errors or law).constants
    if equations.standard_errors is None:
        a, b = np.full_like(a, np.nan), np.full_like(b, np.nan)
        # Assume that a round exponent was set.
        w, v = (np.where(np.round(x, ROUND) == x, 0.0, np.nan) for x in (w, v))
    return sides_of_law(law, equations.variables, (a, w, b, v), equations.spare)[: len(equations.states)]


# Expressions that are not sums of products: from a file, or from a published recipe.


def _of_sum(expression: sympy.Expr, names: dict[sympy.Symbol, str]) -> Side:
    def place(term: Term) -> tuple[bool, float]:
        degrees = [p.exponent.value for p in term.factors if isinstance(p.exponent, Number)]
        return term.coefficient.value < 0, round(math.fsum(degrees), 1)

    return tuple(sorted((_of_product(part, names) for part in sympy.Add.make_args(expression) if part != 0), key=place))


def _of_product(term: sympy.Expr, names: dict[sympy.Symbol, str]) -> Term:
    number, rest = term.as_coeff_Mul()
    coefficient, rank = float(number), list(names.values())
    factors = [_of_power(part, names) for part in sympy.Mul.make_args(rest) if part != 1]
    factors.sort(key=lambda p: rank.index(p.base.name) if isinstance(p.base, Name) else len(rank))
    return Term(Number(coefficient, 0.0 if factors and abs(coefficient) == 1.0 else math.nan), tuple(factors))


def _of_power(part: sympy.Expr, names: dict[sympy.Symbol, str]) -> Power:
    # sympy treats exp(x) as a power of e.
    base, exponent = (part, sympy.Integer(1)) if isinstance(part, sympy.exp) else part.as_base_exp()
    within = partial(_of_sum, names=names)
    raised: Number | Bracket = Bracket(within(exponent))
    if exponent.is_Number:
        value = float(exponent)
        raised = Number(value, 0.0 if value == round(value, ROUND) else math.nan)
    if base in names:
        return Power(Name(names[base]), raised)
    if isinstance(base, sympy.Function) and len(base.args) == 1:
        return Power(Call(base.func.__name__, within(base.args[0])), raised)
    return Power(Bracket(within(base)), raised)


DIGITS = 4
# Expressions of more terms and factors are too long to read.
MAX_SIDE_SIZE = 150
MINUS = "\N{MINUS SIGN}"
WRITTEN_ONE = Markup("<mn>1</mn>")
_INDEXED = re.compile(r"(.*?)_?(\d+)", re.DOTALL)


def equation_rows(equations: Equations, *, errors: bool = True) -> list[tuple[Markup, list[Markup]]]:
    """Typeset the left-hand side and each term of every equation as `<math>` elements; few digits without `errors`."""
    dotted = any(len(_plain(name)) > 1 for name in equations.variables)
    time = name_mathml(equations.time_name)
    rows = []
    told = equations if errors else replace(equations, standard_errors=None)
    for state, side in zip(equations.states, sides(told), strict=True):
        left = "<math><mfrac><mrow><mi>d</mi>{}</mrow><mrow><mi>d</mi>{}</mrow></mfrac><mo>=</mo></math>"
        if size(side) > MAX_SIDE_SIZE:
            long = "an expression of {} terms and factors, too long to be read; it stands in <code>result.json</code>"
            terms = [Markup(f'<span class="long">{long}</span>').format(size(side))]
        else:
            terms = [Markup("<math>{}</math>").format(signed) for signed in _signed(side, dotted)]
        rows.append((Markup(left).format(name_mathml(state), time), terms))
    return rows


def size(side: Side) -> int:
    """Count the terms and factors of a sum, nested ones included."""
    powers = [p for term in side for p in term.factors]
    nested = [part.inside for p in powers for part in (p.base, p.exponent) if not isinstance(part, Name | Number)]
    return len(side) + len(powers) + sum(map(size, nested))


def _signed(side: Side, dotted: bool) -> list[Markup]:
    """Typeset the terms of a sum with their signs; 0 without terms."""
    found = []
    for i, term in enumerate(side):
        sign = MINUS if term.coefficient.value < 0 else "+" if i else ""
        mark = Markup('<mo form="{}">{}</mo>').format("infix" if i else "prefix", sign) if sign else Markup("")
        found.append(mark + term_mathml(term, dotted))
    return found or [Markup("<mn>0</mn>")]


def term_mathml(term: Term, dotted: bool) -> Markup:
    """Typeset a term without sign and without surrounding `<math>`; `dotted` puts dots between factors."""
    above, below = [], []
    for p in term.factors:
        if isinstance(p.exponent, Number) and p.exponent.error == 0.0 and p.exponent.value < 0:
            below.append(replace(p, exponent=Number(-p.exponent.value)))
        else:
            above.append(p)
    written = number_mathml(replace(term.coefficient, value=abs(term.coefficient.value)))
    factors = _factors(above, dotted)
    top = _product([written, *factors] if written != WRITTEN_ONE or not factors else factors, dotted)
    if not below:
        return top
    return Markup("<mfrac><mrow>{}</mrow><mrow>{}</mrow></mfrac>").format(top, _enclosed(below, dotted))


def _factors(powers: Sequence[Power], dotted: bool) -> list[Markup]:
    """Typeset powers, those of 1/2 last under one root."""
    roots = [Power(p.base) for p in powers if p.exponent == Number(0.5)]
    found = [_power(p, dotted) for p in powers if p.exponent != Number(0.5)]
    if roots:
        found.append(Markup("<msqrt>{}</msqrt>").format(_enclosed(roots, dotted)))
    return found


def _enclosed(powers: Sequence[Power], dotted: bool) -> Markup:
    """Typeset a product below a bar or a root, where a lone sum needs no brackets."""
    lone = powers[0].base if len(powers) == 1 and powers[0].exponent == ONE else None
    return _sum(lone.inside, dotted) if isinstance(lone, Bracket) else _product(_factors(powers, dotted), dotted)


def _product(factors: Sequence[Markup], dotted: bool) -> Markup:
    return Markup("<mo>\N{DOT OPERATOR}</mo>" if dotted else '<mspace width="0.18em"></mspace>').join(factors)


def _power(p: Power, dotted: bool) -> Markup:
    base = _base(p.base, dotted)
    if isinstance(p.exponent, Bracket):
        written = _sum(p.exponent.inside, dotted)
    elif p.exponent.error == 0.0 and (third := third_of(p.exponent.value)):
        written = Markup("<mn>{}</mn>").format(third.replace("-", MINUS))
    else:
        written = number_mathml(p.exponent)
    if written == WRITTEN_ONE:
        return base
    return Markup("<msup><mrow>{}</mrow><mrow>{}</mrow></msup>").format(base, written)


def _base(base: Name | Call | Bracket, dotted: bool) -> Markup:
    if isinstance(base, Name):
        return name_mathml(base.name)
    inside = _sum(base.inside, dotted)
    # Some fonts let brackets grow even around a single letter.
    still = Markup("" if "<mfrac>" in inside or "<msup>" in inside else ' stretchy="false"')
    bracket = Markup('<mrow><mo form="prefix"{0}>(</mo>{1}<mo form="postfix"{0}>)</mo></mrow>').format(still, inside)
    if isinstance(base, Bracket):
        return bracket
    return Markup("<mrow><mi>{}</mi><mo>&#x2061;</mo>{}</mrow>").format(base.function, bracket)


def _sum(side: Side, dotted: bool) -> Markup:
    return Markup("").join(_signed(side, dotted))


def number_mathml(number: Number) -> Markup:
    """Typeset a constant to the precision of its standard error, as in text."""
    digits, error, power = split_number(law_constant(number.value, number.error, DIGITS, number.spare))
    found = Markup("<mn>{}</mn>").format(digits)
    if error:
        found += Markup('<mtext class="err">{}</mtext>').format(error)
    if power:
        found += Markup("<mo>\N{MULTIPLICATION SIGN}</mo><msup><mn>10</mn><mn>{}</mn></msup>").format(power)
    return found


def split_number(written: str) -> tuple[str, str, str]:
    """Split a number into digits, error in parentheses and power of ten, with minus signs instead of hyphens."""
    digits, error, power = re.fullmatch(r"([^(e]*)(\((?:\d+|\?)\))?(?:e(.*))?", written).groups("")  # type: ignore[union-attr]
    return digits.replace("-", MINUS), error, power.replace("-", MINUS)


def name_text(name: str) -> Markup:
    """Mark up a column name within a sentence or a table."""
    return Markup("<var>{}</var>").format(name)


def name_mathml(name: str) -> Markup:
    """Typeset a column name: x1 gets an index, beta becomes the Greek letter, longer names are upright."""
    found = _INDEXED.fullmatch(name)
    if found and found[1]:
        return Markup("<msub>{}<mn>{}</mn></msub>").format(name_mathml(found[1]), found[2])
    return Markup("<mi>{}</mi>").format(_plain(name))


def _plain(name: str) -> str:
    """The Greek letter that a name spells, else the name."""
    if name.isascii() and name.isalpha() and len(name) > 1:
        kind = "SMALL" if name.islower() else "CAPITAL" if name.istitle() else ""
        letter = name.upper().replace("LAMBDA", "LAMDA")
        try:
            return unicodedata.lookup(f"GREEK {kind} LETTER {letter}")
        except KeyError:
            pass
    return name
