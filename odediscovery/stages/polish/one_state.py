"""Several terms in one state written as a shorter function of it.

    0.24/(1 + 0.018 x^2) + 0.6/x + 1.4    may be    c + a/(1 + b x),
    18 x^1.06 - 20.6 x                    may be    a x/(1 + b x),
    104 sin(x) - 105 x                    may be    a x + c x^3.

Terms with the same other factors add up to a function of one state along the data. Where a shorter one follows
it there, the search may have met the longer one first: two terms bend together as one over a sum does, and
none of their constants moves alone. The inner constant is looked for on a grid, all else is linear; a refit
says whether the shorter law is as good.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from odediscovery.laws.cost import Free
from odediscovery.laws.power_sum import Features, PowerSum, Sums
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask
from odediscovery.stages.polish.quotients import count_constants, free_of


@dataclass(frozen=True)
class OneStateThresholds:
    """When a shorter function is tried."""

    # A function that is no further from the terms along the data is tried instead of them [range of the terms]
    off: float = 0.1
    reach: float = 100.0  # how far b x^q is sought from 1 where x is usual [factor]
    grid: int = 41  # values of the inner constant that are compared
    tries: int = 3  # shorter laws that are refitted, the shortest first


ONE_STATE = OneStateThresholds()
# Between these a power is sought; where it stands among the powers of a form.
_LEAST_POWER, _MOST_POWER = 0.21, 2.9
_SOUGHT = -1.0


@dataclass(frozen=True)
class _Form:
    """a_1 x^p_1 + ... + a_n x^p_n / (1 + b x^q).

    Args:
        powers: p, one a term; one that is `_SOUGHT` is the inner constant.
        q: of the sum that the last term stands over; 0 for none.
    """

    powers: tuple[float, ...]
    q: int = 0

    @property
    def is_polynomial(self) -> bool:
        """Whether x may change its sign."""
        return not self.q and _SOUGHT not in self.powers

    def constants(self, x: Array) -> Array:
        """Values of the inner constant b or p to compare; one that says nothing where there is none."""
        if self.q:
            usual = float(np.median(x)) ** self.q
            return np.geomspace(1.0 / ONE_STATE.reach, ONE_STATE.reach, ONE_STATE.grid) / usual
        return np.geomspace(_LEAST_POWER, _MOST_POWER, ONE_STATE.grid) if _SOUGHT in self.powers else np.zeros(1)

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

    Args:
        law: dimensionless.
        x: states along which functions are compared, [samples, states].

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
    return [(one, free_of(one)) for _, _, one in found[: ONE_STATE.tries]]


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
        if off <= ONE_STATE.off and one[0] < count_constants(law) and off < nearest.get(kind, (0, np.inf))[1]:
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

    Args:
        of: the state k, and the exponents of the other factors.
        a: coefficients of the level and of the form's terms [states, 1 + terms].
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
