r"""The structure of a law that many groups share: which terms, not how large.

    dx_i/dt = \sum_e s_e exp(c_{k(e)}) \prod_k x_k ** W[j(e), k]

Every entry e belongs to one equation i, one product of powers j and one constant k, positive and kept
as a logarithm. Two entries with one constant are what leaves one state and enters another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from odediscovery.laws.power_sum import PowerSum
from odediscovery.runtime.arrays import Array


class Entry(NamedTuple):
    """One term of one equation: sign * constant * monomial."""

    state: int
    monomial: int
    constant: int
    sign: int


@dataclass(frozen=True, eq=False)
class Structure:
    """Terms of a law whose constants groups have of their own.

    Args:
        exponents: W, [monomials, states].
        entries: the terms, equation by equation.
        free: places (monomial, state) of exponents that are fitted, one number for all groups.

    >>> decay = Structure(np.array([[1.0]]), (Entry(0, 0, 0, -1),))
    >>> decay.n_constants, decay.law(np.log([0.5])).rhs(np.array([[2.0]])).tolist()
    (1, [[-1.0]])
    """

    exponents: Array
    entries: tuple[Entry, ...]
    free: tuple[tuple[int, int], ...] = ()

    @property
    def n_states(self) -> int:
        """Number of states."""
        return int(self.exponents.shape[1])

    @property
    def n_constants(self) -> int:
        """Number of constants, entries that hold the same one counted once."""
        return len({entry.constant for entry in self.entries})

    def law(self, logs: Array) -> PowerSum:
        """The law with these logarithms of its constants [constants]."""
        a = np.zeros((self.n_states, len(self.exponents)))
        for i, j, k, sign in self.entries:
            a[i, j] += sign * np.exp(logs[k])
        return PowerSum(a, self.exponents.copy())

    def with_exponents(self, values: Sequence[float]) -> Structure:
        """The same terms with other values of the free exponents."""
        w = self.exponents.copy()
        for (j, k), value in zip(self.free, values, strict=True):
            w[j, k] = value
        return replace(self, exponents=w)

    def free_values(self) -> Array:
        """Present values of the free exponents."""
        return np.array([self.exponents[place] for place in self.free])

    def price(self) -> float:
        """How many numbers besides the constants have to be told: exponents that are not 1 count half."""
        w = self.exponents[self.exponents != 0]
        return float(0.5 * np.count_nonzero(w != 1.0)) + 0.5 * len(self.free)


def structure_of(terms: Sequence[Sequence[tuple[int, Sequence[float]]]]) -> Structure:
    """A structure from the terms of each equation, (sign, exponents); each with a constant of its own.

    >>> logistic = structure_of([[(1, [1.0]), (-1, [2.0])]])
    >>> logistic.n_constants, logistic.exponents.ravel().tolist()
    (2, [1.0, 2.0])
    """
    rows: list[tuple[float, ...]] = []
    entries: list[Entry] = []
    for i, equation in enumerate(terms):
        for sign, powers in equation:
            row = tuple(float(p) for p in powers)
            if row not in rows:
                rows.append(row)
            entries.append(Entry(i, rows.index(row), len(entries), sign))
    return Structure(np.array(rows).reshape(len(rows), len(terms)), tuple(entries))


def tied(structure: Structure, first: int, second: int) -> Structure:
    """The structure in which two constants are one.

    >>> two = structure_of([[(-1, [1.0, 0.0])], [(1, [1.0, 0.0])]])
    >>> tied(two, 0, 1).n_constants
    1
    """
    places = {k: place for place, k in enumerate(k for k in range(structure.n_constants) if k != second)}
    places[second] = places[first]
    entries = tuple(e._replace(constant=places[e.constant]) for e in structure.entries)
    return replace(structure, entries=entries)


def without(structure: Structure, constant: int) -> Structure:
    """The structure without the entries of one constant, and without monomials that nothing needs."""
    kept = [e for e in structure.entries if e.constant != constant]
    used = sorted({e.monomial for e in kept})
    place = {j: new for new, j in enumerate(used)}
    entries = tuple(Entry(e.state, place[e.monomial], e.constant - (e.constant > constant), e.sign) for e in kept)
    free = tuple((place[j], k) for j, k in structure.free if j in place)
    return Structure(structure.exponents[used], entries, free)
