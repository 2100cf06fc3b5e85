"""What a law leaves between samples, and its constants where that tells them.

    x(t + h; x(t)) - x(t + h)

for every interval from its measured start. Where there is no noise every sample is a start: constants come out to
all the digits that the data have, however far whole trajectories of chaos carry an error, and the law of one half
of the samples says what it is worth by the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from odediscovery.data.signals import control_slopes
from odediscovery.ivp.steps import rk4_step
from odediscovery.laws.power_sum import Free, PowerSum, but_whole_powers, count, filled, picked
from odediscovery.problem.problem import Problem, increment_squares
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask, column_norms
from odediscovery.stages.values import STAGES


@dataclass(frozen=True)
class IntervalThresholds:
    """How exactly intervals are integrated, and how far constants are refined on them."""

    steps: int = 24  # Runge-Kutta steps over one sample interval
    most_steps: int = 384  # the same at most, where constants are refined
    rough_steps: int = 6  # the same for slopes by constants
    # What a law that leaves nothing may leave [mean squared increment of an interval, variance of whole
    # trajectories]
    exact: float = 1e-11
    # What a law leaves that needs no more refinement, and steps may change [mean squared increment]
    sharp: float = 1e-18
    refinements: int = 4  # most Gauss-Newton steps
    sharper: float = 0.1  # a step that leaves more of the squares was the last
    difference: float = 1e-7  # step of the differences that slopes are taken by [constants, or 1 if they are less]
    worst_condition: float = 1e6  # condition of slopes from which on constants are not told apart
    needed: float = 100.0  # squared t statistic from which on a constant is needed there
    # How much worse than within a law may do outside of the samples that it was fitted to [ratio of variances]
    outside: float = 30.0


INTERVALS = IntervalThresholds()


def interval_errors(law: PowerSum, p: Problem, shift: Array | float = 0.0, steps: int | None = None) -> list[Array]:
    """What a law leaves at the ends of intervals from measured starts, [intervals, states] a trajectory.

    Args:
        shift: added to every start [states].
        steps: of Runge-Kutta over an interval (default: `INTERVALS.steps`).
    """
    steps = INTERVALS.steps if steps is None else steps
    runs = p.smooth.trajectories
    x = np.concatenate([t.values[:-1] for t in runs]) + shift
    h = np.concatenate([np.diff(t.time) for t in runs])[:, None] / steps
    drift = control_slopes(runs)

    def rhs(_: float, x: Array) -> Array:
        slopes: Array = law.rhs(x) + drift
        return slopes

    with np.errstate(all="ignore"):
        for _ in range(steps):
            x = rk4_step(rhs, x, h)
    left = np.where(p.data.is_control, 0.0, x - np.concatenate([t.values[1:] for t in runs]))
    errors: list[Array] = np.split(left, np.cumsum([len(t.values) - 1 for t in runs])[:-1])
    return errors


@np.errstate(all="ignore")  # a law that runs away leaves more than any bound, and nothing to warn of
def sharpened(p: Problem, law: PowerSum, free: Free, *, told: bool = False) -> PowerSum | None:
    """The law with constants that leave least of the intervals between samples, each from its measured start:

        minimise  sum over intervals and states of ((x(t + h; x(t)) - x(t + h)) / increment)^2

    by Gauss-Newton.

    Args:
        p: the data.
        law: dimensionless.
        free: which of its constants are fitted.
        told: whether intervals have to know each of them.

    Returns:
        None where there is noise, or the law leaves more of the intervals than the digits of the data do.
    """
    moving = ~p.constant
    if not (p.clean and p.complete and p.knowledge is None and moving.any() and count(free)):
        return None
    fit = _IntervalFit(p, law, free)
    if not np.mean(fit.left**2) <= STAGES.settled:
        return None
    if not told and np.mean(fit.left**2) <= INTERVALS.sharp:  # it was sharpened before
        return law
    slopes = fit.refine(np.ones(len(fit.left), dtype=bool))
    if slopes is None or (told and not _tells_apart(slopes)):
        return None
    return fit.law if np.mean(fit.left**2) <= INTERVALS.exact else None


def _tells_apart(slopes: Array) -> bool:
    """Whether intervals know each constant, not combinations alone; slopes [intervals, states, constants]."""
    rows = slopes.reshape(-1, slopes.shape[2])
    return bool(np.linalg.cond(rows / np.maximum(column_norms(rows), ABOVE_ZERO)) < INTERVALS.worst_condition)


@np.errstate(all="ignore")
def holds_outside(p: Problem, law: PowerSum) -> bool:
    """Whether a law that is fitted to the inner half of the samples does about as well in the outer half.

        mean of r^2 / (1 + h) outside  <=  `INTERVALS.outside` times the mean of r^2 inside,

    h the leverage of an interval, and each constant is far from 0 by what the inner half leaves. A law holds
    everywhere; its first terms, or a curve through the data, hold where they were fitted. Only for data without
    noise, of which no more is asked than that it tells such terms apart.

    Args:
        p: the data.
        law: dimensionless.
    """
    free = but_whole_powers(law)
    if not (p.clean and p.complete and count(free)):
        return False
    x = np.concatenate([t.values[:-1] for t in p.smooth.trajectories])[:, ~p.constant]
    far = column_norms((x - x.mean(axis=0)) / np.maximum(x.std(axis=0), ABOVE_ZERO), axis=1)
    inner = far <= np.median(far)
    fit = _IntervalFit(p, law, free)
    if inner.sum() * fit.left.shape[1] <= count(free):
        return False
    slopes = fit.refine(inner)
    if slopes is None:
        return False
    rows, freedom = slopes[inner].reshape(-1, count(free)), 1.0 - count(free) / inner.sum() / fit.left.shape[1]
    size = np.maximum(column_norms(rows), ABOVE_ZERO)
    inverse = np.linalg.pinv(np.linalg.qr(rows / size)[1])
    leverage = ((slopes[~inner] / size @ inverse) ** 2).sum(axis=2)
    within = (fit.left[inner] ** 2).mean(axis=0) / freedom
    if (fit.constants**2 < INTERVALS.needed * within.max() * (inverse**2).sum(axis=1) / size**2).any():
        return False
    beyond = (fit.left[~inner] ** 2 / (1.0 + leverage)).mean(axis=0)
    return bool((beyond <= INTERVALS.outside * np.maximum(within, ABOVE_ZERO)).all())


class _IntervalFit:
    """A law whose free constants are fitted to intervals; `left` is what it leaves of them, [intervals, states]."""

    def __init__(self, p: Problem, law: PowerSum, free: Free) -> None:
        self.p, self.law, self.free = p, law, free
        self.moving = ~p.constant
        self.size = np.sqrt(increment_squares(p))[self.moving]
        self.steps, self.left = INTERVALS.steps, self._errors(law, INTERVALS.steps)
        # Where states turn fast within an interval the solver needs more steps to be no part of what is left.
        while self.steps < INTERVALS.most_steps and np.mean(self.left**2) <= STAGES.settled:
            finer = self._errors(law, 2 * self.steps)
            enough = np.mean((finer - self.left) ** 2) <= INTERVALS.sharp
            self.steps, self.left = 2 * self.steps, finer
            if enough:
                break

    def refine(self, rows: Mask) -> Array | None:
        """Fit to some intervals; slopes of all by the constants [intervals, states, constants], None if infinite."""
        slopes = self._slopes()
        for _ in range(INTERVALS.refinements):
            if not np.isfinite(slopes).all():
                return None
            flat = slopes[rows].reshape(-1, slopes.shape[2])
            width = np.maximum(column_norms(flat), ABOVE_ZERO)
            step = np.linalg.lstsq(flat / width, self.left[rows].ravel(), rcond=None)[0] / width
            trial = self._with(self.constants - step)
            anew = self._errors(trial, self.steps)
            before, after = (np.square(e[rows]).sum() for e in (self.left, anew))
            if not after < before:
                break
            self.law, self.left = trial, anew
            if after > INTERVALS.sharper * before:
                break
        return slopes

    @property
    def constants(self) -> Array:
        """Those that are fitted."""
        return picked(self.law, self.free)

    def _with(self, u: Array) -> PowerSum:
        return self.law.with_constants(*filled(self.law.constants, self.free, u))

    def _errors(self, law: PowerSum, steps: int) -> Array:
        found: Array = np.concatenate(interval_errors(law, self.p, steps=steps))[:, self.moving] / self.size
        return found

    def _slopes(self) -> Array:
        u, rough = self.constants, INTERVALS.rough_steps
        here = self._errors(self.law, rough)
        shifts = np.diag(INTERVALS.difference * np.maximum(np.abs(u), 1.0))
        return np.stack([(self._errors(self._with(u + h), rough) - here) / h.sum() for h in shifts], axis=2)
