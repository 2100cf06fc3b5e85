"""The shortest way to write terms over one sum.

    u = 1 + b z:    m = m/u + b m z/u

Of m, m/u and m z/u any two can stand for the third, so that a x/(c + x) may come as a - a c/(c + x).
Each equation is written with those two that leave it the fewest terms; a refit says whether the
shorter law is as good.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from odediscovery.laws.cost import Free
from odediscovery.laws.power_sum import PowerSum
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.thresholds import Thresholds, threshold


@dataclass(frozen=True)
class QuotientThresholds(Thresholds):
    """When a term of a rewritten equation is left out."""

    small: float = threshold(
        0.02,
        "a term smaller than this is tried as none",
        unit="rms of the largest of the three",
        origin="chosen: the refit decides, this only bounds the tries",
    )


QUOTIENTS = QuotientThresholds()


def shorten_quotients(law: PowerSum, x: Array) -> tuple[PowerSum, Free] | None:
    """The law with fewer terms over its sums, and what of it is fitted; None if there is no shorter way.

    Args:
        law: dimensionless.
        x: states at which the sizes of terms are compared, [samples, states].

    >>> from odediscovery.laws.power_sum import Features, Sums
    >>> monod = Features(1, (), Sums(np.array([[0.5]]), np.array([[1.0]])))  # u = 1 + x/2
    >>> long = PowerSum(np.array([[3.0, -3.0]]), np.array([[0.0, 0.0], [0.0, -1.0]]), monod)  # 3 - 3/u
    >>> short, _ = shorten_quotients(long, np.linspace(0.1, 5.0, 20)[:, None])
    >>> short.coefficients.tolist(), short.exponents.tolist()  # 1.5 x/u
    ([[1.5]], [[1.0, -1.0]])
    """
    if law.features is None or law.stoichiometry is not None:
        return None
    # Two sums may have to be written anew before a whole part that they share goes.
    starts = [law, *(_rewritten(law, x, without=1))]
    shorter = min((_shortened(start, x) for start in starts), key=_terms)
    if _terms(shorter) >= _terms(law):
        return None
    a, w, b, v = shorter.constants
    return shorter, (a != 0, w != np.round(w), b != 0, v != np.round(v))


def _shortened(law: PowerSum, x: Array) -> PowerSum:
    for _ in range(law.n_monomials):
        found = next((new for new in _rewritten(law, x) if _terms(new) < _terms(law)), None)
        if found is None:
            break
        law = found
    return law


def _terms(law: PowerSum) -> int:
    return int(np.count_nonzero(law.coefficients))


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
    for i, old in enumerate(three):
        ways = [np.where(np.arange(3) == k, 0.0, old + old[k] * instead[k]) for k in range(3)]
        ways = [old, *ways] if without is None else [ways[without]]
        kept = [np.where(np.abs(w) * size > QUOTIENTS.small * np.max(np.abs(w) * size), w, 0.0) for w in ways]
        a[i] = min(kept, key=np.count_nonzero) if np.isfinite(size).all() else old
    others = ~near.any(axis=1)
    coefficients = np.concatenate([law.coefficients[:, others], a], axis=1)
    return PowerSum(coefficients, np.concatenate([law.exponents[others], rows]), law.features).merged().compact()
