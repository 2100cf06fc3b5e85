"""The integral form of a law on the path through samples, and the products that laws are made of.

Increments of the states equal integrals of their right-hand sides:

    x_i(t_b) - x_i(t_a) = sum_j A[i, j] * integral_a^b prod_k x_k(t) ** W[j, k] dt

The path x(t) between the samples is interpolated (smoothed in noise), and integrals are computed by
Gauss quadrature in every sample interval. Given the exponents W, the coefficients A are then linear;
no ODE is solved and nothing is differentiated. A law can refine the path: integrate its rates along
the old path, and interpolate (or smooth) only the residuals. For the right law these are small, and
so is the interpolation error.

A law is made of `Product`s: what it adds up, with the constants that may be fitted.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.polynomial import polynomial as poly
from scipy.interpolate import make_interp_spline
from scipy.linalg import cholesky_banded, solve_banded

from odediscovery.data.noise import CLEAN_SHARE, of_higher_order, smoothing_spline
from odediscovery.data.series import TimeSeries
from odediscovery.families import Shape
from odediscovery.laws.power_sum import NO_SUMS, Features, PowerSum, Sums
from odediscovery.runtime.arrays import Array, Indices, Mask

Spline = Callable[[Array], Array]

# Gauss nodes of every sample interval.
NODES = 8
# Lower bound of states and sums in powers and logarithms [rms of the state].
LEAST = 1e-9
# Logarithm of the largest power.
MOST_LOG = 200.0
# Most that a step of Gauss-Newton changes a constant: an exponent of a state, a rate, and shares of weights in sums and
# of exponents there. Half a power would end at a whole one, which is fixed.
EXPONENT_STEP, RATE_STEP, WEIGHT_SHARES, INNER_SHARES = 0.4, 1.0, (0.3, 3.0), (-0.4, 0.6)


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(NODES)
# Gauss nodes and weights of an interval of length 1.
NODE, WEIGHT = (_NODES + 1) / 2, _WEIGHTS / 2
# Matrices that turn values at the nodes into integrals up to each node, and into derivatives there, as for polynomials.
_DEGREE, _MONOMIALS = np.arange(NODES), poly.polyvander(NODE, NODES - 1).T
PARTIAL = np.linalg.solve(_MONOMIALS, (NODE[:, None] ** (_DEGREE + 1) / (_DEGREE + 1)).T).T
SLOPE = np.linalg.solve(_MONOMIALS, (_DEGREE * NODE[:, None] ** np.maximum(_DEGREE - 1, 0)).T).T


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
    given: Array  # controls, the last states, at the nodes of every interval, [intervals, nodes, given]
    # Cholesky factors of the covariance of each state's rows, two diagonals.
    factors: tuple[Array, ...]
    counts: Array  # number of residuals of every state, uncertain ones counted in part, [states]
    target: Array  # observed states, transformed by `_reduced`, [states, samples]

    @classmethod
    def of(cls, series: TimeSeries, noise: Array, integer: Mask, features: Features) -> Integral:
        """Build from a dimensionless series; `integer` masks states with whole exponents only [states]."""
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
            _given(series),
            factors=(),
            counts=np.zeros(len(row)),
            target=np.zeros(row.shape),
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
        observed, factors, counts = np.where(np.isfinite(self.values), self.values, 0.0), [], np.zeros(len(self.row))
        for i, rows in enumerate(self.row):
            e, increments = error[i, rows], self._differences(i, observed[:, [i]])[rows, 0]
            # Relative errors below 1e-6 are negligible.
            usual = max(float(np.median(e)) if len(e) else 0.0, 1e-6)
            size = max(float(np.sqrt(np.mean(increments**2))) if len(e) else 0.0, LEAST)
            noise, least = self.noise[i] ** 2, usual
            if self.smoothed[i]:  # smaller errors are noise
                usual, least = max(usual, self.noise[i] / size), 0.0
            own = ((least + e**2 / usual) * size) ** 2
            band = np.zeros((2, len(e)))
            band[0] = own + 2 * noise
            where = np.flatnonzero(rows)
            band[1, :-1] = np.where(self.before[i, where[1:]] == where[:-1], -noise, 0.0)
            factors.append(cholesky_banded(band, lower=True) if len(e) else band)
            counts[i] = max(np.sum((least**2 * size**2 + noise) / (own + noise)), 1.0)
        changed = replace(self, counts=counts, factors=tuple(factors))
        targets = [changed._reduced(i, observed[:, [i]])[:, 0] for i in range(len(self.row))]
        return replace(changed, target=np.stack(targets))

    def weighted(self, path: Path, exponents: Array) -> Integral:
        """Weight rows down where interpolations of different order give different integrals.

        The error is the median relative difference over many monomials: near a singular
        start it is thousands of times larger than elsewhere.
        """
        fine, coarse = (self.cumulative(x.monomials(exponents)) for x in (path, path.coarse or path))
        error = []
        for i in range(len(self.row)):
            own = self._differences(i, fine)
            size = np.sqrt(np.mean(own**2, axis=0))
            change = np.abs(self._differences(i, coarse) - own)
            error.append(np.median(change / np.where(size > 0, size, 1.0), axis=1))
        return self._whitened(np.stack(error))

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

    def _differences(self, i: int, cumulative: Array) -> Array:
        """Integrals between neighbouring samples of a state, from those up to the samples [samples, columns]."""
        found: Array = cumulative - cumulative[self.before[i]]
        return found

    def _reduced(self, i: int, cumulative: Array) -> Array:
        """Transform the differences to independent rows of unit variance, 0 where there is no row."""
        result, rows = self._differences(i, cumulative), self.row[i]
        if rows.any():
            result[rows] = solve_banded((1, 0), self.factors[i], result[rows], check_finite=False)
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
        return self._reduced(i, self._accumulated(np.eye(len(self.left))))

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


# Relative difference of the constants of sums that are one.
SHARED = 0.05


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
        """The product without each sum and function, and without the 1, each z or all of them of a sum 1 + b z + ..."""
        found = list[Product]()
        for k in range(len(self.sums)):
            left = np.delete(np.arange(len(self.sums)), k)
            sums = self.sums.select(left) if len(left) else NO_SUMS
            inside = self.sums.select(np.array([k])).exponents
            rows = [self.row, *(self.row + self.power[k] * z for z in inside)]
            found += [Product(row, sums, self.power[left]) for row in rows]
            products = np.flatnonzero(self.sums.weights[k]).tolist()
            if len(products) > 1:
                found += [way(k, j) for j in products for way in (self._without_one, self._without_product)]
        of_functions = np.flatnonzero(self.row[states:]) + states
        without = (np.where(np.arange(len(self.row)) == k, 0.0, self.row) for k in of_functions)
        found += [Product(row, self.sums, self.power) for row in without]
        return found

    def _without_product(self, k: int, j: int) -> Product:
        """The product whose sum k lacks product j."""
        weights = self.sums.weights.copy()
        weights[k, j] = 0.0
        used = weights.any(axis=0)
        return Product(self.row, Sums(weights[:, used], self.sums.exponents[used]), self.power)

    def _without_one(self, k: int, j: int) -> Product:
        """The product with z (1 + (c/b) y/z) for the sum 1 + b z + c y."""
        b, v, z = self.sums.weights[k], self.sums.exponents, self.sums.exponents[j]
        others = np.flatnonzero(b * (np.arange(len(b)) != j))
        weights = np.pad(np.delete(self.sums.weights, k, axis=0), ((0, 1), (0, len(others))))
        weights[-1, len(b) :] = b[others] / b[j]
        used = weights.any(axis=0)
        sums = Sums(weights[:, used], np.vstack([v, v[others] - z])[used])
        return Product(self.row + self.power[k] * z, sums, np.append(np.delete(self.power, k), self.power[k]))


def law_of(products: Sequence[Product], coefficients: Array, features: Features) -> PowerSum:
    """The law with these coefficients [states, products]; sums with nearly the same constants become one."""
    sums, places = NO_SUMS, list[list[int]]()
    for t in products:
        at = list[int]()
        for k in range(len(t.sums)):
            own = t.sums.select(np.array([k]))
            place = sums.alike(own, 1.0 + SHARED)
            at.append(len(sums) if place is None else place)
            sums = sums.and_also(own) if place is None else sums
        places.append(at)
    w = np.zeros((len(products), features.simple + len(sums)))
    for row, t, at in zip(w, products, places, strict=True):
        row[: features.simple] = t.row
        np.add.at(row, features.simple + np.array(at, dtype=int), t.power)
    return PowerSum(coefficients, w, Features(features.states, features.functions, sums)).merged().compact()


def products_of(exponents: Array, sums: Sums) -> list[Product]:
    """The monomials of a law with exponents [monomials, states, functions and sums]."""
    first, found = exponents.shape[1] - len(sums), list[Product]()
    for row in exponents:
        of = np.flatnonzero(row[first:])
        found.append(Product(row[:first], sums.select(of) if len(of) else NO_SUMS, row[first + of]))
    return found
