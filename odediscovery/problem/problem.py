"""The problem that every stage takes: a dimensionless series and what is known about it.

At the times of `t_eval`, `solve_ivp` evaluates one interpolating polynomial for each of its internal steps. Within a
step, pseudo-residuals of the polynomials' degree are rounding errors; those of one degree less are not. An exact
solution never shows this pattern. At the default tolerance of 1e-3 such values are far less accurate than their digits,

    sigma = 0.06 m^2 sqrt(n) kink

for m samples per step and n per trajectory, where kink is the root mean square of pseudo-residuals across steps.
Source: Shampine, Math. Comp. 46 (1986), for the quartics; the factor was measured on random laws.

Doses at known times, and rates that change at a known time, are controls.

    gut' = dose(t) + ...,    dose(t) = amount / width  for a moment after each dose
    S' = -b*S*I - c*S*I*after_23,    after_23 = 0 before t = 23 and 1 from then on

If the value of a conserved sum is known and its other states are measured, a state without a column is known too,

    x_h = (value - sum over i != h of c_i x_i) / c_h,

and so is its noise. Other latent states stay without samples: only whole trajectories with fitted starts can
determine them.

The search sees fewer samples of a long series; the chosen law is refined and judged on all of them. Clean samples are
selected; noisy neighbours are averaged (Savitzky and Golay, Analytical Chemistry 36, 1964). Where the extrema of the
states need more, runs of neighbours spread over the series are used.

A state counts as sign-changing only when its negative part exceeds the noise and a single stray sample. Every other
state is nonnegative with noise, or nonpositive; then its mirror image -x is fitted, and its scale is negative. A state
that never changes gets a zero right-hand side. Standard deviations that the user gives for a state replace the
estimate of its noise.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.linalg import qr

from odediscovery.data.noise import (
    CLEAN_SHARE,
    MOST_SAMPLES,
    NOISY_SHARE,
    estimate_noise,
    pseudo_residuals,
    relative_noise,
    shows_noise,
    smooth,
)
from odediscovery.data.recorded import (
    OF_SAMPLE,
    Recorded,
    break_times,
    detection_limit,
    dose_column,
    dose_factor,
    known_start,
    spread_columns,
)
from odediscovery.data.series import (
    Scale,
    TimeSeries,
    Trajectory,
    append_controls,
    drop_appended_controls,
    measured,
    pooled,
    with_columns,
    with_latent_states,
)
from odediscovery.data.signals import Signal, lengths_of_runs, resolution, rounding_sigma
from odediscovery.errors import InputError, unknown_name
from odediscovery.knowledge.constraints import Conserved, Knowledge, check_known, check_signs, knowledge
from odediscovery.knowledge.dimensions import check_dimensions
from odediscovery.laws.expressions import identifiers
from odediscovery.laws.power_sum import Free, PowerSum
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask
from odediscovery.settings import Settings

CLEAN_NOISE = 1e-7  # less is indistinguishable from solver error [standard deviation of the state]
PROMINENCE = 0.2  # least prominence of an extremum that counts [standard deviation of the state]


class Independent(NamedTuple):
    """How many samples are independent."""

    share: Array  # of the samples of every state [states]
    # Error of the solver that may have made the samples [states], beyond which all of them count; None: never.
    solver: Array | None = None


@dataclass(frozen=True, eq=False)
class Problem:
    """A dimensionless series and what is known about it."""

    # States divided by their rms (those that are negative throughout by -rms), time by the median sample interval.
    data: TimeSeries
    smooth: TimeSeries  # the same series without noise and gaps
    scale: Scale  # undoes the division
    noise: Array  # standard deviation of the noise [states], estimated or as given, dimensionless
    floor: Array  # residuals below this are rounding or integration error [states]
    nonnegative: Mask  # bool [states]
    constant: Mask  # bool [states], states without an equation: controls and states that never change
    # Standard deviation of the noise of every sample over `noise`, [samples, states] per trajectory.
    relative_sigma: tuple[Array, ...]
    exact: PowerSum | None = None  # a law whose residuals show that there is no noise
    heads: tuple[int, ...] | None = None  # index of the first piece of each trajectory, if they were cut
    knowledge: Knowledge | None = None  # constraints, dimensionless: what the user knows, and redundant states
    given: Knowledge | None = None  # the same knowledge in the user's units
    samples_a_step: float = 0.0  # samples per step of the solver that interpolated them, 0 if none did
    messages: tuple[str, ...] = ()  # notes on the noise for the reader of a result
    independent: Independent | None = None  # where the residuals of a law are autocorrelated; None: all samples
    # Most intervals of a window with a fitted start, where errors of starts grow fast; None: the usual limit.
    longest_window: int | None = None

    @property
    def initial(self) -> Array:
        """Smoothed first states [trajectories, states], without controls."""
        return np.stack([t.values[0] for t in self.smooth.trajectories])[:, ~self.data.is_control]

    @property
    def sigma(self) -> Array:
        """Standard deviation by which residuals are divided [states]."""
        return np.maximum(self.noise, self.floor)

    @property
    def integer_exponents(self) -> bool:
        """Whether exponents are known to be whole numbers."""
        return self.knowledge is not None and self.knowledge.integer

    @property
    def measured(self) -> Mask:
        """Which states have samples [states]."""
        return measured(self.data)

    @property
    def complete(self) -> bool:
        """Whether no value of a measured state is missing."""
        return bool(np.isfinite(pooled(self.data)[:, self.measured]).all())

    @property
    def noisiness(self) -> float:
        """Largest noise of a changing state as a share of that state's standard deviation."""
        moving = ~self.constant & self.measured
        spread = np.nanstd(pooled(self.data)[:, moving], axis=0)
        return float(np.max(self.noise[moving] / spread, initial=0.0))

    def without_noise(self, exact: PowerSum | None) -> Problem:
        """Treat the samples as exact, because coarse sampling looked like noise."""
        return dataclasses.replace(
            self,
            smooth=self.data,
            noise=np.zeros_like(self.noise),
            exact=exact,
            relative_sigma=tuple(np.ones_like(s) for s in self.relative_sigma),
            nonnegative=np.nanmin(pooled(self.data), axis=0) >= -self.floor,
        )

    @property
    def extrema_per_interval(self) -> float:
        """Clear extrema of the fastest state per sample interval of the smoothed paths."""
        runs = self.smooth.trajectories
        clear = PROMINENCE * np.std(pooled(self.smooth), axis=0)
        extrema = sum(np.array([*map(count_extrema, t.values.T, clear)]) for t in runs)
        return float(np.max(extrema, where=~self.constant, initial=0) / sum(len(t.time) - 1 for t in runs))

    def pieces(self, length: int) -> Problem:
        """Cut every trajectory into runs of about `length` samples."""

        def cut(series: TimeSeries) -> TimeSeries:
            parts = [t.part(rows) for t in series.trajectories for rows in _runs(len(t.time), length)]
            return dataclasses.replace(series, trajectories=tuple(parts))

        counts = [len(_runs(len(s), length)) for s in self.relative_sigma]
        return dataclasses.replace(
            self,
            data=cut(self.data),
            smooth=cut(self.smooth),
            relative_sigma=tuple(s[rows] for s in self.relative_sigma for rows in _runs(len(s), length)),
            heads=tuple(np.cumsum([0, *counts[:-1]])),
        )

    @property
    def samples(self) -> int:
        """Number of observed values, without those of controls."""
        return int(np.isfinite(pooled(self.data)[:, ~self.data.is_control]).sum())

    @property
    def unexplained(self) -> float:
        """Mean square of the residuals of smoothing, over changing states, in units of the noise."""
        residual = (pooled(self.data) - pooled(self.smooth)) / (self.sigma * np.concatenate(self.relative_sigma))
        return float(np.nanmean(residual[:, ~self.constant] ** 2))

    @property
    def clean(self) -> bool:
        """Whether measured states can serve as exact starts of windows."""
        return self.complete and self.noisiness <= CLEAN_NOISE


def _runs(samples: int, length: int) -> list[slice]:
    """Return consecutive slices of about `length` samples."""
    count = max(samples // length, 1)
    edges = np.linspace(0, samples, count + 1).astype(int)
    return [slice(int(a), int(b)) for a, b in itertools.pairwise(edges)]


def has_little_noise(p: Problem) -> bool:
    """Whether the noise is too small to hide a term of a series."""
    return bool(p.noisiness <= 0.003)


def rounding_share(p: Problem) -> float:
    """Compute the mean square of rounding and integration errors, over changing states, in units of the noise."""
    share = p.floor / p.sigma
    return 1.0 if p.constant.all() else float(np.mean(share[~p.constant] ** 2))


def increment_squares(p: Problem) -> Array:
    """Compute the mean squared increment of every state between samples, 1 where it has no equation [states]."""
    increments = np.concatenate([np.diff(t.values, axis=0) for t in p.smooth.trajectories])
    squares: Array = np.where(p.constant, 1.0, np.mean(increments**2, axis=0))
    return squares


def count_peaks(values: Array, prominence: float) -> int:
    """Count local maxima that stand out by at least `prominence`; a plateau counts once, an end never.

    The prominence is that of scipy.signal, which takes long to load.

    >>> count_peaks(np.array([0.0, 3.0, 2.5, 2.6, 0.0, 1.0, 1.0, 0.5]), 0.5)
    2
    """
    if not len(values):
        return 0
    z = values[np.append(True, values[1:] != values[:-1])]
    peaks = np.flatnonzero((z[1:-1] > z[:-2]) & (z[1:-1] > z[2:])) + 1
    if not len(peaks):
        return 0
    # There is a single valley before, between and after maxima.
    tops, lows = z[peaks].tolist(), np.minimum.reduceat(z, np.append(0, peaks)).tolist()
    left, right = _bases(tops, lows[:-1]), _bases(tops[::-1], lows[:0:-1])[::-1]
    return sum(top - max(bases) >= prominence for top, *bases in zip(tops, left, right, strict=True))


def count_extrema(values: Array, prominence: float) -> int:
    """Count local maxima and minima; see `count_peaks`."""
    return count_peaks(values, prominence) + count_peaks(-values, prominence)


def _bases(tops: list[float], lows: list[float]) -> list[float]:
    """Return the lowest value before each maximum, back to a higher one; lows[i] lies just before tops[i]."""
    bases, higher = [], list[tuple[float, float]]()
    for top, low in zip(tops, lows, strict=True):
        while higher and higher[-1][0] <= top:
            low = min(low, higher.pop()[1])
        higher.append((top, low))
        bases.append(low)
    return bases


def linear_relations(p: Problem) -> list[tuple[Array, float]]:
    """Find all c and d such that sum_k c_k x_k = d in all samples, up to noise, in the user's units.

    The relations span the directions in which the samples do not vary, and each has a state of its own: A + B -> C
    has A - B = d and B + C = d'. None are returned unless the samples clearly vary in all other directions.
    """
    x = pooled(p.data)
    x = x[np.isfinite(x).all(axis=1)]
    moving = np.flatnonzero(~p.constant)
    if len(moving) < 2 or len(x) <= len(moving) + 1:
        return []
    center = x[:, moving].mean(axis=0)
    _, spread, axes = np.linalg.svd(x[:, moving] - center, full_matrices=False)
    sigma = np.sqrt(np.mean(np.concatenate(p.relative_sigma) ** 2, axis=0)) * p.noise
    noise = np.linalg.norm(axes * np.maximum(sigma, 10.0 * p.floor)[moving], axis=1)
    still = spread / np.sqrt(len(x)) <= 1.2 * noise
    if not still.any() or (spread / np.sqrt(len(x)) < 20.0 * noise)[~still].any() or still.all():
        return []
    # Each relation gets the state that is best to solve for.
    basis = axes[still]
    _, _, order = qr(basis, pivoting=True, mode="economic")
    basis = np.linalg.solve(basis[:, order[: len(basis)]], basis)
    found = []
    for row in basis:
        c = np.zeros(p.data.n_states)
        c[moving] = row / p.scale.state[moving]
        # Smaller weights are noise of the direction.
        c[np.abs(c) <= 1e-3 * np.abs(c).max()] = 0.0
        unit = np.copysign(np.abs(c).max(), c[np.flatnonzero(c)[0]])
        found.append((c / unit, float(row @ center / unit)))
    return found


def redundant_states(p: Problem) -> Mask:
    """Mask the redundant state of every linear relation of noisy data, bool [states].

    It hardly changes, x = m (1 + d), so that every power of it is linear in d, and it is a linear combination of the
    others in all samples: with it, every law could be written in many ways, as differences of large terms.
    """
    found: Mask = np.zeros(p.data.n_states, dtype=bool)
    for weights, _ in [] if p.clean else linear_relations(p):
        values = pooled(p.data)
        share = np.nanstd(values, axis=0) / np.maximum(np.abs(np.nanmean(values, axis=0)), ABOVE_ZERO)
        share[weights == 0.0] = np.inf
        # The curvature of its powers, w^2 / 2 of 1e-4, is below the noise.
        found[np.argmin(share)] |= share.min() < 0.01
    return found


def apply_knowledge(p: Problem, law: PowerSum) -> PowerSum:
    """Impose the knowledge on a dimensionless law."""
    return law if p.knowledge is None else p.knowledge.impose(law)


def in_user_units(p: Problem, law: PowerSum) -> PowerSum:
    """Convert a dimensionless law to the user's units, with known constants exactly as given."""
    user = law.unscaled(p.scale.state, p.scale.time)
    if p.given is None:
        return user
    exact = p.given.impose(user)
    # Rounding may merge two monomials, and their standard errors would no longer match.
    return exact if exact.coefficients.shape == user.coefficients.shape else user


def fixed_mask(p: Problem, law: PowerSum) -> tuple[Mask, Mask] | None:
    """Mask known coefficients [states, monomials] and exponents [monomials, features]; None without knowledge."""
    return None if p.knowledge is None else p.knowledge.fixed_mask(law)


def apply_knowledge_to_fit(p: Problem, law: PowerSum, free: Free) -> tuple[PowerSum, Free]:
    """Impose the knowledge on a law, and return it with the masks of the constants that remain free."""
    known = p.knowledge
    if known is None:
        return law, free
    new = known.impose(law)
    coefficients, exponents = known.fixed_mask(new)
    fitted = np.zeros(new.exponents.shape, dtype=bool)
    low, high = known.bounds
    for j, w in enumerate(new.exponents):
        same = np.flatnonzero((law.exponents == w).all(axis=1))
        # An exponent moved to a bound stays there.
        fitted[j] = free[1][same[0]] if len(same) else (w != 0) & (w > low) & (w < high)
    return new, ((new.coefficients != 0) & ~coefficients, fitted & ~exponents, *free[2:])


class Interpolation(NamedTuple):
    """Evidence that a solver interpolated the values."""

    sigma: Array  # error of the values [states], 0 where none are interpolated
    degree: int = 0  # of the polynomials, 0 if there are none
    samples: float = 0.0  # per step of the solver
    share: float = 0.0  # largest error as a share of a state's spread

    @property
    def sentences(self) -> list[str]:
        """Sentences that report the interpolation to the user."""
        if not self.degree:
            return []
        return [
            f"the values lie on polynomials of degree {self.degree}, as a solver leaves them between its steps, or an "
            f"interpolation between samples; their error is about {self.share:.0e} of their spread: no smaller terms "
            "are sought, and residuals that drift are its; of a simulation take a smaller tolerance (rtol=1e-8 in "
            "solve_ivp)"
        ]


def find_interpolation(series: TimeSeries) -> Interpolation:
    """Detect values interpolated by a solver, and estimate their error."""
    best = none = Interpolation(np.zeros(series.n_states))
    spread = np.nanstd(np.where(measured(series), pooled(series), 0.0), axis=0)
    largest = 0.0
    for degree in (3, 4):
        here, within = _residuals(series, degree)
        share = within.mean(axis=0) if len(within) else np.zeros(series.n_states)
        most = float(np.max(share, where=within.sum(axis=0) >= 5, initial=0.0))
        if most >= 0.05 and most > largest and not within.all():
            largest = most
            across = np.where(within, 0.0, here)
            kink = np.sqrt((across**2).sum(axis=0) / np.maximum((~within).sum(axis=0), 1))
            samples = (degree + 1) / max(1.0 - most, 1.0 / len(within))
            long = max(len(t.time) for t in series.trajectories)
            # The factor was measured as 0.03 to 0.06 between samples, and errors accumulate.
            sigma = 0.06 * samples**2 * math.sqrt(long) * kink
            share_off = float((sigma / np.where(spread > 0.0, spread, np.inf))[~series.is_control].max(initial=0.0))
            # An error in one state moves the others by 1 % of the largest, as measured on random laws.
            reached = np.maximum(sigma, 0.01 * share_off * spread)
            best = Interpolation(np.where(series.is_control, 0.0, reached), degree, samples, share_off)
    return best if best.share > CLEAN_NOISE else none


def _residuals(series: TimeSeries, degree: int) -> tuple[Array, Mask]:
    """Compute pseudo-residuals of all windows, and mask the windows within one step, both [windows, states]."""
    here, within = [], []
    for t in series.trajectories:
        seen = np.flatnonzero(np.isfinite(t.values).all(axis=1))[:MOST_SAMPLES]
        time, values = t.time[seen], t.values[seen]
        if len(time) < degree + 2:
            continue
        own, lower = (
            np.stack([np.abs(pseudo_residuals(time, y, d)) for y in values.T], axis=1) for d in (degree, degree - 1)
        )
        rounding = 1e-13 * np.abs(values).max(axis=0)
        here.append(own)
        falls = np.minimum(lower[1:], lower[:-1]) > 1e4 * rounding
        inside = (own <= rounding) & falls & ~series.is_control
        if inside.any():  # differences of numbers with few digits are often 0
            inside &= np.array([rounding_sigma(y).max(initial=0.0) for y in values.T]) <= rounding
        within.append(inside)
    none = np.zeros((0, series.n_states))
    return np.concatenate([none, *here]), np.concatenate([none.astype(bool), *within])


def columns_of_groups(settings: Settings) -> list[str]:
    """List the columns that starts and covariates need; they are constant within a group."""
    named = [value for _, value in map(known_start, settings.starts) if isinstance(value, str)]
    return list(dict.fromkeys([*settings.covariate, *(value for value in named if value != OF_SAMPLE)]))


def of_groups(series: TimeSeries, name: str) -> Array:
    """Return the values of a column that is constant within each group [groups]."""
    if name not in series.controls:
        raise unknown_name("column of groups", name, (*series.controls, *series.states))
    k, found = series.controls.index(name), []
    for run in series.trajectories:
        assert run.controls is not None
        values = run.controls.values[:, k]
        if np.ptp(values) > 1e-9 * np.abs(values).max():
            raise InputError(
                f"column {name!r} changes within group {run.label!r}: expected one value a group; name it with --inputs"
            )
        found.append(float(values[0]))
    return np.array(found)


def with_recorded(series: TimeSeries, settings: Settings) -> TimeSeries:
    """Attach known starts, limits, counts and doses to a series; drop columns used only for starts and covariates."""
    limits = dict(map(detection_limit, settings.censored))
    if not (settings.starts or limits or settings.cumulative or settings.doses):
        return series
    for kind, names in {
        "state with a known start": [state for state, _ in map(known_start, settings.starts)],
        "censored state": limits,
        "cumulative count": settings.cumulative,
    }.items():
        for name in names:
            if name not in series.states:
                raise unknown_name(kind, name, series.states)
    starts = _starts(series, settings)
    runs, notes = [], where_starts_hold(series, settings)
    for run, start in zip(series.trajectories, starts, strict=True):
        level = np.array([limits.get(state, np.nan) for state in series.states])
        with np.errstate(invalid="ignore"):
            limit = np.where(run.values < level, level, np.nan)
        counted = np.isin(series.states, settings.cumulative)
        given = given_amounts(series, run, settings)
        recorded = Recorded(start, limit, np.isfinite(run.values), counted, given)
        runs.append(dataclasses.replace(run, recorded=recorded, sigma=_count_noise(run, recorded, series.states)))
    for i, state in enumerate(series.states):
        if state in limits:
            values = np.concatenate([run.values[:, i] for run in runs])
            below, measured_ones = int((values < limits[state]).sum()), int(np.isfinite(values).sum())
            notes.append(
                f"{below} of {measured_ones} values of {state} lie below the limit {limits[state]:g}: there the curve "
                "only has to stay below it"
            )
    series = dataclasses.replace(series, trajectories=tuple(runs), messages=(*series.messages, *notes))
    return without_controls(series, columns_of_groups(settings))


def where_starts_hold(series: TimeSeries, settings: Settings) -> list[str]:
    """Note that known starts hold at the first sample, if its time differs by group or lies soon after 0."""
    first = [run.time[0] for run in series.trajectories]
    span = max(run.time[-1] - run.time[0] for run in series.trajectories)
    several = np.ptp(first) > 0.0
    known = any(value != OF_SAMPLE for _, value in map(known_start, settings.starts))
    if not known or not (several or 0.0 < first[0] <= span):
        return []
    to = f" to {max(first):g}" if several else ""
    return [
        f"known starts hold at the first sample, at {series.time_name} = {min(first):g}{to}: where they hold earlier, "
        "add a row of that time with empty cells"
    ]


def _starts(series: TimeSeries, settings: Settings) -> Array:
    """Return known first values [trajectories, states], nan where unknown."""
    found = np.full((len(series.trajectories), series.n_states), np.nan)
    for state, value in map(known_start, settings.starts):
        i = series.states.index(state)
        if value == OF_SAMPLE:
            found[:, i] = [run.values[0, i] for run in series.trajectories]
            if not np.isfinite(found[:, i]).all():
                raise InputError(
                    f"--starts {state!r} = {OF_SAMPLE}: expected a first sample in every group; fill it in"
                )
        else:
            found[:, i] = of_groups(series, value) if isinstance(value, str) else value
    return found


def _count_noise(run: Trajectory, recorded: Recorded, states: tuple[str, ...]) -> Array | None:
    """Return standard deviations of the values; those of cumulative counts are the roots of their increments."""
    if not recorded.counted.any():
        return run.sigma
    sigma = np.full(run.values.shape, np.nan) if run.sigma is None else run.sigma.copy()
    for i in np.flatnonzero(recorded.counted):
        if np.isfinite(sigma[:, i]).any():
            raise InputError(f"{states[i]!r} is cumulative: its noise follows from its increments; give no other")
        rows = np.flatnonzero(recorded.seen[:, i])
        values = run.values[rows, i]
        for k in np.flatnonzero(np.diff(values) < 0.0)[:1]:
            raise InputError(
                f"{states[i]!r} falls from {values[k]:g} to {values[k + 1]:g} at time {run.time[rows[k + 1]]:g}: "
                "expected a cumulative count; correct it, or leave --cumulative out"
            )
        sigma[rows, i] = np.sqrt(np.maximum(np.append(values[0], np.diff(values)), 1.0))
    return sigma


def without_controls(series: TimeSeries, names: list[str]) -> TimeSeries:
    """Remove some controls from a series."""
    kept = [k for k, name in enumerate(series.controls) if name not in names]
    if len(kept) == len(series.controls):
        return series
    runs = []
    for run in series.trajectories:
        assert run.controls is not None
        own = run.controls
        left = dataclasses.replace(own, values=own.values[:, kept], held=own.held[kept]) if kept else None
        runs.append(dataclasses.replace(run, controls=left))
    return dataclasses.replace(series, trajectories=tuple(runs), controls=tuple(series.controls[k] for k in kept))


def without_still_controls(series: TimeSeries, settings: Settings) -> TimeSeries:
    """Remove controls that never change, unless the user's statements name them, with a note on each."""
    notes = dict[str, str]()
    stated = repr([value for value in vars(settings).values() if isinstance(value, tuple)])
    for k, name in enumerate(series.controls):
        values = np.concatenate([t.controls.values[:, k] for t in series.trajectories if t.controls is not None])
        if np.ptp(values) == 0.0 and not re.search(rf"\b{re.escape(name)}\b", stated):
            notes[name] = (
                f"the input {name} is {values[0]:g} throughout: what it does cannot be distinguished from constants of "
                "the equations, so it is left out"
            )
    left = without_controls(series, list(notes))
    return dataclasses.replace(left, messages=(*left.messages, *notes.values()))


def dose_columns(settings: Settings) -> list[str]:
    """List the columns of doses."""
    return list(dict.fromkeys(column for _, column in map(dose_column, settings.doses)))


def dose_statements(series: TimeSeries, settings: Settings) -> tuple[str, ...]:
    """Write the statements that each dose enters its state, as a user would."""
    names, known = identifiers([*series.states, *series.controls]), []
    if settings.vary is None and any(map(dose_factor, settings.doses)):
        raise InputError("--doses with a factor that is fitted belongs to groups: it needs --vary all, none or auto")
    for state, column in map(dose_column, settings.doses):
        if state not in series.states:
            raise unknown_name("state with doses", state, series.states)
        if column not in series.controls:
            raise unknown_name("column of doses", column, (*series.controls, *series.states))
        known.append(f"{names[state]}' = {names[column]} + ?")
    return tuple(known)


def given_amounts(series: TimeSeries, run: Trajectory, settings: Settings) -> Array | None:
    """Sum the amounts that doses added to each state up to each sample [samples, states]; None without doses."""
    if not settings.doses or run.controls is None:
        return None
    found = np.zeros(run.values.shape)
    for state, column in map(dose_column, settings.doses):
        if state in series.states and column in series.controls:
            rates = run.controls.values[:-1, series.controls.index(column)]
            found[1:, series.states.index(state)] += np.cumsum(rates * np.diff(run.time))
    return found


def break_controls(settings: Settings, time_name: str) -> dict[str, float]:
    """Return names and times of the steps, in order."""
    times = break_times(settings.breaks, time_name) if settings.breaks is not None else []
    return {f"after_{time:g}": time for time in times}


def with_breaks(series: TimeSeries, settings: Settings) -> TimeSeries:
    """Add a control for each break, 0 before it and 1 from then on."""
    named = break_controls(settings, series.time_name)
    new = {name: time for name, time in named.items() if name not in series.controls}
    for time in new.values():
        if not any(run.time[0] < time < run.time[-1] for run in series.trajectories):
            first, last = series.trajectories[0].time[[0, -1]]
            raise InputError(f"--breaks: {time:g} is not within the data, {first:g} to {last:g}; leave it out")
    if not new:
        return series
    if taken := set(new) & set(series.states):
        raise InputError(f"--breaks makes an input {min(taken)!r}, and a state is called so: rename the column")
    runs = [step_at(run, list(new.values())) for run in series.trajectories]
    return dataclasses.replace(series, trajectories=tuple(runs), controls=(*series.controls, *new))


def step_at(run: Trajectory, times: Sequence[float] | Array) -> Trajectory:
    """Add an empty sample at each break to a trajectory, and the steps as held controls."""
    inside = [time for time in times if run.time[0] < time < run.time[-1]]
    whole = np.union1d(run.time, inside)
    old = np.searchsorted(whole, run.time)
    values, sigma = (np.full((len(whole), run.values.shape[1]), np.nan) for _ in range(2))
    values[old] = run.values
    if run.sigma is not None:
        sigma[old] = run.sigma
    steps = (whole[:, None] >= np.array(times)).astype(np.float64)
    held = np.ones(len(times), dtype=bool)
    if run.controls is not None:
        steps = np.hstack([run.controls.at(whole), steps])
        held = np.append(run.controls.held, held)
    return dataclasses.replace(
        run, time=whole, values=values, sigma=None if run.sigma is None else sigma, controls=Signal(whole, steps, held)
    )


def infer_latent_states(series: TimeSeries, latent: Sequence[str], known: Knowledge) -> TimeSeries:
    """Compute samples of the latent states that follow from conserved sums; the others stay nan."""
    unknown = {series.states.index(name) for name in latent}
    while unknown:
        for conserved in (c for c in known.conserved if c.value is not None):
            asked = sorted(unknown & set(np.flatnonzero(conserved.weights)))
            if len(asked) == 1:
                series = _infer(series, conserved, asked[0])
                unknown.remove(asked[0])
                break
        else:
            break
    return series


def prepare_with_latent_states(series: TimeSeries, known: Knowledge) -> Problem:
    """`prepare` the measured states, and add the latent ones, which are nonnegative, without samples.

    The scale of a latent state is the most that a conserved sum allows, or else the largest of a measured state.
    """
    seen = measured(series)
    if seen.all():
        return prepare(series)
    narrow = dataclasses.replace(
        series,
        states=tuple(np.array(series.states)[seen].tolist()),
        trajectories=tuple(t.select(seen) for t in series.trajectories),
    )
    p = prepare(narrow)
    scale = np.full(series.n_states, p.scale.size.max())
    scale[seen] = p.scale.state
    for one in known.conserved:
        if one.value is not None:
            of_sum = (one.weights * one.value > 0) & ~seen
            scale[of_sum] = one.value / one.weights[of_sum]
    data = with_columns(p.data, series.states)
    runs = [
        dataclasses.replace(run, recorded=own.recorded and own.recorded.scaled(scale))
        for run, own in zip(data.trajectories, series.trajectories, strict=True)
    ]
    wide = partial(spread_columns, places=np.flatnonzero(seen).tolist(), n=len(seen))
    return dataclasses.replace(
        p,
        data=dataclasses.replace(data, trajectories=tuple(runs)),
        smooth=with_columns(p.smooth, series.states),
        scale=Scale(scale, p.scale.time),
        noise=wide(p.noise, fill=p.noise.max()),
        floor=wide(p.floor, fill=p.floor.max()),
        nonnegative=wide(p.nonnegative, fill=True),
        constant=wide(p.constant, fill=False),
        relative_sigma=tuple(wide(s, fill=1.0) for s in p.relative_sigma),
    )


def _infer(series: TimeSeries, conserved: Conserved, i: int) -> TimeSeries:
    """Compute samples of state i from the other states of a sum."""
    c, value = conserved.weights, conserved.value
    assert value is not None
    others = np.where(np.arange(len(c)) == i, 0.0, c) / c[i]
    used = others != 0
    trajectories = []
    for t in series.trajectories:
        x = t.values.copy()
        x[:, i] = value / c[i] - t.values[:, used] @ others[used]
        sigma = t.sigma
        if sigma is not None:
            sigma = np.where(np.arange(len(c)) == i, np.sqrt(sigma[:, used] ** 2 @ others[used] ** 2)[:, None], sigma)
            sigma[np.isnan(x)] = np.nan
        trajectories.append(dataclasses.replace(t, values=x, sigma=sigma))
    note = f"{series.states[i]} was not measured: its samples follow from the conserved sum"
    return dataclasses.replace(series, trajectories=tuple(trajectories), messages=(*series.messages, note))


MOST_NOISY = 300  # samples that suffice for a noisy series
MOST_CLEAN = 1000  # samples that suffice for a clean one, and most samples in runs
WORTH = 2  # a series with fewer than this multiple of the samples it needs is not thinned
FITTED = 5  # least number of neighbours for a parabola


def thin_series(series: TimeSeries) -> TimeSeries:
    """Thin a series to about 1000 samples (clean) or 300 (noisy), more with many extrema; a short one is unchanged.

    Series with controls, counts, limits or known starts are unchanged: controls are linear only between all samples.
    """
    total = sum(len(t.time) for t in series.trajectories)
    if series.controls or any(t.recorded for t in series.trajectories) or total < WORTH * MOST_NOISY:
        return series
    seen, noise = measured(series), estimate_noise(series)
    spread = np.nanstd(np.where(seen, pooled(series), 0.0), axis=0)
    clean = bool((noise <= CLEAN_SHARE * spread)[seen].all())
    most = MOST_CLEAN if clean else MOST_NOISY
    if total < WORTH * most:
        return series
    prominence = np.maximum(PROMINENCE * spread, 8.0 * noise)
    # Twenty samples resolve an extremum.
    enough = 20 * sum(_count_extrema(t, prominence) for t in series.trajectories)
    share = min(max(most, enough) / total, 1.0)
    if clean:
        fewer = [_pick(_complete(t, seen, share), spread, share * len(t.time)) for t in series.trajectories]
    else:
        k = _most_neighbours(series, max(round(1.0 / share), 1), noise)
        fewer = [_average(t, k) for t in series.trajectories]
    return dataclasses.replace(series, trajectories=tuple(_pick_runs(fewer)))


def _count_extrema(t: Trajectory, prominence: Array) -> int:
    """Count the clear extrema of the state with the most, and one for each end."""
    counts = [0]
    for y, least in zip(t.values.T, prominence, strict=True):
        y = y[np.isfinite(y)]
        each = len(y) // 100_000
        if each > 1:
            # Averaging saves time: extrema between these neighbours are too fast for any thinned series.
            y = y[: len(y) // each * each].reshape(-1, each).mean(axis=1)
        if least > 0.0:
            counts.append(count_extrema(y, least))
    return 2 + max(counts)


def _complete(t: Trajectory, seen: Mask, share: float) -> Trajectory:
    """Drop samples with missing values if enough others remain."""
    whole: Mask = np.asarray(np.isfinite(t.values[:, seen]).all(axis=1))
    return t if whole.all() or whole.mean() < WORTH * share else t.part(whole)


def _pick(t: Trajectory, spread: Array, wanted: float) -> Trajectory:
    """Select samples at equal steps of time and path, so that they stay dense where states change fast."""
    size = np.where(spread > 0.0, spread, np.inf)
    path = np.nan_to_num(np.abs(np.diff(t.values, axis=0) / size)).sum(axis=1)
    time = np.diff(t.time)
    way = time / time.sum() + path / max(path.sum(), ABOVE_ZERO)
    way = np.concatenate([[0.0], np.cumsum(way)])
    count = min(max(round(wanted), FITTED), len(t.time))
    places = np.unique(np.searchsorted(way, np.linspace(0.0, way[-1], count)))
    return t.part(places.clip(0, len(t.time) - 1))


def _most_neighbours(series: TimeSeries, most: int, noise: Array) -> int:
    """Find about the most neighbours, up to `most`, that parabolas and noise explain: means would destroy spikes."""
    k = most
    while k > 1:
        left = np.concatenate([_left_of_parabolas(t.values, 3 * k) for t in series.trajectories])
        whole = np.isfinite(left)
        # On 40 chaotic systems, means up to a ratio of 30 were as accurate as samples; at 2000 they misled.
        if (np.where(whole, left, 0.0).sum(axis=0) <= 30.0 * noise**2 * whole.sum(axis=0))[noise > 0.0].all():
            break
        k = int(0.75 * k)
    return k


def _left_of_parabolas(values: Array, length: int) -> Array:
    """Compute variances of runs of samples about parabolas [runs, states]; nan where a value is missing."""
    count = len(values) // length
    if not count:
        return np.full((1, values.shape[1]), np.nan)
    runs = values[: count * length].reshape(count, length, -1)
    basis = np.linalg.qr(np.vander(np.linspace(-1.0, 1.0, length), 3))[0]
    left = runs - basis @ (basis.T @ runs)
    return np.asarray((left**2).sum(axis=1) / (length - 3))


def _average(t: Trajectory, k: int) -> Trajectory:
    r"""Average each k neighbours, and move the mean to their mid-time along a parabola p through a wider neighbourhood.

        x(m) = mean(y) + p(m) - mean(p(t)),    variance  \sigma^2 / k

    where m is the mean of their times: curvature is not flattened.
    """
    if k == 1 or len(t.time) < FITTED:
        return t
    count = len(t.time) // k
    edges = np.linspace(0, len(t.time), count + 1).round().astype(int)
    beside = max(k, FITTED // 2)
    times, values, sigmas = [], [], []
    for first, stop in itertools.pairwise(edges):
        before = max(first - beside, 0)
        wide = t.part(slice(before, stop + beside))
        inside = np.zeros(len(wide.time), bool)
        inside[first - before : stop - before] = True
        middle = float(wide.time[inside].mean())
        found = [_middle_value(wide, i, inside, middle) for i in range(t.values.shape[1])]
        times.append(middle)
        values.append([value for value, _ in found])
        sigmas.append([sigma for _, sigma in found])
    known = None if t.sigma is None else np.array(sigmas)
    return Trajectory(np.array(times), np.array(values), t.label, known)


def _middle_value(wide: Trajectory, i: int, inside: Mask, at: float) -> tuple[float, float]:
    """Estimate one state at a time from the samples inside, with its standard deviation."""
    y = wide.values[:, i]
    sigma = np.ones_like(y) if wide.sigma is None else wide.sigma[:, i]
    seen = np.isfinite(y) & np.isfinite(sigma)
    inside = inside & seen
    if seen.sum() < 4 or not inside.any():  # one more than the constants of a parabola
        return np.nan, np.nan
    tau = (wide.time - at) / (wide.time[-1] - wide.time[0])
    design, weight = np.stack([tau, tau**2], axis=1), 1.0 / sigma
    root = np.column_stack([np.ones_like(tau), design])[seen] * weight[seen, None]
    # The three columns are of similar size, so normal equations are accurate enough.
    bend = np.linalg.lstsq(root.T @ root, root.T @ (weight[seen] * y[seen]), rcond=None)[0][1:]
    share = weight[inside] ** 2
    value = np.average(y[inside] - design[inside] @ bend, weights=share)
    return float(value), float(share.sum() ** -0.5)


def _pick_runs(trajectories: list[Trajectory]) -> list[Trajectory]:
    """Return all trajectories, or runs of neighbours spread evenly if there are too many samples."""
    if sum(len(t.time) for t in trajectories) <= MOST_CLEAN:
        return trajectories
    runs = []
    for t in trajectories:
        edges = np.linspace(0, len(t.time), max(len(t.time) * 8 // MOST_CLEAN, 1) + 1).astype(int)
        runs += [t.part(slice(a, b)) for a, b in itertools.pairwise(edges)]
    average = sum(len(r.time) for r in runs) / len(runs)
    count = min(max(int(MOST_CLEAN / average), 1), len(runs))
    places = np.linspace(0, len(runs) - 1, count).round().astype(int)
    return [dataclasses.replace(runs[j], label=f"run {j + 1}") for j in places]


LEAST_RELATIVE = 0.1  # least relative sigma by which a sample is weighted [noise of the state]


class _Noise(NamedTuple):
    """Noise of a dimensionless series."""

    sigma: Array  # standard deviation [states]
    relative: tuple[Array, ...]  # of every sample over `sigma`, [samples, states] per trajectory
    uniform: Array  # estimate that assumes the same noise in all samples [states]
    given: Array  # from the user, nan elsewhere [states]
    estimated: Array  # from the samples [states]


def prepare(series: TimeSeries, *, smoothing: bool = True) -> Problem:
    """Make a series dimensionless, and determine its noise, signs and resolution.

    Without smoothing, `smooth` is the data, with straight lines over gaps: enough to judge a law.
    """
    _check_sizes(series)
    scale = Scale.of(series)
    data = scale.apply(series)
    rounding = np.array([resolution(column) for column in pooled(series).T]) / scale.size
    rounded = np.stack([rounding_sigma(column) for column in pooled(series).T], axis=1) / scale.size
    noise = _find_noise(_filled(data), rounded)
    # From about forty samples on, solver errors average out.
    integration = 1e-8 * np.sqrt(max(len(pooled(data)) / 40.0, 1.0))
    floor = np.maximum(np.sqrt(np.mean(rounded**2, axis=0)), integration)
    found = find_interpolation(_filled(series))
    off = found.sigma / scale.size
    floor = np.maximum(floor, off)
    noise = noise._replace(sigma=np.where(np.isfinite(noise.given), noise.sigma, np.maximum(noise.sigma, off)))
    noise, nonnegative, negative = _find_signs(data, noise, floor)
    if negative.any():
        scale = Scale(np.where(negative, -scale.state, scale.state), scale.time)
        data, nonnegative = scale.apply(series), nonnegative | negative
    if smoothing:
        smoothed = _with_doses(smooth(_filled(data), noise.sigma, nonnegative & ~_dosed(data), noise.relative), data)
    else:
        smoothed = smooth(data, np.zeros(data.n_states), nonnegative)
    values = pooled(data)
    spread = np.nanmax(values, axis=0) - np.nanmin(values, axis=0)
    return Problem(
        data,
        smoothed,
        scale,
        noise.sigma,
        floor,
        nonnegative,
        np.asarray(data.is_control | (spread <= np.maximum(1e-12, rounding * 1e-6))),
        noise.relative,
        samples_a_step=found.samples,
        messages=(*_contradictions(data, noise), *found.sentences),
    )


def _find_noise(data: TimeSeries, rounded: Array) -> _Noise:
    """Determine the noise of a dimensionless series: as given, from its rounding, or estimated."""
    spread, relative, uniform = np.nanstd(pooled(data), axis=0), relative_noise(data), estimate_noise(data)
    # Without noise the residuals of polynomials are curvature. Noise proportional to a state that is mostly near 0
    # shows only on the scale of its own relative sigma.
    measurable = (uniform > CLEAN_SHARE * spread) | ((uniform > CLEAN_NOISE * spread) & shows_noise(data))
    # Splines of hundreds of states take minutes, so none is fitted twice or without need.
    earlier = [(tuple(np.ones_like(t.values) for t in data.trajectories), uniform)]
    earlier.append((relative, estimate_noise(data, relative, ~measurable, earlier)))
    measurable |= earlier[-1][1] > NOISY_SHARE * spread
    given, own = given_noise(data)
    known = np.isfinite(given)
    relative = tuple(np.where(known, g, np.where(measurable, s, 1.0)) for g, s in zip(own, relative, strict=True))
    estimated = estimate_noise(data, relative, earlier=earlier)
    # Where rounding alone explains the noise, the digits give the error of each sample.
    of_digits = np.sqrt(np.mean(rounded**2, axis=0))
    ends = np.cumsum([len(t.time) for t in data.trajectories])[:-1]
    shapes = np.split(rounded / np.where(of_digits > 0, of_digits, 1.0), ends)
    shapes = [np.maximum(s, LEAST_RELATIVE) for s in shapes]
    told = ~known & (of_digits > CLEAN_NOISE * spread)
    told &= estimate_noise(data, shapes, told, earlier) <= 1.5 * of_digits
    # Equal neighbours share one rounding error.
    alike = [np.stack([lengths_of_runs(column) for column in t.values.T], axis=1) for t in data.trajectories]
    shapes = [s * np.where(spread > 0, np.sqrt(m), 1.0) for s, m in zip(shapes, alike, strict=True)]
    relative = tuple(np.where(told, own, s) for own, s in zip(shapes, relative, strict=True))
    estimated = np.where(told, of_digits, estimated)
    # Controls are exact.
    sigma = np.where(data.is_control, 0.0, np.where(known, given, estimated))
    relative = tuple(np.maximum(np.where(data.is_control, 1.0, s), LEAST_RELATIVE) for s in relative)
    return _Noise(sigma, relative, uniform, given, estimated)


def _find_signs(data: TimeSeries, noise: _Noise, floor: Array) -> tuple[_Noise, Mask, Mask]:
    """Return the noise (uniform for stray states), and masks of nonnegative and nonpositive states within noise."""
    values = pooled(data)
    explained = np.maximum(4.0 * noise.sigma * np.concatenate(noise.relative), floor)
    nonnegative = np.nanmin(values + explained, axis=0) >= 0.0
    negative = np.nanmax(values - explained, axis=0) <= 0.0
    above, below = (find_strays([sign * t.values for t in data.trajectories], noise.uniform) for sign in (1, -1))
    known = np.isfinite(noise.given)
    stray = (above | below) & ~(nonnegative | negative | known | data.is_control)
    noise = noise._replace(
        sigma=np.where(stray, noise.uniform, noise.sigma),
        relative=tuple(np.where(stray, 1.0, s) for s in noise.relative),
    )
    nonnegative, negative = nonnegative | stray & above, negative | stray & below
    # A state within noise of 0 throughout has the sign of its mean.
    negative &= ~nonnegative | (np.nanmean(values, axis=0) < 0.0)
    return noise, nonnegative, negative


def given_noise(series: TimeSeries) -> tuple[Array, tuple[Array, ...]]:
    """Return the noise given by the user: sqrt(mean(sigma^2)) of each state, and sigma over it of every sample.

    The mean counts sigma as at most ten times its median: a few very uncertain samples do not make the others noisy.
    """
    known = [np.full(t.values.shape, np.nan) if t.sigma is None else t.sigma for t in series.trajectories]
    noise = np.full(series.n_states, np.nan)
    for i, column in enumerate(np.concatenate(known).T):
        sigma = column[np.isfinite(column)]
        if len(sigma):
            noise[i] = np.sqrt(np.mean(np.minimum(sigma, 10.0 * np.median(sigma)) ** 2))
    relative = tuple(np.clip(np.nan_to_num(s / noise, nan=1.0), 1.0 / 1000.0, 1000.0) for s in known)
    return noise, relative


def _contradictions(data: TimeSeries, noise: _Noise) -> tuple[str, ...]:
    """Report where the estimated noise contradicts the given one, one sentence per state."""
    messages = []
    for i in np.flatnonzero((noise.given > 0) & (noise.estimated > 0)):
        ratio = float(noise.estimated[i] / noise.given[i])
        off = max(ratio, 1.0 / ratio)
        if off > 3.0:
            times = f"{off:.0f}" if off < 1000.0 else "over 1000"
            # Changes between samples can only enlarge the estimate.
            which, unless = ("larger", ", unless it changes too fast between samples to tell")
            if ratio < 1:
                which, unless = "smaller", ""
            messages.append(
                f"the noise of {data.states[i]} looks {times} times {which} than its standard deviations say{unless}"
            )
    return tuple(messages)


def find_strays(values: Sequence[Array], noise: Array) -> Mask:
    """Mask the states that are slightly below 0 in at most one sample of each trajectory, bool [states].

    A state that changes sign stays below 0 for a while; a single negative sample is noise.

    >>> find_strays([np.array([[-0.3, -0.3], [1.2, -0.2], [2.1, 0.9]])], noise=np.array([0.1, 0.1]))
    array([ True, False])
    """
    alone = [(v < 0.0).sum(axis=0) <= 1 for v in values]
    found: Mask = np.all(alone, axis=0)
    found &= np.nanmin(np.concatenate(values), axis=0) >= -6.0 * noise
    return found


def _filled(data: TimeSeries) -> TimeSeries:
    """Prepare a series for smoothing: values in place of limits, and no jumps of doses."""
    runs = [dataclasses.replace(t, values=t.recorded.filled(t.values)) if t.recorded else t for t in data.trajectories]
    return dataclasses.replace(data, trajectories=tuple(runs))


def _dosed(data: TimeSeries) -> Mask:
    """Mask the states that receive doses [states]."""
    given = [t.recorded.given for t in data.trajectories if t.recorded is not None and t.recorded.given is not None]
    return np.any([g.any(axis=0) for g in given], axis=0) if given else np.zeros(data.n_states, bool)


def _with_doses(smoothed: TimeSeries, data: TimeSeries) -> TimeSeries:
    """Restore the doses that `_filled` removed to the smoothed series."""
    runs = []
    for run, t in zip(smoothed.trajectories, data.trajectories, strict=True):
        given = None if t.recorded is None else t.recorded.given
        runs.append(run if given is None else dataclasses.replace(run, values=run.values + given))
    return dataclasses.replace(smoothed, trajectories=tuple(runs))


def _check_sizes(series: TimeSeries) -> None:
    """Refuse states so large or small that products of a few overflow or underflow."""
    sizes, largest = np.nanmax(np.abs(pooled(series)), axis=0), 1e60
    for state, size in zip(series.states, sizes, strict=True):
        if size > largest or 0.0 < size < 1.0 / largest:
            raise InputError(
                f"the values of {state!r} reach {size:.3g}: expected less than "
                f"{largest:g} and more than {1 / largest:g}; change its unit, or "
                "correct them"
            )


def pose(series: TimeSeries, settings: Settings) -> tuple[TimeSeries, Problem, Knowledge]:
    """Return the series with the states that follow from knowledge, its problem, and that knowledge."""
    whole, known = with_known_states(series, settings)
    return drop_appended_controls(whole), pose_known(whole, known, settings), known


def with_known_states(series: TimeSeries, settings: Settings) -> tuple[TimeSeries, Knowledge]:
    """Add latent states, sampled where knowledge determines them, and controls as last states."""
    own = with_recorded(with_breaks(with_latent_states(series, settings.hidden_states), settings), settings)
    whole = append_controls(own)
    known = knowledge(
        whole.states,
        known=(*settings.known, *dose_statements(own, settings)),
        conserve=settings.conserve,
        forbid=settings.forbid,
        bounds=settings.bounds,
        integer_exponents=settings.integer_exponents,
        sources=settings.sources,
        nonnegative_flows=settings.nonnegative_flows,
    )
    check_known(known, whole)
    # Doses appear only in the equations that the statements give.
    doses = np.isin(known.states, dose_columns(settings))
    known = dataclasses.replace(known, forbidden=known.forbidden | (doses & ~doses[:, None]))
    if whole.units:
        check_dimensions(known, whole.time_name, whole.units)
    return infer_latent_states(whole, settings.hidden_states, known), known


def pose_known(series: TimeSeries, known: Knowledge, settings: Settings) -> Problem:
    """Pose the problem of a series from `with_known_states`.

    A redundant state appears in no equation unless known terms need it.
    """
    problem = prepare_with_latent_states(series, known)
    redundant = redundant_states(problem) & (not settings.published)
    applied = known.without(redundant)
    if not applied.empty:
        scaled = applied.rescaled(problem.scale.state, problem.scale.time)
        check_signs(applied, scaled)
        problem = dataclasses.replace(problem, knowledge=scaled, given=applied)
    notes = [
        f"{series.states[i]} hardly changes and follows from the other states: terms with it "
        "could not be told from terms without, so there are none"
        for i in np.flatnonzero(redundant & ~known.mentioned)
    ]
    return dataclasses.replace(problem, messages=(*problem.messages, *notes))
