"""Families with products over sums: rational laws, Hill functions, and with exp and log Ivlev's and Gompertz's."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from odediscovery.families.base import ABS, EXP, EXP_INVERSE, LOG, Family, Seen, Shape, products_up_to_degree, rows_of
from odediscovery.runtime.arrays import Array


def _of_functions(seen: Seen, name: str, exponents: Sequence[float]) -> list[Array]:
    """Powers of a function of each state, alone and beside a state."""
    features = [k for k, f in enumerate(seen.functions, start=seen.n_states) if f.name == name]
    return [row + own for k in features for row in rows_of(seen.size, [k], [exponents]) for own in seen.beside]


def _stays_away_from_zero(seen: Seen, row: Array) -> bool:
    """Whether the states of these functions do, as absolute temperatures: near zero exp(-1/x) is any threshold."""
    of = [seen.functions[k].state for k in np.flatnonzero(row[seen.n_states :])]
    values = seen.monomials(np.eye(seen.size)[of])
    return bool((values.min(axis=(0, 1)) > 0.1 * values.max(axis=(0, 1))).all())


def _positive(seen: Seen, rows: Sequence[Array]) -> Array:
    """The products that are positive along the path of the data."""
    every = np.reshape(rows, (len(rows), seen.size))
    return every[(seen.monomials(every) > 0).all(axis=(0, 1))]


# Coefficients inside sums begin at these values, in the inverse of the median of their product.
BEGINNINGS, BEGINNINGS_OF_TWO = (0.3, 1.0, 3.0, 10.0), (0.5, 5.0)
# Rates of exponentials, and of gates, begin at these values, of either sign [1 / rms of the state].
RATES, STEEP_RATES = (0.5, 1.0, 2.0, 4.0), (2.0, 4.0, 8.0)


def _quotients(seen: Seen) -> list[Shape]:
    """Products of states, logarithms, and products over sums of a state, its square, both, or two states."""
    found, unit = _plain(seen), np.eye(seen.size)
    for k in np.flatnonzero(seen.changing).tolist():
        for z in (unit[k], 2.0 * unit[k]):
            found += _over(seen, [z], [np.zeros(seen.size), z])
    for a, b in itertools.combinations_with_replacement(np.flatnonzero(seen.changing).tolist(), 2):
        z = np.stack([unit[a], unit[b] if a != b else 2.0 * unit[a]])
        size = np.median(seen.monomials(z).reshape(-1, 2), axis=0)
        if len(_positive(seen, [*z])) != 2:
            continue
        for w in np.array(list(itertools.product(BEGINNINGS_OF_TWO, repeat=2))) / size:
            if a == b:  # substrate inhibition
                found += [Shape(unit[a] + factor, z, w[None], -np.ones(1)) for factor in seen.beside]
                continue
            others = [np.zeros(seen.size), *unit[[k for k in np.flatnonzero(seen.changing) if k not in (a, b)]]]
            for top in (top + other for top in (z.sum(axis=0), *z) for other in others):
                found += [Shape(top, z, np.diag(w), -np.ones(2)), Shape(top, z, w[None], -np.ones(1))]
    return found + _begun(seen)


def _begun(seen: Seen) -> list[Shape]:
    """Products of states and of what a denominator contains over each denominator that regression finds."""
    if seen.denominators is None:
        return []
    unit = seen.units
    powers = [power * unit for power in (1.0, 2.0, 3.0, 4.0)]
    products = [a + b for a, b in itertools.combinations(unit, 2)]
    plain, low = _low(seen, 2), _low(seen, 3)
    found = list[Shape]()

    def alone_and_beside(products: Iterable[Array]) -> list[Array]:
        return [z + own for z in products for own in (0.0 * unit, unit)]

    for below in ([*powers[0], *powers[1]], [*powers[0], *products], _positive(seen, [*np.vstack(powers)])):
        above = np.unique(np.vstack([low, *alone_and_beside(below)]), axis=0)
        for inside, weights in seen.denominators(above, np.reshape(below, (-1, seen.size))):
            tops = np.unique(np.vstack([plain, *alone_and_beside(inside)]), axis=0)
            found += [Shape(top, *own) for top in tops for own in _factored(inside, weights)]
    return found


def _factored(inside: Array, d: Array) -> list[tuple[Array, Array, Array]]:
    """1 + sum_k d_k z_k as one sum, and (1 + d_a z_a) (1 + d_b z_b) if it contains z_a, z_b and their product."""
    found = [(inside, d[None], -np.ones(1))]
    for a, b in itertools.combinations_with_replacement(range(len(d)), 2):
        if not (inside == inside[a] + inside[b]).all(axis=1).any():
            continue
        if a == b:
            found.append((inside[[a]], d[[[a]]] / 2.0, np.array([-2.0])))
        else:
            found.append((inside[[a, b]], np.diag(d[[a, b]]), -np.ones(2)))
    return found


def _low(seen: Seen, degree: int) -> Array:
    """Products of changing states up to a degree."""
    rows = products_up_to_degree(seen.n_states, degree)
    return np.pad(rows[~rows[:, ~seen.changing].any(axis=1)], ((0, 0), (0, seen.size - seen.n_states)))


def _functions(seen: Seen) -> list[Shape]:
    """Products of states, with logarithms, exponentials, gates, norms and Hill functions."""
    found, unit = _plain(seen), np.eye(seen.size)
    for k in np.flatnonzero(seen.changing).tolist():
        hill = (4.0,) if seen.integer[k] else (1.5, 2.5, 3.5)
        found += [shape for power in hill for shape in _over(seen, [power * unit[k]], [np.zeros(seen.size)])]
    found += [Shape(row) for row in _of_functions(seen, ABS.name, (1.0,))]
    found += [Shape(row) for row in _of_functions(seen, EXP.name, (*(-r for r in RATES), *RATES))]
    exponentials = [k for k, f in enumerate(seen.functions, start=seen.n_states) if f.name == EXP.name]
    found += _gates(seen, [sign * rate * unit[k] for k in exponentials for sign in (-1, 1) for rate in STEEP_RATES])
    activated = _of_functions(seen, EXP_INVERSE.name, [-(2.0**k) for k in range(6)])
    return [*found, *(Shape(row) for row in activated if _stays_away_from_zero(seen, row)), *_norms(seen)]


def _gates(seen: Seen, exponentials: Sequence[Array]) -> list[Shape]:
    """1 / (1 + b e^(r x)), alone and times a state: steep ones are far from b = 0."""
    beside, found = [np.zeros(seen.size), *np.eye(seen.size)[: seen.n_states]], list[Shape]()
    for z in exponentials:
        middles = np.quantile(seen.monomials(z[None]), (0.1, 0.3, 0.5, 0.7, 0.9))
        found += [_one_sum(factor, z, 1.0 / middle) for middle in middles.tolist() for factor in beside]
    return found


def _norms(seen: Seen) -> list[Shape]:
    """Powers of (x^2 + y^2)^(1/2) = |x| (1 + y^2 / x^2)^(1/2) for x, y that change sign, alone and times a state."""
    unit, states, found = np.eye(seen.size), np.flatnonzero(seen.changing).tolist(), list[Shape]()
    sizes = {f.state: unit[k] for k, f in enumerate(seen.functions, start=seen.n_states) if f.name == ABS.name}
    for y, x in itertools.permutations(states, 2):
        if y in sizes and not (x in sizes and x > y):
            for power in (1.0, -1.0, -2.0, -3.0):
                size = power * sizes.get(x, unit[x])
                tops = (size, *(size + unit[k] for k in states))
                found += [_one_sum(top, 2.0 * (unit[y] - unit[x]), 1.0, power / 2.0) for top in tops]
    return found


def _plain(seen: Seen) -> list[Shape]:
    """Low products of states, alone and over a state, and logarithms of states, alone and beside a state."""
    unit = seen.units
    low = [*_low(seen, 3 if seen.n_states < 3 else 2), *3.0 * unit, *4.0 * unit]
    rows = np.unique(np.array([*low, *(row - z for row in low for z in _positive(seen, [*unit]))]), axis=0)
    return [Shape(row) for row in (*rows, *_of_functions(seen, LOG.name, (1.0,)))]


def _over(seen: Seen, products: Sequence[Array], tops: Sequence[Array]) -> list[Shape]:
    """Each top, alone and beside a state, over a sum of 1 and a product that is positive."""
    found = list[Shape]()
    for z in _positive(seen, products):
        size = float(np.median(seen.monomials(z[None])))
        rows = np.unique([top + factor for top in tops for factor in seen.beside], axis=0)
        found += [_one_sum(row, z, b / size) for row in rows for b in BEGINNINGS]
    return found


def _one_sum(row: Array, z: Array, b: float, power: float = -1.0) -> Shape:
    return Shape(row, z[None], np.array([[b]]), np.array([power]))


SUMS = Family(
    name="sums",
    says="products of powers of states, sums of these, and exp, log and size of a state: rational laws, Ivlev, "
    "Gompertz, Arrhenius, drag",
    chain="Functions -> NPU -> NAU -> NPU -> NAU",
    richness=3,
    vocabularies=(_quotients, _functions),
    sums=True,
    functions=(EXP, EXP_INVERSE, LOG, ABS),
)
