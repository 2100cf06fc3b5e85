"""What a law may grow by: candidate terms on a grid of exponents, one family after another.

    prod_k z_k^v_k                        sums of powers:   z = states
    prod_k z_k^v_k                        functions:        z = states, sin, cos, exp, log of them
    prod_k z_k^v_k (1 + b prod z^m)^u     sums of powers of sums: rational, Hill, logistic

A grid only has to come near: the exponents and the constants of the sums are fitted afterwards.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from odediscovery.laws.power_sum import Function, Inputs
from odediscovery.runtime.arrays import Array, Mask
from odediscovery.stages.grow.integral_form import Integral, Path

# Exponents of candidates made of one or two states, of three, and of sign-changing states.
GRID = (-2.0, -1.0, -0.5, 0.5, 1.0, 1.5, 2.0)
COARSE_GRID = (-1.0, 0.5, 1.0)
WHOLE_GRID = (1.0, 2.0, 3.0)
# The same where functions or sums are among the factors: sizes and pairs only have to come near.
SIGNED_GRID = (-2.0, -1.0, 1.0, 2.0, 3.0)
PAIRED, PAIRED_WHOLE, ONCE = (-1.0, 1.0, 2.0), (1.0, 2.0), (1.0,)
OF_FUNCTION = {"sin": (1.0, 2.0, -1.0), "cos": (1.0, 2.0, -1.0), "exp": (-2.0, -1.0, 1.0, 2.0), "log": (1.0,)}
# Products of three factors are left out where there would be more; of two states they come on the
# coarse grid then, and as parts of sums not at all.
MOST_TRIPLES, MOST_PAIRS, MOST_SUMS = 2500, 2500, 20_000
# Constants b of a sum 1 + b m in units of 1 / max(m); a negative one brings the sum near zero.
CONSTANTS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 1000.0)
NEGATIVE_CONSTANTS = (-0.99, -0.8, -0.5)
# Rates of exponential functions inside sums, 1 / rms of their state.
RATES = (-6.0, -4.0, -3.0, -2.0, -1.0, -0.5, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0)


@dataclass(frozen=True, eq=False)
class Terms:
    """C candidates prod_k z_k^rows[c, k] (1 + constant[c] prod_k z_k^inner[c, k])^power[c].

    Args:
        rows: [C, states and functions].
        constant: b, [C]; 0 for no sum.
        inner: [C, states and functions].
        power: exponent of the sum, [C].
        rich: whether there are so many that subsets are sought by linear algebra first.
    """

    rows: Array
    constant: Array
    inner: Array
    power: Array
    rich: bool = False

    @classmethod
    def plain(cls, rows: Array) -> Terms:
        """Products of powers alone."""
        return cls(rows, np.zeros(len(rows)), np.zeros_like(rows), np.zeros(len(rows)))

    @property
    def kinds(self) -> NDArray[np.int64]:
        """Number of the form that each has, whatever the constant and the rate [C]."""
        form = np.column_stack([self.rows, np.sign(self.constant), self.inner != 0, np.sign(self.inner), self.power])
        numbers: NDArray[np.int64] = np.unique(form, axis=0, return_inverse=True)[1].ravel()
        return numbers

    def __len__(self) -> int:
        return len(self.rows)

    def and_also(self, other: Terms) -> Terms:
        """These and others."""
        mine = self.rows, self.constant, self.inner, self.power
        others = other.rows, other.constant, other.inner, other.power
        rows, constant, inner, power = map(np.concatenate, zip(mine, others, strict=True))
        return Terms(rows, constant, inner, power, self.rich)

    def columns(self, problem: Integral, path: Path, equations: NDArray[np.int64]) -> Array:
        """Their integrals as columns of norm 1, [equations, samples, C]."""
        nodes = path.monomials(self.rows)
        with_sum = np.flatnonzero(self.constant)
        if len(with_sum):
            u = 1.0 + self.constant[with_sum] * path.monomials(self.inner[with_sum])
            nodes[:, :, with_sum] *= np.maximum(u, 1e-9) ** self.power[with_sum]
        columns = problem.reduced(problem.cumulative(nodes), equations)
        norm = np.linalg.norm(columns, axis=1, keepdims=True)
        usable = (norm > 0) & np.isfinite(norm)
        unit: Array = np.where(usable, columns / np.where(usable, norm, 1.0), 0.0)
        return unit


def powers_of(integer: Mask, changing: Mask) -> Array:
    """Exponents of candidate monomials of at most three states, [candidates, states].

    Of many states there are fewer: what they are made of grows with the square of their number.
    """
    n, count = len(integer), int(changing.sum())
    rows = [np.zeros(n)]
    many = math.comb(count, 2) * len(GRID) ** 2 > MOST_PAIRS
    too_many = math.comb(count, 3) * len(COARSE_GRID) ** 3 > MOST_TRIPLES
    for size in (1, 2) if too_many else (1, 2, 3):
        coarse = size == 3 or (size == 2 and many)
        for chosen in itertools.combinations(np.flatnonzero(changing), size):
            choices = [
                (WHOLE_GRID[:1] if coarse else WHOLE_GRID) if integer[k] else (COARSE_GRID if coarse else GRID)
                for k in chosen
            ]
            for values in itertools.product(*choices):
                row = np.zeros(n)
                row[list(chosen)] = values
                rows.append(row)
    return np.stack(rows)


def functions_of(nonnegative: Mask, changing: Mask, size: Array) -> Inputs:
    """States with sin, cos, exp and, where they are positive, log of each.

    Args:
        size: what the states were divided by: sin(x) is of x in the user's units [states].
            log is of -x where that is negative.
    """
    functions = []
    for k in np.flatnonzero(changing):
        functions += [
            Function("sin", int(k), float(size[k])),
            Function("cos", int(k), float(size[k])),
            Function("exp", int(k)),
        ]
        functions += [Function("log", int(k), float(abs(size[k])))] * bool(nonnegative[k])
    return Inputs(len(changing), tuple(functions))


def exponentials_of(changing: Mask) -> Inputs:
    """States with exp of each, for sums such as 1 + b exp(r x)."""
    return Inputs(len(changing), tuple(Function("exp", int(k)) for k in np.flatnonzero(changing)))


def products_of(inputs: Inputs, integer: Mask, changing: Mask) -> Array:
    """Exponents of products of up to three states and functions, [candidates, inputs]."""
    n = inputs.states
    usable = [*np.flatnonzero(changing).tolist(), *range(n, inputs.size)]
    names = ["", *(f.name for f in inputs.functions)]

    def choices(k: int, size: int) -> Sequence[float]:
        if k >= n:
            name = names[k - n + 1]
            if size < 3:
                return OF_FUNCTION[name]
            return (1.0, -1.0) if name in ("sin", "cos") else ONCE
        if size == 3:
            return ONCE
        fine, coarse = (WHOLE_GRID, PAIRED_WHOLE) if integer[k] else (SIGNED_GRID, PAIRED)
        return fine if size == 1 else coarse

    rows = [np.zeros(inputs.size)]
    for size in (1, 2, 3):
        chosen = list(itertools.combinations(usable, size))
        found = []
        for group in chosen:
            for values in itertools.product(*(choices(k, size) for k in group)):
                row = np.zeros(inputs.size)
                row[list(group)] = values
                found.append(row)
        if size < 3 or len(found) <= MOST_TRIPLES:
            rows += found
    return np.stack(rows)


def with_sums(inputs: Inputs, changing: Mask, path: Path) -> Terms:
    """Products of two states at most over 1 + b m, m a product of states or an exponential.

    Args:
        path: where the sums have to be positive.
    """
    n = inputs.states
    states = np.flatnonzero(changing)
    pairs = math.comb(len(states), 2)
    many = (1 + 2 * len(states) + pairs) * (4 * len(states) + pairs) * len(CONSTANTS) > MOST_SUMS
    outer = [np.zeros(inputs.size)]
    for size, exponents in ((1, (1.0, 2.0)), (2, () if many else ONCE)):
        for group in itertools.combinations(states, size):
            for values in itertools.product(exponents, repeat=size):
                row = np.zeros(inputs.size)
                row[list(group)] = values
                outer.append(row)
    inside: list[Array] = []
    of_one, of_two = (1, (1.0, 2.0, 3.0, 4.0)), (2, () if many else ONCE)
    for size, whole in () if inputs.functions else (of_one, of_two):
        for group in itertools.combinations(states, size):
            for values in itertools.product(whole, repeat=size):
                row = np.zeros(inputs.size)
                row[list(group)] = values
                inside.append(row)
    for k, f in enumerate(inputs.functions, start=n):
        if f.name == "exp":
            inside += [rate * np.eye(inputs.size)[k] for rate in RATES]
    m = path.monomials(np.stack(inside))
    highest, lowest = m.max(axis=(0, 1)), m.min(axis=(0, 1))
    found: list[tuple[Array, float, Array, float]] = []
    for inner, high, low in zip(inside, highest, lowest, strict=True):
        size = max(abs(high), abs(low))
        for b in (*CONSTANTS, *NEGATIVE_CONSTANTS):
            constant = b / size
            if 1.0 + min(constant * high, constant * low) > 1e-3:
                found += [(row, constant, inner, -1.0) for row in outer]
    rows, constants, inners, exponents = zip(*found, strict=True)
    return Terms(np.stack(rows), np.array(constants), np.stack(inners), np.array(exponents))
