"""Sums of products of real powers: their values, units and penalties.

    dx_i/dt = sum_j A[i, j] * prod_k y_k ** W[j, k]

`A` are the weights of the sum layer (NAU), `W` the exponents of the power layer (NPU). Each monomial (row of `W`) is
shared by all equations, so an exponent is one constant. In most laws the features y of the power layer are the states
x; `Features` adds functions of single states and the sums of a preceding chain NPU -> NAU. The same class holds
dimensionless laws and laws in the user's units.

Fractional powers of a state that is negative throughout, such as the velocity of a fall, are powers of -x.

    m_k ** w = (-x_k) ** w  for a fractional w,    x_k ** w  for a whole one,    x_k < 0

The scale s of this state is negative, so that the dimensionless x' = x / s is positive like any other. Laws in the
user's units keep the list of these mirrored states.

The constants of a law cost, in units of twice the log-likelihood,

    cost = constant_penalty * (free constants) + sum of snap_penalty(v) over exponents held at simple values v
           + 2 ln 4 * (functions of a state among the factors)
           + 6 * (exponentials and logarithms among them) + 6 * (those of them beside another factor)

A free constant costs ln N + 2 ln p: ln N as in BIC, and 2 ln p because a search tries constants in all p = n (n + 1)
places where n equations could have one more. An exponent held at a simple value only costs the choice among values of
its kind. A factor sin, cos, exp or log of a state is a choice as well. Exponentials and logarithms outside of sums cost
more, because they are rare in nature and fit any smooth curve; beside another factor, as in exp(x)/x or
x^2 log(x), they are rarer still. (Gompertz growth, which has one, is a textbook law with its own penalty.)

Source: Chen and Chen, Extended Bayesian information criteria, Biometrika 95 (2008), gamma = 1.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from odediscovery.families import ABS, Function
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask, products_by_column, products_of_few


def fractional(exponents: Array) -> NDArray[np.bool_]:
    """Mask of the exponents that are not whole numbers [same shape]."""
    return np.asarray(exponents != np.round(exponents))


def signs(exponents: Array, mirrored: Sequence[int]) -> Array:
    """Factors of the bases: -1 for a fractional power of a mirrored state, else 1 [monomials, inputs]."""
    found = np.ones(exponents.shape)
    columns = list(mirrored)
    found[:, columns] = np.where(fractional(exponents[:, columns]), -1.0, 1.0)
    return found


def factors(exponents: Array, scale: Array) -> Array:
    """prod_k s_k ** w_k, with |s_k| where w_k is fractional [monomials]."""
    with np.errstate(over="ignore", invalid="ignore"):  # overflow gives inf
        size = np.exp(exponents @ np.log(np.abs(scale)))
    odd = (np.abs(exponents) % 2.0 == 1.0) & (scale < 0.0)
    return np.asarray(size * (1.0 - 2.0 * (odd.sum(axis=1) % 2)))


def turned(mirrored: Sequence[int], scale: Array, exponents: Iterable[Array]) -> tuple[int, ...]:
    """Mirrored states of a law for x' = x / scale that have a fractional exponent [monomials, inputs]."""
    # A negative scale switches the mirroring of its state.
    there = np.isin(np.arange(len(scale)), list(mirrored)) != (scale < 0.0)
    used = np.zeros(len(scale), dtype=bool)
    for w in (w for w in exponents if len(w)):
        used |= fractional(w[:, : len(scale)]).any(axis=0)
    return tuple(np.flatnonzero(there & used).tolist())


@dataclass(frozen=True, eq=False)
class PowerSum:
    """dx_i/dt = sum_j A[i, j] * prod_k y_k ** W[j, k].

    Args:
        coefficients: A, [states, monomials]; [flows, monomials] with a matrix of flows.
        exponents: W, [monomials, features]; a row of zeros is the constant term.
        features: definition of y; default: the states themselves.
        stoichiometry: M, [states, states], where equations follow from others (a conserved sum): then
            dx/dt = M (A y^W), and rows of A whose equation follows are 0. Or [states, flows],
            the amount that a unit of each flow adds to every state (negative if it removes it).
        mirrored: states that are negative throughout and have fractional powers, which are powers
            of -x (see `signs`). Dimensionless laws have none.

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
        a, w, features = self.coefficients.shape, self.exponents.shape, self.inputs.size
        if len(a) != 2 or w != (a[1], features):
            raise ValueError(
                f"coefficients [states, monomials] and exponents [monomials, {features} features] do "
                f"not fit: {a} and {w}"
            )

    @property
    def inputs(self) -> Features:
        """The features y, which are the states where there are no others."""
        return self.features or Features(self.n_states)

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
        """A [states, monomials], W [monomials, features], and B, V of the inner sums; 0 means absent."""
        inner = self.inputs.sums
        return self.coefficients, self.exponents, inner.weights, inner.exponents

    def with_constants(self, a: Array, w: Array, b: Array, v: Array) -> PowerSum:
        """The same law with other `constants` a, w, b, v [same shapes]."""
        features = self.features and dataclasses.replace(self.features, sums=Sums(b, v))
        return PowerSum(a, w, features, self.stoichiometry, self.mirrored)

    @property
    def complexity(self) -> int:
        """Number of constants, functions and states used (13 for the fractional SIR model)."""
        count, y = sum(np.count_nonzero(values) for values in self.constants), self.inputs
        used = y.used(self.exponents)
        of = {y.state_of(int(k)) for k in np.flatnonzero(used)}
        return int(count + used[y.states :].sum() + len(of))

    def monomials(self, x: Array) -> Array:
        """prod_k y_k ** W[j, k] for x [..., states] -> [..., monomials].

        A fractional power of a negative input is evaluated at 1e-300: only noise or an
        overshooting solver makes a positive state negative. Whole powers keep the sign.
        """
        return powers(self.inputs.values(x, self.mirrored), self.exponents, self.mirrored)

    def rhs(self, x: Array) -> Array:
        """dx/dt for x [..., states] -> [..., states]."""
        return np.asarray(self.monomials(x) @ expanded(self).coefficients.T)

    def rescaled(self, scale: Array, time_scale: float) -> PowerSum:
        """The same law for x' = x / scale and t' = t / time_scale, with the same exponents.

        With x_k = s_k x'_k:  A'[i, j] = A[i, j] * (T / s_i) * prod_k s_k ** W[j, k]. Flows, which
        have no scale, keep the user's amounts: M'[i, f] = M[i, f] / s_i. A negative s_k turns
        x_k < 0 into x'_k > 0; its fractional powers are those of |s_k|.
        """
        n = self.n_states
        factor = factors(self.exponents[:, :n], scale)
        with np.errstate(over="ignore", invalid="ignore"):
            rows = scale if len(self.coefficients) == n else np.ones(len(self.coefficients))
            a = self.coefficients * factor[None, :] * time_scale / rows[:, None]
        features = self.features and self.features.rescaled(scale)
        stoichiometry = None if self.stoichiometry is None else self.stoichiometry * rows / scale[:, None]
        mirrored = turned(self.mirrored, scale, (self.exponents, self.inputs.sums.exponents))
        return PowerSum(a, self.exponents.copy(), features, stoichiometry, mirrored)

    def unscaled(self, scale: Array, time_scale: float) -> PowerSum:
        """Inverse of `rescaled`, for the same `scale` [states] and `time_scale`."""
        return self.rescaled(1.0 / scale, 1.0 / time_scale)

    def merged(self) -> PowerSum:
        """The same law with equal monomials (exponents within 1e-9) merged and empty ones dropped."""
        rows: dict[int, Array] = {}
        for j, w in enumerate(self.exponents):
            same = (k for k in rows if np.max(np.abs(self.exponents[k] - w), initial=0.0) <= 1e-9)
            k = next(same, j)
            rows[k] = rows[k] + self.coefficients[:, j] if k in rows else self.coefficients[:, j].copy()
        keep = [k for k, column in rows.items() if np.any(column != 0)]
        columns = [np.zeros((len(self.coefficients), 0)), *(rows[k][:, None] for k in keep)]
        return dataclasses.replace(self, coefficients=np.hstack(columns), exponents=self.exponents[keep])

    def compact(self) -> PowerSum:
        """The same law without functions and sums that no monomial uses."""
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


def expanded(law: PowerSum) -> PowerSum:
    """The same law with every equation written out: coefficients M A."""
    if law.stoichiometry is None:
        return law
    a, size = law.stoichiometry @ law.coefficients, np.abs(law.stoichiometry) @ np.abs(law.coefficients)
    # A coefficient that cancels up to rounding is not a term.
    a = np.where(np.abs(a) > 1e-12 * size, a, 0.0)
    return PowerSum(a, law.exponents, law.features, mirrored=law.mirrored)


def equations_with(law: PowerSum, row: int) -> list[int]:
    """States whose equations contain the terms of a row of the coefficients: those that its flow leaves or enters."""
    return [row] if law.stoichiometry is None else np.flatnonzero(law.stoichiometry[:, row]).tolist()


@dataclass(frozen=True, eq=False)
class Sums:
    """u_l = 1 + sum_j B[l, j] * prod_k z_k ** V[j, k], the sums among the inputs of a power layer."""

    weights: Array  # B, [sums, monomials]
    exponents: Array  # V, [monomials, states and functions]

    def __len__(self) -> int:
        return len(self.weights)

    def values(self, z: Array, mirrored: Sequence[int] = ()) -> Array:
        """u for z [..., states and functions] -> [..., sums]."""
        return np.asarray(1.0 + powers(z, self.exponents, mirrored) @ self.weights.T)

    def and_also(self, other: Sums) -> Sums:
        """These sums followed by others, which share no monomials with them."""
        if not len(self) or not len(other):
            return other if not len(self) else self
        weights = np.zeros(np.add(self.weights.shape, other.weights.shape))
        weights[: len(self), : self.weights.shape[1]] = self.weights
        weights[len(self) :, self.weights.shape[1] :] = other.weights
        return Sums(weights, np.vstack([self.exponents, other.exponents]))

    def select(self, which: NDArray[np.int64]) -> Sums:
        """The selected sums with the monomials that they use."""
        weights = self.weights[which]
        rows = np.any(weights != 0, axis=0)
        return Sums(weights[:, rows], self.exponents[rows])

    def alike(self, other: Sums, factor: float) -> int | None:
        """Index of a sum with weights within a factor, exponents within half, of the only one in `other`; or None."""
        for k in range(len(self)):
            one = self.select(np.array([k]))
            if one.exponents.shape != other.exponents.shape:
                continue
            ratio = one.weights / other.weights
            near = np.abs(one.exponents - other.exponents) <= 0.5 * np.abs(other.exponents)
            if near.all() and (ratio > 1 / factor).all() and (ratio < factor).all():
                return k
        return None


NO_SUMS = Sums(np.zeros((0, 0)), np.zeros((0, 0)))


@dataclass(frozen=True, eq=False)
class Features:
    """Inputs of a power layer: y = (x, f(x), u), states, functions of states, and sums.

    >>> hill = Features(1, (), Sums(np.array([[4.0]]), np.array([[2.0]])))
    >>> hill.values(np.array([0.5])).tolist()  # x, 1 + 4 x^2
    [0.5, 2.0]
    """

    states: int  # number of states
    functions: tuple[Function, ...] = ()  # of single states
    sums: Sums = field(default=NO_SUMS)  # over products of powers of z = (x, f(x))

    @property
    def size(self) -> int:
        """Number of features."""
        return self.states + len(self.functions) + len(self.sums)

    @property
    def simple(self) -> int:
        """Number of states and functions."""
        return self.states + len(self.functions)

    def state_of(self, k: int) -> int:
        """Index of the state to which feature k, a state or a function, belongs."""
        return k if k < self.states else self.functions[k - self.states].state

    def used(self, exponents: Array) -> Mask:
        """Mask of the states and functions that the law's exponents [monomials, features] use."""
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
            of = [f.kind.value(f.rate * x[..., f.state]) for f in self.functions]
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


def as_written(law: PowerSum) -> tuple[Array, Array, Array]:
    """Exponents of monomials and inside sums as they are written, and those of each sum's first product, mostly 1.

    A law holds a norm as |x| (1 + y^2 / x^2)^(1/2); it is written (x^2 + y^2)^(1/2).
    """
    _, w, b, v = (c.copy() for c in law.constants)
    features = law.inputs
    sizes = {
        f.state: features.states + k
        for k, f in enumerate(features.functions)
        if f.name == ABS.name and f.plain_rate == 1.0
    }
    first = np.zeros((len(b), v.shape[1]))
    for k, x in itertools.product(range(len(b)), range(features.states)):
        power, inside = w[:, features.simple + k], b[k] != 0
        alone = not (np.delete(b, k, axis=0)[:, inside] != 0).any()
        if alone and first[k].sum() == 0 and (v[inside, x] == -2.0).all() and fractional(power).any():
            w[:, sizes.get(x, x)] -= 2.0 * power
            v[inside, x], first[k, x] = 0.0, 2.0
    return w, v, first


def powers(y: Array, exponents: Array, mirrored: Sequence[int] = ()) -> Array:
    """prod_k y_k ** W[j, k] for y [..., features] -> [..., monomials]."""
    least = least_bases(exponents)
    # For speed: many features skip powers of 0, many points go column by column.
    if not mirrored and exponents.shape[1] > 16:
        return products_of_few(y, exponents, least)
    if not mirrored and y[..., 0].size >= 50:
        return products_by_column(y, exponents, least)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        own = y[..., None, :] if not mirrored else y[..., None, :] * signs(exponents, mirrored)
        return np.asarray(np.prod(np.power(np.maximum(own, least), exponents), axis=-1))


def least_bases(exponents: Array) -> Array:
    """Lower bounds of the bases [monomials, features]: `ABOVE_ZERO` for fractional powers, none for whole ones."""
    return np.asarray(np.where(fractional(exponents), ABOVE_ZERO, -np.inf))


# Which of `PowerSum.constants` a fit may change.
Free: TypeAlias = tuple[Mask, Mask, Mask, Mask]

# Penalty of a function of a state among the factors: the choice of one of four, in twice the log-likelihood.
FUNCTION_COST = 2.0 * math.log(4.0)
# Additional penalty of a function whose argument is a ratio in laws of nature, charged again beside another factor.
STRANGE_COST = 6.0

# Exponents that are common in laws of nature, each with the penalty for holding it there.
SIMPLE: dict[float, float] = {
    1.0: 1.0,
    **dict.fromkeys((2.0, 0.5, -1.0), 2.5),
    **dict.fromkeys((3.0, -2.0, 1.5, -0.5, 4.0, -3.0), 4.0),
    **dict.fromkeys((1 / 3, 2 / 3, 4 / 3, 5 / 3, -1 / 3, -2 / 3, 2.5, -1.5), 8.0),
}


def constant_penalty(states: int, samples: float) -> float:
    """Penalty of one free constant: ln N + 2 ln(n (n + 1)) for n states, N samples."""
    return value_penalty(samples) + float(2.0 * np.log(states * (states + 1)))


def value_penalty(samples: float) -> float:
    """The share of `constant_penalty` for its value, ln N; the rest is for the choice of its place."""
    return float(np.log(max(samples, 2.0)))


def snap_penalty(value: float) -> float:
    """Penalty of an exponent held at `value`; values not in `SIMPLE` cost as much as the most expensive there."""
    return SIMPLE.get(value, max(SIMPLE.values()))


def all_free(law: PowerSum) -> Free:
    """Masks of all non-zero constants."""
    a, w, b, v = law.constants
    return a != 0, w != 0, b != 0, v != 0


def but_whole_powers(law: PowerSum) -> Free:
    """Masks of all non-zero constants except exponents that are whole numbers."""
    (a, w, b, v), (_, power, _, inner) = all_free(law), law.constants
    return a, w & fractional(power), b, v & fractional(inner)


def none_free(law: PowerSum) -> Free:
    """Masks that leave no constant free."""
    a, w, b, v = (np.zeros(c.shape, dtype=bool) for c in law.constants)
    return a, w, b, v


def count(free: Free) -> int:
    """Number of free constants."""
    return int(sum(mask.sum() for mask in free))


def cost(law: PowerSum, free: Free, samples: float) -> float:
    """Total penalty of a law with these `free` constants, for `samples` observed values."""
    return price(law.constants[1], law.constants[3], free, law.n_states, law.inputs.functions, samples)


def price(w: Array, v: Array, free: Free, states: int, functions: Sequence[Function], samples: float) -> float:
    """The penalty of `cost` from the exponents of monomials and inside sums, in columns for states, then functions."""
    held = [*w[(w != 0) & ~free[1]].tolist(), *v[(v != 0) & ~free[3]].tolist()]
    known = count(free) * constant_penalty(states, samples) + sum(map(snap_penalty, held))
    if not functions:
        return known
    own = slice(states, states + len(functions))
    known += FUNCTION_COST * (np.count_nonzero(w[:, own]) + np.count_nonzero(v[:, own]))
    strange = [states + k for k, f in enumerate(functions) if f.kind.of_ratio]
    among = w[:, strange] != 0
    beside = among & ((w != 0).sum(axis=1, keepdims=True) > 1)
    return float(known + STRANGE_COST * among.sum() + STRANGE_COST * beside.sum())


def picked(law: PowerSum, free: Free) -> Array:
    """The free constants of a law as one vector, in the order of `filled`."""
    return np.concatenate([c[mask] for c, mask in zip(law.constants, free, strict=True)])


def filled(
    constants: tuple[Array, Array, Array, Array], free: Free, values: Array
) -> tuple[Array, Array, Array, Array]:
    """The constants with the free ones replaced by `values`, in order."""
    a, w, b, v = (c.copy() for c in constants)
    parts = np.split(values, np.cumsum([mask.sum() for mask in free])[:-1])
    for changed, mask, part in zip((a, w, b, v), free, parts, strict=True):
        changed[mask] = part
    return a, w, b, v
