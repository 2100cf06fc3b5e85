"""Units of constants, and the dimensional check of the user's statements.

    unit of c in  x_i' = ... + c * prod_k x_k ** w_k   is   [x_i] / ([t] * prod_k [x_k] ** w_k)

The units of named constants follow from the form of the law,

    summands have the same unit;  arguments of functions have none;  [f_i] = [x_i] / [t]

conditions that are linear in the powers of the words of the unknown units.

Units are products of powers of words; numbers are never converted, so any word is allowed. Only the check
of statements has to know that a km is 1000 m, for which it uses pint (extra `units`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import sympy

from odediscovery.data.dates import UNITS
from odediscovery.errors import InputError
from odediscovery.knowledge.constraints import Knowledge
from odediscovery.laws.equations import Equations, read_form
from odediscovery.laws.power_sum import Features
from odediscovery.laws.records import places
from odediscovery.runtime.arrays import Array

# A unit: the power of every word in it. A word in <> stands for an unknown unit.
Unit = Mapping[str, float]

# Powers closer to 0 than this, and conversion factors closer to 1, are rounding errors.
_ROUNDING = 1e-9
# Conditions violated by more than this contradict each other.
_TOLERANCE = 1e-8
_PIECE = re.compile(r"\s*(?:(\*\*|\^)?\s*([+-]?\d+(?:\.\d+)?)|([^\W\d]\w*|[%°µ$€]\w*)|([*·/()]))", re.UNICODE)
_PLURALS = {name: name.removesuffix("s") for name in UNITS}


def read_unit(text: str) -> Unit:
    """A unit as powers of its words; a text that cannot be parsed counts as one word."""
    found, text = dict[str, float](), text.strip()
    opaque = {f"({text})": 1.0}
    # Powers of the enclosing brackets, outermost first, and the sign of the power of the next factor.
    powers, sign, last, at = [1.0], 1.0, "", 0
    while at < len(text):
        piece = _PIECE.match(text, at)
        if piece is None:
            return opaque
        power, number, word, mark = piece.groups()
        if word:
            last, step, sign = _PLURALS.get(word, word), powers[-1] * sign, 1.0
            found[last] = found.get(last, 0.0) + step
        elif number and last and (power or number[0] in "+-" or piece.start(2) == at):
            found[last] += step * (float(number) - 1.0)
            last = ""
        elif number and not power and float(number) == 1.0:
            sign = 1.0
        elif mark == "/":
            sign, last = -1.0, ""
        elif mark == "(":
            powers.append(powers[-1] * sign)
            sign, last = 1.0, ""
        elif mark == ")" and powers[1:]:
            powers.pop()
            sign, last = 1.0, ""
        elif mark not in ("*", "·"):
            return opaque
        at = piece.end()
    return opaque if powers[1:] else {name: w for name, w in found.items() if abs(w) > _ROUNDING}


def unit_text(unit: Unit) -> str | None:
    """A unit as text, "1" if dimensionless; None if unknown."""
    if not _is_told(unit):
        return None

    def product(sign: int) -> list[str]:
        powers = [(name, sign * w) for name, w in unit.items() if sign * w > _ROUNDING]
        return [name if abs(w - 1.0) < _ROUNDING else f"{name}^{w:.4g}" for name, w in powers]

    above, below = product(1), product(-1)
    over = f"({' '.join(below)})" if len(below) > 1 else "".join(below)
    return (" ".join(above) or "1") + (f"/{over}" if below else "")


def _is_told(unit: Unit) -> bool:
    return not any(name.startswith("<") for name in unit)


def joined(*parts: tuple[Unit, float]) -> Unit:
    """The product of units raised to powers."""
    found: dict[str, float] = {}
    for unit, power in parts:
        for name, w in unit.items():
            found[name] = found.get(name, 0.0) + power * w
    return {name: w for name, w in found.items() if abs(w) > _ROUNDING}


class Dimensions:
    """Units of a system: of its variables, of time, and of the terms of its law; unknown units may cancel."""

    def __init__(self, names: Sequence[str], time_name: str, units: Mapping[str, str]) -> None:
        every = (*names, time_name)
        self.by_name = {name: read_unit(units[name]) if units.get(name) else {f"<{name}>": 1.0} for name in every}
        self._variables = [self.by_name[name] for name in names]
        self._time = self.by_name[time_name]

    def product(self, exponents: Sequence[float] | Array) -> Unit:
        """The unit of prod_k x_k ** w_k."""
        return joined(*zip(self._variables, map(float, exponents), strict=False))

    def rate(self, state: str) -> Unit:
        """The unit of x'."""
        return joined((self.by_name[state], 1.0), (self._time, -1.0))


def units_of_constants(equations: Equations) -> dict[str, list[str | None]]:
    """The unit of every constant, in the order of `laws.records.constants`; None where unknown."""
    law = equations.law
    if law is None:
        return {state: [] for state in equations.states}
    names, n = equations.variables, len(equations.variables)
    of, features = Dimensions(names, equations.time_name, equations.units), law.features or Features(n)
    _, w, _, v = law.constants

    def unit(kind: int, at: tuple[int, int]) -> Unit:
        row, k = at
        if kind == 0:
            return joined((of.rate(equations.states[row]), 1.0), (of.product(w[k, :n]), -1.0))
        if kind == 2:
            return joined((of.product(v[k, :n]), -1.0))
        # An exponent is dimensionless, but in a function it is a rate with the inverse unit of its state.
        inside = n <= k < features.simple
        return joined((of.by_name[names[features.state_of(k)]], -1.0)) if inside else {}

    return {state: [unit_text(unit(*one)) for one in places(law, i)] for i, state in enumerate(equations.states)}


def units_of_names(
    lines: Sequence[str],
    names: Sequence[str],
    states: Sequence[str],
    time_name: str,
    units: Mapping[str, str],
    controls: Sequence[str] = (),
) -> list[str | None]:
    """The unit of every named constant of the equations in these lines, None if their form does not determine it."""
    unknown: list[str | None] = [None] * len(names)
    if not units:
        return unknown
    try:
        form = read_form(list(lines), states, controls=controls, time_name=time_name)
    except InputError:
        return unknown
    if set(form.names) != set(names):
        return unknown
    opened, of = form.open(), Dimensions((*states, *controls), time_name, units)
    # The unit of a constant is a word as well, <name of the constant>.
    own = {name: f"<constant {name}>" for name in names}
    known: dict[sympy.Symbol, Unit] = {
        symbol: {own[name]: 1.0} if name in own else of.by_name[name]
        for name, symbol in zip(opened.variables, opened.symbols, strict=True)
    }
    conditions = list[Unit]()  # products of units that are dimensionless

    def same(one: Unit | None, other: Unit | None) -> None:
        if one is not None and other is not None:
            conditions.append(joined((one, 1.0), (other, -1.0)))

    def unit_of(expression: sympy.Expr) -> Unit | None:
        """The unit of an expression, None if undetermined; adds the conditions that hold inside it."""
        if expression in known:
            return known[expression]
        parts = [unit_of(part) for part in expression.args]
        told = [part for part in parts if part is not None]
        if expression.is_Add:
            for other in told[1:]:
                same(told[0], other)
            return told[0] if told else None
        if expression.is_Mul:
            return joined(*((unit, 1.0) for unit in told)) if len(told) == len(parts) else None
        if expression.is_Pow and expression.exp.is_Number:
            return None if parts[0] is None else joined((parts[0], float(expression.exp)))
        # Exponents that are not numbers and arguments of functions are dimensionless, as are numbers.
        for one in parts[1:] if expression.is_Pow else parts:
            same(one, {})
        return None if expression.is_Pow else {}

    for state, side in zip(states, opened.right_hand_sides, strict=True):
        same(unit_of(side), of.rate(state))
    return _solved(conditions, list(own.values())) if conditions else unknown


def _solved(conditions: Sequence[Unit], unknown: Sequence[str]) -> list[str | None]:
    """The unknown units that make the conditions dimensionless; all None if these contradict each other."""
    words = sorted({word for unit in conditions for word in unit} - set(unknown))
    a, b = (np.array([[unit.get(word, 0.0) for word in some] for unit in conditions]) for some in (unknown, words))
    x: Array = np.linalg.lstsq(a, -b, rcond=None)[0]
    if b.size and np.abs(a @ x + b).max() > _TOLERANCE:
        return [None] * len(unknown)
    # Undetermined constants have a part in the null space of the conditions.
    _, sizes, right = np.linalg.svd(a)
    free = np.abs(right[int((sizes > _TOLERANCE).sum()) :]).max(axis=0, initial=0.0)
    powers = [dict(zip(words, row, strict=True)) for row in np.round(x, 6).tolist()]
    return [
        None if loose > _TOLERANCE else unit_text({word: power for word, power in found.items() if power})
        for loose, found in zip(free, powers, strict=True)
    ]


def check_dimensions(known: Knowledge, time_name: str, units: Mapping[str, str]) -> None:
    """Raise InputError for terms without a constant, or sums, whose units are inconsistent.

    In "h' = v" the term has no constant: the unit of v must be that of h over that of time. A number,
    as in "v' = 9.81 + ?", may have any unit. Without pint nothing is checked.
    """
    if find_spec("pint") is None:
        return
    import pint  # noqa: PLC0415 (slow to load, rarely needed)

    of = Dimensions(known.states, time_name, units)
    registry = pint.UnitRegistry()
    for i, side in enumerate(known.known):
        rate = of.rate(known.states[i])
        for c, w in () if side is None else zip(side.coefficients[i].tolist(), side.exponents, strict=True):
            if abs(c) == 1.0 and np.any(w):
                what = f"{known.states[i]}' is known with a term of unit", "the equation has"
                _check_same(registry, of.product(w), rate, what)
    for one in known.conserved:
        used = [int(k) for k in np.flatnonzero(one.weights)]
        own = [of.by_name[known.states[k]] for k in used if abs(one.weights[k]) == 1.0]
        for unit in own[1:]:
            _check_same(registry, unit, own[0], ("a conserved sum has a state of unit", "another has"))


def _check_same(registry: Any, unit: Unit, expected: Unit, what: tuple[str, str]) -> None:
    """Raise InputError if two known units differ."""
    apart = joined((unit, 1.0), (expected, -1.0))
    if not apart or not _is_told(unit) or not _is_told(expected):
        return
    ratio = 1.0 * registry.dimensionless
    for name, w in apart.items():
        ratio = ratio * _resolved(registry, name) ** w
    ratio = ratio.to_base_units()
    told = f"{what[0]} {unit_text(unit)}, where {what[1]} {unit_text(expected)}"
    if not ratio.dimensionless:
        raise InputError(f"{told}: these are no units of the same kind; correct the statement or --units")
    factor = float(ratio.magnitude)
    if abs(factor - 1.0) > _ROUNDING:
        raise InputError(f"{told}: write the factor {factor:.10g} before it, or correct --units")


def _resolved(registry: Any, name: str) -> Any:
    """The quantity 1 of a unit, without offset; a word unknown to pint is a dimension of its own."""
    try:
        return 1.0 * registry.Unit(f"delta_{name}" if name in ("degC", "degF", "°C", "°F") else name)
    except Exception:
        fresh = "own_" + "".join(f"{ord(letter):x}_" for letter in name)
        if fresh not in registry:
            registry.define(f"{fresh} = [{fresh}]")
        return 1.0 * registry.Unit(fresh)
