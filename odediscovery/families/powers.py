"""Sums of products of real powers, the laws that one power unit and one sum write."""

from __future__ import annotations

import itertools
import math

import numpy as np

from odediscovery.families.base import Family, Seen, Terms
from odediscovery.runtime.arrays import Array, Mask

# Exponents of candidates made of one or two states, of three, and of sign-changing states.
GRID = (-2.0, -1.0, -0.5, 0.5, 1.0, 1.5, 2.0)
COARSE_GRID = (-1.0, 0.5, 1.0)
WHOLE_GRID = (1.0, 2.0, 3.0)
# Of sign-changing states alone: what a polynomial of one state may need.
ALONE_GRID = (1.0, 2.0, 3.0, 4.0, 5.0)
# Products of three states are left out where there would be more; of two they come on the coarse grid then,
# with powers 1 where that has more than `MAX_COARSE`, and not at all where there are still more.
MAX_TRIPLES, MAX_PAIRS, MAX_COARSE = 2500, 2500, 6000
ONCE = (1.0,)


def powers_of(integer: Mask, changing: Mask) -> Array:
    """Exponents of candidate monomials of at most three states, [candidates, states].

    Of many states there are fewer: what they are made of grows with the square of their number.
    """
    n, count = len(integer), int(changing.sum())
    rows = [np.zeros(n)]
    many = math.comb(count, 2) * len(GRID) ** 2 > MAX_PAIRS
    too_many = math.comb(count, 3) * len(COARSE_GRID) ** 3 > MAX_TRIPLES
    pairs, crowded = math.comb(count, 2), math.comb(count, 2) * len(COARSE_GRID) ** 2 > MAX_COARSE
    sizes = (1,) if pairs > MAX_COARSE else (1, 2) if too_many else (1, 2, 3)
    for size in sizes:
        coarse = size == 3 or (size == 2 and many)
        for chosen in itertools.combinations(np.flatnonzero(changing), size):
            choices = [_whole_grid(size, coarse) if integer[k] else (COARSE_GRID if coarse else GRID) for k in chosen]
            choices = [ONCE] * 2 if size == 2 and crowded else choices
            for values in itertools.product(*choices):
                row = np.zeros(n)
                row[list(chosen)] = values
                rows.append(row)
    return np.stack(rows)


def _whole_grid(size: int, coarse: bool) -> tuple[float, ...]:
    return ALONE_GRID if size == 1 else WHOLE_GRID[:1] if coarse else WHOLE_GRID


def _candidates(seen: Seen) -> Terms:
    return Terms.products(powers_of(seen.integer, seen.changing))


POWERS = Family(
    name="powers",
    says="sums of products of real powers of states",
    chain="NPU -> NAU",
    richness=1,
    candidates=_candidates,
    real_exponents=True,
    in_noise=True,
)
