"""Sums of products of real powers, the laws that one power unit and one sum write."""

from __future__ import annotations

import itertools
import math

import numpy as np

from odediscovery.families.base import Family, Terms, rows_of
from odediscovery.runtime.arrays import Array, Mask

# Exponents of sign-changing states beside others; of all states where the grid is coarsest.
WHOLE_GRID, ONCE = (1.0, 2.0, 3.0), (1.0,)
# Products of three states are left out where there would be more; of two they come on the coarse grid then,
# with powers 1 where that has more than `MAX_COARSE`, and not at all where there are still more.
MAX_TRIPLES, MAX_PAIRS, MAX_COARSE = 2500, 2500, 6000


def powers_of(integer: Mask, changing: Mask) -> Array:
    """Exponents of candidate monomials of at most three states, [candidates, states]."""
    n, states = len(integer), np.flatnonzero(changing).tolist()
    fine, coarse = (-2.0, -1.0, -0.5, 0.5, 1.0, 1.5, 2.0), (-1.0, 0.5, 1.0)
    pairs, triples = math.comb(len(states), 2), math.comb(len(states), 3)
    many, crowded = pairs * len(fine) ** 2 > MAX_PAIRS, pairs * len(coarse) ** 2 > MAX_COARSE

    def exponents(k: int, size: int) -> tuple[float, ...]:
        if size == 2 and crowded:
            return ONCE
        on_coarse = size == 3 or (size == 2 and many)
        if integer[k]:
            # Alone a sign-changing state has what a polynomial of it may need.
            return (1.0, 2.0, 3.0, 4.0, 5.0) if size == 1 else ONCE if on_coarse else WHOLE_GRID
        return coarse if on_coarse else fine

    rows = [np.zeros(n)]
    for size in (1,) if pairs > MAX_COARSE else (1, 2) if triples * len(coarse) ** 3 > MAX_TRIPLES else (1, 2, 3):
        for chosen in itertools.combinations(states, size):
            rows += rows_of(n, chosen, [exponents(k, size) for k in chosen])
    return np.stack(rows)


POWERS = Family(
    name="powers",
    says="sums of products of real powers of states",
    chain="NPU -> NAU",
    richness=1,
    candidates=lambda seen: Terms.products(powers_of(seen.integer, seen.changing)),
    real_exponents=True,
    in_noise=True,
)
