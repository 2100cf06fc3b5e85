r"""Forms with named constants, integrated and fitted to whole trajectories.

    residual = (x(t; c, x_0) - data) / sigma

by the classical Runge-Kutta method. All intervals are stepped side by side (`ivp/all_at_once.py`), and the
derivatives with respect to every constant and start follow from those of each interval. Where samples are dense a
step spans several of them, and a cubic through the states and rates at its ends gives those between, as accurately
as the step itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, least_squares

from odediscovery.data.series import TimeSeries
from odediscovery.ivp.all_at_once import linear_recurrence, newton_path
from odediscovery.laws.compiled import CompiledForm
from odediscovery.runtime.arrays import ABOVE_ZERO, Array
from odediscovery.runtime.thresholds import Thresholds, threshold
from odediscovery.textbook.flow import Flow


@dataclass(frozen=True)
class ShootingThresholds(Thresholds):
    """How accurately forms are integrated, and when their fit ends."""

    accuracy: float = 1e-4  # difference that half the step may make [spread of a state]
    of_noise: float = 0.1  # difference that half the step may make in noise [standard error of a mean of all samples]
    most_steps: int = 16  # most steps between two samples
    fewest: int = 16  # fewest steps of a trajectory
    near: float = 10.0  # where a solution is farther from the data its accuracy does not count [spread of a state]
    lost_share: float = 0.3  # a solution that is far from more samples is not refined
    evaluations: int = threshold(40, "most evaluations of the derivatives in a fit", origin="cost: bounds the time")
    work: int = 6_000  # steps of all evaluations of a fit together, beyond the fewest
    fewest_evaluations: int = 5  # evaluations that a fit may take whatever a solution costs
    lost: float = 1e3  # residual where a solution has ended [spread of a state]
    step: float = 1e-6  # step of a derivative [the constant]
    small: float = 1e-3  # what is nearer to 0 is moved as if it were so large [median constant, or spread of a state]
    tolerance: float = 1e-8  # change of constants that ends a fit [relative]
    gained: float = 1e-6  # change of squares that ends a fit [relative]
    roughly: float = 1e-3  # the same for a fit that only tells how large the noise of every state is [relative]
    newton: int = 12  # iterations for a path, whose intervals are stepped in turn if they do not suffice
    newton_accuracy: float = 1e-6  # change of a path that ends them [spread of a state]
    starting: int = 15  # most evaluations for the starts alone


SHOOTING = ShootingThresholds()


class Shooting:
    """The least squares problem of forms on one series.

    Args:
        series: trajectories, nan where nothing was measured.
        begun: first states [trajectories, states].
        sigma: standard deviation of every sample, [samples, states] a trajectory.
        noise: of the states, as estimated [states]; what integration errs by may be a small part of it.
        smooth: where the states about are, [samples, states] a trajectory (default: where they begin).
    """

    def __init__(
        self,
        series: TimeSeries,
        begun: Array,
        sigma: Sequence[Array],
        noise: Array | float = 0.0,
        smooth: Sequence[Array] | None = None,
    ) -> None:
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
        self.paths = smooth or [np.broadcast_to(x, (len(run.time), self.n)) for x, run in zip(begun, runs, strict=True)]
        padded = [np.pad(v, ((0, longest - len(v)), (0, 0)), mode="edge") for v in self.paths]
        # [states, samples, trajectories]
        self.guess = np.moveaxis(np.stack(padded), 2, 0).swapaxes(1, 2)

    def curve(
        self, rates: CompiledForm, constants: Array, starts: Array, steps: float, guess: Array | None = None
    ) -> Array:
        """The solution [samples, states, trajectories].

        Args:
            rates: of the form.
            constants: [constants].
            starts: [states, trajectories].
            steps: between two samples; 0.25 for one that spans four.
            guess: states at the nodes [states, nodes, trajectories] (default: the smoothed path).
        """
        flow = Flow(rates, constants, self.times, steps, self.constants_in)
        path = self._path(flow, starts, guess)
        return self._at_samples(flow, path[..., None], constants[:, None])[..., 0]

    def _path(self, flow: Flow, starts: Array, guess: Array | None) -> Array:
        """States at the nodes [states, nodes, trajectories]."""
        if guess is None or not np.isfinite(guess).all():  # one that has ended leads nowhere
            guess = self.guess[:, flow.nodes]
        path = guess.copy()
        path[:, 0] = starts
        size = np.maximum(self.spread, np.abs(starts).max(axis=1))[:, None, None]
        found = newton_path(flow.by_states, path, size, most=SHOOTING.newton, accuracy=SHOOTING.newton_accuracy)
        return flow.in_turn(starts) if found is None else found

    def _at_samples(self, flow: Flow, path: Array, constants: Array) -> Array:
        """States at all samples [samples, states, trajectories, sets] of those at nodes [states, nodes, ..., sets]."""
        x = np.moveaxis(path, 1, 0)
        if len(flow.nodes) == len(self.times):
            return x
        with np.errstate(all="ignore"):
            slopes = np.moveaxis(flow.rates(path, constants), 1, 0)
            return self._between(flow.nodes, x, slopes)

    def _between(self, nodes: NDArray[np.int64], x: Array, slopes: Array) -> Array:
        """States at all samples from those at nodes and their rates: cubic Hermite interpolation."""
        at = np.clip(np.searchsorted(nodes, np.arange(len(self.times)), side="right") - 1, 0, len(nodes) - 2)
        h = (self.times[nodes[at + 1]] - self.times[nodes[at]])[:, None, :, None]
        s = (self.times - self.times[nodes[at]])[:, None, :, None] / np.where(h > 0, h, 1.0)
        left, right = x[at], x[at + 1]
        bend = s * (1 - s) * h * ((1 - s) * slopes[at] - s * slopes[at + 1])
        found: Array = left + s**2 * (3 - 2 * s) * (right - left) + bend
        return found

    def constants_in(self, intervals: NDArray[np.int64], constants: Array) -> Array:
        """The constants of the form in some intervals, [constants, intervals or 1, trajectories or 1, sets].

        Args:
            intervals: numbers of them.
            constants: [constants, sets].
        """
        return constants[:, None, None, :]

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

    def left(self, rates: CompiledForm, k: int, theta: Array, steps: float) -> Array:
        """Curve - data [samples, states, trajectories]; far off where the solution ended."""
        constants, starts = self.unpacked(theta, k)
        return self._left(self.observed(self.curve(rates, constants, starts, steps)))

    def _left(self, curve: Array) -> Array:
        far = SHOOTING.lost * self.spread[:, None]
        left = np.clip(np.nan_to_num(curve - self.values, nan=SHOOTING.lost, posinf=np.inf, neginf=-np.inf), -far, far)
        return np.where(np.isfinite(curve), left, far)

    def enough_steps(self, rates: CompiledForm, k: int, theta: Array) -> float:
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
        size: Array = np.maximum(np.abs(theta), SHOOTING.small * typical + ABOVE_ZERO)
        return size

    def linearised(
        self, rates: CompiledForm, k: int, theta: Array, sigma: Array, steps: float, guess: Array | None = None
    ) -> tuple[Array, Array, Array]:
        """Weighted residuals [values], their derivatives [values, unknowns], and the path at the nodes.

        Args:
            guess: a path from which to seek it, see `curve`.
        """
        constants, starts = self.unpacked(theta, k)
        n, runs = self.n, len(self.begun)
        flow = Flow(rates, constants, self.times, steps, self.constants_in)
        path = self._path(flow, starts, guess)
        of_constants = SHOOTING.step * self.size(theta, k)[:k]
        moved = constants[:, None] + np.diag(of_constants)
        with np.errstate(all="ignore"):
            _, by_state, by_constant = flow.varied(path[:, :-1])
            # Columns of constants, then of the start of every state: a start moves its own trajectory only.
            added = np.concatenate([by_constant, np.zeros((*by_constant.shape[:3], n))], axis=-1)
            first = np.zeros((runs, n, k + n))
            free = ~np.isfinite(self.known)
            first[:, np.arange(n), k + np.arange(n)] = free.T
            ended = ~np.isfinite(by_state).all(axis=(2, 3)) | ~np.isfinite(added).all(axis=(2, 3))
            by_state[ended], added[ended] = 0.0, 0.0
            tangents = np.moveaxis(linear_recurrence(by_state, added, first), 2, 0)
        # What was recorded of a solution may be a sum or a limit: its derivatives are differences, too.
        size = np.append(of_constants, SHOOTING.step * self.spread)
        sets = np.concatenate([path[..., None], path[..., None] + tangents * size], axis=-1)
        own = np.concatenate([constants[:, None], moved, np.repeat(constants[:, None], n, axis=1)], axis=1)
        curve = self.observed(self._at_samples(flow, sets, own))
        weight = np.where(self.seen, 1.0 / sigma, 0.0)
        with np.errstate(all="ignore"):
            change = (curve[..., 1:] - curve[..., :1]) / size * weight[..., None]
        columns = [change[..., j][self.seen] for j in range(k)]
        for r in range(runs):
            for i in range(n):
                start = np.zeros_like(self.values)
                start[:, :, r] = change[:, :, r, k + i]
                columns.append(start[self.seen])
        slopes: Array = np.nan_to_num(np.stack(columns, axis=1), posinf=0.0, neginf=0.0)
        return (self._left(curve[..., 0]) / sigma)[self.seen], slopes, path

    def nearest_starts(self, rates: CompiledForm, constants: Array, sigma: Array) -> Array:
        """First states with which constants that stay as they are follow the data best [trajectories, states].

        A first sample near 0 is mostly noise, and growth from it ends far from the data: were all unknowns fitted at
        once from there, the constants would be bent until the curve meets a part of them.

        Args:
            sigma: of every sample [samples, states, trajectories].
        """
        k, shape = len(constants), self.begun.shape
        steps = self.enough_steps(rates, k, np.concatenate([constants, self.begun.ravel()]))

        path: Array | None = None

        def evaluate(starts: Array) -> tuple[Array, Array]:
            nonlocal path
            left, slopes, path = self.linearised(rates, k, np.concatenate([constants, starts]), sigma, steps, path)
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
        rates: CompiledForm,
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

        # The last path is near the next one.
        path: Array | None = None

        def evaluate(at: Array) -> tuple[Array, Array]:
            nonlocal path
            left, slopes, path = self.linearised(rates, k, at, sigma, steps, path)
            return left, slopes

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
