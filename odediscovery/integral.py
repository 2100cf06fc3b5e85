"""The integral form of a law: increments of the states equal integrals of their right-hand sides.

    x_i(t_b) - x_i(t_a) = sum_j A[i, j] * integral_a^b prod_k x_k(t) ** W[j, k] dt

With the path x(t) between the samples interpolated (smoothed in noise) and Gauss quadrature in
every sample interval, the coefficients A are linear given the exponents W; no ODE is solved and
nothing is differentiated. The path can be refined by a law: integrate its rates along the old
path, interpolate (or smooth) only what is left over. For the right law little is left over, and
the error of the interpolation goes with it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.polynomial import polynomial as poly
from numpy.typing import NDArray
from scipy.interpolate import make_interp_spline, make_smoothing_spline

from odediscovery.powersum import Array, PowerSum
from odediscovery.series import TimeSeries

NODES = 6
# A state with noise above this share of its spread is smoothed instead of interpolated.
CLEAN = 1e-4
# Powers see no value nearer to zero than this (states have an rms of 1).
TINY = 1e-9
# No power of a state may exceed this: far outliers of negative powers carry no information.
LARGEST_LOG = 200.0


def _gauss() -> tuple[Array, Array, Array]:
    """Nodes c and weights b on [0, 1], and B with B[i, :] f(c) = integral_0^c_i f."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    c, b = (nodes + 1) / 2, weights / 2
    # Integrals of the monomials 1, c, c^2, ... up to each node, in the basis of Lagrange.
    vander = poly.polyvander(c, NODES - 1)
    degree = np.arange(1, NODES + 1)
    return c, b, np.linalg.solve(vander.T, (c[:, None] ** degree / degree).T).T


NODE, WEIGHT, PARTIAL = _gauss()


@dataclass(frozen=True, eq=False)
class Path:
    """The states at the quadrature nodes of every interval.

    Args:
        log: ln |x|, [intervals, nodes, states].
        negative: where x < 0, same shape.
    """

    log: Array
    negative: NDArray[np.bool_]

    @classmethod
    def of(cls, x: Array, integer: NDArray[np.bool_], smallest: Array) -> Path:
        """From x; states without `integer` exponents are nonnegative, noise aside."""
        magnitude = np.where(integer, np.abs(x), x)
        return cls(np.log(np.maximum(magnitude, smallest)), (x < 0) & integer)

    def monomials(self, exponents: Array) -> Array:
        """prod_k x_k ** W[j, k], [intervals, nodes, monomials]."""
        values = np.exp(np.minimum(self.log @ exponents.T, LARGEST_LOG))
        if self.negative.any():
            odd = np.round(exponents) % 2
            values = values * (1.0 - 2.0 * ((self.negative @ odd.T) % 2))
        result: Array = values
        return result


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
        smoothed: states with noise, bool [states].
        integer: states with whole exponents only, bool [states].
        smallest: what powers see at least of a state, [states].
        target: observed states as `reduced` gives integrals, [states, samples].
    """

    time: Array
    values: Array
    first: NDArray[np.int64]
    left: NDArray[np.int64]
    step: Array
    before: NDArray[np.int64]
    row: NDArray[np.bool_]
    smoothed: NDArray[np.bool_]
    integer: NDArray[np.bool_]
    smallest: Array
    target: Array

    @classmethod
    def of(cls, series: TimeSeries, noise: Array, integer: NDArray[np.bool_]) -> Integral:
        """From a dimensionless series; every state is observed in every trajectory."""
        time = np.concatenate([t.time for t in series.trajectories])
        values = np.concatenate([t.values for t in series.trajectories])
        length = np.array([len(t.time) for t in series.trajectories])
        first = np.cumsum(length) - length
        inside = np.ones(len(time), dtype=bool)
        inside[first[1:] - 1] = False
        inside[-1] = False
        left = np.flatnonzero(inside)
        seen = np.isfinite(values).T
        owner = np.repeat(np.arange(len(first)), length)
        index = np.where(seen, np.arange(len(time)), -1)
        latest = np.maximum.accumulate(index, axis=1)
        before = np.concatenate([np.full((len(seen), 1), -1), latest[:, :-1]], axis=1)
        row = seen & (before >= first[owner])
        before = np.where(row, before, np.arange(len(time)))
        smoothed = noise > CLEAN * np.nanstd(values, axis=0)
        smallest = np.maximum(TINY, np.where(smoothed, 0.3 * noise, 0.0))
        problem = cls(
            time, values, first, left, time[left + 1] - time[left], before,
            np.where(smoothed[:, None], seen, row), smoothed, integer, smallest,
            np.zeros(seen.shape),
        )  # fmt: skip
        filled = np.where(seen, values.T, 0.0)
        return replace(problem, target=problem.reduced(filled[:, :, None])[:, :, 0])

    def reduced(self, cumulative: Array) -> Array:
        """Integrals up to the samples [states or 1, samples, columns] as rows of residuals.

        Without noise the differences of neighbours: errors of the interpolation stay local.
        In noise the sums less their mean over the trajectory: the unknown start value drops
        out, and independent errors of the samples stay independent.
        """
        states = np.arange(len(self.row))[:, None]
        full = np.broadcast_to(cumulative, (len(self.row), *cumulative.shape[1:]))
        result = full - full[states, self.before]
        for i in np.flatnonzero(self.smoothed):
            for a, b in zip(self.first, [*self.first[1:], len(self.time)], strict=True):
                seen = self.row[i, a:b]
                result[i, a:b] = full[i, a:b] - full[i, a:b][seen].mean(axis=0)
        return np.where(self.row[:, :, None], result, 0.0)

    def cumulative(self, nodes: Array) -> Array:
        """Integrals from the start to every sample, [samples, columns], of values at nodes."""
        inner = np.einsum("q,iqc->ic", WEIGHT, nodes) * self.step[:, None]
        total = np.zeros((len(self.time), inner.shape[1]))
        total[self.left + 1] = inner
        result: Array = np.cumsum(total, axis=0)
        return result

    def columns(self, path: Path, exponents: Array) -> Array:
        """Integrals of monomials as rows of residuals, [states, samples, monomials]."""
        return self.reduced(self.cumulative(path.monomials(exponents))[None])

    def interpolated(self) -> Path:
        """The path from the samples alone."""
        return self._path(np.zeros_like(self.values), np.zeros((len(self.left), NODES, 1)))

    def refined(self, path: Path, law: PowerSum) -> Path:
        """The path that the rates of the law along the old path give, plus what is left over."""
        rates = path.monomials(law.exponents) @ law.coefficients.T
        at_samples = self.cumulative(rates)
        partial = np.einsum("pq,iqc->ipc", PARTIAL, rates) * self.step[:, None, None]
        return self._path(at_samples, at_samples[self.left][:, None, :] + partial)

    def _path(self, at_samples: Array, at_nodes: Array) -> Path:
        """A model's path, plus the spline through what it leaves of the samples."""
        left_over = self.values - at_samples
        nodes = self.time[self.left][:, None] + self.step[:, None] * NODE
        x = np.broadcast_to(at_nodes, (*nodes.shape, self.values.shape[1])).copy()
        bounds = [*self.first, len(self.time)]
        for a, b in zip(bounds[:-1], bounds[1:], strict=True):
            inside = (self.left >= a) & (self.left < b)
            for i in range(x.shape[2]):
                seen = a + np.flatnonzero(np.isfinite(left_over[a:b, i]))
                spline = _spline(self.time[seen], left_over[seen, i], bool(self.smoothed[i]))
                x[inside, :, i] += spline(nodes[inside])
        return Path.of(x, self.integer, self.smallest)


def _spline(t: Array, y: Array, smoothed: bool):  # type: ignore[no-untyped-def]
    if smoothed and len(t) >= 5:
        return make_smoothing_spline(t, y)
    degree = 5 if len(t) >= 6 else 3 if len(t) >= 4 else min(1, len(t) - 1)
    return make_interp_spline(t, y, k=degree)
