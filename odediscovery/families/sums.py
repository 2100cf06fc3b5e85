"""Families with products over sums: rational laws, Hill functions, and with exp and log Ivlev's and Gompertz's."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence

import numpy as np

from odediscovery.families.base import Family, Inner, Seen, Terms, powers_of, rows_of
from odediscovery.families.functions import EXP, LOG
from odediscovery.runtime.arrays import Array

# Constants b of a sum 1 + b m in units of 1 / max(m).
CONSTANTS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 1000.0)


def _candidates(seen: Seen) -> Terms:
    rows = powers_of(seen.integer, seen.changing)
    whole = np.all(rows == np.round(rows), axis=1)
    plain = Terms.products(np.pad(rows[whole], ((0, 0), (0, len(seen.functions)))), many=True)
    return plain.and_also(_with_sums(seen))


def _inner(seen: Seen) -> list[Inner]:
    """Sums of states and squares; of higher powers and ratios; of exponentials; then beside inverse powers and logs.

    Cubes may stand outside of all sums.
    """
    states = np.flatnonzero(seen.changing).tolist()
    low, higher = (_powers(seen, exponents) for exponents in ((1.0, 2.0), (1.0, 2.0, 3.0, 4.0)))
    (cubes, products) = (
        _powers(seen, (3.0,)),
        [np.add(*pair) for pair in itertools.combinations(_powers(seen, (1.0,)), 2)],
    )
    ratios = [row for pair in itertools.permutations(states, 2) for row in rows_of(seen.size, pair, [(1.0,), (-1.0,)])]
    logarithms, exponentials = (
        _of_functions(seen, name, powers) for name, powers in ((LOG.name, (1.0,)), (EXP.name, (-3.0, -1.0, 1.0, 3.0)))
    )
    gates = [row for row in exponentials if abs(row[seen.n_states :]).max() == 3.0 and not row[: seen.n_states].any()]
    each: list[tuple[list[Array], list[Array]]]
    each = [
        (low, cubes),
        ([*higher, *ratios, *products], cubes),
        ([*_powers(seen, (1.0,)), *gates], exponentials),
        (low, [*_powers(seen, (-1.0,)), *ratios]),
        (low, logarithms),
    ]
    return [Inner(_positive(seen, sums), np.reshape(factors, (-1, seen.size))) for sums, factors in each]


def _powers(seen: Seen, exponents: Sequence[float]) -> list[Array]:
    return [row for k in np.flatnonzero(seen.changing).tolist() for row in rows_of(seen.size, [k], [exponents])]


def _of_functions(seen: Seen, name: str, exponents: Sequence[float]) -> list[Array]:
    """Powers of a function of each state, alone and beside a state."""
    features = [k for k, f in enumerate(seen.functions, start=seen.n_states) if f.name == name]
    beside = [np.zeros(seen.size), *_powers(seen, (1.0,))]
    return [row + own for k in features for row in rows_of(seen.size, [k], [exponents]) for own in beside]


def _positive(seen: Seen, rows: Sequence[Array]) -> Array:
    """The products that are positive along the path of the data."""
    every = np.reshape(rows, (len(rows), seen.size))
    return every[(seen.monomials(every) > 0).all(axis=(0, 1))]


def _hill_candidates(seen: Seen) -> Terms:
    """The candidates with at most one state inside each sum; none if every state changes its sign."""
    if seen.integer[seen.changing].all():
        return Terms.products(np.zeros((0, seen.size)), many=True)
    terms = _candidates(seen)
    return terms.select(np.flatnonzero((terms.inner != 0).sum(axis=1) <= 1))


def _with_sums(seen: Seen) -> Terms:
    """Products of at most two states over 1 + b m, and those that saturate; sums are positive along the path."""
    outer, inside = _factors(seen)
    m = seen.monomials(np.stack(inside))
    highest, lowest = m.max(axis=(0, 1)), m.min(axis=(0, 1))
    found: list[tuple[Array, float, Array, float]] = []
    for inner, high, low in zip(inside, highest, lowest, strict=True):
        size = max(abs(high), abs(low))
        # A negative constant brings the sum near zero, but it must stay positive along the path of the data.
        for b in (*CONSTANTS, -0.99, -0.8, -0.5):
            constant = b / size
            if 1.0 + min(constant * high, constant * low) > 1e-3:
                found += [(row, constant, inner, -1.0) for row in (*outer, *_saturating(inner, outer, seen))]
    rows, constants, inners, exponents = zip(*found, strict=True)
    return Terms(np.stack(rows), np.array(constants), np.stack(inners), np.array(exponents), many=True)


def _saturating(inner: Array, outer: list[Array], seen: Seen) -> list[Array]:
    """m and m x_k unless they are among the products `outer`: m / (1 + b m) saturates, alone or times a state."""
    rows = [inner, *(inner + np.eye(seen.size)[k] for k in np.flatnonzero(seen.changing) if not inner[k])]
    return [row for row in rows if not any(np.array_equal(row, o) for o in outer)]


def _factors(seen: Seen) -> tuple[list[Array], list[Array]]:
    """Exponents of the products before a sum, and of those inside it."""
    states = np.flatnonzero(seen.changing).tolist()
    pairs = math.comb(len(states), 2)
    # With more candidates than this, products of two states are omitted.
    many = (1 + 2 * len(states) + pairs) * (4 * len(states) + pairs) * len(CONSTANTS) > 20_000
    of_two = [] if many else [rows_of(seen.size, pair, [(1.0,)] * 2)[0] for pair in itertools.combinations(states, 2)]

    def products(of_one: tuple[float, ...]) -> list[Array]:
        return [*(row for k in states for row in rows_of(seen.size, [k], [of_one])), *of_two]

    return [np.zeros(seen.size), *products((1.0, 2.0))], products((1.0, 2.0, 3.0, 4.0))


_PLAIN_SUMS = Family(
    name="sums",
    says="products over sums, 1 / (1 + b m) with m a product of whole powers: rational laws, Hill functions",
    chain="NPU -> NAU -> NPU -> NAU",
    richness=3,
    candidates=_candidates,
    in_noise=True,
)
SUMS = dataclasses.replace(
    _PLAIN_SUMS,
    says="products of powers of states, sums of these, and exp and log of a state: rational laws, Ivlev, Gompertz",
    chain="Functions -> NPU -> NAU -> NPU -> NAU",
    inner=_inner,
    plain=_PLAIN_SUMS,
    functions=(EXP, LOG),
)
HILL_FUNCTIONS = Family(
    name="hill functions",
    says="products over sums 1 + b x^v with v any real number: Hill functions as they are measured",
    chain="NPU -> NAU -> NPU -> NAU",
    richness=5.5,
    candidates=_hill_candidates,
    real_inside=True,
)
