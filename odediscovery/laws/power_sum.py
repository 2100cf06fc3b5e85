"""Sums of products of real powers: values, change of units, and what their constants cost.

    dx_i/dt = sum_j A[i, j] * prod_k y_k ** W[j, k]

`A` are the weights of the sum layer (NAU), `W` the exponents of the power layer (NPU). Each monomial (row of `W`) is
shared by all equations, so an exponent is one constant. In most laws the features y of the power layer are the states
x; `Features` adds functions of single states and the sums of a chain NPU -> NAU before it. The same class holds
dimensionless and user units.

A state that is negative throughout, such as the velocity of a fall, has the real powers of its mirror image.

    m_k ** w = (-x_k) ** w  for a fractional w,    x_k ** w  for a whole one,    x_k < 0

The scale s of such a state is negative, so that the dimensionless x' = x / s is positive like any other. Laws in the
user's units keep the list of such states.

What the constants of a law cost, in units of twice the log-likelihood.

    cost = constant_penalty * (free constants) + sum of snap_penalty(v) over exponents held at simple values v
           + 2 ln 4 * (functions of a state among the factors)
           + 6 * (exponentials and logarithms among them) + 6 * (those that stand beside another factor)

A free constant costs ln N + 2 ln p: ln N as in BIC, and 2 ln p because a search tries constants in all p = n (n + 1)
places where n equations could have one more. An exponent held at a simple value only costs the choice among values of
its kind. A factor sin, cos, exp or log of a state is a choice as well, and the exponential or the logarithm of a state
that has a dimension, and still more exp(x)/x or x^2 log(x), is what nature rarely writes and what fits any smooth
curve. (Gompertz growth, which has one, is a textbook law and has a price of its own.)

Source: Chen and Chen, Extended Bayesian information criteria, Biometrika 95 (2008), gamma = 1.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from odediscovery.families import STATE_FUNCTIONS, Function
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask, SparsePowers, products_by_column


def fractional(exponents: Array) -> NDArray[np.bool_]:
    """Exponents that are no whole numbers [as they are]."""
    return np.asarray(exponents != np.round(exponents))


def signs(exponents: Array, mirrored: Sequence[int]) -> Array:
    """What bases are multiplied with, -1 for a fractional power of a mirrored state, else 1 [monomials, inputs]."""
    found = np.ones(exponents.shape)
    columns = list(mirrored)
    found[:, columns] = np.where(fractional(exponents[:, columns]), -1.0, 1.0)
    return found


def factors(exponents: Array, scale: Array) -> Array:
    """prod_k s_k ** w_k, of |s_k| where w_k is fractional [monomials]."""
    with np.errstate(over="ignore", invalid="ignore"):  # inf where no number is large enough
        size = np.exp(exponents @ np.log(np.abs(scale)))
    odd = (np.abs(exponents) % 2.0 == 1.0) & (scale < 0.0)
    return np.asarray(size * (1.0 - 2.0 * (odd.sum(axis=1) % 2)))


def turned(mirrored: Sequence[int], scale: Array, exponents: Iterable[Array]) -> tuple[int, ...]:
    """The mirrored states of a law for x' = x / scale: those that a negative scale turns and that have a fractional
    power in one of the exponents [monomials, inputs]."""
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
        features: what y is; the states themselves if not given.
        stoichiometry: M, [states, states], where equations follow from others (a conserved sum): then
            dx/dt = M (A y^W), and rows of A whose equation follows are 0. Or [states, flows],
            what a unit of each flow takes from every state or adds to it.
        mirrored: states that are negative throughout and have fractional powers, which are those
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
        """Equal monomials summed into one, empty ones dropped."""
        # What each monomial is the same as: the first one whose exponents are no further apart than 1e-9.
        rows: dict[int, Array] = {}
        for j, w in enumerate(self.exponents):
            same = (k for k in rows if np.max(np.abs(self.exponents[k] - w), initial=0.0) <= 1e-9)
            k = next(same, j)
            rows[k] = rows[k] + self.coefficients[:, j] if k in rows else self.coefficients[:, j].copy()
        keep = [k for k, column in rows.items() if np.any(column != 0)]
        columns = [np.zeros((len(self.coefficients), 0)), *(rows[k][:, None] for k in keep)]
        exponents = self.exponents[keep].copy()
        return PowerSum(np.hstack(columns), exponents, self.features, self.stoichiometry, self.mirrored)

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
        """What has which constant, not their values: equal for the same terms in any order."""
        return frozenset(
            ((self.coefficients[:, j] != 0).tobytes(), (self.exponents[j] != 0).tobytes())
            for j in range(self.n_monomials)
        )


def expanded(law: PowerSum) -> PowerSum:
    """The same law with every equation written out: coefficients M A."""
    if law.stoichiometry is None:
        return law
    a, size = law.stoichiometry @ law.coefficients, np.abs(law.stoichiometry) @ np.abs(law.coefficients)
    # What cancels but for rounding over a few operations is no term.
    a = np.where(np.abs(a) > 1e-12 * size, a, 0.0)
    return PowerSum(a, law.exponents, law.features, mirrored=law.mirrored)


def equations_with(law: PowerSum, row: int) -> list[int]:
    """States whose equations have the terms in a row of the coefficients: those that its flow leaves or enters."""
    if law.stoichiometry is None:
        return [row]
    found: list[int] = np.flatnonzero(law.stoichiometry[:, row]).tolist()
    return found


@dataclass(frozen=True, eq=False)
class Sums:
    """u_l = 1 + sum_j B[l, j] * prod_k z_k ** V[j, k], the sums that a power layer sees."""

    weights: Array  # B, [sums, monomials]
    exponents: Array  # V, [monomials, states and functions]

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
            near = np.abs(one.exponents - other.exponents) <= 0.5 * np.abs(other.exponents)
            if near.all() and (ratio > 1 / factor).all() and (ratio < factor).all():
                return k
        return None


NO_SUMS = Sums(np.zeros((0, 0)), np.zeros((0, 0)))


@dataclass(frozen=True, eq=False)
class Features:
    """What a power layer sees: y = (x, f(x), u), states, functions of states, and sums.

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
    least = least_bases(exponents)
    # Of many features only powers that are not 0 are taken, of many points column by column: both are quicker.
    if not mirrored and exponents.shape[1] > 16:
        return SparsePowers.of(exponents, least).products(y)
    if not mirrored and y[..., 0].size >= 50:
        return products_by_column(y, exponents, least)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        own = y[..., None, :] if not mirrored else y[..., None, :] * signs(exponents, mirrored)
        products: Array = np.prod(np.power(np.maximum(own, least), exponents), axis=-1)
    return products


def least_bases(exponents: Array) -> Array:
    """What bases are raised to at least: fractional powers see nothing below `ABOVE_ZERO`."""
    return np.asarray(np.where(fractional(exponents), ABOVE_ZERO, -np.inf))


# Which of `PowerSum.constants` a fit may change.
Free: TypeAlias = tuple[Mask, Mask, Mask, Mask]


# What a function of a state among the factors costs: the choice of one of four, twice the log-likelihood.
FUNCTION_COST = 2.0 * math.log(4.0)
# What an exponential or a logarithm of a state costs in addition, and once more beside another factor: their argument
# has no dimension in a law of nature.
DIMENSIONAL, STRANGE_COST = ("exp", "log"), 6.0

# Exponents that laws of nature like, and what each costs where it is held there.
SIMPLE: dict[float, float] = {
    1.0: 1.0,
    **dict.fromkeys((2.0, 0.5, -1.0), 2.5),
    **dict.fromkeys((3.0, -2.0, 1.5, -0.5, 4.0, -3.0), 4.0),
    **dict.fromkeys((1 / 3, 2 / 3, 4 / 3, 5 / 3, -1 / 3, -2 / 3, 2.5, -1.5), 8.0),
}


def constant_penalty(states: int, samples: float) -> float:
    """What one free constant has to gain: ln N + 2 ln(n (n + 1)) for n states, N samples."""
    return value_penalty(samples) + float(2.0 * np.log(states * (states + 1)))


def value_penalty(samples: float) -> float:
    """The part of this that its value costs, ln N; the rest is the choice of its place."""
    return float(np.log(max(samples, 2.0)))


def snap_penalty(value: float) -> float:
    """What an exponent held at `value` costs; other than simple values count as the dearest."""
    return SIMPLE.get(value, max(SIMPLE.values()))


def all_free(law: PowerSum) -> Free:
    """Every constant that is not zero."""
    a, w, b, v = law.constants
    return a != 0, w != 0, b != 0, v != 0


def but_whole_powers(law: PowerSum) -> Free:
    """Every constant that is not zero, but for powers that are whole numbers."""
    (a, w, b, v), (_, power, _, inner) = all_free(law), law.constants
    return a, w & (power != np.round(power)), b, v & (inner != np.round(inner))


def none_free(law: PowerSum) -> Free:
    """Nothing is fitted."""
    a, w, b, v = (np.zeros(c.shape, dtype=bool) for c in law.constants)
    return a, w, b, v


def count(free: Free) -> int:
    """How many constants are free."""
    return int(sum(mask.sum() for mask in free))


def cost(law: PowerSum, free: Free, samples: float) -> float:
    """The cost above of a law with these `free` constants, for N observed values."""
    _, w, _, v = law.constants
    held = [*w[(w != 0) & ~free[1]], *v[(v != 0) & ~free[3]]]
    known = count(free) * constant_penalty(law.n_states, samples) + sum(snap_penalty(float(e)) for e in held)
    if law.features is None:
        return known
    own = slice(law.n_states, law.features.simple)
    known += FUNCTION_COST * (np.count_nonzero(w[:, own]) + np.count_nonzero(v[:, own]))
    strange = [law.n_states + k for k, f in enumerate(law.features.functions) if f.name in DIMENSIONAL]
    among = w[:, strange] != 0
    beside = among & ((w != 0).sum(axis=1, keepdims=True) > 1)
    return float(known + STRANGE_COST * among.sum() + STRANGE_COST * beside.sum())


def picked(law: PowerSum, free: Free) -> Array:
    """The free constants of a law in one row, in the order of `filled`."""
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
