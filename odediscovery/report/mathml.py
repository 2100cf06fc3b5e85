"""Equations as MathML, which every browser of today sets itself, without a library.

Each term is a formula of its own, so that a long equation breaks between terms on a narrow
screen. A constant is written as everywhere else, 0.0600(12), with the two digits of its standard
error in a lighter grey; held exponents of 1/2 become a root, held negative ones a fraction.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace

from markupsafe import Markup

from odediscovery.laws.equations import Equations
from odediscovery.laws.printing import law_constant, third_of
from odediscovery.report.parts import Bracket, Call, Name, Number, Power, Side, Term, sides

DIGITS = 4
# An expression of more terms and factors than this is no equation that anybody reads.
MAX_SIDE_SIZE = 150
MINUS = "\N{MINUS SIGN}"
ONE = Markup("<mn>1</mn>")
_INDEXED = re.compile(r"(.*?)_?(\d+)", re.DOTALL)


def equation_rows(equations: Equations, *, errors: bool = True) -> list[tuple[Markup, list[Markup]]]:
    """Every equation as its left-hand side and its terms, each a `<math>` element.

    Args:
        errors: write standard errors; without them a few digits of every constant.

    >>> rows = equation_rows(Equations.parse(["x"], {"x": "-0.5*x"}))
    >>> [len(terms) for _, terms in rows]
    [1]
    """
    dotted = any(len(_plain(name)) > 1 for name in equations.variables)
    time = name_mathml(equations.time_name)
    rows = []
    told = equations if errors else replace(equations, standard_errors=None, snapped=None)
    for state, side in zip(equations.states, sides(told), strict=True):
        left = Markup(
            "<math><mfrac><mrow><mi>d</mi>{}</mrow><mrow><mi>d</mi>{}</mrow></mfrac><mo>=</mo></math>"
        ).format(name_mathml(state), time)
        rows.append((left, _side(side, dotted)))
    return rows


def size(side: Side) -> int:
    """Terms and factors of a sum, with everything inside."""
    return sum(1 + sum(_size(p) for p in term.factors) for term in side)


def _size(power: Power) -> int:
    inner = [part.inside for part in (power.base, power.exponent) if not isinstance(part, Name | Number)]
    return 1 + sum(map(size, inner))


def _side(side: Side, dotted: bool) -> list[Markup]:
    if not side:
        return [Markup("<math><mn>0</mn></math>")]
    if size(side) > MAX_SIDE_SIZE:
        return [
            Markup(
                '<span class="long">an expression of {} terms and factors, too long to be read; '
                "it stands in <code>result.json</code></span>"
            ).format(size(side))
        ]
    found = []
    for i, term in enumerate(side):
        sign = MINUS if term.coefficient.value < 0 else "+" if i else ""
        form = "infix" if i else "prefix"
        mark = Markup('<mo form="{}">{}</mo>').format(form, sign) if sign else Markup("")
        found.append(Markup("<math>{}{}</math>").format(mark, term_mathml(term, dotted)))
    return found


def term_mathml(term: Term, dotted: bool) -> Markup:
    """The absolute value of a term, without a surrounding `<math>`.

    Args:
        dotted: write a dot between factors, as names of several letters need it.
    """
    above = [p for p in term.factors if not _below(p)]
    below = [
        replace(p, exponent=Number(-p.exponent.value))
        for p in term.factors
        if _below(p) and isinstance(p.exponent, Number)
    ]
    written = number_mathml(replace(term.coefficient, value=abs(term.coefficient.value)))
    factors = _factors(above, dotted)
    top = _product([written, *factors] if written != ONE or not factors else factors, dotted)
    if not below:
        return top
    # What stands alone under a line needs no brackets.
    inner = below[0].base if len(below) == 1 and below[0].exponent == Number(1.0) else None
    under = _product(_factors(below, dotted), dotted)
    if isinstance(inner, Bracket):
        under = _sum(inner.inside, dotted)
    return Markup("<mfrac><mrow>{}</mrow><mrow>{}</mrow></mfrac>").format(top, under)


def _factors(powers: Sequence[Power], dotted: bool) -> list[Markup]:
    """Each power, those of 1/2 under one root behind the others."""
    roots = [p.base for p in powers if p.exponent == Number(0.5)]
    found = [_power(p, dotted) for p in powers if p.exponent != Number(0.5)]
    if len(roots) == 1 and isinstance(roots[0], Bracket):
        found.append(Markup("<msqrt>{}</msqrt>").format(_sum(roots[0].inside, dotted)))
    elif roots:
        under = _product([_base(base, dotted) for base in roots], dotted)
        found.append(Markup("<msqrt>{}</msqrt>").format(under))
    return found


def _below(p: Power) -> bool:
    held = isinstance(p.exponent, Number) and p.exponent.error == 0.0
    return held and isinstance(p.exponent, Number) and p.exponent.value < 0


def _product(factors: Sequence[Markup], dotted: bool) -> Markup:
    if dotted:
        return Markup("<mo>\N{DOT OPERATOR}</mo>").join(factors)
    return Markup('<mspace width="0.18em"></mspace>').join(factors)


def _power(p: Power, dotted: bool) -> Markup:
    base = _base(p.base, dotted)
    if isinstance(p.exponent, Bracket):
        return Markup("<msup><mrow>{}</mrow><mrow>{}</mrow></msup>").format(base, _sum(p.exponent.inside, dotted))
    third = third_of(p.exponent.value) if p.exponent.error == 0.0 else ""
    written = Markup("<mn>{}</mn>").format(third.replace("-", MINUS)) if third else number_mathml(p.exponent)
    if written == ONE:
        return base
    return Markup("<msup><mrow>{}</mrow><mrow>{}</mrow></msup>").format(base, written)


def _base(base: Name | Call | Bracket, dotted: bool) -> Markup:
    if isinstance(base, Name):
        return name_mathml(base.name)
    inside = _sum(base.inside, dotted)
    # Some fonts let brackets grow even around a single letter.
    grows = Markup("") if "<mfrac>" in inside or "<msup>" in inside else Markup(' stretchy="false"')
    bracket = Markup('<mrow><mo form="prefix"{}>(</mo>{}<mo form="postfix"{}>)</mo></mrow>').format(
        grows, inside, grows
    )
    if isinstance(base, Bracket):
        return bracket
    return Markup("<mrow><mi>{}</mi><mo>&#x2061;</mo>{}</mrow>").format(base.function, bracket)


def _sum(side: Side, dotted: bool) -> Markup:
    found = Markup("")
    for i, term in enumerate(side):
        minus = term.coefficient.value < 0
        if i or minus:
            found += Markup('<mo form="{}">{}</mo>').format("infix" if i else "prefix", MINUS if minus else "+")
        found += term_mathml(term, dotted)
    return found or Markup("<mn>0</mn>")


def number_mathml(number: Number) -> Markup:
    """A constant to the precision of its standard error, as text has it.

    >>> number_mathml(Number(0.0600312, 0.000118))
    Markup('<mn>0.06003</mn><mtext class="err">(12)</mtext>')
    >>> number_mathml(Number(0.222, 78.0))
    Markup('<mn>0.222</mn><mtext class="err">(?)</mtext>')
    """
    written = law_constant(number.value, number.error, DIGITS, number.spare)
    digits, error, power = re.fullmatch(r"([^(e]*)(\((?:\d+|\?)\))?(?:e(.*))?", written).groups()  # type: ignore[union-attr]
    found = Markup("<mn>{}</mn>").format(digits.replace("-", MINUS))
    if error:
        found += Markup('<mtext class="err">{}</mtext>').format(error)
    if power:
        found += Markup("<mo>\N{MULTIPLICATION SIGN}</mo><msup><mn>10</mn><mn>{}</mn></msup>").format(
            power.replace("-", MINUS)
        )
    return found


def name_mathml(name: str) -> Markup:
    """A column name: x1 gets an index, beta becomes the letter, longer names stand upright.

    >>> name_mathml("x1"), name_mathml("heart rate")
    (Markup('<msub><mi>x</mi><mn>1</mn></msub>'), Markup('<mi>heart rate</mi>'))
    """
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
