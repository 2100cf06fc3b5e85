"""Every term of the equations in plain words: "S falls in proportion to the square root of S*I".

A product with negative states may change its sign, so sentences depend on the values along the curves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import numpy as np
from markupsafe import Markup

from odediscovery.families import STATE_FUNCTIONS
from odediscovery.laws.equations import Equations
from odediscovery.laws.expressions import ONE, Bracket, Call, Name, Number, Power, Side, Term, constant, law_constant
from odediscovery.report.mathml import DIGITS, MAX_SIDE_SIZE, ROUND, name_text, sides, size
from odediscovery.runtime.arrays import Array

# Significant digits of numbers in sentences.
FEW = 3

_FUNCTIONS: Mapping[str, tuple[str, Callable[[Array], Array]]] = {
    "tan": ("the tangent of", np.tan),
    "tanh": ("the hyperbolic tangent of", np.tanh),
    "sign": ("the sign of", np.sign),
    **{f.name: (f.phrase, f.value) for f in STATE_FUNCTIONS.values()},
}


def _function(name: str) -> tuple[str, Callable[[Array], Array]]:
    """Words for a function, and its values."""
    return _FUNCTIONS.get(name, (f"{name} of", partial(np.full_like, fill_value=np.nan)))


_POWERS = {2.0: "the square of {}", 3.0: "the cube of {}", 0.5: "the square root of {}"}


def readings(equations: Equations, visited: Array) -> list[list[Markup]]:
    """Write a sentence for each term, in the order of `sides`, given values [n, variables] along the curves.

    An equation without terms has one sentence, one that is too long to be read none.
    """
    reader = _Reader(equations, visited)
    return [
        [reader.sentence(i, term) for term in side or (None,)] if size(side) <= MAX_SIDE_SIZE else []
        for i, side in enumerate(reader.sides)
    ]


class _Reader:
    def __init__(self, equations: Equations, visited: Array) -> None:
        self.equations, self.sides = equations, sides(equations)
        self.columns = dict(zip(equations.variables, visited.T, strict=True))

    def sentence(self, i: int, term: Term | None) -> Markup:
        name = name_text(self.equations.states[i])
        if term is None:
            return Markup("{} stays as it is.").format(name)
        grows = term.coefficient.value > 0
        if not term.factors:
            return Markup("{} {} at a constant rate.").format(name, _way(grows))
        alone = term.factors == (Power(Name(self.equations.states[i]), ONE),)
        with np.errstate(all="ignore"):
            least, most = _range(_product(term.factors, self.columns))
        if least < 0.0 < most and alone:
            way = "driven away from" if grows else "drawn back to"
            return Markup("{} is {} 0 in proportion to itself{}").format(name, way, self._pace(term))
        if least < 0.0 < most:
            ways = ("rises", "falls") if grows else ("falls", "rises")
            return Markup("{} {} while {} is positive and {} while it is negative, in proportion to it.").format(
                name, ways[0], _phrase(term.factors), ways[1]
            )
        how = _proportion(term.factors, self.equations.states[i])
        if least < 0.0:
            grows, how = not grows, how + Markup(", which is negative")
        end = self._pace(term) if alone else self._partner(i, term)
        return Markup("{} {} {}{}").format(name, _way(grows), how, end)

    def _pace(self, term: Term) -> Markup:
        rate = term.coefficient.value
        time = self.equations.time_name
        unit = self.equations.units.get(time) or Markup("units of {}").format(name_text(time))
        verb, length = "double" if rate > 0 else "halve", math.log(2.0) / abs(rate)
        return Markup(": alone, this would {} it in {} {}.").format(verb, constant(length, digits=FEW), unit)

    def _partner(self, i: int, term: Term) -> Markup:
        """Name the state that gains or loses the same amount, if there is exactly one."""
        states = self.equations.states
        found = [
            states[k]
            for k, side in enumerate(self.sides)
            for other in side
            if k != i
            and term.monomial is not None
            and other.monomial == term.monomial
            and _opposite(term.coefficient, other.coefficient)
        ]
        if len(found) != 1:
            return Markup(".")
        own, other = name_text(states[i]), name_text(found[0])
        if term.coefficient.value < 0:
            return Markup(". What {} loses here, {} gains.").format(own, other)
        return Markup(". It is what {} loses.").format(other)


def _way(grows: bool) -> str:
    return "grows" if grows else "falls"


def _opposite(a: Number, b: Number) -> bool:
    """Whether two coefficients are opposite within their errors, so that one state gains what the other loses."""
    apart = abs(a.value + b.value)
    within = math.hypot(a.error, b.error)
    likely = not math.isfinite(within) or within == 0.0 or apart <= 3.0 * within
    return a.value * b.value < 0 and apart <= 0.01 * abs(a.value) and likely


def _range(values: Array) -> tuple[float, float]:
    """Range of values, ignoring a millionth of the largest, as from rounding or an integrator's overshoot."""
    seen = values[np.isfinite(values)]
    if not seen.size:
        return 0.0, 1.0
    floor = 1e-6 * float(np.abs(seen).max())
    least, most = float(seen.min()), float(seen.max())
    return least if least < -floor else 0.0, most if most > floor else 0.0


def _product(factors: Iterable[Power], columns: Mapping[str, Array]) -> Array:
    found = np.ones_like(next(iter(columns.values())))
    for p in factors:
        base = columns[p.base.name] if isinstance(p.base, Name) else _sum(p.base.inside, columns)
        if isinstance(p.base, Call):
            base = _function(p.base.function)[1](base)
        raised = p.exponent.value if isinstance(p.exponent, Number) else _sum(p.exponent.inside, columns)
        whole = isinstance(raised, float) and raised.is_integer()
        found = found * np.power(base if whole else np.maximum(base, 0.0), raised)
    return found


def _sum(side: Side, columns: Mapping[str, Array]) -> Array:
    terms = [term.coefficient.value * _product(term.factors, columns) for term in side]
    found: Array = np.sum(terms, axis=0)
    return found


# Words


def _proportion(factors: Sequence[Power], state: str) -> Markup:
    """ "in proportion to S*I", "in inverse proportion to N"."""
    if factors == (Power(Name(state), ONE),):
        return Markup("in proportion to itself")
    above, below = _split(factors)
    if len(factors) == 1 and above and above[0].base == Name(state):
        return Markup("in proportion to {}").format(_power(Markup("itself"), above[0].exponent))
    if not above:
        return Markup("in inverse proportion to {}").format(_words(below))
    return Markup("in proportion to {}").format(_phrase(factors))


def _split(factors: Iterable[Power]) -> tuple[list[Power], list[Power]]:
    """Separate multiplying factors from dividing ones, whose exponents change sign."""
    above, below = [], []
    for p in factors:
        if isinstance(p.exponent, Number) and p.exponent.value < 0:
            below.append(Power(p.base, Number(-p.exponent.value, p.exponent.error)))
        else:
            above.append(p)
    return above, below


def _phrase(factors: Iterable[Power]) -> Markup:
    above, below = _split(factors)
    if not below:
        return _words(above)
    top = _words(above) if above else Markup("1")
    remark = ", which levels off" if _levels_off(above, below) else ""
    return Markup("{}, divided by {}{}").format(top, _words(below), remark)


def _levels_off(above: Iterable[Power], below: Iterable[Power]) -> bool:
    """Whether a factor x^n is divided by a sum with b x^n, such as 1 + b x^n."""
    sums = [p.base.inside for p in below if isinstance(p.base, Bracket) and p.exponent == ONE]
    growing = [term.factors for side in sums for term in side if term.coefficient.value > 0]
    return bool(_plain_powers(above) & _plain_powers(factors[0] for factors in growing if len(factors) == 1))


def _plain_powers(powers: Iterable[Power]) -> set[tuple[Name, float]]:
    """States or inputs with their exponents."""
    named = ((p.base, p.exponent) for p in powers if isinstance(p.base, Name))
    return {(name, round(exponent.value, ROUND)) for name, exponent in named if isinstance(exponent, Number)}


def _words(factors: Sequence[Power]) -> Markup:
    """Describe factors in words, those of equal power together: "the square root of S*I"."""
    groups: dict[Number | Bracket | Power, list[Power]] = {}
    for p in factors:
        told = isinstance(p.exponent, Number) and p.exponent.error == 0.0
        groups.setdefault(p.exponent if told else p, []).append(p)
    parts = []
    for group in groups.values():
        product = Markup("\N{DOT OPERATOR}").join(_base(p.base, len(factors) > 1) for p in group)
        parts.append(_power(product, group[0].exponent))
    return Markup(" times ").join(parts)


def _power(product: Markup, exponent: Number | Bracket) -> Markup:
    if exponent == ONE:
        return product
    if isinstance(exponent, Number) and exponent.error == 0.0 and exponent.value in _POWERS:
        return Markup(_POWERS[exponent.value]).format(product)
    if isinstance(exponent, Bracket):
        return Markup("{} to the power of {}").format(product, _plain(exponent.inside))
    written = law_constant(exponent.value, exponent.error, DIGITS, exponent.spare)
    return Markup("{} to the power {}").format(product, written)


def _base(base: Name | Call | Bracket, among: bool) -> Markup:
    if isinstance(base, Name):
        return name_text(base.name)
    inside = _plain(base.inside)
    if isinstance(base, Bracket):
        return Markup("({})").format(inside)
    return Markup("({} {})" if among else "{} {}").format(_function(base.function)[0], inside)


def _plain(side: Side) -> Markup:
    """Write a sum as a formula within a sentence."""
    found = Markup("")
    for i, term in enumerate(side):
        minus = term.coefficient.value < 0
        found += " \N{MINUS SIGN} " if i and minus else " + " if i else "\N{MINUS SIGN}" if minus else ""
        size_of = constant(abs(term.coefficient.value), digits=FEW)
        factors = [_formula(p) for p in term.factors]
        written = factors if size_of == "1" and factors else [Markup(size_of), *factors]
        found += Markup("\N{DOT OPERATOR}").join(written)
    return found or Markup("0")


def _formula(p: Power) -> Markup:
    base = _base(p.base, True)
    if isinstance(p.exponent, Bracket):
        return Markup("{}<sup>{}</sup>").format(base, _plain(p.exponent.inside))
    power = constant(p.exponent.value, digits=FEW).replace("-", "\N{MINUS SIGN}")
    return base if power == "1" else Markup("{}<sup>{}</sup>").format(base, power)
