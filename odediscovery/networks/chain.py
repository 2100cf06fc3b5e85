"""The chain of a law as plain arrays, all members at once: what pruning fits, without any network library.

    Functions -> powers -> sums -> powers -> sums
    x -> z = (x, f(x)) -> (z, 1, m) -> (z, u = 1 + B m) -> monomials -> dx/dt

It computes what a chain of the units Functions, RealNPU and NAU does whose gates are at 1, and its first
derivatives. Training needs gates, gradients and devices, and has them in `vector_field`; here constants are few and
derivatives are written out, so that arrays are all it takes.

A member of a chain as straight-line code of plain numbers, for the few points at which arrays are slow.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from odediscovery.families import STATE_FUNCTIONS, Function, StateFunction
from odediscovery.ivp.steps import PlainRates
from odediscovery.laws.compiled import Graph
from odediscovery.runtime.arrays import Array, Indices, Mask

Rhs: TypeAlias = Callable[[Array], Array]
Linearisation: TypeAlias = Callable[[Array], tuple[Array, Array, Array]]

# Added to every base, as in the unit's formula: its logarithm is finite.
EPSILON = sys.float_info.epsilon
# Products of more powers are taken by logarithms.
MOST_FACTORS = 8


@dataclass(frozen=True, eq=False)
class Pair:
    """A layer of powers and the layer of sums behind it.

    Args:
        nonnegative: which inputs never change sign, [n_in].
        width: number of products of powers.
        n_out: number of sums.
    """

    nonnegative: Mask
    width: int
    n_out: int

    @property
    def n_in(self) -> int:
        """Number of inputs."""
        return len(self.nonnegative)

    @property
    def real(self) -> tuple[int, int]:
        """Shape of the exponents."""
        return self.width, self.n_in

    @property
    def weight(self) -> tuple[int, int]:
        """Shape of the weights of the sums."""
        return self.n_out, self.width

    def bases(self, x: Array) -> Array:
        """The inputs, none nearer to zero than `EPSILON`."""
        if self._all_nonnegative:
            found: Array = np.maximum(x, 0.0)
            found += EPSILON
            return found
        if self._least is not None:
            x = np.maximum(x, self._least) + 0.0  # -0.0 becomes 0.0 in every column
        return x + np.copysign(EPSILON, x)

    @cached_property
    def _all_nonnegative(self) -> bool:
        return bool(self.nonnegative.all())

    @cached_property
    def _least(self) -> Array | None:
        """What no input is below, None where each may have any sign."""
        return np.where(self.nonnegative, 0.0, -np.inf) if self.nonnegative.any() else None

    def signs(self, x: Array) -> Array:
        """Slopes of the sizes of the inputs, times their signs."""
        return np.where(self.nonnegative, x > 0.0, x != 0.0).astype(float)

    def products(self, across: Array, bases: Array, whole: WholePowers | None = None) -> Array:
        """Products of powers [members, batch, width] for exponents across [members, n_in, width].

        Args:
            bases: what they are powers of [members, batch, n_in].
            whole: the exponents, where they are whole.
        """
        if whole is not None:
            return whole.products(bases)
        y: Array = np.log(bases if self._all_nonnegative else np.abs(bases)) @ across
        np.exp(y, out=y)
        return y if self._all_nonnegative else y * np.cos(self.angles(bases) @ across)

    def angles(self, bases: Array) -> Array:
        """Pi where an input is negative."""
        return np.where(bases < 0.0, np.pi, 0.0)


@dataclass(frozen=True, eq=False)
class WholePowers:
    """Products of small whole powers, by multiplication: no logarithms, and signs as they are.

    Args:
        factors: for each of the factors the row of each product of each member, of a member's inputs, their
            reciprocals, if any, and 1; [most factors][members * width].
        inverse: whether there are reciprocals among them.
    """

    factors: tuple[Indices, ...]
    inverse: bool

    @classmethod
    def of(cls, across: Array) -> WholePowers | None:
        """From exponents [members, n_in, width]; None if one of them is not whole, or products are long."""
        w = across.swapaxes(1, 2)
        if not ((w == np.rint(w)) & (np.abs(w) <= MOST_FACTORS)).all():
            return None
        inverse = bool((w < 0.0).any())
        counts = np.concatenate([np.maximum(w, 0.0), np.maximum(-w, 0.0)], axis=2) if inverse else w
        upto = np.cumsum(counts, axis=2)
        most = int(upto[..., -1].max(initial=1.0))
        if most > MOST_FACTORS:
            return None
        first = (upto.shape[2] + 1) * np.arange(len(w))[:, None]
        return cls(tuple((first + (upto <= d).sum(axis=2)).ravel() for d in range(max(most, 1))), inverse)

    def products(self, bases: Array) -> Array:
        """Of inputs [members, batch, n_in]: [members, batch, width]."""
        members, batch, n = bases.shape
        size = (2 * n if self.inverse else n) + 1
        rows = np.empty((members, size, batch))
        rows[:, :n], rows[:, -1] = bases.swapaxes(1, 2), 1.0
        if self.inverse:
            np.reciprocal(rows[:, :n], out=rows[:, n:-1])
        rows = rows.reshape(-1, batch)
        y = rows.take(self.factors[0], axis=0)
        for factor in self.factors[1:]:
            y *= rows.take(factor, axis=0)
        found: Array = y.reshape(members, -1, batch).swapaxes(1, 2)
        return found


@runtime_checkable
class AnyChain(Protocol):
    """What pruning asks of a vector field: rates and their derivatives, on arrays, for all members at once.

    `Chain` is one for sums of powers; `networks.rates.UnitRates` for any chain of units.
    """

    @property
    def n_states(self) -> int:
        """Number of states."""

    @property
    def members(self) -> int:
        """Number of networks side by side."""

    @property
    def theta(self) -> Array:
        """Parameters [members, P]."""

    @property
    def free(self) -> Mask:
        """Which of them may change, [members, P]."""

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Layers of powers with sums behind them, where the chain ends in such."""

    def places(self) -> list[tuple[slice, slice]]:
        """Where exponents and weights of each pair lie in theta."""

    def rhs(self, theta: Array) -> Rhs:
        """The function x [members, batch, states] -> dx/dt for parameters theta [members, P]."""

    def linearisation(self, theta: Array, columns: Indices) -> Linearisation:
        """The function x -> (f, df/dx, df/dtheta in `columns` [members, F])."""


@dataclass(frozen=True, eq=False)
class Chain:
    """dx/dt of every member, and what of it may change.

    Args:
        n_states: number of states.
        functions: of single states, features beside them.
        pairs: the last one ends in dx/dt; one before it, if any, ends in sums that are features.
        theta: exponents and weights of each pair, [members, P].
        free: bool [members, P]; an entry that is not free keeps its value in theta.
        stoichiometry: [states, states], what the chain's outputs are multiplied by where equations follow
            from others (default: nothing).

    >>> pair = Pair(np.array([True]), 1, 1)
    >>> decay = Chain(1, (), (pair,), np.array([[1.0, -0.5]]), np.array([[False, True]]))
    >>> decay.rhs(decay.theta)(np.array([[[2.0], [4.0]]])).round(9).tolist()
    [[[-1.0], [-2.0]]]
    """

    n_states: int
    functions: tuple[Function, ...]
    pairs: tuple[Pair, ...]
    theta: Array
    free: Mask
    stoichiometry: Array | None = None

    @property
    def members(self) -> int:
        """Number of laws side by side."""
        return len(self.theta)

    def places(self) -> list[tuple[slice, slice]]:
        """Where exponents and weights of each pair lie in theta."""
        found, start = [], 0
        for pair in self.pairs:
            middle = start + math.prod(pair.real)
            stop = middle + math.prod(pair.weight)
            found.append((slice(start, middle), slice(middle, stop)))
            start = stop
        return found

    def unpack(self, theta: Array) -> list[tuple[Array, Array]]:
        """Exponents [members, width, n_in] and weights [members, n_out, width] of each pair (views)."""
        return [
            (theta[:, real].reshape(-1, *pair.real), theta[:, weight].reshape(-1, *pair.weight))
            for pair, (real, weight) in zip(self.pairs, self.places(), strict=True)
        ]

    def features(self, x: Array) -> Array:
        """States and functions of them."""
        if not self.functions:
            return x
        z = np.empty((*x.shape[:-1], self.n_states + len(self.functions)))
        z[..., : self.n_states] = x
        for f, columns, states, rates in self._alike:
            z[..., columns] = _value(f, rates * x[..., states])
        return z

    @cached_property
    def _alike(self) -> list[tuple[StateFunction, Indices, Indices, Array]]:
        """Functions of one name, where they stand among the features, their states and their rates."""
        found = []
        for name in dict.fromkeys(f.name for f in self.functions):
            own = [k for k, f in enumerate(self.functions) if f.name == name]
            of = [self.functions[k] for k in own]
            states, rates = np.array([f.state for f in of]), np.array([f.rate for f in of])
            found.append((STATE_FUNCTIONS[name], self.n_states + np.array(own), states, rates))
        return found

    def rhs(self, theta: Array) -> Rhs:
        """The function x [members, batch, states] -> dx/dt for parameters theta [members, P]."""
        chain = [
            (pair, real.swapaxes(1, 2), weight.swapaxes(1, 2), WholePowers.of(real.swapaxes(1, 2)))
            for pair, (real, weight) in zip(self.pairs, self.unpack(theta), strict=True)
        ]

        def dx_dt(x: Array) -> Array:
            z = self.features(x)
            for pair, across, down, whole in chain:
                z = pair.products(across, pair.bases(z), whole) @ down
            return z if self.stoichiometry is None else z @ self.stoichiometry.T

        return dx_dt

    def linearisation(self, theta: Array, columns: Indices) -> Linearisation:
        """The function x -> (f, df/dx, df/dtheta in some columns) for these parameters.

        Args:
            theta: parameters [members, P].
            columns: which parameters of each member, [members, F].

        Returns:
            f [members, batch, states], df/dx [..., states, states] and df/dtheta [..., states, F].
        """
        mix = self.stoichiometry
        if mix is not None:
            inner = dataclasses.replace(self, stoichiometry=None).linearisation(theta, columns)

            def mixed(x: Array) -> tuple[Array, Array, Array]:
                f, f_x, f_theta = inner(x)
                return f @ mix.T, mix @ f_x, mix @ f_theta

            return mixed
        if len(self.pairs) == 1:
            return self._sum_of_powers(theta, columns)

        def by_chain(x: Array) -> tuple[Array, Array, Array]:
            f, f_x, f_theta = self._by_chain(theta, x)
            return f, f_x, np.take_along_axis(f_theta, columns[:, None, None, :], axis=-1)

        return by_chain

    def _sum_of_powers(self, theta: Array, columns: Indices) -> Linearisation:
        """The same for a single pair: dA[i, j] of f_i is y_j, dW[j, k] is A[i, j] dy_j/dW[j, k].

        Each column is a number a member and state times one a sample: no full gradient is made.
        """
        (pair,), ((w, a),), ((_, last),) = self.pairs, self.unpack(theta), self.places()
        h, n = pair.real
        of_power = columns < last.start
        row = np.where(of_power, columns // n, (columns - last.start) % h)
        equation = np.where(of_power, 0, (columns - last.start) // h)
        one = equation[:, None] == np.arange(pair.n_out)[:, None]
        through = np.take_along_axis(a, row[:, None], axis=2)
        factor = np.where(of_power[:, None], through, one)[:, None]
        state = np.where(of_power, columns % n, 0)
        across, down = w.swapaxes(1, 2), a.swapaxes(1, 2)
        # Slopes of powers that no member may change are not asked for.
        changing: Mask = np.asarray(self.free.any(axis=0))
        bends = bool((of_power & changing[columns]).any())
        whole, members = WholePowers.of(across), np.arange(len(w))[:, None]
        of_logs = (down[..., None] * w[:, :, None]).reshape(len(w), h, -1)

        def by_columns(x: Array) -> tuple[Array, Array, Array]:
            z = self.features(x)
            bases = pair.bases(z)
            y = pair.products(across, bases, whole)
            own = np.ascontiguousarray(y.swapaxes(1, 2)[members, row].swapaxes(1, 2))
            if bends:
                logs = np.log(np.abs(bases))
                of_w = own * np.take_along_axis(logs, state[:, None], axis=2)
                if whole is None and not pair.nonnegative.all():
                    angles = pair.angles(bases)
                    turned = np.exp(logs @ across) * np.sin(angles @ across)
                    turned = np.take_along_axis(turned, row[:, None], axis=2)
                    of_w = of_w - turned * np.take_along_axis(angles, state[:, None], axis=2)
                own = np.where(of_power[:, None], of_w, own)
            slopes = (y @ of_logs).reshape(*y.shape[:2], pair.n_out, n) * (pair.signs(z) / bases)[:, :, None]
            return y @ down, self._to_states(slopes, x), factor * own[:, :, None]

        return by_columns

    def _by_chain(self, theta: Array, x: Array) -> tuple[Array, Array, Array]:
        """f, df/dx [members, batch, states, states] and df/dtheta [..., states, P] at x."""
        parts, inputs = self.unpack(theta), []
        z = self.features(x)
        for pair, (real, weight) in zip(self.pairs, parts, strict=True):
            inputs.append(z)
            across = real.swapaxes(1, 2)
            z = pair.products(across, pair.bases(z), WholePowers.of(across)) @ weight.swapaxes(1, 2)
        n = z.shape[-1]
        cotangents = np.broadcast_to(np.eye(n), (*z.shape[:-1], n, n))
        pulled: list[Array] = []
        for pair, own, before in zip(reversed(self.pairs), reversed(parts), reversed(inputs), strict=True):
            cotangents, *grads = _pulled(pair, *own, before, cotangents)
            pulled[:0] = [g.reshape(*z.shape, -1) for g in grads]
        return z, self._to_states(cotangents, x), np.concatenate(pulled, axis=-1)

    def _to_states(self, slopes: Array, x: Array) -> Array:
        """Slopes along the states [..., states], of those along states and functions of them [..., features]."""
        if not self.functions:
            return slopes
        to_x = slopes[..., : self.n_states].copy()
        for i, f in enumerate(self.functions):
            slope = _slope(STATE_FUNCTIONS[f.name], f.rate * x[..., f.state]) * f.rate
            to_x[..., f.state] += slopes[..., self.n_states + i] * slope[:, :, None]
        return to_x

    def select(self, index: Indices | Sequence[int]) -> Chain:
        """The members at `index` [any number], in that order (repeats allowed)."""
        return self.replace(self.theta[index], self.free[index])

    def replace(self, theta: Array, free: Mask | None = None) -> Chain:
        """The same chain with other parameters theta [members, P] and, if given, other `free`."""
        return dataclasses.replace(self, theta=theta, free=self.free if free is None else free)


def _pulled(pair: Pair, real: Array, weight: Array, x: Array, cotangents: Array) -> tuple[Array, Array, Array]:
    """Cotangents [members, batch, K, n_out] pulled back to the inputs, the exponents and the weights of a pair."""
    across, bases = real.swapaxes(1, 2), pair.bases(x)
    logs, whole = np.log(np.abs(bases)), WholePowers.of(across)
    y = pair.products(across, bases, whole)
    of_weight = cotangents[..., None] * y[:, :, None, None, :]
    cotangents = cotangents @ weight[:, None]
    g_exponent = cotangents * y[:, :, None, :]
    of_real = g_exponent[..., None] * logs[:, :, None, None, :]
    to_x = (g_exponent @ real[:, None]) * (pair.signs(x) / bases)[:, :, None, :]
    if whole is None and not pair.nonnegative.all():
        angles = pair.angles(bases)
        g_angle = cotangents * (-np.exp(logs @ across) * np.sin(angles @ across))[:, :, None, :]
        of_real = of_real + g_angle[..., None] * angles[:, :, None, None, :]
    return to_x, of_real, of_weight


def _value(f: StateFunction, z: Array) -> Array:
    """f(z), at arguments where it and its slope are finite."""
    found: Array = getattr(np, f.name)(_within(f, z))
    return found


def _slope(f: StateFunction, z: Array) -> Array:
    least, most = f.bounds
    found: Array = f.slope(np, _within(f, z))
    return found if math.isinf(least) and math.isinf(most) else np.where((z > least) & (z < most), found, 0.0)


def _within(f: StateFunction, z: Array) -> Array:
    """Arguments as near as a function takes them."""
    return z if all(map(math.isinf, f.bounds)) else np.clip(z, *f.bounds)


def member_rates(chain: Chain, theta: Array) -> PlainRates | None:
    """The function x_1, ..., x_n -> (dx_1/dt, ...) of plain numbers, that of `Chain.rhs` but for rounding.

    Args:
        theta: parameters of one member [P].

    Returns:
        None where states that may be negative have powers that are not whole, since these turn (see `Pair.angles`),
        and where arguments of functions have bounds.

    Raises:
        ArithmeticError, ValueError: by the function, where a number becomes too large.

    >>> from odediscovery.networks.chain import Pair
    >>> pair = Pair(np.array([True]), 1, 1)
    >>> decay = Chain(1, (), (pair,), np.array([[1.0, -0.5]]), np.array([[False, True]]))
    >>> [round(rate, 9) for rate in member_rates(decay, decay.theta[0])(2.0)]
    [-1.0]
    """
    if any(np.isfinite(STATE_FUNCTIONS[f.name].bounds).any() for f in chain.functions):
        return None
    g, constants = Graph(), list[float]()

    def constant(value: float) -> int:
        constants.append(float(value))
        return g.p(len(constants) - 1)

    def sums(weights: Array, parts: list[int]) -> list[int]:
        return [g.plus(*(g.times(constant(row[j]), parts[j]) for j in np.flatnonzero(row))) for row in weights]

    z = [g.x(k) for k in range(chain.n_states)]
    z += [g.function(f.name, g.times(constant(f.rate), z[f.state])) for f in chain.functions]
    for pair, ((exponents,), (weights,)) in zip(chain.pairs, chain.unpack(theta[None]), strict=True):
        exponents = np.where(weights.any(axis=0)[:, None], exponents, 0.0)
        whole = exponents == np.rint(exponents)
        if (~whole & ~pair.nonnegative).any():
            return None
        near = constant(EPSILON)
        bases = [
            g.plus(g.function("ramp", x), near) if positive else g.plus(x, g.times(near, g.function("side", x)))
            for x, positive in zip(z, pair.nonnegative, strict=True)
        ]
        products = [
            g.times(*(g.power(bases[k], constant(row[k]), bool(own[k])) for k in np.flatnonzero(row)))
            for row, own in zip(exponents, whole, strict=True)
        ]
        z = sums(weights, products)
    values = z if chain.stoichiometry is None else sums(chain.stoichiometry, z)
    return partial(g.compiled(values, len(constants), chain.n_states, plain=True), *constants)
