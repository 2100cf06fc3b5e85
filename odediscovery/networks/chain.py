"""The chain of a law as plain arrays, all members at once: what pruning fits, without any network library.

    Functions -> powers -> sums -> powers -> sums
    x -> z = (x, f(x)) -> (z, 1, m) -> (z, u = 1 + B m) -> monomials -> dx/dt

It computes what a chain of the units Functions, RealNPU and NAU does whose gates are at 1, and its first
derivatives. Training needs gates, gradients and devices, and has them in `vector_field`; here constants are few and
derivatives are written out, so that arrays are all it takes.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from odediscovery.families import STATE_FUNCTIONS, Function, StateFunction
from odediscovery.runtime.arrays import Array, Indices, Mask
from odediscovery.runtime.monitor import check_time

Rhs: TypeAlias = Callable[[Array], Array]
Linearisation: TypeAlias = Callable[[Array], tuple[Array, Array, Array]]

# Added to every base, as in the unit's formula: its logarithm is finite.
EPSILON = sys.float_info.epsilon


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

    def polar(self, x: Array) -> tuple[Array, Array | None]:
        """Sizes of the inputs, and pi where one is negative; None where none can be."""
        if self.nonnegative.all():
            return np.maximum(x, 0.0) + EPSILON, None
        size = np.where(self.nonnegative, np.maximum(x, 0.0), np.abs(x))
        return size + EPSILON, np.where((x < 0.0) & ~self.nonnegative, np.pi, 0.0)

    def signs(self, x: Array) -> Array:
        """Slopes of the sizes."""
        positive = (x > 0.0).astype(float)
        return positive if self.nonnegative.all() else np.where(self.nonnegative, positive, np.sign(x))

    def products(self, across: Array, x: Array, odd: Array | None = None) -> Array:
        """Products of powers [members, batch, width] for exponents across [members, n_in, width].

        Args:
            odd: what `odd_powers` says of them, for speed.
        """
        r, k = self.polar(x)
        y: Array = np.exp(np.log(r) @ across)
        if k is None:
            return y
        return y * np.cos(k @ across) if odd is None else _signed(y, k, odd)

    def odd_powers(self, across: Array) -> Array | None:
        """1 / pi where an exponent of an input that may be negative is odd, else 0; None if one of them is not whole.

        Args:
            across: exponents [members, n_in, width].
        """
        own = across[:, ~self.nonnegative]
        return np.where(self.nonnegative[:, None], 0.0, across % 2.0) / np.pi if (own == np.rint(own)).all() else None


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
        found = [_value(STATE_FUNCTIONS[f.name], f.rate * x[..., f.state, None]) for f in self.functions]
        return np.concatenate([x, *found], axis=-1)

    def rhs(self, theta: Array) -> Rhs:
        """The function x [members, batch, states] -> dx/dt for parameters theta [members, P]."""
        chain = [
            (pair, real.swapaxes(1, 2), weight.swapaxes(1, 2), pair.odd_powers(real.swapaxes(1, 2)))
            for pair, (real, weight) in zip(self.pairs, self.unpack(theta), strict=True)
        ]

        def dx_dt(x: Array) -> Array:
            check_time()
            z = self.features(x)
            for pair, across, down, odd in chain:
                z = pair.products(across, z, odd) @ down
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
        if len(self.pairs) == 1 and not self.functions:
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
        odd = pair.odd_powers(across)
        of_logs = (down[..., None] * w[:, :, None]).reshape(len(w), h, -1)

        def by_columns(x: Array) -> tuple[Array, Array, Array]:
            r, k = pair.polar(x)
            log_r = np.log(r)
            y = size = np.exp(log_r @ across)
            if k is not None:
                y = size * np.cos(k @ across) if odd is None else _signed(size, k, odd)
            own = np.take_along_axis(y, row[:, None], axis=2)
            if bends:
                of_w = own * np.take_along_axis(log_r, state[:, None], axis=2)
                if k is not None and odd is None:
                    angles = np.take_along_axis(k, state[:, None], axis=2)
                    of_w = of_w - np.take_along_axis(size * np.sin(k @ across), row[:, None], axis=2) * angles
                own = np.where(of_power[:, None], of_w, own)
            slopes = (y @ of_logs).reshape(*y.shape[:2], pair.n_out, n) * (pair.signs(x) / r)[:, :, None]
            return y @ down, slopes, factor * own[:, :, None]

        return by_columns

    def _by_chain(self, theta: Array, x: Array) -> tuple[Array, Array, Array]:
        """f, df/dx [members, batch, states, states] and df/dtheta [..., states, P] at x."""
        parts, inputs, given = self.unpack(theta), [], x
        z = self.features(x)
        for pair, (real, weight) in zip(self.pairs, parts, strict=True):
            inputs.append(z)
            z = pair.products(real.swapaxes(1, 2), z) @ weight.swapaxes(1, 2)
        n = z.shape[-1]
        cotangents = np.broadcast_to(np.eye(n), (*z.shape[:-1], n, n))
        pulled: list[Array] = []
        for pair, own, before in zip(reversed(self.pairs), reversed(parts), reversed(inputs), strict=True):
            cotangents, *grads = _pulled(pair, *own, before, cotangents)
            pulled[:0] = [g.reshape(*z.shape, -1) for g in grads]
        to_x = cotangents[..., : self.n_states].copy()
        for i, f in enumerate(self.functions):
            slope = _slope(STATE_FUNCTIONS[f.name], f.rate * given[..., f.state]) * f.rate
            to_x[..., f.state] += cotangents[..., self.n_states + i] * slope[:, :, None]
        return z, to_x, np.concatenate(pulled, axis=-1)

    def select(self, index: Indices | Sequence[int]) -> Chain:
        """The members at `index` [any number], in that order (repeats allowed)."""
        return self.replace(self.theta[index], self.free[index])

    def replace(self, theta: Array, free: Mask | None = None) -> Chain:
        """The same chain with other parameters theta [members, P] and, if given, other `free`."""
        return dataclasses.replace(self, theta=theta, free=self.free if free is None else free)


def _signed(size: Array, k: Array, odd: Array) -> Array:
    """`size` cos(k W), in place, for whole exponents W: its sign turns with every odd power of a negative input."""
    turns = ((k @ odd + 0.5).astype(np.int16) & 1).astype(np.bool_)
    np.negative(size, out=size, where=turns)
    return size


def _pulled(pair: Pair, real: Array, weight: Array, x: Array, cotangents: Array) -> tuple[Array, Array, Array]:
    """Cotangents [members, batch, K, n_out] pulled back to the inputs, the exponents and the weights of a pair."""
    r, k = pair.polar(x)
    log_r, across = np.log(r), real.swapaxes(1, 2)
    y = size = np.exp(log_r @ across)
    angle = None if k is None else k @ across
    if angle is not None:
        y = size * np.cos(angle)
    of_weight = cotangents[..., None] * y[:, :, None, None, :]
    cotangents = cotangents @ weight[:, None]
    g_exponent = cotangents * y[:, :, None, :]
    of_real = g_exponent[..., None] * log_r[:, :, None, None, :]
    to_x = (g_exponent @ real[:, None]) * (pair.signs(x) / r)[:, :, None, :]
    if angle is not None and k is not None:
        g_angle = cotangents * (-size * np.sin(angle))[:, :, None, :]
        of_real = of_real + g_angle[..., None] * k[:, :, None, None, :]
    return to_x, of_real, of_weight


def _value(f: StateFunction, z: Array) -> Array:
    """f(z), at arguments where it and its slope are finite."""
    found: Array = getattr(np, f.name)(np.clip(z, *f.bounds))
    return found


def _slope(f: StateFunction, z: Array) -> Array:
    least, most = f.bounds
    found: Array = f.slope(np, np.clip(z, least, most))
    return found if math.isinf(least) and math.isinf(most) else np.where((z > least) & (z < most), found, 0.0)
