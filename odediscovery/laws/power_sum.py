"""Sums of products of real powers, the form that a pruned chain of NPU and NAU has.

    dx_i/dt = sum_j A[i, j] * prod_k y_k ** W[j, k]

`A` are the weights of the sum layer (NAU), `W` the exponents of the power layer (NPU). Each
monomial (row of `W`) is shared by all equations, so an exponent is one constant even where the
monomial stands in several right-hand sides. In most laws the features y of the power layer are the
states x; `Features` adds functions of single states and the sums of a chain NPU -> NAU before it.
Everything here is numpy and without scale: the same class holds dimensionless and user units.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from odediscovery.families import STATE_FUNCTIONS, Function
from odediscovery.laws.mirror import factors, fractional, signs, turned
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask, SparsePowers, products_by_column


@dataclass(frozen=True)
class PowerSumThresholds:
    """When numbers of a law are one."""

    rounding: float = 1e-12  # a sum below this is 0 [share of its terms]; rounding of float64 over a few operations
    equal_exponents: float = 1e-9  # exponents no further apart make one monomial
    wide: int = 16  # with more states only powers that are not 0 are taken
    many: int = 50  # of so many points powers are taken column by column
    like_exponents: float = 0.5  # exponents of two sums are alike within this [share of the exponent]


EQUAL = PowerSumThresholds()


@dataclass(frozen=True, eq=False)
class PowerSum:
    """dx_i/dt = sum_j A[i, j] * prod_k y_k ** W[j, k].

    Args:
        coefficients: A, [states, monomials]; [flows, monomials] with a matrix of flows.
        exponents: W, [monomials, features]; a row of zeros is the constant term.
        features: what y is; the states themselves if not given.
        stoichiometry: M, [states, states], where equations follow from others (a conserved sum): then
            dx/dt = M (A y^W), and rows of A whose equation follows are 0. Or [states, flows],
            what a unit of each flow takes from every state or adds to it.
        mirrored: states that are negative throughout and have fractional powers, which are those
            of -x (see `mirror`). Dimensionless laws have none.

    >>> decay = PowerSum(np.array([[-0.5]]), np.array([[1.0]]))
    >>> decay.rhs(np.array([[2.0], [4.0]])).tolist()
    [[-1.0], [-2.0]]
    """

    coefficients: Array
    exponents: Array
    features: Features | None = None
    stoichiometry: Array | None = None
    mirrored: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        a, w = self.coefficients, self.exponents
        features = self.n_states if self.features is None else self.features.size
        if a.ndim != 2 or w.ndim != 2 or w.shape != (a.shape[1], features):
            raise ValueError(
                f"coefficients [states, monomials] and exponents [monomials, {features} features] do "
                f"not fit: {a.shape} and {w.shape}"
            )

    @property
    def n_states(self) -> int:
        """Number of states (equations)."""
        return int(len(self.coefficients) if self.stoichiometry is None else len(self.stoichiometry))

    @property
    def n_monomials(self) -> int:
        """Number of distinct products of powers."""
        return int(self.exponents.shape[0])

    @property
    def constants(self) -> tuple[Array, Array, Array, Array]:
        """A [states, monomials], W [monomials, features], and B, V of the inner sums; 0 for none."""
        inner = NO_SUMS if self.features is None else self.features.sums
        return self.coefficients, self.exponents, inner.weights, inner.exponents

    def with_constants(self, a: Array, w: Array, b: Array, v: Array) -> PowerSum:
        """The same law with other `constants` a, w, b, v [as these]."""
        features = self.features and dataclasses.replace(self.features, sums=Sums(b, v))
        return PowerSum(a, w, features, self.stoichiometry, self.mirrored)

    @property
    def complexity(self) -> int:
        """Constants + functions and states used (13 for the fractional SIR model)."""
        count = sum(np.count_nonzero(values) for values in self.constants)
        if self.features is None:
            return int(count + np.any(self.exponents != 0, axis=0).sum())
        used = self.features.used(self.exponents)
        of = {self.features.state_of(int(k)) for k in np.flatnonzero(used)}
        return int(count + used[self.features.states :].sum() + len(of))

    def monomials(self, x: Array) -> Array:
        """prod_k y_k ** W[j, k] for x [..., states] -> [..., monomials].

        A fractional power of a negative input is taken at 0: only noise or an overshooting
        solver brings a state there that has none by nature. Whole powers keep the sign.
        """
        y = x if self.features is None else self.features.values(x, self.mirrored)
        return powers(y, self.exponents, self.mirrored)

    def rhs(self, x: Array) -> Array:
        """dx/dt for x [..., states] -> [..., states]."""
        dx_dt: Array = self.monomials(x) @ expanded(self).coefficients.T
        return dx_dt

    def rescaled(self, scale: Array, time_scale: float) -> PowerSum:
        """The same law for x' = x / scale and t' = t / time_scale: no exponent changes.

        With x_k = s_k x'_k:  A'[i, j] = A[i, j] * (T / s_i) * prod_k s_k ** W[j, k]. Flows, which
        have no scale, keep the user's amounts: M'[i, f] = M[i, f] / s_i. Of a negative s_k, which
        turns x_k < 0 into x'_k > 0, fractional powers are those of |s_k|.
        """
        n = self.n_states
        factor = factors(self.exponents[:, :n], scale)
        with np.errstate(over="ignore", invalid="ignore"):
            rows = scale if len(self.coefficients) == n else np.ones(len(self.coefficients))
            a = self.coefficients * factor[None, :] * time_scale / rows[:, None]
        features = None if self.features is None else self.features.rescaled(scale)
        stoichiometry = None if self.stoichiometry is None else self.stoichiometry * rows / scale[:, None]
        inner = () if features is None else (features.sums.exponents,)
        mirrored = turned(self.mirrored, scale, (self.exponents, *inner))
        return PowerSum(a, self.exponents.copy(), features, stoichiometry, mirrored)

    def unscaled(self, scale: Array, time_scale: float) -> PowerSum:
        """Inverse of `rescaled`, for the same `scale` [states] and `time_scale`."""
        return self.rescaled(1.0 / scale, 1.0 / time_scale)

    def merged(self) -> PowerSum:
        """Equal monomials summed into one, empty ones dropped.

        Done on numbers, since a computer algebra system keeps x**0.5 and x**0.5000000001 apart.
        The order of first appearance stays.
        """
        rows: list[Array] = []
        columns: list[Array] = []
        for j in range(self.n_monomials):
            w, a = self.exponents[j], self.coefficients[:, j]
            for k, row in enumerate(rows):
                if np.max(np.abs(row - w), initial=0.0) <= EQUAL.equal_exponents:
                    columns[k] = columns[k] + a
                    break
            else:
                rows.append(w.copy())
                columns.append(a.copy())
        keep = [k for k, column in enumerate(columns) if np.any(column != 0)]
        if not keep:
            nothing = np.zeros((len(self.coefficients), 0)), np.zeros((0, self.exponents.shape[1]))
            return PowerSum(*nothing, self.features, self.stoichiometry, self.mirrored)
        return PowerSum(
            np.stack([columns[k] for k in keep], axis=1),
            np.stack([rows[k] for k in keep]),
            self.features,
            self.stoichiometry,
            self.mirrored,
        )

    def compact(self) -> PowerSum:
        """The same law without the functions and sums that no monomial needs."""
        if self.features is None:
            return self
        features, w = self.features, self.exponents
        simple, n = features.simple, features.states
        sums = np.flatnonzero(np.any(w[:, simple:] != 0, axis=0))
        kept = np.concatenate([np.ones(n, bool), features.used(w)[n:]])
        functions = tuple(f for f, k in zip(features.functions, kept[n:], strict=True) if k)
        if not functions and not len(sums):
            return PowerSum(self.coefficients, w[:, :n], None, self.stoichiometry, self.mirrored)
        inner = NO_SUMS
        if len(sums):
            inner = features.sums.select(sums)
            inner = Sums(inner.weights, inner.exponents[:, kept])
        columns = np.concatenate([np.flatnonzero(kept), simple + sums])
        features = Features(n, functions, inner)
        return PowerSum(self.coefficients, w[:, columns], features, self.stoichiometry, self.mirrored)

    def structure(self) -> frozenset[tuple[bytes, bytes]]:
        """What has which constant, not their values: equal for the same terms in any order.

        (Of laws over the same features.)
        """
        return frozenset(
            ((self.coefficients[:, j] != 0).tobytes(), (self.exponents[j] != 0).tobytes())
            for j in range(self.n_monomials)
        )


def expanded(law: PowerSum) -> PowerSum:
    """The same law with every equation written out: coefficients M A."""
    if law.stoichiometry is None:
        return law
    a, size = law.stoichiometry @ law.coefficients, np.abs(law.stoichiometry) @ np.abs(law.coefficients)
    # What cancels but for rounding is no term.
    a = np.where(np.abs(a) > EQUAL.rounding * size, a, 0.0)
    return PowerSum(a, law.exponents, law.features, mirrored=law.mirrored)


def equations_with(law: PowerSum, row: int) -> list[int]:
    """States whose equations have the terms in a row of the coefficients: those that its flow leaves or enters.

    >>> flow = PowerSum(np.array([[0.3]]), np.eye(1, 2), stoichiometry=np.array([[-1.0], [1.0]]))
    >>> equations_with(flow, 0)
    [0, 1]
    """
    if law.stoichiometry is None:
        return [row]
    found: list[int] = np.flatnonzero(law.stoichiometry[:, row]).tolist()
    return found


@dataclass(frozen=True, eq=False)
class Sums:
    """u_l = 1 + sum_j B[l, j] * prod_k z_k ** V[j, k], the sums that a power layer sees.

    Args:
        weights: B, [sums, monomials].
        exponents: V, [monomials, states and functions].
    """

    weights: Array
    exponents: Array

    def __len__(self) -> int:
        return len(self.weights)

    def values(self, z: Array, mirrored: Sequence[int] = ()) -> Array:
        """u for z [..., states and functions] -> [..., sums]."""
        u: Array = 1.0 + powers(z, self.exponents, mirrored) @ self.weights.T
        return u

    def and_also(self, other: Sums) -> Sums:
        """These sums and others behind them, nothing shared."""
        if not len(self) or not len(other):
            return other if not len(self) else self
        weights = np.zeros(np.add(self.weights.shape, other.weights.shape))
        weights[: len(self), : self.weights.shape[1]] = self.weights
        weights[len(self) :, self.weights.shape[1] :] = other.weights
        return Sums(weights, np.vstack([self.exponents, other.exponents]))

    def select(self, which: NDArray[np.int64]) -> Sums:
        """Some of the sums, with the monomials that they need."""
        weights = self.weights[which]
        rows = np.any(weights != 0, axis=0)
        return Sums(weights[:, rows], self.exponents[rows])

    def alike(self, other: Sums, factor: float) -> int | None:
        """The sum with the monomials of the only one in `other`, all weights within a factor."""
        for k in range(len(self)):
            one = self.select(np.array([k]))
            if one.exponents.shape != other.exponents.shape:
                continue
            ratio = one.weights / other.weights
            near = np.abs(one.exponents - other.exponents) <= EQUAL.like_exponents * np.abs(other.exponents)
            if near.all() and (ratio > 1 / factor).all() and (ratio < factor).all():
                return k
        return None


NO_SUMS = Sums(np.zeros((0, 0)), np.zeros((0, 0)))


@dataclass(frozen=True, eq=False)
class Features:
    """What a power layer sees: y = (x, f(x), u), states, functions of states, and sums.

    Args:
        states: number of states.
        functions: of single states.
        sums: over products of powers of z = (x, f(x)).

    >>> hill = Features(1, (), Sums(np.array([[4.0]]), np.array([[2.0]])))
    >>> hill.values(np.array([0.5])).tolist()  # x, 1 + 4 x^2
    [0.5, 2.0]
    """

    states: int
    functions: tuple[Function, ...] = ()
    sums: Sums = field(default=NO_SUMS)

    @property
    def size(self) -> int:
        """Number of features."""
        return self.states + len(self.functions) + len(self.sums)

    @property
    def simple(self) -> int:
        """Number of states and functions."""
        return self.states + len(self.functions)

    def state_of(self, k: int) -> int:
        """The state that a state or function k is of."""
        return k if k < self.states else self.functions[k - self.states].state

    def used(self, exponents: Array) -> Mask:
        """States and functions that the law's exponents [monomials, features] need."""
        outer = np.any(exponents != 0, axis=0)
        inner: Mask = outer[: self.simple].copy()
        for row in self.sums.weights[outer[self.simple :]]:
            inner |= np.any(self.sums.exponents[row != 0] != 0, axis=0)
        return inner

    def base(self, x: Array) -> Array:
        """z for x [..., states] -> [..., states and functions]."""
        if not self.functions:
            return x
        with np.errstate(over="ignore", invalid="ignore"):
            of = [STATE_FUNCTIONS[f.name].value(f.rate * x[..., f.state]) for f in self.functions]
        return np.concatenate([x, np.stack(of, axis=-1)], axis=-1)

    def values(self, x: Array, mirrored: Sequence[int] = ()) -> Array:
        """y for x [..., states] -> [..., features]."""
        z = self.base(x)
        sums = self.sums
        return np.concatenate([z, sums.values(z, mirrored)], axis=-1) if len(sums) else z

    def rescaled(self, scale: Array) -> Features:
        """The same features for x' = x / scale."""
        functions = tuple(dataclasses.replace(f, rate=f.rate * float(scale[f.state])) for f in self.functions)
        if not len(self.sums):
            return Features(self.states, functions)
        factor = factors(self.sums.exponents[:, : self.states], scale)
        with np.errstate(over="ignore", invalid="ignore"):
            weights = self.sums.weights * factor
        return Features(self.states, functions, Sums(weights, self.sums.exponents))


def powers(y: Array, exponents: Array, mirrored: Sequence[int] = ()) -> Array:
    """prod_k y_k ** W[j, k] for y [..., features] -> [..., monomials]."""
    if exponents.shape[1] > EQUAL.wide and not mirrored:
        return SparsePowers.of(exponents, least_bases(exponents)).products(y)
    if not mirrored and y[..., 0].size >= EQUAL.many:
        return products_by_column(y, exponents, least_bases(exponents))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        own = y[..., None, :] if not mirrored else y[..., None, :] * signs(exponents, mirrored)
        base = np.maximum(own, least_bases(exponents))
        products: Array = np.prod(np.power(base, exponents), axis=-1)
    return products


def least_bases(exponents: Array) -> Array:
    """What bases are raised to at least: fractional powers see nothing below `ABOVE_ZERO`."""
    least: Array = np.where(fractional(exponents), ABOVE_ZERO, -np.inf)
    return least
