r"""Forms with named constants, integrated for many sets of constants side by side.

    residual = (x(t; c, x_0) - data) / sigma

by the classical Runge-Kutta method on steps that are shared by all sets: one integration gives the
residuals and, by differences, their derivatives with respect to every constant and start. Where samples
are dense a step spans several of them, and a cubic through the states and rates at its ends
gives those between, as accurately as the step itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, least_squares

from odediscovery.data.series import TimeSeries
from odediscovery.ivp.rk4 import rk4_step
from odediscovery.laws.equations import as_function
from odediscovery.laws.forms import Form
from odediscovery.runtime.arrays import ABOVE_ZERO, Array
from odediscovery.runtime.thresholds import Thresholds, threshold


@dataclass(frozen=True)
class ShootingThresholds(Thresholds):
    """How accurately forms are integrated, and when their fit ends."""

    accuracy: float = threshold(1e-4, "difference that half the step may make", unit="spread of a state")
    of_noise: float = threshold(
        0.1, "difference that half the step may make in noise", unit="standard error of a mean of all samples"
    )
    most_steps: int = threshold(16, "most steps between two samples", origin="cost: bounds the time")
    fewest: int = threshold(16, "fewest steps of a trajectory", origin="a cubic for each tells a turn")
    near: float = threshold(
        10.0,
        "where a solution is farther from the data its accuracy does not count",
        unit="spread of a state",
        origin="a law that leads there is wrong, or its constants are",
    )
    lost_share: float = threshold(0.3, "a solution that is far from more samples is not refined", origin="cost")
    evaluations: int = threshold(40, "most evaluations of the derivatives in a fit", origin="cost: bounds the time")
    work: int = threshold(
        6_000, "steps of all evaluations of a fit together, beyond the fewest", origin="cost: 0.5 s of plain laws"
    )
    fewest_evaluations: int = threshold(5, "evaluations that a fit may take whatever a solution costs", origin="cost")
    lost: float = threshold(1e3, "residual where a solution has ended", unit="spread of a state")
    step: float = threshold(1e-6, "step of a derivative", unit="the constant", origin="root of the rounding error")
    tolerance: float = threshold(1e-8, "change of constants that ends a fit", unit="relative")
    gained: float = threshold(
        1e-6, "change of squares that ends a fit", unit="relative", origin="of 1000 samples 0.001 of the criterion"
    )
    roughly: float = threshold(
        1e-3, "the same for a fit that only tells how large the noise of every state is", unit="relative"
    )
    starting: int = threshold(15, "most evaluations for the starts alone", origin="cost: they need not be exact")


SHOOTING = ShootingThresholds()

# (states [states, ...], constants, one array each) -> rates, a list of one array a state.
Rates = Callable[[Array, Sequence[Array]], Sequence[Array]]


def rates_of(form: Form) -> Rates:
    """The right-hand sides of a form as numbers, for any shape of states and constants."""
    sides = _sides(form.states, tuple(form.texts.items()), form.names)
    return lambda x, c: sides(*x, *c)


@lru_cache(maxsize=500)
def _sides(
    states: tuple[str, ...], texts: tuple[tuple[str, str], ...], names: tuple[str, ...]
) -> Callable[..., list[Array]]:
    """Kept: the same laws are fitted again and again."""
    opened = Form(states, (), dict(texts), names, (None,) * len(names)).open()
    return as_function(opened.right_hand_sides, opened.symbols)


def _rates(rates: Rates, constants: Sequence[Array], _: float, x: Array) -> Array:
    found = np.empty_like(x)
    for row, rate in zip(found, rates(x, constants), strict=True):
        row[...] = rate
    return found


class Shooting:
    """The least squares problem of forms on one series.

    Args:
        series: trajectories, nan where nothing was measured.
        begun: first states [trajectories, states].
        sigma: standard deviation of every sample, [samples, states] a trajectory.
        noise: of the states, as estimated [states]; what integration errs by may be a small part of it.
    """

    def __init__(self, series: TimeSeries, begun: Array, sigma: Sequence[Array], noise: Array | float = 0.0) -> None:
        runs = series.trajectories
        self.series, self.begun, self.sigmas, self.n = series, begun, sigma, series.n_states
        longest = max(len(run.time) for run in runs)
        # Shorter trajectories stay where they end: steps of length 0.
        times = np.stack([np.pad(run.time, (0, longest - len(run.time)), mode="edge") for run in runs])
        self.times = times.T
        wide = partial(np.pad, constant_values=np.nan)
        # [samples, states, trajectories]
        self.values, self.sigma = (
            np.stack([wide(v, ((0, longest - len(v)), (0, 0))) for v in blocks], axis=2)
            for blocks in ([run.values for run in runs], sigma)
        )
        self.seen = np.isfinite(self.values) & np.isfinite(self.sigma)
        self.recorded = [run.recorded for run in runs]
        self.values = self.observed(self.values)
        self.known = np.stack([run.known_start for run in runs]).T
        spread = np.nanstd(np.concatenate([run.values for run in runs]), axis=0)
        self.spread = np.where(spread > 0, spread, 1.0)
        errors = noise / np.sqrt(self.seen.sum(axis=(0, 2)).clip(1))
        self.accuracy = np.maximum(SHOOTING.accuracy * self.spread, SHOOTING.of_noise * errors)

    def curves(self, rates: Rates, constants: Array, starts: Array, steps: float) -> Array:
        """Solutions [samples, states, trajectories, sets].

        Args:
            rates: of the form.
            constants: [constants, sets].
            starts: [states, trajectories, sets].
            steps: between two samples; 0.25 for one that spans four.
        """
        stride = max(round(1 / steps), 1)
        nodes = np.unique(np.append(np.arange(0, len(self.times), stride), len(self.times) - 1))
        x, path, slopes = starts, [starts], []
        with np.errstate(all="ignore"):
            for j, h in zip(nodes, np.diff(self.times[nodes], axis=0), strict=False):
                rhs = partial(_rates, rates, tuple(self.constants_in(int(j), constants)))
                if stride > 1:
                    slopes.append(rhs(0.0, x))
                for _ in range(max(round(steps), 1)):
                    x = rk4_step(rhs, x, h[:, None] / max(steps, 1))
                path.append(x)
                if not np.isfinite(x).any():
                    break
            path += [x] * (len(nodes) - len(path))
            if stride == 1:
                return np.stack(path)
            slopes += [_rates(rates, tuple(self.constants_in(len(self.times) - 2, constants)), 0.0, x)]
            slopes += slopes[-1:] * (len(nodes) - len(slopes))
            return self._between(nodes, np.stack(path), np.stack(slopes))

    def _between(self, nodes: NDArray[np.int64], x: Array, slopes: Array) -> Array:
        """States at all samples from those at nodes and their rates: cubic Hermite interpolation."""
        at = np.clip(np.searchsorted(nodes, np.arange(len(self.times)), side="right") - 1, 0, len(nodes) - 2)
        h = (self.times[nodes[at + 1]] - self.times[nodes[at]])[:, None, :, None]
        s = (self.times - self.times[nodes[at]])[:, None, :, None] / np.where(h > 0, h, 1.0)
        left, right = x[at], x[at + 1]
        bend = s * (1 - s) * h * ((1 - s) * slopes[at] - s * slopes[at + 1])
        found: Array = left + s**2 * (3 - 2 * s) * (right - left) + bend
        return found

    def constants_in(self, j: int, constants: Array) -> Array:
        """The constants of the form in interval j, [constants, trajectories or 1, sets]."""
        return constants[:, None, :]

    def observed(self, x: Array) -> Array:
        """What was recorded of curves or data [samples, states, trajectories, ...]: themselves, increments, limits."""
        if not any(self.recorded):
            return x
        found = x.copy()
        for r, recorded in enumerate(self.recorded):
            if recorded is not None:
                rows = len(recorded.seen)
                found[:rows, :, r] = recorded.observed(x[:rows, :, r])
        return found

    def unpacked(self, theta: Array, k: int) -> tuple[Array, Array]:
        """Constants [constants] and starts [states, trajectories] of unknowns [unknowns]."""
        starts = theta[k:].reshape(len(self.begun), self.n).T
        return theta[:k], np.where(np.isfinite(self.known), self.known, starts)

    def left(self, rates: Rates, k: int, theta: Array, steps: float) -> Array:
        """Curve - data [samples, states, trajectories]; far off where the solution ended."""
        constants, starts = self.unpacked(theta, k)
        curve = self.curves(rates, constants[:, None], starts[:, :, None], steps)[..., 0]
        return self._left(self.observed(curve))

    def _left(self, curve: Array) -> Array:
        far = SHOOTING.lost * self.spread[:, None]
        left = np.clip(np.nan_to_num(curve - self.values, nan=SHOOTING.lost, posinf=np.inf, neginf=-np.inf), -far, far)
        return np.where(np.isfinite(curve), left, far)

    def enough_steps(self, rates: Rates, k: int, theta: Array) -> float:
        """Steps between samples that halving hardly changes; less than 1 where one may span several."""
        steps = self.fewest_steps()
        before = self.left(rates, k, theta, steps)
        while steps < SHOOTING.most_steps:
            now = self.left(rates, k, theta, 2 * steps)
            wide, exact = (np.broadcast_to(v[:, None], now.shape)[self.seen] for v in (self.spread, self.accuracy))
            off, far = np.abs(now - before)[self.seen] / exact, np.abs(now)[self.seen] > SHOOTING.near * wide
            # Steps that are too long lead astray by themselves.
            if steps < 1 and far.any():
                steps, before = 1.0, self.left(rates, k, theta, 1.0)
                continue
            if far.mean() > SHOOTING.lost_share or off[~far].max(initial=0.0) < 1.0:
                break
            steps, before = 2 * steps, now
        return steps

    def fewest_steps(self) -> float:
        """The longest steps that are tried."""
        return 0.5 ** max(int(np.log2(max(len(self.times) - 1, 1) / SHOOTING.fewest)), 0)

    def size(self, theta: Array, k: int) -> Array:
        """The order of magnitude of constants and starts, also of those that are nearly 0."""
        typical = np.append(
            np.full(k, np.median(np.abs(theta[:k])) if k else 1.0), np.tile(self.spread, len(self.begun))
        )
        size: Array = np.maximum(np.abs(theta), 1e-3 * typical + ABOVE_ZERO)
        return size

    def linearised(
        self, rates: Rates, k: int, theta: Array, sigma: Array, steps: float, *, central: bool = False
    ) -> tuple[Array, Array]:
        """Weighted residuals [values] and their derivatives [values, unknowns], of one integration."""
        constants, starts = self.unpacked(theta, k)
        n, runs = self.n, len(self.begun)
        size = self.size(theta, k) * (1e2 if central else 1.0)
        of_constants = SHOOTING.step * size[:k]
        of_starts = SHOOTING.step * size[k:].reshape(runs, n).T
        signs = (1.0, -1.0) if central else (1.0,)
        # A start moves its own trajectory only: those of one state are moved side by side.
        sets_c = [constants] + [constants + s * row for s in signs for row in np.diag(of_constants)]
        sets_x = [starts] + [starts] * (k * len(signs))
        for s in signs:
            for i in range(n):
                sets_c.append(constants)
                sets_x.append(starts + s * of_starts * ((np.arange(n) == i)[:, None] & ~np.isfinite(self.known)))
        curve = self.observed(self.curves(rates, np.stack(sets_c, axis=1), np.stack(sets_x, axis=2), steps))
        here, moved = curve[..., :1], curve[..., 1:]
        split = k * len(signs)
        by_c, by_x = moved[..., :split], moved[..., split:]
        if central:
            by_c, by_x = 0.5 * (by_c[..., :k] - by_c[..., k:]), 0.5 * (by_x[..., :n] - by_x[..., n:])
        else:
            with np.errstate(invalid="ignore"):
                by_c, by_x = by_c - here, by_x - here
        weight = np.where(self.seen, 1.0 / sigma, 0.0)
        columns = [(by_c[..., j] / of_constants[j] * weight)[self.seen] for j in range(k)]
        for r in range(runs):
            for i in range(n):
                own = np.zeros_like(self.values)
                own[:, :, r] = by_x[:, :, r, i] / of_starts[i, r] * weight[:, :, r]
                columns.append(own[self.seen])
        slopes: Array = np.nan_to_num(np.stack(columns, axis=1), posinf=0.0, neginf=0.0)
        return (self._left(here[..., 0]) / sigma)[self.seen], slopes

    def nearest_starts(self, rates: Rates, constants: Array, sigma: Array) -> Array:
        """First states with which constants that stay as they are follow the data best [trajectories, states].

        A first sample near 0 is mostly noise, and growth from it ends far from the data: were all unknowns fitted at
        once from there, the constants would be bent until the curve meets a part of them.

        Args:
            sigma: of every sample [samples, states, trajectories].
        """
        k, shape = len(constants), self.begun.shape
        steps = self.enough_steps(rates, k, np.concatenate([constants, self.begun.ravel()]))

        def evaluate(starts: Array) -> tuple[Array, Array]:
            left, slopes = self.linearised(rates, k, np.concatenate([constants, starts]), sigma, steps)
            return left, slopes[:, k:]

        most = min(SHOOTING.starting, self._affordable(steps))
        found = _least_squares(evaluate, self.begun.ravel(), most, SHOOTING.gained)
        starts: Array = found.x.reshape(shape)
        return starts

    def _affordable(self, steps: float) -> int:
        """Evaluations that a fit may take: each is one solution with its derivatives."""
        return max(int(SHOOTING.work / (steps * len(self.times))), SHOOTING.fewest_evaluations)

    def fitted(
        self,
        rates: Rates,
        constants: Array,
        sigma: Array,
        most: int,
        starts: Array | None = None,
        gained: float | None = None,
    ) -> OptimizeResult:
        """The least squares fit from some constants; where a solution ends it counts as far off (`lost`).

        Args:
            sigma: of every sample [samples, states, trajectories].
            most: evaluations of the derivatives.
            starts: [trajectories, states] to begin from.
            gained: relative change of the squares that ends it (default: `SHOOTING.gained`).

        Returns:
            scipy's, with `steps` beside it.
        """
        k = len(constants)
        theta = np.concatenate([constants, (self.begun if starts is None else starts).ravel()])
        steps = self.enough_steps(rates, k, theta)
        most = min(most, self._affordable(steps))

        def evaluate(at: Array) -> tuple[Array, Array]:
            return self.linearised(rates, k, at, sigma, steps)

        found = _least_squares(evaluate, theta, most, SHOOTING.gained if gained is None else gained)
        found.steps = steps
        return found


def _least_squares(
    evaluate: Callable[[Array], tuple[Array, Array]], begun: Array, most: int, gained: float
) -> OptimizeResult:
    """Unknowns at the minimum, by scipy's trust-region method.

    Args:
        evaluate: unknowns -> weighted residuals and their derivatives.
        begun: unknowns to begin from.
        most: evaluations.
        gained: relative change of the squares that ends it.
    """

    @lru_cache(maxsize=1)  # scipy asks for residuals and slopes of a point one after the other
    def at(unknowns: bytes) -> tuple[Array, Array]:
        return evaluate(np.frombuffer(unknowns))

    with np.errstate(all="ignore"):  # squares of the largest numbers are none
        return least_squares(
            lambda v: at(v.tobytes())[0],
            begun,
            lambda v: at(v.tobytes())[1],
            x_scale="jac",
            max_nfev=most,
            ftol=gained,
            xtol=SHOOTING.tolerance,
        )
