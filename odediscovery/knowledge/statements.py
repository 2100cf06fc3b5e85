"""Statements of a user about equations, read with the place of every mistake.

Nothing is evaluated: names are looked up among the states, sums are read like equations.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from odediscovery.errors import InputError, unknown_name
from odediscovery.laws.equations import Equations
from odediscovery.laws.expressions import identifiers
from odediscovery.laws.power_sum import PowerSum
from odediscovery.runtime.arrays import Array

MAX_CHARACTERS, MAX_TERMS, MAX_QUOTED = 10_000, 500, 60

_PRODUCTS = f"a sum of products of powers (at most {MAX_TERMS}, no functions such as sin for now)"
_NUMBER = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"


@dataclass(frozen=True, eq=False)
class KnownSide:
    """sum_j c_j * prod_k x_k ** w_jk (+ ?), the known part of one right-hand side.

    Args:
        coefficients: c, [terms].
        exponents: w, [terms, states].
        more: whether other terms are to be found.
        mirrored: states whose fractional powers are those of -x, written (-x)^1.8.
    """

    coefficients: Array
    exponents: Array
    more: bool
    mirrored: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Conserved:
    """sum_i c_i x_i = value at all times.

    Args:
        weights: c, [states].
        value: None where it is not known.
    """

    weights: Array
    value: float | None = None


@dataclass(frozen=True)
class Statement:
    """A text of the user; positions count from 0 inside, from 1 for people."""

    text: str
    states: tuple[str, ...]

    def error(self, reason: str, at: int) -> InputError:
        """The error for what stands at a position."""
        return InputError(f"cannot read {quoted(self.text)} at character {at + 1}: {reason}")

    def name(self, at: int, stop: str, expected: str) -> tuple[int, int]:
        """The state named at a position, and the position behind the `stop` after it."""
        places = {name: i for i, name in enumerate(identifiers(self.states).values())}
        places |= {name: i for i, name in enumerate(self.states)}
        # The longest first, since a column may be called "x' = y".
        names = "|".join(re.escape(name) for name in sorted(places, key=len, reverse=True))
        if found := re.compile(rf"\s*({names})\s*(?:{stop})").match(self.text, at):
            return places[found[1]], found.end()
        at += len(self.text[at:]) - len(self.text[at:].lstrip())
        word = re.split("[':=,]", self.text[at:])[0]
        if word.strip() and re.compile(stop).match(self.text, at + len(word)):
            raise self.error(str(unknown_name("state", word.strip()[:60], self.states)), at)
        raise self.error(f"expected {expected}", at + len(word))

    def sum(self, start: int, end: int, expected: str, linear: bool = False) -> PowerSum:
        """The law x' = text[start:end] of the first state."""

        def good(law: PowerSum | None) -> bool:
            if law is None or not np.isfinite(law.coefficients).all():
                return False
            ones, used = (law.exponents == 1).sum(axis=1), (law.exponents != 0).sum(axis=1)
            return not linear or bool((ones == 1).all() and (used == 1).all())

        # Blanks in front, so that places stay; Python would pass over # and all behind it.
        body = " " * start + re.sub(r"\s", " ", self.text[start:end]).replace("#", "$")
        body = body.replace("?", "$") if linear else body
        law = self.law(body) if body.strip() else None
        if law is not None and good(law):
            return law
        at = start = len(body) - len(body.lstrip())
        for stop in [*[k for k, c in enumerate(body) if c in "+-"][:MAX_TERMS], len(body)]:
            piece = body[at:stop].rstrip()
            whole = piece.count("(") == piece.count(")") and piece[-1:] not in "(*/+-"
            if whole and not re.search(r"\d[eE]$", piece[-2:]):
                if not good(self.law(" " * at + piece)):
                    sign = len(piece) - len(piece.lstrip("+- "))
                    raise self.error(f"expected {expected}", at + sign)
                at = stop
        raise self.error(f"expected {expected}", start)

    def law(self, body: str) -> PowerSum | None:
        """The law x' = body of the first state, or None where it is no sum of products."""
        names = identifiers(self.states).values()
        # A letter for the ?, which is 0; a digit would make a number of 1e+?.
        rest = next(c for c in map(chr, range(0x4E00, 0x9FA5)) if c not in names)
        # The + means nothing, but without it the blanks would be cut off.
        source = re.sub("^ ", "+", body.rstrip().replace("?", rest))
        texts = dict.fromkeys(self.states, "0") | {self.states[0]: source}
        try:
            return Equations.parse(self.states, texts, constants={rest: 0.0}).power_sum
        except InputError as error:
            reason = str(error).replace(f" {rest}, ", " ")
        for old, new in identifiers(self.states).items():
            if old != new and old in self.text:
                reason += f"; {old!r} is written {new} here"
        for word in re.finditer(r"\w+", source):
            if reason.startswith((f"unknown name {word[0]!r}", f"unknown function {word[0]!r}")):
                shown = repr(word[0][:60])
                raise self.error(reason.replace(repr(word[0]), shown, 1), word.start())
        why = reason.removeprefix(f"cannot read {quoted(source)}: ")
        if place := re.search(r" at character (\d+)", why):
            # What starts at the + in front starts the sum; Python has no place for its end.
            first = len(body) - len(body.lstrip()) if place[1] == "1" else int(place[1]) - 1
            at = len(source) if source[-1] in "+-*/" else first
            raise self.error(why.replace(place[0], "", 1), at)
        raise InputError(f"cannot read {quoted(self.text)}: {why}")


def known_side(one: Statement) -> tuple[int, KnownSide]:
    """The state and its side in "v' = 9.81 + ?", as an example."""
    i, start = one.name(0, r"'\s*=", "a state, ' and = as in h' = -v")
    marks = [k for k in range(start, len(one.text)) if one.text[k] == "?"]
    if marks:
        before, after = one.text[start : marks[0]], one.text[marks[0] + 1 :].lstrip()
        added = re.search(r"(?:^|[\w).]\s*\+)\s*$", before) and after[:1] in ("", "+", "-")
        if len(marks) > 1 or not added or before.count("(") != before.count(")"):
            raise one.error("expected ? once and as a summand, as in 9.81 + ?", marks[-1])
    law = one.sum(start, len(one.text), _PRODUCTS)
    return i, KnownSide(law.coefficients[0], law.exponents, bool(marks), law.mirrored)


def conserved_sum(one: Statement) -> Conserved:
    """The sum in "S + I + R = 763", as an example."""
    end = one.text.find("=")
    value = one.text[end + 1 :].strip()
    if end >= 0 and not (re.fullmatch(_NUMBER, value) and math.isfinite(float(value))):
        raise one.error("expected a number behind =", end + 1)
    last = len(one.text) if end < 0 else end
    law = one.sum(0, last, "a weighted sum of states such as S + 2*I", linear=True)
    if not law.n_monomials:
        raise one.error("expected a weight other than 0", 0)
    return Conserved(law.coefficients[0] @ law.exponents, None if end < 0 else float(value))


def read_bounds(one: Statement) -> tuple[float, float]:
    """The range in "exponents 0..2", as an example."""
    given = one.text.strip().removeprefix("exponents").removeprefix("exponent").lstrip()
    read = re.fullmatch(rf"({_NUMBER})\s*\.\.\s*({_NUMBER})", given)
    least, most = (float(read[1]), float(read[2])) if read else (math.nan, math.nan)
    if not (least <= most and math.isfinite(most - least)):
        at = len(one.text.rstrip()) - len(given)
        raise one.error("expected two numbers, the smaller first, as in exponents 0..2", at)
    return least, most


def texts_of(states: Sequence[str], given: Sequence[str]) -> Iterator[Statement]:
    """Every text as a statement."""
    for text in [given] if isinstance(given, str) else given:
        if not isinstance(text, str):
            raise InputError(f'expected a text such as "h\' = -v", got {text!r}')
        if len(text) > MAX_CHARACTERS:
            raise InputError(f"a text of {len(text)} characters is longer than {MAX_CHARACTERS}; cut it")
        yield Statement(text, tuple(states))


def quoted(text: str) -> str:
    """A text as a message quotes it."""
    return repr(text if len(text) <= MAX_QUOTED else f"{text[: MAX_QUOTED - 3]}...")
