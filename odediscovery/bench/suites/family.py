"""Is a found right-hand side the true one with other constants?

The truth is written as a sum of terms, f = sum_j u_j phi_j(x; theta): outer coefficients u and,
inside the terms, exponents and constants theta. A found g belongs to that family if

    g(x) = sum_j u_j phi_j(x; theta)    for all x

for some u and theta. It is asked of numbers, at random points: theta is fitted by
Levenberg-Marquardt with u eliminated by least squares, from the true values, and the residual
has to vanish to rounding. So 1/(1 + x), 2/(2 + 2*x) and x/(x + x**2) are one function, whatever
a computer algebra system makes of them, and a tiny further term makes another. Whatever is not
understood counts as different.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import sympy
from scipy.optimize import least_squares

from odediscovery.runtime.arrays import Array

POINTS = 300
# Largest residual, as a share of g, that is only rounding.
ROUNDING = 1e-11
# Smallest coefficient, as a share of the true one, with which a term is there.
WEIGHT = 1e-6
# Errors of exactly the tolerance, such as that of 0.52 from 0.5, are within it, whatever rounding adds.
_ROUNDED = 1e-9
# Tolerances of Levenberg and Marquardt: as near as rounding lets it come.
_TO_THE_END = dict.fromkeys(("xtol", "ftol", "gtol"), 1e-15)
_FUNCTIONS: Mapping[str, Callable[[Array], Array]] = {
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "exp": np.exp,
    "log": np.log,
    "Abs": np.abs,
    "sign": np.sign,
    "tanh": np.tanh,
}


@dataclass(frozen=True)
class ConstantErrors:
    """How far the constants of a law of the true form are from the true ones.

    Args:
        inner: largest error of an exponent or inner constant, absolute, relative above 1.
        outer: largest relative error of an outer coefficient; signs are the same.
    """

    inner: float
    outer: float

    def inner_within(self, tolerance: float) -> bool:
        """Whether all exponents and inner constants are as near as this."""
        return self.inner <= tolerance + _ROUNDED

    def outer_within(self, tolerance: float) -> bool:
        """Whether all outer coefficients are as near as this."""
        return self.outer <= tolerance + _ROUNDED


def constant_errors(
    truth: sympy.Expr, found: Callable[[Array], Array], symbols: tuple[sympy.Symbol, ...], box: Array
) -> ConstantErrors | None:
    """The errors of the constants with which `truth` is `found`, or None where no constants do it.

    Args:
        truth: a right-hand side over `symbols`.
        found: x [n, states] -> [n], the same in another form or with other constants.
        box: lowest and highest value of each state, [states, 2].
    """
    points = _points(box)
    values = found(points)
    if truth == 0:
        return ConstantErrors(0.0, 0.0) if not values.any() else None
    terms = sympy.Add.make_args(_expanded(truth))
    try:
        family = _Family(terms, dict(zip(symbols, points.T, strict=True)))
    except NotImplementedError:
        return None
    inside = family.defined
    if inside.sum() < POINTS // 3 or not np.isfinite(values[inside]).all():
        return None
    size = float(np.abs(values[inside]).max())
    return family.fitted(values / size, size) if size > 0 else None


def _points(box: Array) -> Array:
    """Random points a little beyond the box, positive where the box is."""
    low, high = box.T
    wider = 0.25 * np.maximum(high - low, 1e-3 * np.abs(high))
    below = np.where(low >= 0, np.maximum(low - wider, 0.5 * low), low - wider)
    share = np.random.default_rng(0).random((POINTS, len(box)))
    points: Array = below + share * (high + wider - below)
    return points


def _expanded(side: sympy.Expr) -> sympy.Expr:
    return side.expand(power_base=False, power_exp=False, log=False, basic=False, complex=False)


class _Constants:
    """The constants inside the terms, in the order in which the walk meets them.

    Args:
        values: what to hand out; the true ones if not given.
    """

    def __init__(self, values: Array | None = None) -> None:
        self.values = values
        self.taken: list[float] = []

    def next(self, true: float) -> float:
        """The next one, whose true value is `true`."""
        self.taken.append(true if self.values is None else float(self.values[len(self.taken)]))
        return self.taken[-1]


class _Family:
    """sum_j u_j phi_j(x; theta) at fixed points.

    Args:
        terms: of the truth; their leading numbers are the true u.
        columns: values of the states at the points, by symbol.
    """

    def __init__(self, terms: tuple[sympy.Expr, ...], columns: Mapping[sympy.Symbol, Array]):
        self.columns = columns
        pairs = [term.as_coeff_Mul() for term in terms]
        self.outer = np.array([float(number) for number, _ in pairs])
        self.shapes = [shape for _, shape in pairs]
        true = _Constants()
        phi = self._terms(true)
        self.theta = np.array(true.taken)
        self.defined = np.isfinite(phi).all(axis=1)

    def fitted(self, values: Array, size: float) -> ConstantErrors | None:
        """The errors of the constants that give these values, which were divided by `size`."""
        inside = self.defined

        def best(theta: Array) -> tuple[Array, Array]:
            phi = self._terms(_Constants(theta))[inside]
            scale = np.abs(phi).max(axis=0)
            # Constants with which no term exists: as far off as no term at all.
            if not (np.isfinite(scale).all() and scale.all()):
                return np.zeros(len(scale)), values[inside]
            u = np.linalg.lstsq(phi / scale, values[inside], rcond=None)[0]
            return u / scale, phi / scale @ u - values[inside]

        theta = self.theta
        try:
            with np.errstate(all="ignore"):
                if len(theta):
                    theta = least_squares(
                        lambda t: best(t)[1], theta, method="lm", **_TO_THE_END, max_nfev=200 * (len(theta) + 1)
                    ).x
                u, residual = best(theta)
        except (ValueError, np.linalg.LinAlgError):
            return None
        vanishes = np.sqrt(np.mean(residual**2)) <= ROUNDING
        share = u * size / self.outer
        # A term with the other sign, or without weight but for rounding, is another term.
        if not (vanishes and (share > WEIGHT).all()):
            return None
        inner = np.abs(theta - self.theta) / np.maximum(np.abs(self.theta), 1.0)
        outer = np.abs(share - 1.0)
        return ConstantErrors(float(inner.max(initial=0.0)), float(outer.max()))

    def _terms(self, constants: _Constants) -> Array:
        """phi [points, terms]."""
        with np.errstate(all="ignore"):
            return np.stack([self._value(shape, constants) for shape in self.shapes], axis=1)

    def _value(self, e: sympy.Expr, constants: _Constants) -> Array:
        if e == 1:
            return np.ones(len(next(iter(self.columns.values()))))
        if e.is_Mul:
            product: Array = np.prod([self._value(f, constants) for f in e.args], axis=0)
            return product
        if isinstance(e, sympy.Function) and e.func.__name__ in _FUNCTIONS:
            return _FUNCTIONS[e.func.__name__](self._sum(e.args[0], constants, False))
        base, power = e.as_base_exp()
        if not (power.is_Number and (base.is_Symbol or base.is_Add or base.is_Function)):
            raise NotImplementedError(f"a term of the form {e}")
        # A factor of a sum that is raised to a power belongs to the outer coefficient: one of
        # the sum's own coefficients stays as it is.
        value = (
            self.columns[base]
            if base.is_Symbol
            else (self._sum(base, constants, True) if base.is_Add else self._value(base, constants))
        )
        return _power(value, float(power), constants.next(float(power)))

    def _sum(self, e: sympy.Expr, constants: _Constants, held: bool) -> Array:
        """The terms of a sum, each with its coefficient; `held` fixes the first one that varies."""
        total: Array = np.zeros(1)
        for term in sympy.Add.make_args(e):
            number, shape = term.as_coeff_Mul()
            hold, held = held and shape != 1, held and shape == 1
            factor = float(number) if hold else constants.next(float(number))
            # A bare state in a sum is x, not x**1: its coefficient says enough, and the exponent
            # in log(2*x**1) would only repeat the outer coefficient.
            inner = self.columns[shape] if shape.is_Symbol else self._value(shape, constants)
            total = total + factor * inner
        return total


def _power(base: Array, true: float, power: float) -> Array:
    """base**power, with the sign that a whole true power gives to a negative base."""
    size = np.abs(base) ** power
    if not true.is_integer():
        return np.where(base >= 0, size, np.nan)
    return size if true % 2 == 0 else np.sign(base) * size
