"""Scores of found equations that are hidden from the method.

    R2 = 1 - sum_ki (x_ki - y_ki)^2 / sum_ki (x_ki - mean_i)^2     over samples k and states i

RECON is R2 of the found equations integrated from the true training start against the clean
whole trajectory (the worst of several), GEN the same from the start that was not trained on.
R2 alone rewards wrong equations, so EXACT requires the true terms and COEF the true numbers.

Sums of products of powers are compared term by term. Any other truth is written as a sum of terms,
f = sum_j u_j phi_j(x; theta): outer coefficients u and, inside the terms, exponents and constants theta.
A found g belongs to that family if

    g(x) = sum_j u_j phi_j(x; theta)    for all x

for some u and theta. This is tested numerically at random points: theta is fitted by
Levenberg-Marquardt with u eliminated by least squares, from the true values, and the residual
has to vanish up to rounding. So 1/(1 + x), 2/(2 + 2*x) and x/(x + x**2) are one function, even if
computer algebra cannot show it, and a tiny further term makes another one. Expressions that
cannot be interpreted count as different.

Where states have units of their own (`apart`), all of this counts in the spread or the largest value of each state: a
half-saturation of 1e-5 would else be within any absolute tolerance, and R2 would see the largest state alone.

Source of RECON and GEN: d'Ascoli et al., ODEFormer, ICLR 2024; their share of systems counts
R2 > 0.9.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import sympy
from scipy.optimize import least_squares, linear_sum_assignment

from odediscovery.bench.systems import Protocol, SuiteSystem, true_trajectory
from odediscovery.laws.equations import Equations
from odediscovery.laws.expressions import FUNCTIONS
from odediscovery.laws.power_sum import PowerSum
from odediscovery.runtime.arrays import Array

# Number of points at which functions are compared.
POINTS = 300
# Largest difference of exponents and inner constants, absolute, relative above 1.
CLEAN_TOLERANCE, NOISY_TOLERANCE = 0.02, 0.1
# The terms of one equation: coefficients [n] and exponents [n, states].
_Terms: TypeAlias = tuple[Array, Array]
# From a true constant inside the terms, in the order of traversal, to the value in its place.
Constant: TypeAlias = Callable[[float], float]
# Errors of exactly the tolerance, such as that of 0.52 from 0.5, are within it despite rounding.
_ROUNDED = 1e-9


@dataclass(frozen=True)
class ConstantErrors:
    """Errors of the constants of a law of the true form with the true signs."""

    inner: float  # of an exponent or inner constant: absolute, relative above 1
    outer: float  # of an outer coefficient: relative

    @classmethod
    def worst_of(cls, rows: Sequence[ConstantErrors | None]) -> ConstantErrors | None:
        """The largest errors of several equations; None if one has another form."""
        alike = [row for row in rows if row is not None]
        whole = len(alike) == len(rows)
        return cls(max(row.inner for row in alike), max(row.outer for row in alike)) if whole else None


def constant_errors(
    truth: sympy.Expr, found: Callable[[Array], Array], symbols: tuple[sympy.Symbol, ...], box: Array
) -> ConstantErrors | None:
    """Errors of the constants for which `truth` equals `found`; None if there are no such constants."""
    # Random points slightly beyond the box, positive where the box is positive.
    low, high = box.T
    wider = 0.25 * np.maximum(high - low, 1e-3 * np.abs(high))
    below = np.where(low >= 0, np.maximum(low - wider, 0.5 * low), low - wider)
    points = below + np.random.default_rng(0).random((POINTS, len(box))) * (high + wider - below)
    values = found(points)
    if truth == 0:
        return ConstantErrors(0.0, 0.0) if not values.any() else None
    terms = sympy.Add.make_args(truth.expand(power_base=False, power_exp=False, log=False, basic=False, complex=False))
    try:
        family = _Family(terms, dict(zip(symbols, points.T, strict=True)))
    except NotImplementedError:
        return None
    inside = family.defined
    if inside.sum() < POINTS // 3 or not np.isfinite(values[inside]).all():
        return None
    size = float(np.abs(values[inside]).max())
    return family.fitted(values / size, size) if size > 0 else None


class _Family:
    """sum_j u_j phi_j(x; theta) at fixed points: terms of the truth, and values of the states by symbol."""

    def __init__(self, terms: tuple[sympy.Expr, ...], columns: Mapping[sympy.Symbol, Array]):
        self.columns = columns
        pairs = [term.as_coeff_Mul() for term in terms]
        self.outer = np.array([float(number) for number, _ in pairs])
        self.shapes = [shape for _, shape in pairs]
        true: list[float] = []

        def noted(constant: float) -> float:
            true.append(constant)
            return constant

        self.defined = np.isfinite(self._terms(noted)).all(axis=1)
        self.theta = np.array(true)

    def fitted(self, values: Array, size: float) -> ConstantErrors | None:
        """Fit the constants to these values, which were divided by `size`, and return their errors."""
        inside = self.defined

        def best(theta: Array) -> tuple[Array, Array]:
            values_of_theta = iter(theta.tolist())
            phi = self._terms(lambda _: next(values_of_theta))[inside]
            scale = np.abs(phi).max(axis=0)
            # Terms that are undefined for these constants count as missing.
            if not (np.isfinite(scale).all() and scale.all()):
                return np.zeros(len(scale)), values[inside]
            u = np.linalg.lstsq(phi / scale, values[inside], rcond=None)[0]
            return u / scale, phi / scale @ u - values[inside]

        theta = self.theta
        try:
            with np.errstate(all="ignore"):
                if len(theta):
                    # Converged up to rounding.
                    ends = {"xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-15, "max_nfev": 200 * (len(theta) + 1)}
                    theta = least_squares(lambda t: best(t)[1], theta, method="lm", **ends).x
                u, residual = best(theta)
        except (ValueError, np.linalg.LinAlgError):
            return None
        vanishes = np.sqrt(np.mean(residual**2)) <= 1e-11  # rounding, as a share of g
        share = u * size / self.outer
        # A term with the other sign, or with a weight of rounding size, is another term.
        if not (vanishes and (share > 1e-6).all()):
            return None
        inner = np.abs(theta - self.theta) / np.maximum(np.abs(self.theta), 1.0)
        outer = np.abs(share - 1.0)
        return ConstantErrors(float(inner.max(initial=0.0)), float(outer.max()))

    def _terms(self, constant: Constant) -> Array:
        """phi [points, terms]."""
        with np.errstate(all="ignore"):
            return np.stack([self._value(shape, constant) for shape in self.shapes], axis=1)

    def _value(self, e: sympy.Expr, constant: Constant) -> Array:
        if e == 1:
            return np.ones(len(next(iter(self.columns.values()))))
        if e.is_Mul:
            product: Array = np.prod([self._value(f, constant) for f in e.args], axis=0)
            return product
        if e.func.__name__ in FUNCTIONS:
            # Of the same name in numpy, in lower case.
            value: Array = getattr(np, e.func.__name__.lower())(self._sum(e.args[0], constant, False))
            return value
        base, power = e.as_base_exp()
        if not (power.is_Number and (base.is_Symbol or base.is_Add or base.is_Function)):
            raise NotImplementedError(f"a term of the form {e}")
        # A factor of a sum raised to a power belongs to the outer coefficient, so one of the
        # coefficients of the sum is held.
        if base.is_Add:
            value = self._sum(base, constant, True)
        else:
            value = self.columns[base] if base.is_Symbol else self._value(base, constant)
        # A whole true power gives its sign to a negative base.
        true, size = float(power), np.abs(value) ** constant(float(power))
        if not true.is_integer():
            return np.where(value >= 0, size, np.nan)
        return size if true % 2 == 0 else np.sign(value) * size

    def _sum(self, e: sympy.Expr, constant: Constant, held: bool) -> Array:
        """The terms of a sum, each with its coefficient; `held` fixes the first one that varies."""
        total: Array = np.zeros(1)
        for term in sympy.Add.make_args(e):
            number, shape = term.as_coeff_Mul()
            hold, held = held and shape != 1, held and shape == 1
            factor = float(number) if hold else constant(float(number))
            # A bare state in a sum is x, not x**1: its coefficient suffices, and the exponent in
            # log(2*x**1) would only repeat the outer coefficient.
            inner = self.columns[shape] if shape.is_Symbol else self._value(shape, constant)
            total = total + factor * inner
        return total


def distance(found: PowerSum, truth: PowerSum, size: Array | None = None) -> ConstantErrors | None:
    """Errors of the constants of two laws with the same terms; the `size` of the states exposes terms left by
    rounding."""
    if found.features is not None or truth.features is not None or found.n_states != truth.n_states:
        return None
    size = np.ones(truth.n_states) if size is None else np.where(size > 0, size, 1.0)
    rows = [_paired(a, b) for a, b in zip(_terms(found, size), _terms(truth, size), strict=True)]
    return ConstantErrors.worst_of(rows)


def same_terms(found: PowerSum, truth: PowerSum, tolerance: float = 0.05) -> bool:
    """Whether both laws have the same terms, with exponents within a tolerance (absolute, relative above 1)."""
    apart = distance(found, truth)
    return apart is not None and apart.inner <= tolerance + _ROUNDED


def _terms(law: PowerSum, size: Array) -> list[_Terms]:
    law = law.merged()
    monomials = np.exp(np.clip(law.exponents @ np.log(size), -300.0, 300.0))
    rows = []
    for a in law.coefficients:
        terms = np.abs(a) * monomials
        # A smaller share of the largest one is the rounding error of a cancelled term.
        there = (a != 0) & (terms > 1e-13 * terms.max(initial=0.0))
        rows.append((a[there], law.exponents[there]))
    return rows


def _paired(found: _Terms, truth: _Terms) -> ConstantErrors | None:
    """Pair each true term with one found term of the same states and sign, and return the errors."""
    (a, w), (b, v) = found, truth
    if len(a) != len(b):
        return None
    if not len(b):
        return ConstantErrors(0.0, 0.0)
    apart = np.abs(w[:, None] - v) / np.maximum(np.abs(v), 1.0)
    # A factor x**0.01 is one state too many, not an exponent that is nearly right.
    alike = ((w[:, None] != 0) == (v != 0)).all(axis=2) & (np.sign(a)[:, None] == np.sign(b))
    cost = np.where(alike, apart.max(axis=2), 1e6)
    k, j = linear_sum_assignment(cost)
    if not alike[k, j].all():
        return None
    return ConstantErrors(float(cost[k, j].max()), float(np.abs(a[k] / b[j] - 1.0).max()))


@dataclass(frozen=True)
class Scores:
    """Scores of one system; R2 is -inf if the equations cannot be integrated."""

    recon: float
    gen: float
    exact: bool
    coef: bool
    complexity: int


def score(found: Equations, system: SuiteSystem, protocol: Protocol) -> Scores:
    """Score found equations, over the states of the system in order, against the truth."""
    clean = np.concatenate([true_trajectory(system, k) for k in range(len(system.starts))])
    recon, gen = best_recon([found], system, protocol), _r2_from(found, system, len(system.starts) - 1)
    same = same_law(found, system.equations, clean, system.apart)
    return Scores(recon, gen, *exact_and_coef(same, protocol.is_clean), nodes(found))


def box_of(values: Array) -> Array:
    """Lowest and highest value of each state, [states, 2], of values [samples, states]."""
    return np.stack([np.nanmin(values, axis=0), np.nanmax(values, axis=0)], axis=1)


def exact_and_coef(errors: ConstantErrors | None, is_clean: bool) -> tuple[bool, bool]:
    """Whether terms and coefficients are the true ones, given the errors of `same_law`; clean data are stricter."""
    exact = errors is not None and errors.inner <= (CLEAN_TOLERANCE if is_clean else NOISY_TOLERANCE) + _ROUNDED
    return exact, errors is not None and exact and errors.outer <= 0.05 + _ROUNDED


def best_recon(laws: Sequence[Equations], system: SuiteSystem, protocol: Protocol) -> float:
    """The best RECON among laws, as chosen by an oracle in published studies of ODEBench; -inf without laws."""
    starts = range(protocol.trajectories)
    return max((min(_r2_from(law, system, k) for k in starts) for law in laws), default=-np.inf)


def _r2_from(found: Equations, system: SuiteSystem, start: int) -> float:
    """R2 of the equations from one start of a system."""
    return trajectory_r2(found, system.starts[start], system.times, true_trajectory(system, start), system.apart)


def trajectory_r2(found: Equations, start: Array, times: Array, clean: Array, apart: bool = False) -> float:
    """R2 of the equations integrated from `start`, weighted by the variance of the states unless they are `apart`; -inf
    if they diverge or take too long."""
    # The truth needs at most a sixth of this number of evaluations.
    values = found.simulate(start, times, most_evaluations=50_000)
    if apart:
        size = clean.std(axis=0)
        values, clean = values / np.where(size > 0, size, 1.0), clean / np.where(size > 0, size, 1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        squares = float(np.sum((values - clean) ** 2))
    spread = float(np.sum((clean - clean.mean(axis=0)) ** 2))
    if not np.isfinite(squares):
        return -np.inf
    return 1.0 - squares / spread if spread > 0 else (1.0 if squares == 0 else -np.inf)


def nodes(equations: Equations) -> int:
    """Count the nodes of all expression trees: numbers, symbols, operations."""
    return sum(1 for e in equations.right_hand_sides for _ in sympy.preorder_traversal(e))


def same_law(found: Equations, truth: Equations, values: Array, apart: bool = False) -> ConstantErrors | None:
    """Errors of the constants of a law of the true form at values [samples, states]; None for other forms."""
    box = box_of(values)
    if found.power_sum is not None and truth.power_sum is not None:
        return distance(found.power_sum, truth.power_sum, np.abs(box).max(axis=1))
    unit, sides = np.ones(len(box)), truth.right_hand_sides
    if apart:
        unit = np.abs(box).max(axis=1)
        units = dict(zip(truth.symbols, unit.tolist(), strict=True))
        sides = tuple(_in_units(side, units) for side in sides)
    rows = [
        constant_errors(
            side,
            lambda x, i=i: found.rhs(x * unit)[..., i],  # type: ignore[misc]
            truth.symbols,
            box / unit[:, None],
        )
        for i, side in enumerate(sides)
    ]
    return ConstantErrors.worst_of(rows)


def _in_units(e: sympy.Expr, units: Mapping[sympy.Symbol, float]) -> sympy.Expr:
    """The expression over states in units, numbers in front of powers, and 1 the largest number in a sum."""
    if not e.args:
        return units[e] * e if e in units else e
    e = e.func(*(_in_units(part, units) for part in e.args))
    if not (e.is_Pow and e.exp.is_Number):
        return e
    terms = [term.as_coeff_Mul() for term in sympy.Add.make_args(e.base)]
    size = max(abs(number) for number, _ in terms)
    base = sympy.Add(*(number / size * shape for number, shape in terms))
    return size**e.exp * base**e.exp
