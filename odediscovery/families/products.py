"""Candidate terms of families with functions: products of up to three states and functions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from odediscovery.families.base import Seen, Terms
from odediscovery.families.powers import MAX_TRIPLES, WHOLE_GRID
from odediscovery.runtime.arrays import Array

# Exponents of states: alone, and beside another factor. Sizes and pairs only have to come near.
SIGNED_GRID = (-2.0, -1.0, 1.0, 2.0, 3.0)
PAIRED, PAIRED_WHOLE, ONCE = (-1.0, 1.0, 2.0), (1.0, 2.0), (1.0,)


def products(seen: Seen) -> Terms:
    """Products of up to three of the states and the functions that a family sees."""
    n, of = seen.n_states, {f.name: f for f in seen.definitions}
    usable = [*np.flatnonzero(seen.changing).tolist(), *range(n, seen.size)]

    def exponents(k: int, size: int) -> Sequence[float]:
        if k >= n:
            function = of[seen.functions[k - n].name]
            return function.exponents if size < 3 else function.exponents_of_three
        if size == 3:
            return ONCE
        fine, coarse = (WHOLE_GRID, PAIRED_WHOLE) if seen.integer[k] else (SIGNED_GRID, PAIRED)
        return fine if size == 1 else coarse

    rows = [np.zeros(seen.size)]
    for size in (1, 2, 3):
        found: list[Array] = []
        for group in itertools.combinations(usable, size):
            for values in itertools.product(*(exponents(k, size) for k in group)):
                row = np.zeros(seen.size)
                row[list(group)] = values
                found.append(row)
        if size < 3 or len(found) <= MAX_TRIPLES:
            rows += found
    return Terms.products(np.stack(rows), many=True)
