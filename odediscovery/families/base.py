"""Definition of a family of laws: the functions among the inputs of its power layer, and the terms it allows.

    prod_k z_k^v_k                        powers:     z = states
    prod_k z_k^v_k                        functions:  z = states and functions of single states
    prod_k z_k^v_k (1 + b prod z^m)^u     sums:       powers of a sum, for saturation

Everything here uses numpy and is independent of data, laws and fits, so that a new family is one file
and one line of the registry: parsing, printing, penalties, regression and the documentation follow.

The two simplest families are defined here, too: sums of products of real powers, one power unit followed by one sum,
and the same with sin and cos of a state among the factors.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import sympy

from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask


@dataclass(frozen=True, eq=False)
class StateFunction:
    """f(r x), a function of one state."""

    name: str  # in numpy, math, sympy and torch, unless `apply` is given
    phrase: str  # in words, "the sine of"
    slope: Callable[[Any, Any], Any]  # (library, z) -> f'(z), for numpy, sympy and torch
    exponents: tuple[float, ...] = (1.0,)  # in candidate terms of one or two factors
    exponents_of_three: tuple[float, ...] = (1.0,)  # in candidate terms of three factors
    positive: bool = False  # whether it needs an argument above 0, and so a state that never changes sign
    least: float = ABOVE_ZERO  # smallest argument, if `positive`
    of_signs: bool = False  # whether it is nothing new of a state that never changes sign
    # f(x)^w = f(w x), so that an exponent is a rate: real, of either sign. Then x is in units of its rms, and else the
    # state as it was measured.
    power_is_rate: bool = False
    # Least and largest argument while networks train, for finite gradients.
    bounds: tuple[float, float] = (-math.inf, math.inf)
    apply: Callable[[Any, Any], Any] | None = None  # (library, z) -> f(z)
    of_inverse: bool = False  # whether it is exp(1 / z)
    of_ratio: bool = False  # whether its argument is a ratio in laws of nature, so that one of a state costs more

    def value(self, z: Array) -> Array:
        """f(z) for arguments z of any shape; if `positive`, arguments are raised to at least `least`."""
        found: Array = self._in(np, np.maximum(z, self.least) if self.positive else z)
        return found

    def plain(self, z: float) -> float:
        """f(z) of a single number z."""
        return float(self._in(math, max(z, self.least) if self.positive else z))

    def symbolic(self, z: sympy.Expr) -> sympy.Expr:
        """f(z) as an expression."""
        return self._in(sympy, z)

    def within_bounds(self, library: Any, z: Any) -> Any:
        """f(z) in a `library`, numpy or torch, with arguments z clipped to the bounds."""
        return self._in(library, library.clip(z, *self.bounds) if self._is_bounded else z)

    def slope_within_bounds(self, library: Any, z: Any) -> Any:
        """The derivative of `within_bounds` at z in a `library`: 0 beyond the bounds."""
        if not self._is_bounded:
            return self.slope(library, z)
        least, most = self.bounds
        return library.where((z > least) & (z < most), self.slope(library, library.clip(z, least, most)), 0.0)

    def _in(self, library: Any, z: Any) -> Any:
        return getattr(library, self.name)(z) if self.apply is None else self.apply(library, z)

    @property
    def _is_bounded(self) -> bool:
        return not all(map(math.isinf, self.bounds))


SIN = StateFunction(
    "sin", "the sine of", lambda lib, z: lib.cos(z), exponents=(1.0, 2.0, -1.0), exponents_of_three=(1.0, -1.0)
)
COS = StateFunction(
    "cos", "the cosine of", lambda lib, z: -lib.sin(z), exponents=(1.0, 2.0, -1.0), exponents_of_three=(1.0, -1.0)
)
EXP = StateFunction(
    "exp",
    "the exponential of",
    lambda lib, z: lib.exp(z),
    power_is_rate=True,
    bounds=(-float("inf"), 200.0),
    of_ratio=True,
)
LOG = StateFunction(
    "log", "the logarithm of", lambda lib, z: 1.0 / z, positive=True, bounds=(1e-30, float("inf")), of_ratio=True
)
ABS = StateFunction("Abs", "the size of", lambda lib, z: lib.sign(z), of_signs=True, apply=lambda lib, z: abs(z))
EXP_INVERSE = StateFunction(
    "exp_inverse",
    "the exponential of the inverse of",
    lambda lib, z: -lib.exp(1.0 / z) / z**2,
    positive=True,
    power_is_rate=True,
    least=0.005,
    bounds=(0.005, float("inf")),
    apply=lambda lib, z: lib.exp(1.0 / z),
    of_inverse=True,
    of_ratio=True,
)

# Every function of a state that some registered family has, by name.
STATE_FUNCTIONS: dict[str, StateFunction] = {}


@dataclass(frozen=True)
class Function:
    """f(rate * x_state), a feature of a power layer."""

    name: str  # of a `StateFunction`
    state: int  # index of the state
    rate: float = 1.0  # 1 if x is in the units in which f is defined

    @property
    def plain_rate(self) -> float:
        """The rate, set to 1 or -1 where it only differs by rounding in the change of units."""
        return math.copysign(1.0, self.rate) if math.isclose(abs(self.rate), 1.0, rel_tol=1e-12) else self.rate

    @property
    def kind(self) -> StateFunction:
        """Its definition."""
        return STATE_FUNCTIONS[self.name]

    @property
    def rate_of_power(self) -> float:
        """The factor c by which a power is a rate: exp(r x)^w = exp(c w x), exp(1/(r x))^w = exp(c w/x); else 1."""
        if not self.kind.power_is_rate:
            return 1.0
        return 1.0 / self.rate if self.kind.of_inverse else self.rate


def rows_of(width: int, factors: Sequence[int], choices: Sequence[Sequence[float]]) -> list[Array]:
    """Exponents [width] of all products of these factors, each raised to one of its choices."""
    rows = []
    for values in itertools.product(*choices):
        row = np.zeros(width)
        row[list(factors)] = values
        rows.append(row)
    return rows


# Products that a numerator and a denominator may contain -> denominators 1 + sum_k d_k z_k that regression finds, as
# products z and their d.
Denominators: TypeAlias = "Callable[[Array, Array], Sequence[tuple[Array, Array]]]"


@dataclass(frozen=True, eq=False)
class Seen:
    """The information about the data from which a family proposes terms."""

    functions: tuple[Function, ...]  # features that follow the states
    definitions: tuple[StateFunction, ...]  # definitions of these functions in the family
    integer: Mask  # states with whole exponents only [states]
    changing: Mask  # states that are not constant [states]
    # Exponents [C, states and functions] -> values of these products along the path of the data, [intervals, nodes, C].
    monomials: Callable[[Array], Array]
    # None where no regression of D(x) x' = N(x) is made.
    denominators: Denominators | None = None

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.integer)

    @property
    def size(self) -> int:
        """Number of states and functions."""
        return self.n_states + len(self.functions)

    @property
    def units(self) -> Array:
        """Exponents of each changing state alone, [changing states, states and functions]."""
        return np.eye(self.size)[np.flatnonzero(self.changing)]

    @property
    def beside(self) -> Array:
        """Exponents of 1 and of each changing state, which stand beside other factors."""
        return np.vstack([np.zeros(self.size), self.units])


@dataclass(frozen=True, eq=False)
class Shape:
    """A term with the values where its constants begin:

    prod_k z_k^row[k] prod_l (1 + sum_m weights[l, m] prod_k z_k^inside[m, k])^power[l]
    """

    row: Array  # [states and functions]
    inside: Array = field(default_factory=lambda: np.zeros((0, 0)))  # [products, states and functions]
    weights: Array = field(default_factory=lambda: np.zeros((0, 0)))  # [sums, products]
    power: Array = field(default_factory=lambda: np.zeros(0))  # [sums]


@dataclass(frozen=True, eq=False, repr=False)
class Family:
    """A family of laws: its features, its candidate terms and its place in the search."""

    name: str  # one or two words, for progress and logs
    says: str  # form of its terms, for the documentation
    chain: str  # its units in the notation of networks
    richness: float  # families are tried in increasing order, starting from sums of powers, 1
    # Vocabularies of terms, from simple to rich, on a coarse grid of constants, which are fitted.
    vocabularies: tuple[Callable[[Seen], Sequence[Shape]], ...]
    sums: bool = False  # whether its terms have sums
    functions: tuple[StateFunction, ...] = ()  # functions of a state among the features
    # Whether exponents are real numbers; with whole ones a rich family cannot fit arbitrary data.
    real_exponents: bool = False
    placed: tuple[Function, ...] = ()  # its features, where a family (a user's library) defines them itself

    def __repr__(self) -> str:
        return f"Family({self.name!r})"

    def features(self, nonnegative: Mask, changing: Mask, size: Array) -> tuple[Function, ...]:
        """Its functions of all changing states, which are in the user's units divided by `size` [states]."""
        found = [Function(f.name, f.state, f.rate * float(size[f.state])) for f in self.placed]
        for k in np.flatnonzero(changing):
            for f in self.functions:
                if (f.positive and not nonnegative[k]) or (f.of_signs and nonnegative[k]):
                    continue
                # A mirrored state is divided by a negative number, so that -x is positive.
                rate = abs(size[k]) if f.positive else size[k]
                found.append(Function(f.name, int(k), 1.0 if f.power_is_rate else float(rate)))
        return tuple(found)

    def whole(self, integer: Mask) -> Mask:
        """Mask of the states with whole exponents in this family, given that of sign-changing states [states]."""
        return integer if self.real_exponents else np.ones_like(integer)


def products_up_to_degree(n: int, degree: int) -> Array:
    """Return the exponents of all products of n states up to a degree, [products, states]."""
    factors = itertools.combinations_with_replacement(range(n + 1), degree)
    rows = sorted(np.bincount(group, minlength=n + 1)[1:].tolist() for group in factors)
    return np.array(rows, dtype=float)


# Exponents of sign-changing states beside others; of all states where the grid is coarsest.
WHOLE_GRID, ONCE = (1.0, 2.0, 3.0), (1.0,)
# Beyond `MAX_TRIPLES` there are no products of three states. Beyond `MAX_PAIRS` those of two use the coarse grid; if
# that has more than `MAX_COARSE`, exponents 1; if there are more pairs than that, there are none.
MAX_TRIPLES, MAX_PAIRS, MAX_COARSE = 2500, 2500, 6000


def powers_of(integer: Mask, changing: Mask) -> Array:
    """Exponents of candidate monomials of at most three states, [candidates, states]."""
    n, states = len(integer), np.flatnonzero(changing).tolist()
    fine, coarse = (-2.0, -1.0, -0.5, 0.5, 1.0, 1.5, 2.0), (-1.0, 0.5, 1.0)
    alone = (-3.0, *fine, 3.0, 4.0)  # those of `SIMPLE` that are whole, too: gravity, radiation
    pairs, triples = math.comb(len(states), 2), math.comb(len(states), 3)
    many, crowded = pairs * len(fine) ** 2 > MAX_PAIRS, pairs * len(coarse) ** 2 > MAX_COARSE

    def exponents(k: int, size: int) -> tuple[float, ...]:
        if size == 2 and crowded:
            return ONCE
        on_coarse = size == 3 or (size == 2 and many)
        if integer[k]:
            # A sign-changing state alone has the exponents of a polynomial.
            return (1.0, 2.0, 3.0, 4.0, 5.0) if size == 1 else ONCE if on_coarse else WHOLE_GRID
        return coarse if on_coarse else alone if size == 1 else fine

    largest = 1 if pairs > MAX_COARSE else 2 if triples * len(coarse) ** 3 > MAX_TRIPLES else 3
    return _products_up_to(largest, n, states, exponents)


def _products_up_to(
    largest: int, width: int, usable: Sequence[int], exponents: Callable[[int, int], Sequence[float]]
) -> Array:
    """Exponents of 1 and all products of at most `largest` factors, by (factor, size of the product)."""
    rows = [np.zeros(width)]
    for size in range(1, largest + 1):
        for chosen in itertools.combinations(usable, size):
            rows += rows_of(width, chosen, [exponents(k, size) for k in chosen])
    return np.stack(rows)


def products(seen: Seen) -> list[Shape]:
    """Products of at most three of a family's states and functions."""
    n, of = seen.n_states, {f.name: f for f in seen.definitions}
    usable = [*np.flatnonzero(seen.changing).tolist(), *range(n, seen.size)]

    def exponents(k: int, size: int) -> Sequence[float]:
        if k >= n:
            function = of[seen.functions[k - n].name]
            return function.exponents if size < 3 else function.exponents_of_three
        if size == 3:
            return ONCE
        # A coarse grid is sufficient for pairs.
        if seen.integer[k]:
            return WHOLE_GRID if size == 1 else (1.0, 2.0)
        return (-2.0, -1.0, 1.0, 2.0, 3.0) if size == 1 else (-1.0, 1.0, 2.0)

    def power_sums(size: int) -> list[int]:
        return [sum(len(exponents(k, size)) ** p for k in usable) for p in (1, 2, 3)]

    # Numbers of products of two and of three different factors, by Newton's identities.
    (a, b, _), (c, d, e) = power_sums(2), power_sums(3)
    crowded, triples = (a**2 - b) // 2 > MAX_COARSE, (c**3 - 3 * c * d + 2 * e) // 6
    largest = 1 if math.comb(len(usable), 2) > MAX_COARSE else 3 if triples <= MAX_TRIPLES else 2
    rows = _products_up_to(largest, seen.size, usable, lambda k, s: ONCE if s == 2 and crowded else exponents(k, s))
    return [Shape(row) for row in rows]


POWERS = Family(
    name="powers",
    says="sums of products of real powers of states",
    chain="NPU -> NAU",
    richness=1,
    vocabularies=(lambda seen: [Shape(row) for row in powers_of(seen.integer, seen.changing)],),
    real_exponents=True,
)
TRIGONOMETRIC = Family(
    name="trigonometric",
    says="sums of products with sin and cos of a state among the factors",
    chain="Functions -> NPU -> NAU",
    richness=2,
    vocabularies=(products,),
    functions=(SIN, COS),
)
