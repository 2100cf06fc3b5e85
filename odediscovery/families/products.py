"""Candidate terms of families with functions: products of up to three states and functions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from odediscovery.families.base import MAX_COARSE, MAX_TRIPLES, ONCE, WHOLE_GRID, Seen, Terms, rows_of


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
        # Pairs only have to come near.
        if seen.integer[k]:
            return WHOLE_GRID if size == 1 else (1.0, 2.0)
        return (-2.0, -1.0, 1.0, 2.0, 3.0) if size == 1 else (-1.0, 1.0, 2.0)

    def count(size: int) -> int:
        return count_products([len(exponents(k, size)) for k in usable], size)

    rows, crowded = [np.zeros(seen.size)], count(2) > MAX_COARSE
    pairs = math.comb(len(usable), 2)
    for size in (1,) if pairs > MAX_COARSE else (1, 2, 3) if count(3) <= MAX_TRIPLES else (1, 2):
        for group in itertools.combinations(usable, size):
            choices = [ONCE if size == 2 and crowded else exponents(k, size) for k in group]
            rows += rows_of(seen.size, group, choices)
    return Terms.products(np.stack(rows), many=True)


def count_products(choices: Sequence[int], size: int) -> int:
    """How many products of `size` different factors there are, each with so many choices of its exponent."""
    of_size = [1] + [0] * size
    for own in choices:
        for k in range(size, 0, -1):
            of_size[k] += own * of_size[k - 1]
    return of_size[size]
