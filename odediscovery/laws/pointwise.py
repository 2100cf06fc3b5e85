"""Right-hand sides for solvers that go step by step: straight-line code of plain numbers.

    dx_i/dt = sum_j A[i, j] * prod_k y_k ** W[j, k]

Such a solver evaluates the right-hand sides of a few states some thousand times in a row. On the numbers of a single
point a call of numpy takes far longer than the arithmetic, and so does a loop over what is not 0. So the arithmetic
of a law is written out and compiled: its text holds names and places alone, the constants are its arguments, so that
laws of one form, as a fit tries them one after the other, are compiled once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from odediscovery.families import STATE_FUNCTIONS, Function
from odediscovery.ivp.marching import PlainRates
from odediscovery.ivp.straight_line import compiled
from odediscovery.laws.power_sum import EQUAL, PowerSum, expanded, least_bases
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, SparsePowers, products_by_column
from odediscovery.runtime.thresholds import Thresholds, threshold


@dataclass(frozen=True)
class PointThresholds(Thresholds):
    """When plain numbers are evaluated."""

    max_constants: int = threshold(200, "with more constants numpy is faster", origin="cost: measured time of a call")


POINTWISE = PointThresholds()

# (t, states) -> their rates.
Rates: TypeAlias = Callable[[float, Array], Sequence[float] | Array]


def point_field(law: PowerSum, states: int | None = None) -> Rates:
    """The function (t, x) -> dx/dt of states [states] for solvers that call it often.

    It is that of `PowerSum.rhs`, also where a number becomes too large.

    Args:
        law: whose rates they are.
        states: how many of its variables have rates that are asked for, the first ones (default: all).

    >>> law = PowerSum(np.array([[1.0, -0.5]]), np.array([[1.0], [2.0]]))
    >>> list(point_field(law)(0.0, np.array([2.0])))
    [0.0]
    """
    size = np.count_nonzero(law.coefficients) + np.count_nonzero(law.exponents)
    if size > POINTWISE.max_constants or law.mirrored:
        return lambda t, x: law.rhs(x)[:states]
    rates, beyond = point_rates(law, states), vector_field(law)

    def dx_dt(t: float, x: Array) -> Sequence[float] | Array:
        try:
            return rates(*x.tolist())
        except (ArithmeticError, ValueError):
            with np.errstate(all="ignore"):
                return beyond(t, x)[:states]

    return dx_dt


def point_rates(law: PowerSum, states: int | None = None) -> PlainRates:
    """The function x_1, ..., x_n -> (dx_1/dt, ...) of plain numbers; see `point_field`.

    Raises:
        ArithmeticError, ValueError: by the function, where a number becomes too large.

    >>> law = PowerSum(np.array([[1.0, -0.5]]), np.array([[1.0], [2.0]]))
    >>> point_rates(law)(4.0)
    (-4.0,)
    """
    code, f = Arithmetic(law.n_states), law.features
    if f is not None:
        code.apply(f.functions)
        sums = code.products(f.sums.exponents)
        code.bases += [code.let(f"1.0 + {code.combined(row, sums)}") for row in f.sums.weights]
    products = code.products(law.exponents)
    return code.compiled([code.combined(row, products) for row in expanded(law).coefficients[:states]])


@dataclass
class Arithmetic:
    """The arithmetic of a law, line by line.

    Args:
        n_inputs: number of variables, which are its first bases.
    """

    n_inputs: int
    lines: list[str] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.bases = [f"x{k}" for k in range(self.n_inputs)]
        self._powers: dict[tuple[str, float], str] = {}

    def constant(self, value: Any) -> str:
        """The name of a constant."""
        self.constants.append(value)
        return f"c{len(self.constants) - 1}"

    def let(self, value: str) -> str:
        """The name of a value that is computed once."""
        self.lines.append(f"v{len(self.lines)} = {value}")
        return f"v{len(self.lines) - 1}"

    def apply(self, functions: Sequence[Function]) -> None:
        """Functions of single variables become bases."""
        for f in functions:
            plain = self.constant(STATE_FUNCTIONS[f.name].plain)
            self.bases.append(self.let(f"{plain}({self.constant(f.rate)} * x{f.state})"))

    def products(self, exponents: Array) -> list[str]:
        """Products of powers of the bases so far, one a row; fractional powers have a least base."""
        return [self._product(row) for row in exponents]

    def _product(self, exponents: Array) -> str:
        factors = [self._power(self.bases[k], float(exponents[k])) for k in np.flatnonzero(exponents)]
        return self.let(" * ".join(factors)) if len(factors) > 1 else factors[0] if factors else "1.0"

    def _power(self, base: str, exponent: float) -> str:
        if exponent == 1.0:
            return base
        if (base, exponent) not in self._powers:
            if not exponent.is_integer():
                value = f"(least if {base} < least else {base}) ** {self.constant(exponent)}"
            else:
                value = f"{base} ** {self.constant(exponent)}"
            self._powers[base, exponent] = self.let(value)
        return self._powers[base, exponent]

    def combined(self, row: Array, products: Sequence[str]) -> str:
        """A sum of products with these coefficients."""
        return " + ".join(f"{self.constant(float(row[j]))} * {products[int(j)]}" for j in np.flatnonzero(row)) or "0.0"

    def compiled(self, values: Sequence[str]) -> PlainRates:
        """The function of the variables that gives these values."""
        body = "".join(f"        {line}\n" for line in self.lines)
        inputs, names = (
            ", ".join(f"{c}{k}" for k in range(n)) for c, n in (("x", self.n_inputs), ("c", len(self.constants)))
        )
        text = (
            f"def of_constants(least, {names}):\n"
            f"    def rates({inputs}):\n{body}        return ({', '.join(values)},)\n"
            "    return rates\n"
        )
        rates: PlainRates = compiled(text)(ABOVE_ZERO, *self.constants)
        return rates


def vector_field(law: PowerSum) -> Callable[[float, Array], Array]:
    """The function (t, x) -> dx/dt of any number of points x [..., states]; warnings are the caller's concern."""
    wide = law.exponents.shape[1] > EQUAL.wide
    if law.mirrored or (wide and law.features is not None):
        return lambda t, x: law.rhs(x)
    a, products = expanded(law).coefficients.T, _products_of(law.exponents)
    if law.features is None:
        return lambda t, x: products(x) @ a
    features, sums = law.features, law.features.sums
    inner, b = _products_of(sums.exponents), sums.weights.T

    def dx_dt(t: float, x: Array) -> Array:
        z = features.base(x)
        rates: Array = products(np.concatenate([z, 1.0 + inner(z) @ b], axis=-1) if len(sums) else z) @ a
        return rates

    return dx_dt


def _products_of(w: Array) -> Callable[[Array], Array]:
    """Products of powers W [products, bases] of bases [..., bases]."""
    least = least_bases(w)
    if w.shape[1] > EQUAL.wide:
        return SparsePowers.of(w, least).products
    times, maximum = np.multiply.reduce, np.maximum

    def products(y: Array) -> Array:
        if y[..., 0].size >= EQUAL.many:
            return products_by_column(y, w, least)
        found: Array = times(maximum(y[..., None, :], least) ** w, axis=-1)
        return found

    return products
