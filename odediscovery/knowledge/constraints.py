"""Prior knowledge about a law: statements of the user, the constraints that they impose, and term libraries.

Known terms, conserved sums, forbidden variables and the range of the exponents are written as text and parsed like
equations: errors have their position, nothing is evaluated, and names are looked up among the states.
`Knowledge.impose` turns a law into the nearest one that satisfies them. A conserved sum sum_i c_i x_i adds no constant:
the equation of one of its states, the tied one, follows from the others, x_l' = -sum_{i != l} c_i/c_l x_i'.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import sympy

from odediscovery.data.series import TimeSeries
from odediscovery.errors import InputError, unknown_name
from odediscovery.families import EXP_INVERSE, STATE_FUNCTIONS, Family, Seen, Shape
from odediscovery.laws.equations import Equations, read_law
from odediscovery.laws.expressions import exact, identifiers, join_terms, quoted
from odediscovery.laws.power_sum import Features, PowerSum
from odediscovery.runtime.arrays import Array, Mask

# Monomials whose exponents differ by at most this count as equal, and a known one replaces a fitted one.
NEAR = 0.05 + 1e-9
TOLERANCE = 1e-9  # relative tolerance of equal constants [size of the terms]


@dataclass(frozen=True, eq=False)
class Knowledge:
    """Constraints on dx_i/dt = sum_j A[i, j] * prod_k y_k ** W[j, k]; see `knowledge`."""

    states: tuple[str, ...]  # names as the user wrote them
    known: tuple[PowerSum | None, ...]  # known part of every equation, as a law with no other terms, or None
    more: Mask  # known equations with further, unknown terms [states]
    conserved: tuple[Conserved, ...]  # linearly independent sums
    forbidden: Mask  # [states (equation), states (variable)]
    bounds: tuple[float, float]  # lower and upper bound of exponents other than 0
    integer: bool  # whether exponents are whole numbers
    # M with x' = M @ (the terms found and known), [states, states]. The identity except for rows of tied states,
    # -c_i/c_l over the others, and columns of 0 for tied states, so that C @ M = 0 for the conserved weights C. (Where
    # known equations alone conserve a sum, C @ M @ A = 0 for these.)
    stoichiometry: Array
    sources: bool = True  # whether constant terms are allowed
    nonnegative_flows: bool = False  # whether negative terms must have a positive power of their own state

    @property
    def empty(self) -> bool:
        """Whether nothing is known."""
        return not self.sentences()

    @property
    def fully_known(self) -> Mask:
        """Equations without unknown terms [states]."""
        return np.array([side is not None for side in self.known]) & ~self.more

    @property
    def tied(self) -> Mask:
        """Equations that follow from the others and the conserved sums [states]."""
        return np.asarray(self.stoichiometry.diagonal() == 0)

    @property
    def mentioned(self) -> Mask:
        """States in known terms [states]."""
        return np.asarray((self._given.exponents != 0).any(axis=0))

    def without(self, states: Mask) -> Knowledge:
        """The same knowledge with these states forbidden in all equations, unless they are in known terms."""
        return dataclasses.replace(self, forbidden=self.forbidden | (states & ~self.mentioned))

    def rescaled(self, scale: Array, time_scale: float) -> Knowledge:
        """The same knowledge for x' = x / scale [states] and t' = t / time_scale, with the same exponents.

        Sums c'_i = c_i s_i, M'_ij = M_ij s_j / s_i. It commutes with `impose` if no exponent has to be changed.
        """
        sides = tuple(side and side.rescaled(scale, time_scale) for side in self.known)
        sums = tuple(Conserved(one.weights * scale, one.value) for one in self.conserved)
        stoichiometry = self.stoichiometry * scale / scale[:, None]
        return dataclasses.replace(self, known=sides, conserved=sums, stoichiometry=stoichiometry)

    def impose(self, law: PowerSum) -> PowerSum:
        """The nearest law that satisfies the constraints, without terms in the equations of tied states.

        Known terms come first, in the order of the equations and exactly as given; each replaces
        monomials within `NEAR` of it in its equation. Exponents are clipped to the bounds (and
        rounded if whole); terms with forbidden variables, also within functions and sums, are
        removed, and then unused monomials. The law's stoichiometry fills the tied equations.
        """
        given, law = self._given, self._in_bounds(law)
        coefficients, exponents = law.coefficients.copy(), law.exponents
        coefficients[self.tied | self.fully_known] = 0.0
        coefficients[self.forbidden @ _uses(law).T] = 0.0
        if not self.sources:
            coefficients[:, ~_uses(law).any(axis=1)] = 0.0
        if self.nonnegative_flows:
            coefficients[(coefficients < 0.0) & (exponents[:, : len(coefficients)].T <= 0.0)] = 0.0
        first = self._padded(exponents.shape[1])
        near = (np.abs(first[:, None] - exponents) <= NEAR).all(axis=2)
        coefficients[(given.coefficients != 0) @ near] = 0.0
        coefficients = np.hstack([given.coefficients, coefficients])
        mix = self.stoichiometry if self.tied.any() else law.stoichiometry
        mirrored = tuple(sorted({*given.mirrored, *law.mirrored}))
        exponents = np.vstack([first, exponents])
        return PowerSum(coefficients, exponents, law.features, mix, mirrored).merged()

    def fixed_mask(self, law: PowerSum) -> tuple[Mask, Mask]:
        """Masks of the constants of an imposed law that must not be fitted.

        These are coefficients [states, monomials] of known terms and exponents [monomials, features] of known
        monomials, or all exponents if they are whole numbers.
        """
        of_a = np.zeros(law.coefficients.shape, dtype=bool)
        of_w = np.full(law.exponents.shape, self.integer)
        for k, row in enumerate(self._padded(law.exponents.shape[1])):
            same = (np.abs(law.exponents - row) <= 2 * TOLERANCE).all(axis=1)
            for j in same.nonzero()[0][:1]:
                of_a[:, j] = self._given.coefficients[:, k] != 0
                of_w[j] = True
        return of_a, of_w

    def allows(self, law: PowerSum) -> bool:
        """Whether a law satisfies the constraints: `impose` changes it by at most 1e-9."""
        nearest, mix = self.impose(law), self.stoichiometry
        if np.abs(law.constants[3] - nearest.constants[3]).max(initial=0.0) > TOLERANCE:
            return False
        rows = np.vstack([law.exponents, nearest.exponents])
        same = (np.abs(rows[:, None] - rows) <= 2 * TOLERANCE).all(axis=2).astype(float)
        mine, there = np.split(same, [law.n_monomials])
        least = np.abs(law.coefficients) @ mine + np.abs(mix) @ np.abs(nearest.coefficients) @ there
        forms = nearest.coefficients, mix @ nearest.coefficients
        off = (np.abs(law.coefficients @ mine - form @ there) for form in forms)
        return any(bool((one <= TOLERANCE * least).all()) for one in off)

    def sentences(self) -> list[str]:
        """The constraints in words, one sentence each, with names as in equations."""
        names = list(identifiers(self.states).values())
        sides = Equations.from_power_sum(self.states, self._given).texts().values()
        texts = [
            f"{name}' = {text}{' + ?' * more} is given"
            for name, text, side, more in zip(names, sides, self.known, self.more.tolist(), strict=True)
            if side
        ]
        texts += [f"{self._sum(one)} is kept exactly" for one in self.conserved]
        used = (self._given.coefficients != 0) @ (self._given.exponents != 0)
        texts += [f"{names[k]} does not appear in {names[i]}'" for i, k in np.argwhere(self.forbidden & ~used)]
        if np.isfinite(self.bounds).any():
            texts.append("exponents other than 0 lie within {:g}..{:g}".format(*self.bounds))
        texts += ["exponents are whole numbers"] * self.integer
        texts += ["no equation has a constant term"] * (not self.sources)
        return texts + ["what flows out of a state vanishes with it"] * self.nonnegative_flows

    @cached_property
    def _given(self) -> PowerSum:
        """All known terms as one law, in which equations share monomials."""
        n, sides = len(self.states), [side for side in self.known if side is not None]
        coefficients = np.hstack([np.zeros((n, 0)), *(side.coefficients for side in sides)])
        exponents = np.vstack([np.zeros((0, n)), *(side.exponents for side in sides)])
        mirrored = tuple(sorted({k for side in sides for k in side.mirrored}))
        return PowerSum(coefficients, exponents, mirrored=mirrored).merged()

    def _padded(self, inputs: int) -> Array:
        """Exponents of the known monomials, padded to all inputs of a law [monomials, inputs]."""
        return np.pad(self._given.exponents, ((0, 0), (0, inputs - len(self.states))))

    def _in_bounds(self, law: PowerSum) -> PowerSum:
        least, most = self.bounds
        if self.integer:
            least, most = np.ceil(least), np.floor(most)

        def clipped(w: Array) -> Array:
            inside = np.clip(w, least, most)
            return np.where(abs(w) <= TOLERANCE, 0.0, inside.round() if self.integer else inside)

        a, w, b, v = law.constants
        return law.with_constants(a, clipped(w), b, clipped(v))

    def _sum(self, one: Conserved) -> str:
        pairs = zip(one.weights.tolist(), identifiers(self.states).values(), strict=True)
        terms = [(c < 0, f"{'' if abs(c) == 1 else exact(abs(c)) + '*'}{x}") for c, x in pairs if c]
        return join_terms(terms) + ("" if one.value is None else f" = {exact(one.value)}")


def knowledge(
    states: Sequence[str],
    *,
    known: Sequence[str] = (),
    conserve: Sequence[str] = (),
    forbid: Sequence[str] = (),
    bounds: str | None = None,
    integer_exponents: bool = False,
    sources: bool = True,
    nonnegative_flows: bool = False,
) -> Knowledge:
    """The constraints that texts state about the equations of `states`."""
    n = len(states)
    sides: list[PowerSum | None] = [None] * n
    texts, open_ones, forbidden = dict[int, str](), np.zeros(n, dtype=bool), np.zeros((n, n), dtype=bool)
    for one in texts_of(states, known):
        i, side, more = known_side(one)
        if i in texts:
            raise one.error(f"{states[i]}' is already given by {quoted(texts[i])}; join them", 0)
        texts[i], open_ones[i], sides[i] = one.text, more, side if side.n_monomials or not more else None
    sums = tuple(conserved_sum(one) for one in texts_of(states, conserve))
    for one in texts_of(states, forbid):  # such as "S: I, R"
        i, at = one.name(0, ":", "a state and : behind it")
        k, at = one.name(at, r",|\Z", "a state")
        forbidden[i, k] = True
        while at < len(one.text):
            k, at = one.name(at, r",|\Z", "a state")
            forbidden[i, k] = True
    limits = (-math.inf, math.inf)
    for one in texts_of(states, () if bounds is None else bounds):
        limits = read_bounds(one)
    whole, mix = bool(integer_exponents), np.eye(n)
    result = Knowledge(
        *(tuple(states), tuple(sides), open_ones, sums, forbidden, limits, whole, mix, sources, nonnegative_flows)
    )
    _check_exponents(result)
    return dataclasses.replace(result, stoichiometry=_stoichiometry(result))


def _check_exponents(given: Knowledge) -> None:
    least, most = given.bounds
    if given.integer and math.isfinite(most - least) and math.ceil(least) > math.floor(most):
        raise InputError(f"no whole number lies within {least:g}..{most:g}; widen the bounds")
    for i, side in enumerate(given.known):
        for row in () if side is None else side.exponents:
            for k in np.flatnonzero(row):
                fact = f"{given.states[i]}' is known with {given.states[k]}**{row[k]:g}, but"
                if given.forbidden[i, k]:
                    raise InputError(f"{fact} {given.states[k]} is forbidden there; drop one")
                if not least <= row[k] <= most:
                    raise InputError(f"{fact} exponents lie within {least:g}..{most:g}; widen them")
                if given.integer and row[k] != round(row[k]):
                    raise InputError(f"{fact} exponents are to be whole numbers; drop one")


def _stoichiometry(given: Knowledge) -> Array:
    """The matrix M, by Gauss-Jordan elimination; preferably the last states without other statements are tied."""
    n, fixed, sums, known = len(given.states), given.fully_known, given.conserved, given._given
    rows = np.array([one.weights / np.abs(one.weights).max() for one in sums]).reshape(-1, n)
    # States in different units have weights of different sizes.
    least = TOLERANCE * np.abs(rows).max(axis=0, initial=0.0)
    mentioned = (known.coefficients != 0).any(axis=1) | given.forbidden.any(axis=1)
    pivots = dict[int, int]()
    for k in sorted(reversed(range(n)), key=lambda k: (fixed[k], mentioned[k])):
        left = ~np.isin(np.arange(len(rows)), list(pivots))
        size = np.abs(rows[:, k]) * left
        if size.max(initial=0.0) > least[k]:
            r = int(size.argmax())
            pivots[r] = k
            # Rows of tied states keep their fully known states; otherwise only linear dependence matters.
            others = (left if fixed[k] else left | True) & (np.arange(len(rows)) != r)
            rows[others] -= np.outer(rows[others, k] / rows[r, k], rows[r])
            rows[np.abs(rows) <= least] = 0.0
    mix = np.eye(n)
    for r, one in enumerate(sums):
        k = pivots.get(r, -1)
        parts = rows[r][:, None] * known.coefficients
        if k < 0:
            raise InputError(f"that {given._sum(one)} is kept follows from the other conserved sums; leave it out")
        if not fixed[k] and mentioned[k]:
            fact = f"{given.states[k]}' follows from the conserved sums"
            raise InputError(f"{fact}, so nothing else can be said of it; drop one of them")
        if not fixed[k]:
            mix[k] = -rows[r] / rows[r, k]
        elif (np.abs(parts.sum(axis=0)) > TOLERANCE * np.abs(parts).sum(axis=0)).any():
            raise InputError(
                f"the known equations do not keep {given._sum(one)} constant; change one of them or leave the sum out"
            )
    mix[:, [k for k in pivots.values() if not fixed[k]]] = 0.0
    return mix + 0.0


def _uses(law: PowerSum) -> Mask:
    """Whether a monomial contains a state, also in a function or a sum [monomials, states]."""
    needs = np.eye(law.n_states, dtype=bool)
    if law.features is not None:
        needs = needs[[law.features.state_of(k) for k in range(law.features.simple)]]
        if len(sums := law.features.sums):
            needs = np.vstack([needs, (sums.weights != 0) @ (sums.exponents != 0) @ needs])
    return np.asarray((law.exponents != 0) @ needs)


def check_signs(given: Knowledge, scaled: Knowledge) -> None:
    """Raise InputError for a fractional power in known terms whose base is negative in the data."""
    names = list(identifiers(given.states).values())
    for state, own, side in zip(given.states, given.known, scaled.known, strict=True):
        for k in () if side is None else side.mirrored:
            what, is_ = (f"-{names[k]}", "") if own is not None and k in own.mirrored else (names[k], "-")
            raise InputError(
                f"{state}' is known with a fractional power of {what}, which is negative "
                f"in the data; expected one of {is_}{names[k]}, or a whole power"
            )


def check_known(known: Knowledge, series: TimeSeries) -> None:
    """Raise InputError for statements about equations of controls, which have none."""
    for i in np.flatnonzero(series.is_control):
        name = series.states[i]
        if known.known[i] is not None:
            raise InputError(f"{name}' is given, but {name} is an input: it has no equation; leave it out")
        if any(one.weights[i] != 0 for one in known.conserved):
            raise InputError(
                f"a conserved sum contains {name}, but {name} is an input, which changes by itself; leave it out"
            )


MAX_CHARACTERS, MAX_TERMS = 10_000, 500
_PRODUCTS = f"a sum of products of powers (at most {MAX_TERMS}, no functions such as sin for now)"
_NUMBER = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"


class Conserved(NamedTuple):
    """sum_i c_i x_i = value at all times."""

    weights: Array  # c, [states]
    value: float | None = None  # None if unknown


@dataclass(frozen=True)
class Statement:
    """A text of the user; positions count from 0 internally and from 1 in messages."""

    text: str
    states: tuple[str, ...]

    def error(self, reason: str, at: int) -> InputError:
        """The error for the text at a position."""
        return InputError(f"cannot read {quoted(self.text)} at character {at + 1}: {reason}")

    def name(self, at: int, stop: str, expected: str) -> tuple[int, int]:
        """The state named at a position, and the position after the `stop` that follows it."""
        places = {name: i for i, name in enumerate(identifiers(self.states).values())}
        places |= {name: i for i, name in enumerate(self.states)}
        # The longest first, because a column may be called "x' = y".
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

        def read(body: str) -> PowerSum | None:
            law = self.law(body)
            if law is None or not np.isfinite(law.coefficients).all():
                return None
            if linear and (np.sort(law.exponents, axis=1) != np.eye(law.n_states)[-1]).any():
                return None
            return law

        # Leading blanks keep the positions; Python would ignore # and everything after it.
        body = " " * start + re.sub(r"\s", " ", self.text[start:end]).replace("#", "$")
        body = body.replace("?", "$") if linear else body
        if body.strip() and (law := read(body)):
            return law
        at = start = len(body) - len(body.lstrip())
        for stop in [*[k for k, c in enumerate(body) if c in "+-"][:MAX_TERMS], len(body)]:
            piece = body[at:stop].rstrip()
            whole = piece.count("(") == piece.count(")") and piece[-1:] not in "(*/+-"
            if whole and not re.search(r"\d[eE]$", piece[-2:]):
                if read(" " * at + piece) is None:
                    sign = len(piece) - len(piece.lstrip("+- "))
                    raise self.error(f"expected {expected}", at + sign)
                at = stop
        raise self.error(f"expected {expected}", start)

    def law(self, body: str) -> PowerSum | None:
        """The law x' = body of the first state, or None if it is not a sum of products."""
        names = identifiers(self.states).values()
        # A letter replaces the ?, which is 0; a digit would turn 1e+? into a number.
        rest = next(c for c in map(chr, range(0x4E00, 0x9FA5)) if c not in names)
        # The + has no effect, but without it the blanks would be stripped.
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
            # An error at the leading + is at the start of the sum; Python has no position for its end.
            first = len(body) - len(body.lstrip()) if place[1] == "1" else int(place[1]) - 1
            at = len(source) if source[-1] in "+-*/" else first
            raise self.error(why.replace(place[0], "", 1), at)
        raise InputError(f"cannot read {quoted(self.text)}: {why}")


def known_side(one: Statement) -> tuple[int, PowerSum, bool]:
    """State, known part of its equation, and whether there are unknown terms, of a text such as "v' = 9.81 + ?"."""
    i, start = one.name(0, r"'\s*=", "a state, ' and = as in h' = -v")
    marks = [k for k in range(start, len(one.text)) if one.text[k] == "?"]
    if marks:
        before, after = one.text[start : marks[0]], one.text[marks[0] + 1 :].lstrip()
        added = re.search(r"(?:^|[\w).]\s*\+)\s*$", before) and after[:1] in ("", "+", "-")
        if len(marks) > 1 or not added or before.count("(") != before.count(")"):
            raise one.error("expected ? once and as a summand, as in 9.81 + ?", marks[-1])
    law = one.sum(start, len(one.text), _PRODUCTS)
    return i, dataclasses.replace(law, coefficients=np.roll(law.coefficients, i, axis=0)), bool(marks)


def conserved_sum(one: Statement) -> Conserved:
    """The conserved sum of a text such as "S + I + R = 763"."""
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
    """The range of a text such as "exponents 0..2"."""
    given = one.text.strip().removeprefix("exponents").removeprefix("exponent").lstrip()
    read = re.fullmatch(rf"({_NUMBER})\s*\.\.\s*({_NUMBER})", given)
    least, most = (float(read[1]), float(read[2])) if read else (math.nan, math.nan)
    if not (least <= most and math.isfinite(most - least)):
        at = len(one.text.rstrip()) - len(given)
        raise one.error("expected two numbers, the smaller first, as in exponents 0..2", at)
    return least, most


def texts_of(states: Sequence[str], given: Sequence[str]) -> Iterator[Statement]:
    """The texts as statements."""
    for text in [given] if isinstance(given, str) else given:
        if not isinstance(text, str):
            raise InputError(f'expected a text such as "h\' = -v", got {text!r}')
        if len(text) > MAX_CHARACTERS:
            raise InputError(f"a text of {len(text)} characters is longer than {MAX_CHARACTERS}; cut it")
        yield Statement(text, tuple(states))


def term_library(name: str, states: Sequence[str], terms: Sequence[str]) -> Family:
    """A family whose laws are sums of these terms with fitted coefficients.

        dx_i/dt = sum_c A[i, c] term_c(x)

    Args:
        name: of the family, one or two words.
        states: names of the states, in the order of the data.
        terms: products of powers of states and of functions of single states, such as "x*y^2" or
            "sin(2*x)/y"; known functions are those of `families.STATE_FUNCTIONS`.

    Raises:
        InputError: a term cannot be read, or is not a product of this kind.

    >>> family = term_library("waves", ["x", "y"], ["x", "x*sin(2*y)"])
    >>> family.placed
    (Function(name='sin', state=1, rate=2.0),)
    """
    n, laws = len(states), [_law_of_term(states, term) for term in terms]
    functions = [() if law.features is None else law.features.functions for law in laws]
    placed = tuple(dict.fromkeys(itertools.chain.from_iterable(functions)))
    rows = np.zeros((len(laws), n + len(placed)))
    for row, law, own in zip(rows, laws, functions, strict=True):
        row[[*range(n), *(n + placed.index(f) for f in own)]] = law.exponents[0]

    def given(seen: Seen) -> list[Shape]:
        if seen.n_states != n:
            raise InputError(f"the library {name!r} is of {n} states, got data of {seen.n_states}")
        # Skip candidates with states that are constant in these data.
        constant = np.flatnonzero(~seen.changing)
        return [Shape(row) for row in rows if not row[constant].any()]

    says = f"sums of {len(terms)} terms given by the user"
    return Family(name, says, "Functions -> NPU -> NAU", richness=0, vocabularies=(given,), placed=placed)


def _law_of_term(states: Sequence[str], term: str) -> PowerSum:
    """The law whose first equation is a term of a library."""
    texts = dict.fromkeys(states, "0") | {states[0]: term.replace("^", "**")}
    equations = Equations.parse(states, texts)
    side = equations.right_hand_sides[0]
    for part in side.atoms(sympy.Function):
        if type(part).__name__ not in STATE_FUNCTIONS:
            raise unknown_name("function", type(part).__name__, STATE_FUNCTIONS)
    law = read_law(equations.right_hand_sides, equations.symbols, features=True)
    features = (law and law.features) or Features(len(states))
    of_inverse = any(f.name == EXP_INVERSE.name for f in features.functions)
    if law is None or law.n_monomials != 1 or law.mirrored or len(features.sums) or of_inverse:
        raise InputError(
            f"the term {term!r}: expected powers of states and of functions of one state with fixed exponents, "
            f"got {side}"
        )
    if law.coefficients[0, 0] != 1.0:
        raise InputError(
            f"the term {term!r} has a factor {law.coefficients[0, 0]:g}: coefficients are fitted, leave it out"
        )
    return law
