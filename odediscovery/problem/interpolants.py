"""Values that a solver interpolated between its steps, and how far off this says they are.

    sigma = 0.06 m^2 sqrt(n) kink

for m samples a step and n a trajectory, and kink the root mean square of pseudo-residuals across steps.

`solve_ivp` gives what is asked for by `t_eval` as values of polynomials, one for each of its own steps: quartics with
RK45, cubics with RK23 and Radau. Within a step pseudo-residuals of that degree are rounding, those of one degree less
are not; no solution of an equation looks so. It shows only in values with all their digits. At the usual tolerance of
1e-3 such values are far worse than their digits say.

Source: Shampine, Math. Comp. 46 (1986), for the quartics; the factor was measured on random laws.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from odediscovery.data.noise import NOISE, pseudo_residuals
from odediscovery.data.recorded.digits import rounding_sigma
from odediscovery.data.samples import pooled
from odediscovery.data.series import TimeSeries
from odediscovery.problem.problem import PROBLEMS
from odediscovery.runtime.arrays import Array, Mask


@dataclass(frozen=True)
class InterpolantThresholds:
    """When values are taken for interpolated ones."""

    degrees: tuple[int, ...] = (3, 4)  # degrees that are looked for
    rounding: float = 1e-13  # smaller pseudo-residuals are rounding [largest value of the state]
    jump: float = 1e4  # by so much they fall within a step from the degree before [ratio]
    share: float = 0.05  # least share of windows within one step
    windows: int = 5  # least number of them
    # error of values, over the squared samples a step and the root of samples [root mean square of pseudo-residuals
    # across steps]; measured: 0.03 to 0.06 from sample to sample, and these add up
    error: float = 0.06
    reached: float = 0.01  # error of any state [relative error of the worst one]; measured on random laws


INTERPOLANTS = InterpolantThresholds()


class Interpolation(NamedTuple):
    """What was seen of an interpolation.

    Args:
        sigma: how far off the values are [states], 0 where none are interpolated.
        degree: of the polynomials, 0 if there are none.
        samples: a step of the solver.
        share: of a state's spread that the values are off, the largest.
    """

    sigma: Array
    degree: int = 0
    samples: float = 0.0
    share: float = 0.0

    @property
    def sentences(self) -> list[str]:
        """What the reader should know of it."""
        if not self.degree:
            return []
        return [
            f"the values lie on polynomials of degree {self.degree}, as a solver leaves them between its steps, or an "
            f"interpolation between samples; their error is about {self.share:.0e} of their spread: no smaller terms "
            "are sought, and residuals that drift are its; of a simulation take a smaller tolerance (rtol=1e-8 in "
            "solve_ivp)"
        ]


def find_interpolation(series: TimeSeries) -> Interpolation:
    """How far off interpolated values are, and what shows it.

    >>> t = np.linspace(0.0, 3.0, 61)
    >>> find_interpolation(TimeSeries.from_arrays(t, np.exp(-t))).sigma.tolist()
    [0.0]
    """
    best = Interpolation(np.zeros(series.n_states))
    largest = 0.0
    for degree in INTERPOLANTS.degrees:
        here, within = _residuals(series, degree)
        share = within.mean(axis=0) if len(within) else np.zeros(series.n_states)
        enough = within.sum(axis=0) >= INTERPOLANTS.windows
        most = float(np.max(share, where=enough, initial=0.0))
        if most >= INTERPOLANTS.share and most > largest and not within.all():
            largest = most
            across = np.where(within, 0.0, here)
            kink = np.sqrt((across**2).sum(axis=0) / np.maximum((~within).sum(axis=0), 1))
            samples = (degree + 1) / max(1.0 - most, 1.0 / len(within))
            long = max(len(t.time) for t in series.trajectories)
            sigma = INTERPOLANTS.error * samples**2 * math.sqrt(long) * kink
            best = _reaching_all(series, sigma, degree, samples)
    return best if best.share > PROBLEMS.clean else Interpolation(np.zeros(series.n_states))


def _is_rounded(values: Array, rounding: Array) -> Mask:
    """States written with fewer digits than a float has: differences of such numbers are often 0 [states]."""
    left_out = np.array([rounding_sigma(y).max(initial=0.0) for y in values.T])
    return np.asarray(left_out > rounding)


def _reaching_all(series: TimeSeries, sigma: Array, degree: int, samples: float) -> Interpolation:
    """What is off in one state moves the others as time goes on."""
    values = pooled(series)
    spread = np.nanstd(np.where(np.isfinite(values).any(axis=0), values, 0.0), axis=0)
    share = float((sigma / np.where(spread > 0.0, spread, np.inf))[~series.is_control].max(initial=0.0))
    reached = np.maximum(sigma, INTERPOLANTS.reached * share * spread)
    return Interpolation(np.where(series.is_control, 0.0, reached), degree, samples, share)


def _residuals(series: TimeSeries, degree: int) -> tuple[Array, Mask]:
    """Pseudo-residuals of all windows, and which windows lie within one step, both [windows, states]."""
    here, within = [], []
    for t in series.trajectories:
        seen = np.flatnonzero(np.isfinite(t.values).all(axis=1))[: NOISE.most_samples]
        time, values = t.time[seen], t.values[seen]
        if len(time) < degree + 2:
            continue
        own, lower = (
            np.stack([np.abs(pseudo_residuals(time, y, d)) for y in values.T], axis=1) for d in (degree, degree - 1)
        )
        rounding = INTERPOLANTS.rounding * np.abs(values).max(axis=0)
        here.append(own)
        falls = np.minimum(lower[1:], lower[:-1]) > INTERPOLANTS.jump * rounding
        inside = (own <= rounding) & falls & ~series.is_control
        within.append(inside & ~_is_rounded(values, rounding) if inside.any() else inside)
    none = np.zeros((0, series.n_states))
    return np.concatenate([none, *here]), np.concatenate([none.astype(bool), *within])
