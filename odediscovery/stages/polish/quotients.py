"""The shortest way to write terms over one sum.

    u = 1 + b z:    m = m/u + b m z/u

Of m, m/u and m z/u any two can stand for the third, so that a x/(c + x) may come as a - a c/(c + x).
Each equation is written with those two that leave it the fewest terms. Where b z stays small,

    1/u = 1 - b z + ...,

and two terms without b say the same as m/u; so does one for a function that is nearly straight along
the data, as the sine of a small angle is. Refits say which of the shorter laws are as good.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from odediscovery.families import STATE_FUNCTIONS
from odediscovery.laws.cost import Free
from odediscovery.laws.power_sum import PowerSum
from odediscovery.runtime.arrays import ABOVE_ZERO, Array


@dataclass(frozen=True)
class QuotientThresholds:
    """When a term of a rewritten equation is left out."""

    small: float = 0.02  # a term smaller than this is tried as none [rms of the largest of the three]
    straight: float = 0.1  # 1/u that differs by less from a straight line is tried as one [range of 1/u along the data]
    # A function that differs by less from a straight line is tried as one [range of the function along the data]
    straight_function: float = 0.3
    whole: float = 0.1  # a power inside a sum that is nearer to a whole number is tried as one
    tries: int = 3  # shorter laws that are refitted, the shortest first


QUOTIENTS = QuotientThresholds()


def shorten_quotients(law: PowerSum, x: Array) -> list[tuple[PowerSum, Free]]:
    """Laws with fewer constants in their terms over sums, and what of each is fitted, the shortest first.

    Args:
        law: dimensionless.
        x: states at which the sizes of terms are compared, [samples, states].

    >>> from odediscovery.laws.power_sum import Features, Sums
    >>> monod = Features(1, (), Sums(np.array([[0.5]]), np.array([[1.0]])))  # u = 1 + x/2
    >>> long = PowerSum(np.array([[3.0, -3.0]]), np.array([[0.0, 0.0], [0.0, -1.0]]), monod)  # 3 - 3/u
    >>> (short, _), *_ = shorten_quotients(long, np.linspace(0.1, 5.0, 20)[:, None])
    >>> short.coefficients.tolist(), short.exponents.tolist()  # 1.5 x/u
    ([[1.5]], [[1.0, -1.0]])
    """
    if law.features is None or law.stoichiometry is not None:
        return []
    # Two sums may have to be written anew before a whole part that they share goes.
    plain = [one for whole in (law, *_with_whole_powers(law)) for one in (whole, *_straightened(whole, x))]
    starts = [start for one in plain for start in (one, *_rewritten(one, x, without=1))]
    shorter = sorted((one for start in starts for one in _shortened(start, x)), key=count_constants)
    found: list[PowerSum] = []
    for one in (one for one in shorter if count_constants(one) < count_constants(law)):
        if not any(_is_same(one, other) for other in found):
            found.append(one)
    return [(one, free_of(one)) for one in found[: QUOTIENTS.tries]]


def free_of(law: PowerSum) -> Free:
    """What of a law is fitted: coefficients, constants inside sums, and powers that are not whole."""
    a, w, b, v = law.constants
    return a != 0, w != np.round(w), b != 0, v != np.round(v)


def _is_same(one: PowerSum, other: PowerSum) -> bool:
    """Whether two laws have the same terms, whatever stands before them."""
    pairs = zip(one.constants, other.constants, strict=True)
    return all(a.shape == b.shape and bool(((a != 0) == (b != 0)).all()) for a, b in pairs) and bool(
        np.allclose(one.exponents, other.exponents)
    )


def _shortened(law: PowerSum, x: Array) -> Iterator[PowerSum]:
    """The law and all shorter ones on the way to the shortest: what is small along the data may be needed."""
    yield law.compact()
    for _ in range(law.n_monomials):
        found = next((new for new in _rewritten(law, x) if _terms(new) < _terms(law)), None)
        if found is None:
            return
        law = found
        yield law.compact()


def _terms(law: PowerSum) -> int:
    return int(np.count_nonzero(law.coefficients))


def count_constants(law: PowerSum) -> int:
    """Terms, constants inside the sums, fitted exponents, and functions."""
    functions = 0 if law.features is None else len(law.features.functions)
    return sum(int(mask.sum()) for mask in free_of(law)) + functions


def _with_whole_powers(law: PowerSum) -> Iterator[PowerSum]:
    """The law with whole powers inside its sums, where they are nearly whole."""
    a, w, b, v = law.constants
    off = np.abs(v - np.round(v))
    if (off > 0).any() and (off < QUOTIENTS.whole).all():
        yield law.with_constants(a, w, b, np.round(v))


def _straightened(law: PowerSum, x: Array) -> Iterator[PowerSum]:
    """The law with the straight lines that 1/u or functions nearly are instead of them, each and all together.

    The line of 1/u is one in z, or in the state that z is a power of; that of a function is one in its state.
    """
    near = [*_straight_sums(law, x), *_straight_functions(law, x)]
    for each in near:
        yield _with_line(law, *each)
    if len(near) > 1:
        for each in near:
            law = _with_line(law, *each)
        yield law


def _straight_sums(law: PowerSum, x: Array) -> Iterator[tuple[Array, Array, Array]]:
    """What 1/u of a sum is, along which z or 1/z it is nearly straight, and the line."""
    if law.features is None:
        return
    sums = law.features.sums
    for k in range(len(sums)):
        inside = np.flatnonzero(sums.weights[k])
        if len(inside) != 1:
            continue
        z, u = np.zeros(law.features.size), np.zeros(law.features.size)
        z[: law.features.simple], u[law.features.simple + k] = sums.exponents[inside[0]], -1.0
        # Where b z is much larger than 1, 1/u is nearly 1/(b z).
        lines = [(z, *_line(law, u, z, x)), (-z, *_line(law, u, -z, x, level=False))]
        if np.count_nonzero(z) == 1:
            lines.append(((z != 0).astype(float), *_line(law, u, (z != 0).astype(float), x)))
        along, line, off = min(lines, key=lambda one: one[2])
        if off < QUOTIENTS.straight:
            yield u, along, line


def _straight_functions(law: PowerSum, x: Array) -> Iterator[tuple[Array, Array, Array]]:
    """What a function is, the state along which it is nearly straight, and the line."""
    if law.features is None:
        return
    n = law.features.states
    for k, function in enumerate(law.features.functions):
        z, f = np.zeros(law.features.size), np.zeros(law.features.size)
        z[function.state], f[n + k] = 1.0, 1.0
        # A line through the origin is one constant less.
        line, off = _line(law, f, z, x, level=bool(STATE_FUNCTIONS[function.name].value(np.zeros(1)).any()))
        if off < QUOTIENTS.straight_function and (law.exponents[:, n + k] == 1.0).any():
            yield f, z, line


def _line(law: PowerSum, f: Array, z: Array, x: Array, *, level: bool = True) -> tuple[Array, float]:
    """The line c + d z that f nearly is [2], c = 0 without a level, and how far it is from it, in ranges of f."""
    with np.errstate(all="ignore"):
        along, over = PowerSum(np.ones((1, 2)), np.stack([z, f]), law.features).monomials(x).T
    if not (np.isfinite(along) & np.isfinite(over)).all():
        return np.zeros(2), np.inf
    columns = np.stack([np.full_like(along, level), along], axis=1)
    line, *_ = np.linalg.lstsq(columns, over)
    return line, float(np.abs(columns @ line - over).max() / max(np.ptp(over), ABOVE_ZERO))


def _with_line(law: PowerSum, f: Array, z: Array, line: Array) -> PowerSum:
    """The law with c + d z instead of each f; not yet compact, so that other features keep their places."""
    k = int(np.flatnonzero(f)[0])
    over = law.exponents[:, k] == f[k]
    a, w = law.coefficients, law.exponents
    exponents = np.concatenate([w[~over], w[over] - f, w[over] - f + z])
    coefficients = np.concatenate([a[:, ~over], line[0] * a[:, over], line[1] * a[:, over]], axis=1)
    return PowerSum(coefficients, exponents, law.features).merged()


def _rewritten(law: PowerSum, x: Array, without: int | None = None) -> Iterator[PowerSum]:
    """The law with the terms over one sum, for each sum and each m, written as shortly as can be.

    Args:
        without: which of m, m/u and m z/u is written as the others, whatever is shorter.
    """
    if law.features is None:
        return
    first, sums = law.features.simple, law.features.sums
    for k in range(len(sums)):
        inside = np.flatnonzero(sums.weights[k])
        if len(inside) != 1:
            continue
        b, z = float(sums.weights[k, inside[0]]), np.zeros(law.features.size)
        z[:first] = sums.exponents[inside[0]]
        u = np.zeros(law.features.size)
        u[first + k] = 1.0
        for row in law.exponents[law.exponents[:, first + k] == -1.0]:
            for m in (row + u, row + u - z):
                yield _with_fewest(law, x, np.stack([m, m - u, m + z - u]), b, without)


def _with_fewest(law: PowerSum, x: Array, rows: Array, b: float, without: int | None) -> PowerSum:
    """The law with m, m/u and m z/u, the given rows, as two of them at most in each equation."""
    near = np.abs(law.exponents[:, None] - rows[None]).max(axis=2) < 1e-9
    three = law.coefficients @ near.astype(float)
    # What each of the three is in terms of the two others.
    instead = np.array([[0.0, 1.0, b], [1.0, 0.0, -b], [1.0 / b, -1.0 / b, 0.0]])
    with np.errstate(all="ignore"):
        size = np.sqrt(np.mean(PowerSum(three, rows, law.features).monomials(x) ** 2, axis=0))
    a = three.copy()
    # Where a monomial leaves the range of numbers nothing can be compared, and the law stays.
    compared = list(three) if np.isfinite(size).all() else []
    for i, old in enumerate(compared):
        ways = [np.where(np.arange(3) == k, 0.0, old + old[k] * instead[k]) for k in range(3)]
        ways = [old, *ways] if without is None else [ways[without]]
        kept = [np.where(np.abs(w) * size > QUOTIENTS.small * np.max(np.abs(w) * size), w, 0.0) for w in ways]
        a[i] = min(kept, key=np.count_nonzero)
    others = ~near.any(axis=1)
    coefficients = np.concatenate([law.coefficients[:, others], a], axis=1)
    return PowerSum(coefficients, np.concatenate([law.exponents[others], rows]), law.features).merged().compact()
