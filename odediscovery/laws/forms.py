"""Laws of a form that somebody writes down, with constants that are to be fitted.

    prey' = r*prey*(1 - prey/K) - a*prey*pred/(1 + b*prey)

Names that are no states are constants, and numbers stay. In a law without such names, as this program
prints them, the numbers are the constants: those with an error bar, 0.481(65), and those with a
decimal point that are no exponents. Powers are written ^ or **; nothing is evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from odediscovery.errors import InputError, unknown_name
from odediscovery.laws.equations import Equations
from odediscovery.laws.expressions import exact, identifiers

# What people write: one text of several lines, a line a state, or right-hand sides by state.
Written: TypeAlias = str | Sequence[str] | Mapping[str, str]

MAX_CONSTANTS = 60

_NUMBER = re.compile(r"(?<![\w.])(?P<value>\d+\.?\d*|\.\d+)(?P<error>\(\d+\))?(?P<power>[eE][+-]?\d+)?(?![\w.])")
_NAME = re.compile(r"[^\W\d]\w*")
_EQUATION = re.compile(r"\s*(?P<state>[^=]+?)\s*['\u2019\u2032]\s*=(?P<side>.*)", re.DOTALL)
# The same as textbooks write it, dx/dt = ...
_DERIVATIVE = re.compile(r"\s*d\s*(?P<state>[^=]+?)\s*/\s*d\s*[^=/]+?\s*=(?P<side>.*)", re.DOTALL)
# Lines that stand below printed equations.
_REMARK = re.compile(r"\s*(note:|at .+? = .+?:|#|\()")


@dataclass(frozen=True)
class Form:
    """Equations with named constants.

    Args:
        states: names as the user wrote them.
        controls: names of what acts on the states.
        texts: right-hand side of every state, in the notation of `expressions.parse`, over the
            identifiers of states, controls and constants.
        names: of the constants.
        starts: where their fit begins, None where that was not said.
        time_name: name of the time.
    """

    states: tuple[str, ...]
    controls: tuple[str, ...]
    texts: Mapping[str, str]
    names: tuple[str, ...]
    starts: tuple[float | None, ...]
    time_name: str = "t"

    def with_constants(self, values: Sequence[float]) -> Equations:
        """The equations with numbers in the place of the constants."""
        numbers = dict(zip(self.names, map(float, values), strict=True))
        return Equations.parse(
            self.states, self.texts, constants=numbers, time_name=self.time_name, controls=self.controls
        )

    def open(self) -> Equations:
        """The equations with the constants as further controls, the last ones."""
        return Equations.parse(
            self.states, self.texts, time_name=self.time_name, controls=(*self.controls, *self.names)
        )

    def states_in(self, state: str) -> set[str]:
        """Identifiers of the states that stand in the equation of one.

        >>> sorted(read_form(["x' = -k*x*y", "y' = k*x"], ["x", "y"]).states_in("y"))
        ['x']
        """
        return set(identifiers(self.states).values()) & set(_NAME.findall(self.texts[state]))

    def lines(self) -> list[str]:
        """The equations as they were written, with ^ for powers."""
        back = {safe: name for name, safe in identifiers((*self.states, *self.controls)).items()}
        shown = {s: _NAME.sub(lambda m: back.get(m[0], m[0]), self.texts[s]) for s in self.states}
        return [f"{state}' = {text.replace('**', '^')}" for state, text in shown.items()]


def read_form(
    written: Written,
    states: Sequence[str],
    *,
    controls: Sequence[str] = (),
    time_name: str = "t",
    start: Mapping[str, float] | None = None,
) -> Form:
    """A form as it was written down, or as this program printed it.

    Args:
        written: lines "x' = ..." or "dx/dt = ...", as one text or a list, or right-hand sides by state.
            Remarks below printed equations are passed over.
        states: names of all states.
        controls: names of what acts on them.
        time_name: name of the time.
        start: where the fit of a constant begins, by its name.

    Raises:
        InputError: an equation that is missing, twice, of another state or cannot be read; a start of
            a constant that does not occur; no constants at all.

    >>> form = read_form("N' = r*N*(1 - N/K)", ["N"], start={"K": 50})
    >>> form.names, form.starts
    (('r', 'K'), (None, 50.0))
    >>> read_form("N' = 0.39(3)*N - 0.0040(2)*N^2", ["N"]).texts["N"]
    'c1*N - c2*N**2'
    """
    sides = _sides(written, states)
    safe = identifiers((*states, *controls))
    plain = {state: _with_identifiers(side, safe).replace("^", "**") for state, side in sides.items()}
    names = _names(plain, set(safe.values()), time_name)
    found: dict[str, float | None] = dict.fromkeys(names)
    texts = {state: _lifted(text, found, named=bool(names)) for state, text in plain.items()}
    if not found:
        raise InputError("the law has no constants to fit: name them, as in x' = -k*x, or write numbers such as 1.0")
    if len(found) > MAX_CONSTANTS:
        raise InputError(f"the law has {len(found)} constants; at most {MAX_CONSTANTS} can be fitted")
    for name, value in (start or {}).items():
        if name not in found:
            raise unknown_name("constant", name, list(found))
        found[name] = float(value)
    form = Form(tuple(states), tuple(controls), texts, tuple(found), tuple(found.values()), time_name)
    form.open()  # whether it can be read
    return form


def _sides(written: Written, states: Sequence[str]) -> dict[str, str]:
    """The right-hand sides by state, in the order of the states."""
    if isinstance(written, Mapping):
        sides = {str(state): str(side) for state, side in written.items()}
        for state in sides:
            if state not in states:
                raise unknown_name("state", state, states)
    else:
        lines = re.split(r"[\n;]", written) if isinstance(written, str) else [str(line) for line in written]
        sides = {}
        for line in (line for line in lines if line.strip() and not _REMARK.match(line)):
            found = _EQUATION.fullmatch(line) or _DERIVATIVE.fullmatch(line)
            if not found:
                raise InputError(f"cannot read {line.strip()!r}: expected an equation such as {states[0]}' = ...")
            state = found["state"].strip()
            if state not in states:
                raise unknown_name("state", state, states)
            if state in sides:
                raise InputError(f"the equation of {state!r} stands twice; write each once")
            sides[state] = found["side"].strip()
    for state in states:
        if state not in sides:
            # Two equations with a comma between them are read as one.
            between = "; put ; or a new line between equations" if any("=" in side for side in sides.values()) else ""
            raise InputError(
                f"the equation of {state!r} is missing: write {state}' = ..., or 0 if it never changes{between}"
            )
    return {state: sides[state] for state in states}


def _with_identifiers(side: str, safe: Mapping[str, str]) -> str:
    """The text with identifiers for names that are none: "feed rate" as feed_rate."""
    for name in sorted((name for name in safe if safe[name] != name), key=len, reverse=True):
        side = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", safe[name], side)
    return side


def _names(texts: Mapping[str, str], taken: set[str], time_name: str) -> list[str]:
    """Names that are neither states nor functions, in order of appearance."""
    found: dict[str, None] = {}
    for text in texts.values():
        for match in _NAME.finditer(_NUMBER.sub(lambda m: " " * len(m[0]), text)):
            called = text[match.end() :].lstrip().startswith("(")
            if match[0] in taken or called:
                continue
            if match[0] == time_name:
                raise InputError(
                    f"{time_name!r} is the time: for a law that has it, name it as an input, --inputs {time_name}"
                )
            found[match[0]] = None
    return list(found)


def _lifted(text: str, found: dict[str, float | None], *, named: bool) -> str:
    """The text with names for the numbers that are to be fitted, which join `found`."""

    def one(match: re.Match[str]) -> str:
        number = match["value"] + (match["power"] or "")
        exponent = text[: match.start()].rstrip(" (-").endswith("**")
        fitted = match["error"] is not None or (not named and "." in number and not exponent)
        if not fitted:
            return exact(float(number))
        k = 1 + sum(name.startswith("c") and name[1:].isdigit() for name in found)
        while f"c{k}" in found:
            k += 1
        found[f"c{k}"] = float(number)
        return f"c{k}"

    return _NUMBER.sub(one, text)
