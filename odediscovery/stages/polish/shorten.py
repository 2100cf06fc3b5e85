"""A law written shorter: simple exponents, short decimals, quotients with fewer constants.

A refit says of each shorter law whether it is as good.

Simple exponents. A law with x^0.98(3) is better written with x. First all exponents are tried at once, by the
quadratic approximation of the likelihood; where that does not hold (two growth terms whose exponents can only
be determined together), they are tried one after another. At last, values taken are exchanged for others nearby.
A value is taken only if the criterion, which charges a held simple value less than a fitted constant, falls.

Short decimals. A constant v known within e is by chance as near to a decimal of d digits as that with probability

    P = 2 max(|v - m|, e) / 10 ** (k - d + 1),    m the decimal, k the power of ten of v

Where P is next to nothing the decimal is what was meant, and shorter: to write v takes ln(|v| / e), to write m
d ln 10. A law of such constants is taken where what it leaves is worse by less than it saves
(Rissanen, Modeling by shortest data description, Automatica 14, 1978).

Terms over one sum.

    u = 1 + b z:    m = m/u + b m z/u,    1/u = 1 - b z + ...

Of m, m/u and m z/u any two can stand for the third, so that a x/(c + x) may come as a - a c/(c + x).
Each equation is written with those two that leave it the fewest terms. Where b z stays small, two terms without b say
the same as m/u; so does one for a function that is nearly straight along the data, as the sine of a small angle is.

Functions of one state.

    0.24/(1 + 0.018 x^2) + 0.6/x + 1.4    may be    c + a/(1 + b x),
    18 x^1.06 - 20.6 x                    may be    a x/(1 + b x),
    104 sin(x) - 105 x                    may be    a x + c x^3.

Terms with the same other factors add up to a function of one state along the data. Where a shorter one follows
it there, the search may have met the longer one first: two terms bend together as one over a sum does, and
none of their constants moves alone. The inner constant is looked for on a grid, all else is linear.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from odediscovery.data.series import Scale
from odediscovery.families import STATE_FUNCTIONS, power_is_rate
from odediscovery.laws.power_sum import (
    SIMPLE,
    Features,
    Free,
    PowerSum,
    Sums,
    but_whole_powers,
    constant_penalty,
    count,
    filled,
    picked,
    snap_penalty,
)
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask
from odediscovery.stages.polish.polish import unscaled_errors
from odediscovery.stages.values import Judged, Polished

# (law, what is free, start values to begin from [trajectories, states]) -> polished and judged.
Refit = Callable[[PowerSum, Free, Array], Judged]


# Shorter laws of a kind that are refitted, the shortest first.
TRIES = 3


# Simple exponents.


def snap(row: Judged, refit: Refit) -> Judged:
    """The row with simple exponents wherever that lowers its criterion."""
    first = row
    together = [g for g in _goals(row.polished) if g[0] < 0.0]
    places: dict[tuple[int, int], float] = {}
    for _, place, value in together:
        places.setdefault(place, value)
    if len(places) > 1:
        after = refit(*_fixed(row.polished, places))
        if after.criterion < row.criterion:
            row = after
    row = _one_by_one(row, refit)
    while True:
        for trial in _exchanges(row.polished, first.polished):
            after = refit(*trial)
            # What is free in it may still become simple.
            worth = constant_penalty(after.polished.law.n_states, after.polished.counts.sum())
            if after.criterion - worth * after.polished.free[1].sum() < row.criterion:
                after = _one_by_one(after, refit)
            if after.criterion < row.criterion:
                row = after
                break
        else:
            return row


def _one_by_one(row: Judged, refit: Refit) -> Judged:
    """The row after simple values were taken one after another, the likeliest first."""
    while True:
        for _, place, value in _goals(row.polished)[:3]:
            after = refit(*_fixed(row.polished, {place: value}))
            if after.criterion < row.criterion:
                row = after
                break
        else:
            return row


def _exchanges(polished: Polished, first: Polished) -> list[tuple[PowerSum, Free, Array]]:
    """Laws with another simple value for one exponent that is held already.

    Values taken one after another need not be the best together: which of 0.5, 1 and 2 it is
    may become clear only once the others are held.
    """
    law, free = polished.law, polished.free
    if law.exponents.shape != first.law.exponents.shape:
        return []
    changed = []
    for j, k in np.argwhere(first.free[1] & ~free[1] & (law.exponents != 0)):
        now, error = law.exponents[j, k], max(float(first.errors.exponents[j, k]), ABOVE_ZERO)
        for value in SIMPLE:
            # No dearer than 2.5, and within four standard errors of the free fit.
            near = ((first.law.exponents[j, k] - value) / error) ** 2 < 16.0
            if near and snap_penalty(value) <= 2.5 and value != now:
                a, w, *inner = law.constants
                w = w.copy()
                w[j, k] = value
                changed.append((*merge_monomials(law.with_constants(a, w, *inner), free), polished.initial))
    return changed


def _goals(polished: Polished) -> list[tuple[float, tuple[int, int], float]]:
    """(expected change of the criterion, place of an exponent, simple value), best first."""
    law, errors = polished.law, polished.errors.exponents
    worth = constant_penalty(law.n_states, polished.counts.sum())
    goals = []
    for j, k in np.argwhere(polished.free[1]):
        error = max(float(errors[j, k]), ABOVE_ZERO)
        # Without its power a term costs nothing for it.
        for value, penalty in ((0.0, 0.0), *((value, snap_penalty(value)) for value in SIMPLE)):
            misfit = ((law.exponents[j, k] - value) / error) ** 2
            # Whatever its error says, the nearest are tried; farther away the likelihood tells them apart.
            near = abs(law.exponents[j, k] - value) < 5e-3
            if near or misfit < min(worth, 5.0):
                goals.append((misfit + penalty - worth, (int(j), int(k)), value))
    return sorted(goals)


def _fixed(polished: Polished, places: dict[tuple[int, int], float]) -> tuple[PowerSum, Free, Array]:
    """Law, mask and starts with some exponents held; all other unknowns move along by the conditional mean."""
    law, free, initial = polished.law, polished.free, polished.initial
    index_of = {tuple(p): i for i, p in enumerate(np.argwhere(free[1]).tolist())}
    n_a = int(free[0].sum())
    theta = picked(law, free)
    index = np.array([n_a + index_of[place] for place in places])
    change = np.array(list(places.values())) - theta[index]
    c = polished.joint.matrix
    step = c[:, index] @ np.linalg.lstsq(c[np.ix_(index, index)], change, rcond=None)[0]
    # Far from the minimum a linear step is worse than none.
    near = [np.all(np.abs(part) <= 1.0) for part in (step[: len(theta)], step[len(theta) :])]
    moved = theta + step[: len(theta)] if near[0] else theta.copy()
    start = initial + step[len(theta) :].reshape(initial.shape) if all(near) else initial
    moved[index] = list(places.values())
    still = free[1].copy()
    for place in places:
        still[place] = False
    changed = law.with_constants(*filled(law.constants, free, moved))
    return *merge_monomials(changed, (free[0], still, *free[2:])), start


def merge_monomials(law: PowerSum, free: Free) -> tuple[PowerSum, Free]:
    """Monomials that became equal as one; exponents stay held where they were."""
    merged = law.merged()
    rows = [int(np.flatnonzero((law.exponents == w).all(axis=1))[0]) for w in merged.exponents]
    held = free[1][rows].reshape(merged.exponents.shape)
    return merged, (merged.coefficients != 0, held, *free[2:])


def without_numbers(found: Polished, terms: Mask, powers: Mask) -> tuple[PowerSum, Free]:
    """The law without some terms [states, monomials], and with the nearest simple values for some powers of states."""
    a, w, b, v = (c.copy() for c in found.law.constants)
    free_a, free_w, free_b, free_v = (mask.copy() for mask in found.free)
    a[terms], free_a[terms] = 0.0, False
    simple = np.array([0.0, *SIMPLE])
    for j, k in np.argwhere(powers):
        w[j, k], free_w[j, k] = simple[np.argmin(np.abs(simple - w[j, k]))], False
    return without_unused(found.law.with_constants(a, w, b, v), (free_a, free_w, free_b, free_v))


def without_unused(law: PowerSum, free: Free) -> tuple[PowerSum, Free]:
    """The law with equal monomials as one, and without functions and sums that no monomial has."""
    law, free = merge_monomials(law, free)
    compact = law.compact()
    return (law, free) if compact.exponents.shape == law.exponents.shape else (compact, but_whole_powers(compact))


# Short decimals.


@dataclass(frozen=True)
class Rounded:
    """A law some of whose constants are short decimals in the user's units; the others are what they were."""

    polished: Polished  # in units of the scale
    saved: float  # by writing these constants so, in units of twice the log-likelihood


def nearest_decimal(value: float, error: float) -> tuple[float, float] | None:
    """The short decimal that a constant is, and what that saves in units of twice the log-likelihood; None for others.

    >>> nearest_decimal(0.07500000002, 1e-9)[0]
    0.075
    >>> nearest_decimal(0.0751, 1e-3), nearest_decimal(2.718281828, 1e-9)
    (None, None)
    """
    if not (value and math.isfinite(value) and 0.0 < error < math.inf):
        return None
    for digits in range(1, 5):
        decimal = float(f"{value:.{digits - 1}e}")
        spacing = 10.0 ** (math.floor(math.log10(abs(value))) - digits + 1)
        off = abs(value - decimal)
        chance = 2.0 * max(off, error) / spacing
        # Farther than three standard errors away it is another number.
        if off <= 3.0 * error and chance <= 1e-4:
            return decimal, -2.0 * math.log(chance)
    return None


def round_constants(found: Polished, scale: Scale) -> Rounded | None:
    """The law, without flows, with every constant that is a short decimal in the user's units set to it; or None."""
    user, errors = found.law.unscaled(scale.state, scale.time), unscaled_errors(found, scale)
    constants, free, saved = [c.copy() for c in user.constants], [mask.copy() for mask in found.free], 0.0
    for values, of, left, rates in zip(constants, errors.constants, free, _printed(user), strict=True):
        for at in map(tuple, np.argwhere(left)):
            short = nearest_decimal(float(values[at] * rates[at]), float(of[at] * abs(rates[at])))
            if short is not None:
                values[at], left[at] = short[0] / rates[at], False
                saved += short[1]
    if not saved:
        return None
    a, w, b, v = constants
    law = user.with_constants(a, w, b, v).rescaled(scale.state, scale.time)
    kept = np.concatenate([left[before] for left, before in zip(free, found.free, strict=True)])
    known = np.append(kept, np.ones(found.initial.size, dtype=bool))
    error = found.errors.with_constants(
        *(np.where(left, e, 0.0) for left, e in zip(free, found.errors.constants, strict=True))
    )
    fitted: Free = (free[0], free[1], free[2], free[3])
    return Rounded(replace(found, law=law, free=fitted, errors=error, joint=found.joint.part(known)), saved)


def _printed(law: PowerSum) -> tuple[Array, Array, Array, Array]:
    """What each constant is multiplied by when it is printed: an exponent of exp(r x) is a rate, exp(w r x)."""
    a, w, b, v = (np.ones_like(c) for c in law.constants)
    if law.features is not None:
        n = law.features.states
        for k, function in enumerate(law.features.functions):
            if power_is_rate(function):
                w[:, n + k] = function.rate
                v[:, n + k : n + k + 1] = function.rate  # empty without sums
    return a, w, b, v


# Shared monomials.


# Terms over one sum.


def shorten_quotients(law: PowerSum, x: Array) -> list[tuple[PowerSum, Free]]:
    """Laws with fewer constants in their terms over sums, and what of each is fitted, the shortest first.

    The sizes of terms are compared at states x [samples, states].

    >>> from odediscovery.laws.power_sum import Features, Sums
    >>> monod = Features(1, (), Sums(np.array([[0.5]]), np.array([[1.0]])))  # u = 1 + x/2
    >>> long = PowerSum(np.array([[3.0, -3.0]]), np.array([[0.0, 0.0], [0.0, -1.0]]), monod)  # 3 - 3/u
    >>> (short, _), *_ = shorten_quotients(long, np.linspace(0.1, 5.0, 20)[:, None])
    >>> short.coefficients.tolist(), short.exponents.tolist()  # 1.5 x/u
    ([[1.5]], [[1.0, -1.0]])
    """
    if law.features is None or law.stoichiometry is not None:
        return []
    a, w, b, v = law.constants
    off = np.abs(v - np.round(v))
    # Powers inside sums that are nearly whole are tried as such.
    nearly_whole = (off > 0).any() and (off < 0.1).all()
    wholes = [law, law.with_constants(a, w, b, np.round(v))] if nearly_whole else [law]
    plain = [one for whole in wholes for one in (whole, *_straightened(whole, x))]
    # Two sums may have to be written anew before a whole part that they share goes.
    starts = [start for one in plain for start in (one, *_rewritten(one, x, without=1))]
    shorter = sorted((one for start in starts for one in _shortened(start, x)), key=count_constants)
    found: list[PowerSum] = []
    for one in (one for one in shorter if count_constants(one) < count_constants(law)):
        if not any(_is_same(one, other) for other in found):
            found.append(one)
    return [(one, but_whole_powers(one)) for one in found[:TRIES]]


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
        terms = np.count_nonzero(law.coefficients)
        found = next((new for new in _rewritten(law, x) if np.count_nonzero(new.coefficients) < terms), None)
        if found is None:
            return
        law = found
        yield law.compact()


def count_constants(law: PowerSum) -> int:
    """Terms, constants inside the sums, fitted exponents, and functions."""
    functions = 0 if law.features is None else len(law.features.functions)
    return count(but_whole_powers(law)) + functions


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


def _single_sums(law: PowerSum) -> Iterator[tuple[int, float, Array]]:
    """Sums u = 1 + b z of one monomial each: which of the features u is, b, and the exponents of z."""
    if law.features is not None:
        sums, first = law.features.sums, law.features.simple
        for k in range(len(sums)):
            inside = np.flatnonzero(sums.weights[k])
            if len(inside) == 1:
                z = np.pad(sums.exponents[inside[0]], (0, len(sums)))
                yield first + k, float(sums.weights[k, inside[0]]), z


def _straight_sums(law: PowerSum, x: Array) -> Iterator[tuple[Array, Array, Array]]:
    """What 1/u of a sum is, along which z or 1/z it is nearly straight, and the line."""
    for k, _, z in _single_sums(law):
        u = -np.eye(law.exponents.shape[1])[k]
        # Where b z is much larger than 1, 1/u is nearly 1/(b z).
        lines = [(z, *_line(law, u, z, x)), (-z, *_line(law, u, -z, x, level=False))]
        if np.count_nonzero(z) == 1:
            lines.append(((z != 0).astype(float), *_line(law, u, (z != 0).astype(float), x)))
        along, line, off = min(lines, key=lambda one: one[2])
        if off < 0.1:
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
        if off < 0.3 and (law.exponents[:, n + k] == 1.0).any():
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

    Or with that of m, m/u and m z/u which it has to be `without` written as the others, whatever is shorter.
    """
    for k, b, z in _single_sums(law):
        u = np.eye(law.exponents.shape[1])[k]
        for row in law.exponents[law.exponents[:, k] == -1.0]:
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
        # Terms of a fiftieth of the largest are tried as none.
        kept = [np.where(np.abs(w) * size > 0.02 * np.max(np.abs(w) * size), w, 0.0) for w in ways]
        a[i] = min(kept, key=np.count_nonzero)
    others = ~near.any(axis=1)
    coefficients = np.concatenate([law.coefficients[:, others], a], axis=1)
    return PowerSum(coefficients, np.concatenate([law.exponents[others], rows]), law.features).merged().compact()


# Functions of one state.


# Where a power is sought, it stands among the powers of a form.
_SOUGHT = -1.0


@dataclass(frozen=True)
class _Form:
    """a_1 x^p_1 + ... + a_n x^p_n / (1 + b x^q)."""

    powers: tuple[float, ...]  # p, one a term; one that is `_SOUGHT` is the inner constant
    q: int = 0  # of the sum that the last term stands over; 0 for none

    @property
    def is_polynomial(self) -> bool:
        """Whether x may change its sign."""
        return not self.q and _SOUGHT not in self.powers

    def constants(self, x: Array) -> Array:
        """Values of the inner constant b or p to compare; one that says nothing where there is none."""
        if self.q:  # b x^q is 1 within a factor of 100 where x is usual
            return np.geomspace(0.01, 100.0, 41) / float(np.median(x)) ** self.q
        return np.geomspace(0.21, 2.9, 41) if _SOUGHT in self.powers else np.zeros(1)

    def with_constant(self, inner: float) -> Array:
        """The powers with the one that was found."""
        return np.array([inner if p == _SOUGHT else p for p in self.powers])

    def columns(self, x: Array, inner: float) -> Array:
        """x^p and x^p / (1 + b x^q) at x [samples] -> [samples, terms]."""
        columns: Array = x[:, None] ** self.with_constant(inner)
        if self.q:
            columns[:, -1] /= 1.0 + inner * x**self.q
        return columns


_FORMS = (
    _Form((1.0,), 1),
    _Form((1.0,), 2),
    _Form((2.0,), 2),
    _Form((1.0, 2.0)),
    _Form((1.0, 3.0)),
    _Form((_SOUGHT, 1.0)),
)
# Those beside a level, as c + a/(1 + b x).
_LEVEL_FORMS = (_Form((0.0, 0.0), 1), _Form((0.0, 0.0), 2), _Form((0.0, 2.0)), _Form((0.0, 3.0)), _Form((0.0, _SOUGHT)))


def shorten_functions(law: PowerSum, x: Array) -> list[tuple[PowerSum, Free]]:
    """Laws with a shorter function of one state instead of several terms, and what of each is fitted.

    Functions are compared along states x [samples, states].

    >>> x = np.linspace(0.5, 2.0, 40)
    >>> powers = np.stack([x**0.5, x], axis=1)
    >>> a, *_ = np.linalg.lstsq(powers, x / (1 + x))
    >>> law = PowerSum(a[None, :], np.array([[0.5], [1.0]]))
    >>> (short, _), *_ = shorten_functions(law, x[:, None])
    >>> short.exponents.tolist(), np.round(short.features.sums.weights, 1).tolist()  # x/(1 + x)
    ([[1.0, -1.0]], [[1.0]])
    """
    if law.stoichiometry is not None or law.mirrored:
        return []
    found: list[tuple[int, float, PowerSum]] = []
    for k in range(law.n_states):
        for group in _groups(law, k):
            found += _shorter(law, group, k, x)
    found.sort(key=lambda one: one[:2])
    return [(one, but_whole_powers(one)) for _, _, one in found[:TRIES]]


def _of_state(law: PowerSum, k: int) -> Mask:
    """Features that are functions of state k alone, bool [features]."""
    own = np.zeros(law.exponents.shape[1], bool)
    own[k] = True
    if law.features is None:
        return own
    features = law.features
    simple = np.array([features.state_of(j) == k for j in range(features.simple)])
    own[: features.simple] = simple
    for m, row in enumerate(features.sums.weights):
        inside = features.sums.exponents[row != 0]
        own[features.simple + m] = bool(len(inside)) and not inside[:, ~simple].any()
    return own


def _groups(law: PowerSum, k: int) -> Iterator[Mask]:
    """Terms that differ in a function of state k alone, two of them or more, bool [monomials]."""
    own = _of_state(law, k)
    varies = (law.exponents[:, own] != 0).any(axis=1)
    others = np.where(own, 0.0, law.exponents)
    for row in np.unique(others[varies], axis=0):
        group = np.abs(others - row).max(axis=1) < 1e-9
        if group.sum() > 1:
            yield group


def _shorter(law: PowerSum, group: Mask, k: int, x: Array) -> list[tuple[int, float, PowerSum]]:
    """Laws with a shorter function instead of a group's terms: number of constants, how far off, law.

    Of each number of constants there are the nearest with powers alone and the nearest over a sum.
    """
    own, along = _of_state(law, k), x[:, k]
    rest = np.where(own, 0.0, law.exponents[group][0])
    inside = law.exponents[group] - rest
    with np.errstate(all="ignore"):
        terms = PowerSum(law.coefficients[:, group], inside, law.features).rhs(x)
    if not np.isfinite(terms).all():
        return []
    flat = (inside == 0.0).all(axis=1)
    # What is a level alone in its equation stays one.
    levels = law.coefficients[:, group][:, flat].sum(axis=1)
    bent = (law.coefficients[:, group][:, ~flat] != 0).any(axis=1)
    nearest: dict[tuple[int, bool], tuple[int, float, PowerSum]] = {}
    for form in (*_FORMS, *(_LEVEL_FORMS if flat.any() else ())):
        if not (form.is_polynomial or (along > 0.0).all()):
            continue
        off, inner, a = _fit(form, terms[:, bent], along)
        placed = np.zeros((law.n_states, 1 + len(form.powers)))
        placed[~bent, 0], placed[bent, 1:] = levels[~bent], a.T
        new = _with_form(law, group, (k, rest), form, inner, placed)
        one = count_constants(new), off, new
        kind = one[0], form.q > 0
        # A tenth of the range of the terms is near enough to be tried.
        if off <= 0.1 and one[0] < count_constants(law) and off < nearest.get(kind, (0, np.inf))[1]:
            nearest[kind] = one
    return list(nearest.values())


def _fit(form: _Form, terms: Array, along: Array) -> tuple[float, float, Array]:
    """How far a form is at best from terms [samples, equations], its inner constant, and a [terms, equations]."""
    best: tuple[float, float, Array] = (np.inf, 0.0, np.zeros((len(form.powers), terms.shape[1])))
    scale = np.maximum(np.ptp(terms, axis=0), ABOVE_ZERO)
    for inner in form.constants(along):
        columns = form.columns(along, inner)
        a = np.asarray(np.linalg.lstsq(columns, terms)[0], float)
        off = float((np.abs(columns @ a - terms).max(axis=0) / scale).max())
        if off < best[0]:
            best = (off, float(inner), a)
    return best


def _with_form(law: PowerSum, group: Mask, of: tuple[int, Array], form: _Form, inner: float, a: Array) -> PowerSum:
    """The law with a level and the terms of a form instead of a group of terms.

    They are of a state and have other factors of these exponents; `a` has the coefficients [states, 1 + terms].
    """
    k, rest = of
    features = law.features or Features(law.n_states)
    rows = np.tile(np.append(rest, 0.0), (a.shape[1], 1))
    rows[1:, k] += form.with_constant(inner)
    w = np.concatenate([law.exponents, np.zeros((law.n_monomials, 1))], axis=1)
    z = np.zeros((1, features.simple))
    z[0, k] = form.q or 1
    sums = features.sums.and_also(Sums(np.array([[inner if form.q else 1.0]]), z))
    rows[-1, -1] = -1.0 if form.q else 0.0
    coefficients = np.concatenate([law.coefficients[:, ~group], a], axis=1)
    new = PowerSum(coefficients, np.vstack([w[~group], rows]), Features(law.n_states, features.functions, sums))
    return new.merged().compact()
