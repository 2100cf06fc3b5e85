"""What a family of laws is: the functions its power layer sees, and the terms that may stand.

    prod_k z_k^v_k                        powers:     z = states
    prod_k z_k^v_k                        functions:  z = states and functions of single states
    prod_k z_k^v_k (1 + b prod z^m)^u     sums:       powers of a sum, for saturation

Everything here is numpy and knows nothing of data, laws or fits, so that a new family is one file
and one line of the registry: parsing, printing, prices, growing and the documentation follow.

The plainest family stands here too: sums of products of real powers, which one power unit and one sum write.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask


@dataclass(frozen=True, eq=False)
class StateFunction:
    """f(r x), a function of one state as numpy, math, sympy, torch and Julia name it."""

    name: str  # under which these libraries know it
    phrase: str  # how a person says it, "the sine of"
    slope: Callable[[Any, Any], Any]  # (library, z) -> f'(z), for numpy, sympy and torch
    exponents: tuple[float, ...] = (1.0,)  # of candidate terms in which it stands alone or beside one other factor
    exponents_of_three: tuple[float, ...] = (1.0,)  # of candidate terms of three factors
    positive: bool = False  # it needs an argument above 0, and so a state that is positive throughout
    power_is_rate: bool = False  # f(x)^w = f(w x), so that an exponent is a rate: real, of either sign
    in_user_units: bool = True  # x is the state as it was measured; else in units of its rms
    # Least and largest argument while networks train, for finite gradients.
    bounds: tuple[float, float] = (-math.inf, math.inf)

    def value(self, z: Array) -> Array:
        """f(z) for arguments z of any shape; an argument that must be positive is at least 1e-300."""
        found: Array = getattr(np, self.name)(np.maximum(z, ABOVE_ZERO) if self.positive else z)
        return found

    def plain(self, z: float) -> float:
        """f(z) of a single number z."""
        return float(getattr(math, self.name)(max(z, ABOVE_ZERO) if self.positive else z))

    def derivative(self, z: Array) -> Array:
        """f'(z) for arguments z of any shape."""
        found: Array = self.slope(np, np.maximum(z, ABOVE_ZERO) if self.positive else z)
        return found

    def within_bounds(self, library: Any, z: Any) -> Any:
        """f(z) by a `library`, numpy or torch; arguments z beyond the bounds count as the bounds."""
        return getattr(library, self.name)(library.clip(z, *self.bounds) if self._is_bounded else z)

    def slope_within_bounds(self, library: Any, z: Any) -> Any:
        """The derivative of `within_bounds` at z by a `library`: 0 beyond the bounds."""
        if not self._is_bounded:
            return self.slope(library, z)
        least, most = self.bounds
        return library.where((z > least) & (z < most), self.slope(library, library.clip(z, least, most)), 0.0)

    @property
    def _is_bounded(self) -> bool:
        return not all(map(math.isinf, self.bounds))


@dataclass(frozen=True)
class Function:
    """f(rate * x_state), a feature of a power layer."""

    name: str  # of a `StateFunction`
    state: int  # index of the state
    rate: float = 1.0  # 1 in the units in which f is taken

    @property
    def plain_rate(self) -> float:
        """The rate; 1 or -1 where scaling there and back left it so but for the last digits."""
        return math.copysign(1.0, self.rate) if math.isclose(abs(self.rate), 1.0, rel_tol=1e-12) else self.rate


def rows_of(width: int, factors: Sequence[int], choices: Sequence[Sequence[float]]) -> list[Array]:
    """Exponents [width] of all products of these factors, each to one power of its choices."""
    rows = []
    for values in itertools.product(*choices):
        row = np.zeros(width)
        row[list(factors)] = values
        rows.append(row)
    return rows


@dataclass(frozen=True, eq=False)
class Terms:
    """C candidates prod_k z_k^rows[c, k] (1 + constant[c] prod_k z_k^inner[c, k])^power[c]."""

    rows: Array  # [C, states and functions]
    constant: Array  # b, [C]; 0 for no sum
    inner: Array  # [C, states and functions]
    power: Array  # exponent of the sum, [C]
    many: bool = False  # whether there are so many that subsets are sought by linear algebra first

    @classmethod
    def products(cls, rows: Array, *, many: bool = False) -> Terms:
        """Products of powers alone, with exponents rows [C, states and functions]."""
        return cls(rows, np.zeros(len(rows)), np.zeros_like(rows), np.zeros(len(rows)), many)

    @property
    def kinds(self) -> NDArray[np.int64]:
        """Number of the form that each has, whatever the constant and the rate [C]."""
        form = np.column_stack([self.rows, np.sign(self.constant), self.inner != 0, np.sign(self.inner), self.power])
        return np.asarray(np.unique(form, axis=0, return_inverse=True)[1].ravel())

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of factors of each, those in its sum included [C]."""
        return np.asarray((self.rows != 0).sum(axis=1) + (self.inner != 0).sum(axis=1))

    def __len__(self) -> int:
        return len(self.rows)

    def select(self, which: NDArray[np.int64]) -> Terms:
        """Some of them."""
        return Terms(self.rows[which], self.constant[which], self.inner[which], self.power[which], self.many)

    def and_also(self, other: Terms) -> Terms:
        """These and others behind them."""
        mine = self.rows, self.constant, self.inner, self.power
        others = other.rows, other.constant, other.inner, other.power
        rows, constant, inner, power = map(np.concatenate, zip(mine, others, strict=True))
        return Terms(rows, constant, inner, power, self.many or other.many)


@dataclass(frozen=True, eq=False)
class Seen:
    """What a family sees of the data when it proposes terms."""

    functions: tuple[Function, ...]  # features behind the states
    definitions: tuple[StateFunction, ...]  # what the family says of these functions
    integer: Mask  # states with whole exponents only [states]
    changing: Mask  # states that are no constants [states]
    # Exponents [C, states and functions] -> values of these products along the path of the data, [intervals, nodes, C].
    monomials: Callable[[Array], Array]

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.integer)

    @property
    def size(self) -> int:
        """Number of states and functions."""
        return self.n_states + len(self.functions)


@dataclass(frozen=True, eq=False, repr=False)
class Family:
    """A family of laws."""

    name: str  # one or two words; of progress and logs
    says: str  # what its terms look like, for the documentation
    chain: str  # the units that write it
    richness: float  # families are tried in its order, from 1, sums of powers, on
    # The terms that a law of it may be grown by. A grid only has to come near: exponents and constants of sums are
    # fitted afterwards.
    candidates: Callable[[Seen], Terms]
    functions: tuple[StateFunction, ...] = ()  # of a state, among the features beside the states
    # Whether exponents are real numbers; with whole ones a rich family cannot fit just anything.
    real_exponents: bool = False
    real_inside: bool = False  # whether exponents of states inside sums are real numbers
    in_noise: bool = False  # whether it is also looked through in noise
    placed: tuple[Function, ...] = ()  # the features themselves, where a family (a user's library) knows them
    richness_of_amounts: float | None = None  # the same where no state changes its sign; None: no other

    def __repr__(self) -> str:
        return f"Family({self.name!r})"

    def features(self, nonnegative: Mask, changing: Mask, size: Array) -> tuple[Function, ...]:
        """Its functions of all states that change, of x in the user's units, which was divided by `size` [states]."""
        found = [Function(f.name, f.state, f.rate * float(size[f.state])) for f in self.placed]
        for k in np.flatnonzero(changing):
            for f in self.functions:
                if f.positive and not nonnegative[k]:
                    continue
                # A mirrored state is divided by a negative number; -x is what is positive then.
                rate = abs(size[k]) if f.positive else size[k]
                found.append(Function(f.name, int(k), float(rate) if f.in_user_units else 1.0))
        return tuple(found)

    def whole(self, integer: Mask) -> Mask:
        """States whose exponents are whole numbers in this family, given those with signs [states]."""
        return integer if self.real_exponents else np.ones_like(integer)


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

    largest = 1 if pairs > MAX_COARSE else 2 if triples * len(coarse) ** 3 > MAX_TRIPLES else 3
    return _products_up_to(largest, n, states, exponents)


def _products_up_to(
    largest: int, width: int, usable: Sequence[int], exponents: Callable[[int, int], Sequence[float]]
) -> Array:
    """Exponents of 1 and all products of so many factors at most, by (factor, size of the product)."""
    rows = [np.zeros(width)]
    for size in range(1, largest + 1):
        for chosen in itertools.combinations(usable, size):
            rows += rows_of(width, chosen, [exponents(k, size) for k in chosen])
    return np.stack(rows)


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

    def power_sums(size: int) -> list[int]:
        return [sum(len(exponents(k, size)) ** p for k in usable) for p in (1, 2, 3)]

    # How many products of two and of three different factors there are, by Newton's identities.
    (a, b, _), (c, d, e) = power_sums(2), power_sums(3)
    crowded, triples = (a**2 - b) // 2 > MAX_COARSE, (c**3 - 3 * c * d + 2 * e) // 6
    largest = 1 if math.comb(len(usable), 2) > MAX_COARSE else 3 if triples <= MAX_TRIPLES else 2
    rows = _products_up_to(largest, seen.size, usable, lambda k, s: ONCE if s == 2 and crowded else exponents(k, s))
    return Terms.products(rows, many=True)


POWERS = Family(
    name="powers",
    says="sums of products of real powers of states",
    chain="NPU -> NAU",
    richness=1,
    candidates=lambda seen: Terms.products(powers_of(seen.integer, seen.changing)),
    real_exponents=True,
    in_noise=True,
)
