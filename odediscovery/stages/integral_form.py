"""The integral form of a law on a smoothed path, and regression of coefficients and exponents on it.

Increments of the states equal integrals of their right-hand sides:

    x_i(t_b) - x_i(t_a) = sum_j A[i, j] * integral_a^b prod_k x_k(t) ** W[j, k] dt

The path x(t) between the samples is interpolated (smoothed in noise), and integrals are computed by
Gauss quadrature in every sample interval. Given the exponents W, the coefficients A are then linear;
no ODE is solved and nothing is differentiated. A law can refine the path: integrate its rates along
the old path, and interpolate (or smooth) only the residuals. For the right law these are small, and
so is the interpolation error.

Variable projection: A is solved for at every W, and W minimises

    sum_i N_i ln(|y_i - sum_j A[i, j] G_i,j(W)|^2 / N_i + floor_i^2)

This is the likelihood of residuals whose variance is unknown and differs between states; no law
explains residuals below the floor (digits of the data, noise of a start).

A law along a trajectory is made of `Product`s: what it adds up, with the constants that may be fitted.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.polynomial import polynomial as poly
from scipy.interpolate import make_interp_spline
from scipy.linalg import cholesky_banded, solve_banded
from scipy.linalg.lapack import dgeqrf, dorgqr, dtrtrs

from odediscovery.data.noise import CLEAN_SHARE, of_higher_order, smoothing_spline
from odediscovery.data.series import TimeSeries
from odediscovery.families import Family, Seen, Shape, Terms
from odediscovery.laws.power_sum import NO_SUMS, SIMPLE, Features, PowerSum, Sums, price
from odediscovery.runtime.arrays import ABOVE_ZERO, SQUARED, Array, Indices, Mask, column_norms
from odediscovery.runtime.monitor import check_time

Spline = Callable[[Array], Array]
# Row and column of constants, [places, 2].
Places = Indices

# Gauss nodes of every sample interval.
NODES = 8
# Lower bound of states and sums in powers and logarithms [rms of the state].
LEAST = 1e-9
# Logarithm of the largest power.
MOST_LOG = 200.0
# Least and largest exponent of a state.
LEAST_EXPONENT, MOST_EXPONENT = -3.0, 6.0
# Coefficients above this need more digits than others [states of rms 1].
LARGE = 100.0
# Most that a step of Gauss-Newton changes a constant: an exponent of a state, a rate, and shares of weights in sums and
# of exponents there.
EXPONENT_STEP, RATE_STEP, WEIGHT_SHARES, INNER_SHARES = 0.5, 1.0, (0.3, 3.0), (-0.4, 0.6)
# Powers that are set where fitted ones differ by less.
SIMPLE_POWERS, NEARLY = np.array([0.0, *SIMPLE]), 0.05
# Ridge that keeps least squares with coinciding monomials solvable [norm of a column].
RIDGE = 1e-11


def _gauss() -> tuple[Array, Array, Array]:
    """Return nodes c and weights b on [0, 1], and B with B[i, :] f(c) = integral_0^c_i f."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    c, b = (nodes + 1) / 2, weights / 2
    # Integrals of the monomials 1, c, c^2, ... up to each node, in the basis of Lagrange.
    vander = poly.polyvander(c, NODES - 1)
    degree = np.arange(1, NODES + 1)
    running = np.linalg.solve(vander.T, (c[:, None] ** degree / degree).T).T.astype(np.float64)
    return np.asarray(c, dtype=np.float64), np.asarray(b, dtype=np.float64), running


NODE, WEIGHT, PARTIAL = _gauss()
# Derivatives at the nodes of an interval of length 1 of values there.
SLOPE = np.linalg.solve(
    poly.polyvander(NODE, NODES - 1).T, (np.arange(NODES) * NODE[:, None] ** np.maximum(np.arange(NODES) - 1, 0)).T
).T


@dataclass(frozen=True, eq=False)
class Path:
    """The features y of a power layer at the quadrature nodes of every interval."""

    log: Array  # ln |y|, [intervals, nodes, features]
    negative: Mask  # where y < 0
    coarse: Path | None = None  # the same by a lower order: the difference is the interpolation error

    @classmethod
    def of(cls, y: Array, integer: Mask, smallest: Array, coarse: Path | None = None) -> Path:
        """Build from y; features without `integer` exponents are nonnegative, noise aside."""
        magnitude = np.where(integer, np.abs(y), y)
        return cls(np.log(np.maximum(magnitude, smallest)), (y < 0) & integer, coarse)

    @property
    def flat(self) -> Path:
        """The same with all nodes in a row, [nodes, features]."""
        width = self.log.shape[-1]
        return Path(self.log.reshape(-1, width), self.negative.reshape(-1, width))

    def with_sums(self, sums: Sums) -> Path:
        """Append the sums u, which must be positive, as features."""
        if not len(sums):
            return self
        u = 1.0 + self.monomials(sums.exponents) @ sums.weights.T
        return Path(
            np.concatenate([self.log, np.log(np.maximum(u, LEAST))], axis=-1),
            np.concatenate([self.negative, np.zeros(u.shape, dtype=bool)], axis=-1),
        )

    @cached_property
    def log_rows(self) -> Array:
        """ln |y| with all nodes in a row, [features, nodes]."""
        return np.ascontiguousarray(self.log.reshape(-1, self.log.shape[-1]).T)

    def monomials(self, exponents: Array) -> Array:
        """Compute prod_k x_k ** W[j, k], [intervals, nodes, monomials]."""
        with np.errstate(invalid="ignore", over="ignore"):  # trial exponents may be anything
            values = np.exp(np.minimum(self.log @ exponents.T, MOST_LOG))
        if self.negative.any():
            odd = np.round(exponents) % 2
            values = values * (1.0 - 2.0 * ((self.negative @ odd.T) % 2))
        return np.asarray(values)


@dataclass(frozen=True, eq=False)
class Integral:
    """Samples and intervals of the data, and the operations that turn integrals into residuals."""

    time: Array  # of all trajectories in one column, [samples]
    values: Array  # the same, [samples, states], nan = missing
    first: Indices  # the first sample of every trajectory
    left: Indices  # the sample at the left of every interval, [intervals]
    step: Array  # length of every interval
    before: Indices  # the previous observed sample of the trajectory, or the sample itself, [states, samples]
    row: Mask  # whether the sample gives a residual for a state, [states, samples]
    noise: Array  # standard deviation of the noise, [states]
    features: Features  # inputs of the power layer, without sums
    integer: Mask  # features with whole exponents only, [features]
    real_inside: Mask  # features whose exponents inside sums may be real numbers, [features]
    given: Array  # controls, the last states, at the nodes of every interval, [intervals, nodes, given]
    # Cholesky factors of the covariance of each state's rows, two diagonals.
    factors: tuple[Array, ...]
    counts: Array  # number of residuals of every state, uncertain ones counted in part, [states]
    target: Array  # observed states, transformed by `reduced`, [states, samples]
    # States whose residuals are mostly noise, [states]; never those with a smoothed path, whose unknown error is as
    # large.
    noisy: Mask

    @classmethod
    def of(
        cls, series: TimeSeries, noise: Array, integer: Mask, features: Features, real_inside: Mask | None = None
    ) -> Integral:
        """Build from a dimensionless series.

        Args:
            integer: states with whole exponents only [states]; so are all functions except exp.
            real_inside: states whose exponents inside sums are real [states] (default: none).
        """
        of_functions = np.array([not f.kind.power_is_rate for f in features.functions], dtype=bool)
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
            _given(series),
            factors=(),
            counts=np.zeros(len(row)),
            target=np.zeros(row.shape),
            noisy=np.zeros(len(row), dtype=bool),
        )
        return plain._whitened(np.zeros(row.shape))

    @property
    def smoothed(self) -> Mask:
        """States whose path is smoothed rather than interpolated."""
        return np.asarray(self.noise > CLEAN_SHARE * np.nanstd(self.values, axis=0))

    def _whitened(self, error: Array) -> Integral:
        """Scale rows to unit variance, given the relative error of the integrals [states, samples].

        The error has two parts: noise s of the samples, which neighbouring differences share
        (covariance 2 s^2 and -s^2), and the independent error of the path between samples.
        """
        observed = np.where(np.isfinite(self.values), self.values, 0.0).T[:, :, None]
        states = np.arange(len(self.row))
        target = self.differences(observed, states)[:, :, 0]
        factors, counts, noisy = [], np.zeros(len(states)), np.zeros(len(states), dtype=bool)
        for i, rows in enumerate(self.row):
            e = error[i, rows]
            # Relative errors below 1e-6 are negligible.
            usual = max(float(np.median(e)) if len(e) else 0.0, 1e-6)
            size = max(float(np.sqrt(np.mean(target[i, rows] ** 2))) if len(e) else 0.0, LEAST)
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
        changed = replace(self, counts=counts, noisy=noisy, factors=tuple(factors))
        return replace(changed, target=changed.reduced(observed, states)[:, :, 0])

    def weighted(self, path: Path, exponents: Array) -> Integral:
        """Weight rows down where interpolations of different order give different integrals.

        The error is the median relative difference over many monomials: near a singular
        start it is thousands of times larger than elsewhere.
        """
        states = np.arange(len(self.row))
        fine = self.differences(self.cumulative(path.monomials(exponents)), states)
        coarse = (path.coarse or path).monomials(exponents)
        change = np.abs(self.differences(self.cumulative(coarse), states) - fine)
        size = np.sqrt(np.mean(fine**2, axis=1, keepdims=True))
        return self._whitened(np.median(change / np.where(size > 0, size, 1.0), axis=2))

    def thinned(self, path: Path, most: int) -> tuple[Integral, Path]:
        """Keep at most so many intervals, each of which becomes a trajectory, of exact and complete samples."""
        if len(self.left) <= most or self.noise.any() or not np.isfinite(self.values).all():
            return self, path
        kept = np.unique(np.linspace(0, len(self.left) - 1, most).astype(int))
        ends = np.stack([self.left[kept], self.left[kept] + 1], axis=1)
        right = ends[:, 1]
        row, target = np.zeros((len(self.row), ends.size), dtype=bool), np.zeros((len(self.row), ends.size))
        row[:, 1::2], target[:, 1::2] = self.row[:, right], self.target[:, right]
        before = np.tile(np.repeat(np.arange(0, ends.size, 2), 2), (len(self.row), 1))
        # Rows of exact samples are independent.
        place = np.cumsum(self.row, axis=1) - 1
        factors = tuple(band[:, place[i, right]] for i, band in enumerate(self.factors))
        few = replace(
            self,
            time=self.time[ends.ravel()],
            values=self.values[ends.ravel()],
            first=np.arange(0, ends.size, 2),
            left=np.arange(0, ends.size, 2),
            step=self.step[kept],
            before=before,
            row=row,
            given=self.given[kept],
            factors=factors,
            counts=np.maximum(self.counts * len(kept) / len(self.left), 1.0),
            target=target,
        )
        return few, Path(path.log[kept], path.negative[kept])

    def differences(self, cumulative: Array, states: Indices) -> Array:
        """Return integrals between neighbouring samples of some states, [states, samples, columns].

        `cumulative` holds integrals up to the samples, [samples, columns] or one such for every state.
        """
        full = np.broadcast_to(cumulative, (len(states), *cumulative.shape[-2:]))
        result: Array = full - full[np.arange(len(states))[:, None], self.before[states]]
        return result

    def reduced(self, cumulative: Array, states: Indices) -> Array:
        """Transform the differences to independent rows of unit variance, 0 where there is no row."""
        result = self.differences(cumulative, states)
        for e, i in enumerate(states):
            if self.row[i].any():
                rows = self.row[i]
                result[e, rows] = solve_banded((1, 0), self.factors[i], result[e, rows], check_finite=False)
        return result

    def cumulative(self, nodes: Array) -> Array:
        """Integrate values at nodes from the start to every sample, [samples, columns]."""
        return self._accumulated(self.over_intervals(nodes))

    def over_intervals(self, nodes: Array) -> Array:
        """Integrate values at nodes [intervals, nodes, ...] over every interval, [intervals, ...]."""
        found: Array = np.einsum("q,iq...->i...", WEIGHT, nodes)
        found *= self.step.reshape(-1, *[1] * (found.ndim - 1))
        return found

    def _accumulated(self, inner: Array) -> Array:
        """Sum integrals over intervals from the first one to every sample, [samples, columns]."""
        total = np.zeros((len(self.time), inner.shape[1]))
        total[self.left + 1] = inner
        result: Array = np.cumsum(total, axis=0)
        return result

    def operator(self, i: int) -> Array:
        """Matrix that turns integrals over intervals into the rows of one state, [samples, intervals]."""
        found: Array = self.reduced(self._accumulated(np.eye(len(self.left))), np.array([i]))[0]
        return found

    @cached_property
    def operators(self) -> tuple[Array, ...]:
        """`operator` of each state.

        Small laws are fitted thousands of times, and one product is many times faster than the three steps.
        Empty if the matrices would be large.
        """
        if len(self.left) * len(self.time) > 160_000:
            return ()
        return tuple(self.operator(i) for i in range(len(self.row)))

    def integrals(self, nodes: Array, states: Indices) -> Array:
        """Integrate values [intervals, nodes, columns] to rows of residuals, [states, samples, columns]."""
        if not self.operators:
            return self.reduced(self.cumulative(nodes), states)
        inner = self.over_intervals(nodes)
        return np.stack([self.operators[i] @ inner for i in states])

    def rows(self, nodes: Array, states: Indices) -> Array:
        """Integrate values of many laws to rows of residuals, [laws, states, columns, samples].

        `nodes` holds values at nodes, [laws, states, columns, nodes], or one such for all states.
        """
        laws, own, columns, _ = nodes.shape
        # Law by law: for one large product BLAS may start threads, which cost far more than they gain.
        over = (nodes.reshape(laws, own, columns, len(self.left), NODES) @ WEIGHT) * self.step
        if self.operators:
            return np.stack([over[:, e % own] @ self.operators[i].T for e, i in enumerate(states)], axis=1)
        flat = self._accumulated(over.reshape(-1, len(self.left)).T).reshape(-1, laws, own, columns)
        each = flat.transpose(2, 0, 1, 3).reshape(own, len(self.time), laws * columns)
        found = self.reduced(each, states).reshape(len(states), len(self.time), laws, columns)
        return found.transpose(2, 0, 3, 1)

    def interpolated(self) -> Path:
        """Interpolate (or smooth) the samples alone."""
        return self._path(np.zeros_like(self.values), np.zeros((len(self.left), NODES, 1)))

    def refined(self, rates: Array) -> Path:
        """Integrate a law's rates along the old path [intervals, nodes, states], and interpolate the residuals."""
        at_samples = self.cumulative(rates)
        partial = np.einsum("pq,iqc->ipc", PARTIAL, rates) * self.step[:, None, None]
        return self._path(at_samples, at_samples[self.left][:, None, :] + partial)

    def _path(self, at_samples: Array, at_nodes: Array) -> Path:
        """Add a spline through the residuals at samples to a model's path."""
        left_over = self.values - at_samples
        nodes = self.time[self.left][:, None] + self.step[:, None] * NODE
        x = np.broadcast_to(at_nodes, (*nodes.shape, self.values.shape[1])).copy()
        rough = x.copy()
        bounds = [*self.first, len(self.time)]
        for a, b in itertools.pairwise(bounds):
            inside = (self.left >= a) & (self.left < b)
            if (empty := ~np.isfinite(left_over[a:b]).any(axis=0)).any():  # use the mean of other trajectories
                left_over[a, empty] = np.nanmean(left_over[:, empty], axis=0)
            for i in range(x.shape[2] - self.given.shape[2]):
                seen = a + np.flatnonzero(np.isfinite(left_over[a:b, i]))
                fine, coarse = _splines(self.time[seen], left_over[seen, i], bool(self.smoothed[i]))
                x[inside, :, i] += fine(nodes[inside])
                rough[inside, :, i] += coarse(nodes[inside])
        driven = slice(x.shape[2] - self.given.shape[2], None)
        x[..., driven] = rough[..., driven] = self.given
        smallest = np.full(self.features.size, LEAST)
        # Within 0.3 standard deviations of zero, a noisy state does not determine its powers.
        smallest[: len(self.row)] = np.maximum(LEAST, np.where(self.smoothed, 0.3 * self.noise, 0.0))
        lower = Path.of(self.features.values(rough), self.integer, smallest)
        return Path.of(self.features.values(x), self.integer, smallest, lower)


def _neighbours(seen: Mask, first: Indices) -> tuple[Indices, Mask]:
    """Compute `Integral.before` and `Integral.row` from the mask of observed values [states, samples].

    `first` is the first sample of each sample's trajectory [samples].
    """
    own = np.arange(seen.shape[1])
    latest = np.maximum.accumulate(np.where(seen, own, -1), axis=1)
    before = np.concatenate([np.full((len(seen), 1), -1), latest[:, :-1]], axis=1)
    row = seen & (before >= first)
    return np.where(row, before, own), row


def _given(series: TimeSeries) -> Array:
    """Evaluate controls at the nodes of every interval, [intervals, nodes, controls]."""
    found = [
        np.zeros((len(t.time) - 1, NODES, 0))
        if t.controls is None
        else t.controls.at(t.time[:-1, None] + np.diff(t.time)[:, None] * NODE)
        for t in series.trajectories
    ]
    return np.concatenate(found)


def _splines(t: Array, y: Array, smoothed: bool) -> tuple[Spline, Spline]:
    """Return a spline and one of another order; if the first smooths, the other interpolates its values at samples."""
    if smoothed and len(t) >= 5:
        spline, _ = smoothing_spline(t, y, np.ones_like(t))
        return spline, of_higher_order(t, spline)
    degree = 5 if len(t) >= 6 else 3 if len(t) >= 4 else min(1, len(t) - 1)
    fine = make_interp_spline(t, y, k=degree)
    return fine, make_interp_spline(t, y, k=degree - 2) if degree > 2 else fine


def features_for(family: Family, integer: Mask, changing: Mask, size: Array) -> Features:
    """Return the inputs of a family's power layer, without sums."""
    return Features(len(integer), family.features(~integer, changing, size))


def grid_for(problem: Integral, family: Family, integer: Mask, changing: Mask) -> Terms:
    """Return the candidate terms of a family."""
    monomials = problem.interpolated().monomials
    return family.candidates(Seen(problem.features.functions, family.functions, integer, changing, monomials))


def columns_of(terms: Terms, problem: Integral, path: Path, equations: Indices) -> Array:
    """Integrate candidates and scale them to columns of norm 1, [equations, samples, candidates]."""
    return unit_columns(problem, path.monomials(terms.rows), equations)


def unit_columns(problem: Integral, nodes: Array, equations: Indices) -> Array:
    """Return integrals of values [intervals, nodes, products] as columns of norm 1, [equations, samples, products]."""
    columns = problem.integrals(nodes, equations)
    norm = column_norms(columns, axis=1, keepdims=True)
    # A larger one has a single sample that counts.
    usable = (norm > 0) & (norm < SQUARED)
    unit: Array = np.where(usable, columns / np.where(usable, norm, 1.0), 0.0)
    return unit


@dataclass(frozen=True, eq=False)
class Linear:
    """Least squares for the coefficients of all equations at once."""

    q: Array  # of the scaled columns, [equations, samples, m]
    r: Array  # of the scaled columns, [equations, m, m]
    scale: Array  # norms of the columns, [equations, m]
    coefficients: Array  # [equations, m]
    residual: Array  # target - columns @ coefficients, [equations, samples]

    def projected(self, columns: Array) -> Array:
        """Project columns [equations, samples, c] off the span of the monomials."""
        result: Array = columns - self.q @ (self.q.transpose(0, 2, 1) @ columns)
        return result


def solve(columns: Array, target: Array, used: Mask) -> Linear:
    """Minimise |target_i - columns_i a_i|^2 over the used coefficients of every equation i.

    >>> t = np.arange(4.0)
    >>> columns = np.stack([t, t**2], axis=1)[None]
    >>> fit = solve(columns, 3 * t[None] - t[None] ** 2, np.array([[True, True]]))
    >>> fit.coefficients.round(6).tolist()
    [[3.0, -1.0]]
    """
    n, samples, m = columns.shape
    unit = np.eye(m)
    q, r, scale = np.zeros(columns.shape), np.empty((n, m, m)), np.ones((n, m))
    r[:] = unit
    coefficients, residual = np.zeros((n, m)), target.copy()
    for e in range(n):
        of = np.flatnonzero(used[e])
        k = len(of)
        if not k:
            continue
        own = columns[e] if k == m else columns[e][:, of]
        size = np.sqrt(np.einsum("tk,tk->k", own, own))
        size[~(size > 0)] = 1.0
        # LAPACK is called directly: for such small systems, numpy's checks would take most of the time.
        stacked = np.concatenate([own / size, RIDGE * unit[:k, :k]])
        reflected, tau, _, _ = dgeqrf(stacked)
        thin = dorgqr(reflected, tau)[0][:samples]
        a = dtrtrs(reflected[:k], thin.T @ target[e])[0]
        residual[e] -= stacked[:samples] @ a
        q[e, :, of], r[e, of[:, None], of] = thin.T, np.triu(reflected[:k])
        scale[e, of], coefficients[e, of] = size, a / size
    return Linear(q, r, scale, coefficients, residual)


@dataclass(frozen=True, eq=False)
class Draft:
    """A law of some equations before its coefficients are solved for, on its own path."""

    exponents: Array  # W, [monomials, features], sums last
    used: Mask  # which coefficients are free, [equations, monomials]; the others are 0
    powers: Mask  # which exponents are fitted or whole numbers other than 0, [monomials, features]
    sums: Sums  # the sums among the features
    path: Path  # the states between the samples

    @cached_property
    def seen(self) -> Path:
        """The path with the sums as further features."""
        return self.path.with_sums(self.sums)

    def along(self, path: Path) -> Draft:
        """Return the same law on another path."""
        return Draft(self.exponents, self.used, self.powers, self.sums, path)


@dataclass(frozen=True, eq=False)
class Projected(Draft):
    """A law with the best coefficients."""

    coefficients: Array  # A, [equations, monomials]
    squares: Array  # mean square residual of every equation, [equations]
    score: float  # the minimised likelihood

    @property
    def size(self) -> int:
        """Number of constants."""
        inner = np.count_nonzero(self.sums.weights) + np.count_nonzero(self.sums.exponents)
        return int(self.used.sum() + self.powers.sum() + inner)

    @property
    def structure(self) -> tuple[frozenset[tuple[bytes, bytes]], bytes]:
        """Key of which monomials appear in which equations, with which features and whole exponents."""
        whole = self.exponents == np.round(self.exponents)
        # One number stands for all that are not whole.
        kinds = np.where(whole, self.exponents, 0.25)
        terms = ((used.tobytes(), kind.tobytes()) for used, kind in zip(self.used.T, kinds, strict=True))
        return frozenset(terms), np.round(self.sums.exponents).tobytes()


# Difference of exponents up to which equations share a monomial, and relative difference of the constants of sums.
SHARED = 0.05


def with_sum(sums: Sums, own: Sums, factor: float) -> tuple[Sums, int]:
    """Append a sum unless it is present up to constants within a factor; return the sums and its index."""
    place = sums.alike(own, factor)
    return (sums.and_also(own), len(sums)) if place is None else (sums, place)


def exp_features(problem: Integral) -> Indices:
    """Return the indices of features that are exponential functions."""
    return len(problem.row) + np.flatnonzero([f.kind.power_is_rate for f in problem.features.functions])


@dataclass(frozen=True, eq=False)
class Fit:
    """The likelihood of laws for some equations."""

    problem: Integral
    equations: Indices  # the states whose equations are sought
    counts: Array  # residuals of every equation
    floor: Array  # mean squares of every equation that no law explains
    criteria: dict[Projected, float] = field(default_factory=dict, repr=False)  # of laws whose criterion was asked for

    def of(self, i: int) -> Fit:
        """The likelihood of laws for equation i alone."""
        return Fit(self.problem, self.equations[[i]], self.counts[[i]], self.floor[[i]])

    @property
    def target(self) -> Array:
        """Left-hand sides, [equations, samples]."""
        return self.problem.target[self.equations]

    def criterion(self, model: Projected) -> float:
        """Compute the information criterion, with the prices of constants by which laws are judged (lower is better).

        A coefficient far above 1 belongs to terms that cancel, and needs more digits than others.
        """
        if model not in self.criteria:
            self.criteria[model] = float(model.score + self._price(model))
        return self.criteria[model]

    def _price(self, model: Projected) -> float:
        digits = 2.0 * np.log(np.maximum(np.abs(model.coefficients) / LARGE, 1.0)).sum()
        features, sums = self.problem.features, model.sums
        whole = np.concatenate([self.problem.integer, np.ones(len(sums), dtype=bool)])
        # Powers that are nearly simple will be set to it.
        simple = SIMPLE_POWERS[np.abs(model.exponents[..., None] - SIMPLE_POWERS).argmin(axis=2)]
        nearly = (np.abs(model.exponents - simple) < NEARLY) & (np.arange(len(whole)) < features.states)
        free = model.used, model.powers & ~whole & ~nearly, sums.weights != 0, self.real_inside(sums)
        w = np.where(nearly, simple, model.exponents)
        charged = price(w, sums.exponents, free, features.states, features.functions, float(self.counts.sum()))
        return charged + float(digits)

    def exact(self, model: Projected) -> bool:
        """Whether the residuals of every equation are below the floor, or explained by noise.

        Noise explains them if it is expected to dominate, they are no larger than expected, and neighbours
        are not significantly correlated.
        """
        left = ~(model.squares < self.floor)
        if not left.any():
            return True
        # The mean square of pure noise, within three standard deviations.
        expected = 1.0 + 3.0 * np.sqrt(2.0 / self.counts)
        noise = self.problem.noisy[self.equations] & (model.squares <= expected)
        if not noise[left].all():
            return False
        e = self.linear(model).residual
        rows = self.problem.row[self.equations].sum(axis=1)
        r = (e[:, 1:] * e[:, :-1]).sum(axis=1) / np.maximum((e**2).sum(axis=1), ABOVE_ZERO)
        # Two standard deviations of the correlation of independent residuals: the usual 95 %.
        return bool((r < 2.0 / np.sqrt(rows))[left].all())

    def linear(self, law: Draft) -> Linear:
        """Solve least squares for a law's coefficients."""
        columns = self.problem.integrals(law.seen.monomials(law.exponents), self.equations)
        return solve(columns, self.target, law.used)

    def model(self, law: Draft) -> Projected:
        """Return the law with the best coefficients."""
        check_time()
        linear = self.linear(law)
        squares = np.sum(linear.residual**2, axis=1) / self.counts
        score = float(np.sum(self.counts * np.log(squares + self.floor)))
        return Projected(law.exponents, law.used, law.powers, law.sums, law.path, linear.coefficients, squares, score)

    def rates_of(self, model: Projected) -> Array:
        """Evaluate the rates of all states at the nodes of the model's path; other equations are zero."""
        rates: Array = model.seen.monomials(model.exponents) @ self._of_all_states(model).T
        return rates

    def law(self, model: Projected) -> PowerSum:
        """Return the model as a law of all states; other equations are zero."""
        features = Features(len(self.problem.row), self.problem.features.functions, model.sums)
        return PowerSum(self._of_all_states(model), model.exponents, features).compact()

    def _of_all_states(self, model: Projected) -> Array:
        coefficients = np.zeros((len(self.problem.row), len(model.exponents)))
        coefficients[self.equations] = model.coefficients
        return coefficients

    def real_inside(self, sums: Sums) -> Mask:
        """Mask the exponents inside sums that are fitted: rates, and powers of states that begin between whole ones."""
        v, n = sums.exponents, self.problem.features.states
        between = (v != np.round(v)) | (np.arange(v.shape[1]) >= n)
        found: Mask = (v != 0) & between & self.problem.real_inside[: v.shape[1]]
        return found

    def places(self, model: Draft) -> tuple[Places, Places, Places]:
        """Return the places of the free constants in W, B and V; whole exponents are fixed."""
        inside = np.argwhere(self.real_inside(model.sums))
        whole = np.concatenate([self.problem.integer, np.ones(len(model.sums), dtype=bool)])
        return np.argwhere(model.powers & ~whole), np.argwhere(model.sums.weights), inside


@dataclass(frozen=True, eq=False)
class Product:
    """prod_k x_k ** row[k] prod_l u_l ** power[l] with sums u."""

    row: Array  # [states and functions]
    sums: Sums = NO_SUMS
    power: Array = field(default_factory=lambda: np.zeros(0))  # [sums]

    @classmethod
    def of(cls, shape: Shape, width: int) -> Product:
        """The product of a shape beside further functions, up to `width` states and functions."""
        row, inside = (np.pad(rows, ((0, 0), (0, width - rows.shape[1]))) for rows in (shape.row[None], shape.inside))
        sums = Sums(shape.weights, inside) if len(shape.power) else NO_SUMS
        return cls(row[0], sums, shape.power)

    @cached_property
    def key(self) -> tuple[bytes, ...]:
        """The same for equal products."""
        return tuple((part + 0.0).tobytes() for part in (self.row, self.sums.exponents, self.sums.weights, self.power))

    @cached_property
    def kind(self) -> tuple[bytes, ...]:
        """The same for products that differ in the values of their constants alone."""

        def kind(rows: Array) -> bytes:
            return (np.where(rows == np.round(rows), rows, 0.25 * np.sign(rows)) + 0.0).tobytes()

        return kind(self.row), kind(self.sums.exponents), (self.sums.weights != 0.0).tobytes(), self.power.tobytes()

    def values(self, path: Path) -> Array:
        """Its values at the nodes of a path."""
        found: Array = path.monomials(self.row[None])[..., 0]
        if len(self.sums):
            u = 1.0 + path.monomials(self.sums.exponents) @ self.sums.weights.T
            found = found * np.prod(np.maximum(u, LEAST) ** self.power, axis=-1)
        return found

    def slopes(self, path: Path, fitted: Callable[[Array], Mask]) -> list[Array]:
        """Derivatives of its values by its constants: exponents, weights in sums, exponents there.

        Args:
            path: where.
            fitted: exponents [rows, features] -> which of them are constants.
        """
        m = self.values(path)
        found = [m * path.log[..., k] for k in np.flatnonzero(fitted(self.row))]
        if len(self.sums):
            z = path.monomials(self.sums.exponents)
            each = m[..., None] * self.power / np.maximum(1.0 + z @ self.sums.weights.T, LEAST)
            found += [each[..., k] * z[..., j] for k, j in np.argwhere(self.sums.weights)]
            for j, k in np.argwhere(fitted(self.sums.exponents)):
                found.append((each * self.sums.weights[:, j]).sum(axis=-1) * z[..., j] * path.log[..., k])
        return found

    def moved(self, steps: Sequence[float], fitted: Callable[[Array], Mask], rates: Mask) -> Product:
        """The product with constants changed by steps, in the order of `slopes`, none by far; `rates` [features]."""
        left, row = list(steps), self.row.copy()
        for k in np.flatnonzero(fitted(row)):
            most = RATE_STEP if rates[k] else EXPONENT_STEP
            row[k] += np.clip(left.pop(0), -most, most)
        if not len(self.sums):
            return Product(row)
        b, v = self.sums.weights.copy(), self.sums.exponents.copy()
        for k, j in np.argwhere(b):
            b[k, j] *= np.clip(1.0 + left.pop(0) / b[k, j], *WEIGHT_SHARES)
        for j, k in np.argwhere(fitted(v)):
            v[j, k] += abs(v[j, k]) * np.clip(left.pop(0) / abs(v[j, k]), *INNER_SHARES)
        return Product(row, Sums(b, v), self.power)

    def simpler(self, states: int) -> list[Product]:
        """The product without each of its sums, its functions, and the 1 or all but the 1 of a sum 1 + b z."""
        found = list[Product]()
        for k in range(len(self.sums)):
            left = np.delete(np.arange(len(self.sums)), k)
            sums = self.sums.select(left) if len(left) else NO_SUMS
            inside = self.sums.select(np.array([k])).exponents
            rows = [self.row, *(self.row + self.power[k] * z for z in inside)]
            found += [Product(row, sums, self.power[left]) for row in rows]
            products = np.flatnonzero(self.sums.weights[k]).tolist()
            found += [self._without_one(k, j) for j in products if len(products) > 1]
        of_functions = np.flatnonzero(self.row[states:]) + states
        without = (np.where(np.arange(len(self.row)) == k, 0.0, self.row) for k in of_functions)
        found += [Product(row, self.sums, self.power) for row in without]
        return found

    def _without_one(self, k: int, j: int) -> Product:
        """The product with z (1 + (c/b) y/z) for the sum 1 + b z + c y."""
        b, v, z = self.sums.weights[k], self.sums.exponents, self.sums.exponents[j]
        others = np.flatnonzero(b * (np.arange(len(b)) != j))
        weights = np.pad(np.delete(self.sums.weights, k, axis=0), ((0, 1), (0, len(others))))
        weights[-1, len(b) :] = b[others] / b[j]
        used = weights.any(axis=0)
        sums = Sums(weights[:, used], np.vstack([v, v[others] - z])[used])
        return Product(self.row + self.power[k] * z, sums, np.append(np.delete(self.power, k), self.power[k]))

    def neighbours(self, states: int) -> list[Product]:
        """This product, and it times and over states and what its sums contain.

        What a prey loses, each predator may lose or gain; m / (1 + b z) and m z / (1 + b z) differ by a multiple of m.
        """
        factors = np.vstack([np.eye(states, len(self.row)), *([self.sums.exponents] if len(self.sums) else [])])
        rows = (self.row, *(self.row + z for z in (*factors, *-factors)))
        return [Product(row, self.sums, self.power) for row in rows]

    def added_to(self, model: Draft, equations: Mask | None = None) -> Draft:
        """The law with this product as a further monomial of these equations (default: all)."""
        sums, places, first = model.sums, list[int](), len(self.row)
        for k in range(len(self.sums)):
            sums, place = with_sum(sums, self.sums.select(np.array([k])), 1.0 + SHARED)
            places.append(first + place)
        w = np.zeros((len(model.exponents) + 1, first + len(sums)))
        w[:-1, : model.exponents.shape[1]] = model.exponents
        w[-1, :first], w[-1, places] = self.row, self.power
        own = np.ones(len(model.used), dtype=bool) if equations is None else equations
        return Draft(w, np.column_stack([model.used, own]), w != 0, sums, model.path)


def made_of(products: Sequence[Product], start: Draft) -> Draft:
    """A law with these products as further monomials."""
    return functools.reduce(lambda law, product: product.added_to(law), products, start)


def products_of(exponents: Array, sums: Sums) -> list[Product]:
    """The monomials of a law with exponents [monomials, states, functions and sums]."""
    first, found = exponents.shape[1] - len(sums), list[Product]()
    for row in exponents:
        of = np.flatnonzero(row[first:])
        found.append(Product(row[:first], sums.select(of) if len(of) else NO_SUMS, row[first + of]))
    return found
