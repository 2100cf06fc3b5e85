"""The integral form of a law: increments of the states equal integrals of their right-hand sides.

    x_i(t_b) - x_i(t_a) = sum_j A[i, j] * integral_a^b prod_k x_k(t) ** W[j, k] dt

With the path x(t) between the samples interpolated (smoothed in noise) and Gauss quadrature in
every sample interval, the coefficients A are linear given the exponents W; no ODE is solved and
nothing is differentiated. The path can be refined by a law: integrate its rates along the old
path, interpolate (or smooth) only what is left over. For the right law little is left over, and
the error of the interpolation goes with it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.polynomial import polynomial as poly
from numpy.typing import NDArray
from scipy.interpolate import make_interp_spline
from scipy.linalg import cholesky_banded, solve_banded

from odediscovery.data.series import TimeSeries
from odediscovery.data.smoothing import SMOOTHING, of_higher_order, smoothing_spline
from odediscovery.families import power_is_rate
from odediscovery.laws.power_sum import Features, Sums
from odediscovery.runtime.arrays import Array, Mask

Spline = Callable[[Array], Array]

NODES = 8


@dataclass(frozen=True)
class IntegralThresholds:
    """How paths are interpolated, and how near to zero powers of states are taken."""

    certain: float = 1e-6  # relative error of an integral below which it is certain
    least_state: float = 1e-9  # value nearest to zero that powers see [rms of the state]
    least_noisy: float = 0.3  # the same in noise [standard deviations of the noise]
    largest_operator: int = 160_000  # numbers of a matrix beyond which integrals are taken step by step
    most_log: float = 200.0  # logarithm of the largest power


INTEGRAL = IntegralThresholds()


def _gauss() -> tuple[Array, Array, Array]:
    """Nodes c and weights b on [0, 1], and B with B[i, :] f(c) = integral_0^c_i f."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    c, b = (nodes + 1) / 2, weights / 2
    # Integrals of the monomials 1, c, c^2, ... up to each node, in the basis of Lagrange.
    vander = poly.polyvander(c, NODES - 1)
    degree = np.arange(1, NODES + 1)
    running = np.linalg.solve(vander.T, (c[:, None] ** degree / degree).T).T.astype(np.float64)
    return np.asarray(c, dtype=np.float64), np.asarray(b, dtype=np.float64), running


NODE, WEIGHT, PARTIAL = _gauss()


@dataclass(frozen=True, eq=False)
class Path:
    """The features of a power layer at the quadrature nodes of every interval.

    Args:
        log: ln |y|, [intervals, nodes, features].
        negative: where y < 0, same shape.
        coarse: the same by a lower order: what differs is the error of the interpolation.
    """

    log: Array
    negative: NDArray[np.bool_]
    coarse: Path | None = None

    @classmethod
    def of(cls, y: Array, integer: NDArray[np.bool_], smallest: Array, coarse: Path | None = None) -> Path:
        """From y; features without `integer` exponents are nonnegative, noise aside."""
        magnitude = np.where(integer, np.abs(y), y)
        return cls(np.log(np.maximum(magnitude, smallest)), (y < 0) & integer, coarse)

    def with_sums(self, sums: Sums) -> Path:
        """The same with the sums u as further features; they have to be positive."""
        if not len(sums):
            return self
        u = 1.0 + self.monomials(sums.exponents) @ sums.weights.T
        return Path(
            np.concatenate([self.log, np.log(np.maximum(u, INTEGRAL.least_state))], axis=-1),
            np.concatenate([self.negative, np.zeros(u.shape, dtype=bool)], axis=-1),
        )

    @cached_property
    def log_rows(self) -> Array:
        """ln |y| with all nodes in a row, [features, nodes]."""
        return np.ascontiguousarray(self.log.reshape(-1, self.log.shape[-1]).T)

    def monomials(self, exponents: Array) -> Array:
        """prod_k x_k ** W[j, k], [intervals, nodes, monomials]."""
        with np.errstate(invalid="ignore", over="ignore"):  # trial exponents may be anything
            values = np.exp(np.minimum(self.log @ exponents.T, INTEGRAL.most_log))
        if self.negative.any():
            odd = np.round(exponents) % 2
            values = values * (1.0 - 2.0 * ((self.negative @ odd.T) % 2))
        return np.asarray(values)


@dataclass(frozen=True, eq=False)
class Integral:
    """Samples, intervals and how integrals up to the samples become residuals.

    Args:
        time, values: all trajectories in one column, [samples], [samples, states], nan = missing.
        first: index of the first sample of every trajectory.
        left: index of the sample at the left of every interval, [intervals].
        step: length of every interval.
        before: the previous observed sample of the same state and trajectory, [states, samples];
            the sample itself where there is none.
        row: whether the sample gives a residual for a state, [states, samples].
        noise: standard deviation of the noise of every state, [states].
        features: what the power layer sees, without sums.
        integer: features with whole exponents only, bool [features].
        real_inside: features whose exponents inside sums are fitted, bool [features].
        factors: Cholesky factor (two diagonals) of the covariance of the rows, one a state.
        counts: residuals of every state, uncertain ones counted in part, [states].
        target: observed states as `reduced` gives integrals, [states, samples].
        given: controls, the last states, at the nodes of every interval [intervals, nodes, given].
        noisy: states of whose residuals noise is the larger part; where the path is smoothed
            its own error, which nobody knows, is as large. bool [states].
    """

    time: Array
    values: Array
    first: NDArray[np.int64]
    left: NDArray[np.int64]
    step: Array
    before: NDArray[np.int64]
    row: NDArray[np.bool_]
    noise: Array
    features: Features
    integer: NDArray[np.bool_]
    real_inside: NDArray[np.bool_]
    factors: tuple[Array, ...]
    counts: Array
    target: Array
    given: Array
    noisy: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        series: TimeSeries,
        noise: Array,
        integer: NDArray[np.bool_],
        features: Features,
        real_inside: NDArray[np.bool_] | None = None,
    ) -> Integral:
        """From a dimensionless series; every state is observed in every trajectory.

        Args:
            integer: states with whole exponents only, bool [states]; of the functions all are
                such but exp.
            real_inside: states whose exponents inside sums are real, bool [states] (default: none).
        """
        of_functions = np.array([not power_is_rate(f) for f in features.functions], dtype=bool)
        time = np.concatenate([t.time for t in series.trajectories])
        values = np.concatenate([t.values for t in series.trajectories])
        length = np.array([len(t.time) for t in series.trajectories])
        first = np.cumsum(length) - length
        inside = np.ones(len(time), dtype=bool)
        inside[[*(first[1:] - 1), -1]] = False
        left = np.flatnonzero(inside)
        before, row = _neighbours(np.isfinite(values).T, np.repeat(first, length))
        plain = cls(
            time,
            values,
            first,
            left,
            time[left + 1] - time[left],
            before,
            row,
            noise,
            features,
            np.concatenate([integer, of_functions]),
            np.concatenate([np.zeros_like(integer) if real_inside is None else real_inside, ~of_functions]),
            (),
            np.zeros(len(row)),
            np.zeros(row.shape),
            _given(series),
            np.zeros(len(row), dtype=bool),
        )
        return plain._whitened(np.zeros(row.shape))

    @property
    def smoothed(self) -> NDArray[np.bool_]:
        """States whose path is smoothed, not interpolated."""
        return np.asarray(self.noise > SMOOTHING.clean * np.nanstd(self.values, axis=0))

    def _whitened(self, error: Array) -> Integral:
        """With rows of unit variance, given the relative error of the integrals [states, samples].

        Two causes: noise s of the samples, which neighbouring differences share,
        covariance 2 s^2 and -s^2; and the path between the samples, which they do not.
        """
        observed = np.where(np.isfinite(self.values), self.values, 0.0).T[:, :, None]
        states = np.arange(len(self.row))
        target = self.differences(observed, states)[:, :, 0]
        factors, counts, noisy = [], np.zeros(len(states)), np.zeros(len(states), dtype=bool)
        for i, rows in enumerate(self.row):
            e = error[i, rows]
            usual = max(float(np.median(e)) if len(e) else 0.0, INTEGRAL.certain)
            size = max(float(np.sqrt(np.mean(target[i, rows] ** 2))) if len(e) else 0.0, INTEGRAL.least_state)
            noise, least = self.noise[i] ** 2, usual
            if self.smoothed[i]:  # smaller errors are noise
                usual, least = max(usual, self.noise[i] / size), 0.0
            own = ((least + e**2 / usual) * size) ** 2
            band = np.zeros((2, len(e)))
            band[0] = own + 2 * noise
            where = np.flatnonzero(rows)
            band[1, :-1] = np.where(self.before[i, where[1:]] == where[:-1], -noise, 0.0)
            factors.append(cholesky_banded(band, lower=True) if len(e) else band)
            noisy[i] = bool(len(e)) and not self.smoothed[i] and noise > float(np.median(own))
            counts[i] = max(np.sum((least**2 * size**2 + noise) / (own + noise)), 1.0)
        changed = replace(self, factors=tuple(factors), counts=counts, noisy=noisy)
        return replace(changed, target=changed.reduced(observed, states)[:, :, 0])

    def weighted(self, path: Path, exponents: Array) -> Integral:
        """Rows weighted down where interpolations of different order give different integrals.

        What counts is the median of the relative difference over many monomials: near a
        singular start it is thousands of times larger than elsewhere, and so is the error.
        """
        states = np.arange(len(self.row))
        fine = self.differences(self.cumulative(path.monomials(exponents)), states)
        coarse = (path.coarse or path).monomials(exponents)
        change = np.abs(self.differences(self.cumulative(coarse), states) - fine)
        size = np.sqrt(np.mean(fine**2, axis=1, keepdims=True))
        return self._whitened(np.median(change / np.where(size > 0, size, 1.0), axis=2))

    def differences(self, cumulative: Array, states: NDArray[np.int64]) -> Array:
        """Integrals between neighbouring samples of some states, [states, samples, columns].

        From integrals up to the samples, [samples, columns] or one such for every state.
        """
        full = np.broadcast_to(cumulative, (len(states), *cumulative.shape[-2:]))
        result: Array = full - full[np.arange(len(states))[:, None], self.before[states]]
        return result

    def reduced(self, cumulative: Array, states: NDArray[np.int64]) -> Array:
        """The differences as independent rows of unit variance, 0 where there is no row."""
        result = self.differences(cumulative, states)
        for e, i in enumerate(states):
            if self.row[i].any():
                rows = self.row[i]
                result[e, rows] = solve_banded((1, 0), self.factors[i], result[e, rows], check_finite=False)
        return result

    def cumulative(self, nodes: Array) -> Array:
        """Integrals from the start to every sample, [samples, columns], of values at nodes."""
        return self._accumulated(self._over_intervals(nodes))

    def _over_intervals(self, nodes: Array) -> Array:
        """Integrals over every interval, [intervals, ...], of values at nodes [intervals, nodes, ...]."""
        found: Array = np.einsum("q,iq...->i...", WEIGHT, nodes)
        found *= self.step.reshape(-1, *[1] * (found.ndim - 1))
        return found

    def _accumulated(self, inner: Array) -> Array:
        """Integrals from the start to every sample, [samples, columns], of those over intervals."""
        total = np.zeros((len(self.time), inner.shape[1]))
        total[self.left + 1] = inner
        result: Array = np.cumsum(total, axis=0)
        return result

    @cached_property
    def operators(self) -> tuple[Array, ...]:
        """`reduced` of integrals over intervals as a matrix for every state, [samples, intervals].

        Small laws are fitted thousands of times: one product is many times quicker than the three steps.
        None where the matrices would be large.
        """
        size = len(self.left)
        if size * len(self.time) > INTEGRAL.largest_operator:
            return ()
        return tuple(self.reduced(self._accumulated(np.eye(size)), np.arange(len(self.row))))

    def integrals(self, nodes: Array, states: NDArray[np.int64]) -> Array:
        """Integrals as rows of residuals, [states, samples, columns], of values at nodes.

        Args:
            nodes: [intervals, nodes, columns].
        """
        if not self.operators:
            return self.reduced(self.cumulative(nodes), states)
        inner = self._over_intervals(nodes)
        return np.stack([self.operators[i] @ inner for i in states])

    def rows(self, nodes: Array, states: NDArray[np.int64]) -> Array:
        """Integrals of many laws as rows of residuals, [laws, states, columns, samples], of values at nodes.

        Args:
            nodes: [laws, states, columns, nodes], or one such for all states.
        """
        laws, own, columns, _ = nodes.shape
        # Law by law: on one large product BLAS may set threads, which cost many times what they bring.
        over = (nodes.reshape(laws, own, columns, len(self.left), NODES) @ WEIGHT) * self.step
        if self.operators:
            return np.stack([over[:, e % own] @ self.operators[i].T for e, i in enumerate(states)], axis=1)
        flat = self._accumulated(over.reshape(-1, len(self.left)).T).reshape(-1, laws, own, columns)
        each = flat.transpose(2, 0, 1, 3).reshape(own, len(self.time), laws * columns)
        found = self.reduced(each, states).reshape(len(states), len(self.time), laws, columns)
        return found.transpose(2, 0, 3, 1)

    def columns(self, path: Path, exponents: Array, states: NDArray[np.int64]) -> Array:
        """Integrals of monomials as rows of residuals, [states, samples, monomials]."""
        return self.integrals(path.monomials(exponents), states)

    def interpolated(self) -> Path:
        """The path from the samples alone."""
        return self._path(np.zeros_like(self.values), np.zeros((len(self.left), NODES, 1)))

    def refined(self, rates: Array) -> Path:
        """The path that a law's rates along the old path give, plus what is left over.

        Args:
            rates: at the nodes, [intervals, nodes, states].
        """
        at_samples = self.cumulative(rates)
        partial = np.einsum("pq,iqc->ipc", PARTIAL, rates) * self.step[:, None, None]
        return self._path(at_samples, at_samples[self.left][:, None, :] + partial)

    def _path(self, at_samples: Array, at_nodes: Array) -> Path:
        """A model's path, plus the spline through what it leaves of the samples."""
        left_over = self.values - at_samples
        nodes = self.time[self.left][:, None] + self.step[:, None] * NODE
        x = np.broadcast_to(at_nodes, (*nodes.shape, self.values.shape[1])).copy()
        rough = x.copy()
        bounds = [*self.first, len(self.time)]
        for a, b in itertools.pairwise(bounds):
            inside = (self.left >= a) & (self.left < b)
            if (empty := ~np.isfinite(left_over[a:b]).any(axis=0)).any():  # others tell what is usual
                left_over[a, empty] = np.nanmean(left_over[:, empty], axis=0)
            for i in range(x.shape[2] - self.given.shape[2]):
                seen = a + np.flatnonzero(np.isfinite(left_over[a:b, i]))
                fine, coarse = _splines(self.time[seen], left_over[seen, i], bool(self.smoothed[i]))
                x[inside, :, i] += fine(nodes[inside])
                rough[inside, :, i] += coarse(nodes[inside])
        driven = slice(x.shape[2] - self.given.shape[2], None)
        x[..., driven] = rough[..., driven] = self.given
        smallest = np.full(self.features.size, INTEGRAL.least_state)
        smallest[: len(self.row)] = np.maximum(
            INTEGRAL.least_state, np.where(self.smoothed, INTEGRAL.least_noisy * self.noise, 0.0)
        )
        lower = Path.of(self.features.values(rough), self.integer, smallest)
        return Path.of(self.features.values(x), self.integer, smallest, lower)


def _neighbours(seen: Mask, first: NDArray[np.int64]) -> tuple[NDArray[np.int64], Mask]:
    """`Integral.before` and `Integral.row` of what was seen [states, samples].

    Args:
        first: index of the first sample of each sample's trajectory [samples].
    """
    own = np.arange(seen.shape[1])
    latest = np.maximum.accumulate(np.where(seen, own, -1), axis=1)
    before = np.concatenate([np.full((len(seen), 1), -1), latest[:, :-1]], axis=1)
    row = seen & (before >= first)
    return np.where(row, before, own), row


def _given(series: TimeSeries) -> Array:
    """Controls at the nodes of every interval, [intervals, nodes, controls]."""
    found = [
        np.zeros((len(t.time) - 1, NODES, 0))
        if t.controls is None
        else t.controls.at(t.time[:-1, None] + np.diff(t.time)[:, None] * NODE)
        for t in series.trajectories
    ]
    return np.concatenate(found)


def _splines(t: Array, y: Array, smoothed: bool) -> tuple[Spline, Spline]:
    """A spline and one of another order; where the first smooths, the other goes through what it makes of samples."""
    if smoothed and len(t) >= 5:
        spline = smoothing_spline(t, y)
        return spline, of_higher_order(t, spline)
    degree = 5 if len(t) >= 6 else 3 if len(t) >= 4 else min(1, len(t) - 1)
    fine = make_interp_spline(t, y, k=degree)
    return fine, make_interp_spline(t, y, k=degree - 2) if degree > 2 else fine
