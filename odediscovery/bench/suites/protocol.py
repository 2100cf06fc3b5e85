"""The protocol: true trajectories, and what a method gets to see of them.

    additive         y = x + sigma * std(x) * e        (std of each state over its trajectory)
    multiplicative   y = x * (1 + sigma * e)           e ~ N(0, 1), independent

Truth is integrated to a relative tolerance of 1e-10; a method sees the noisy samples of the
first starts, rounded to some significant digits if asked for, of which a share may be dropped.
Random numbers depend on the seed, the suite, the system and sigma alone, never on which other systems
run or in which order.

Source of the multiplicative noise and of the dropping: d'Ascoli et al., ODEFormer, ICLR 2024.
There the first sample may be dropped too; here it stays, because R2 is counted from its time.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass

import numpy as np
from scipy.integrate import solve_ivp

from odediscovery.bench.suites.problems import MULTIPLICATIVE, SuiteSystem
from odediscovery.data.series import TimeSeries
from odediscovery.data.trajectories import SERIES
from odediscovery.errors import FitError, InputError
from odediscovery.runtime.arrays import Array

RTOL = 1e-10
# Digits that a float has.
MAX_DIGITS = 17
_MOST_EVALUATIONS = 2_000_000
# Where LSODA gives up: an explicit method of high order, then one for stiff systems.
_FALLBACKS = ("DOP853", "Radau")


@dataclass(frozen=True)
class Protocol:
    """How the training data are made.

    Args:
        sigma: noise as a share, 0 for none.
        drop: share of the samples left out at random, at least 0 and below 1.
        trajectories: how many of the starts are trained on.
        seed: of noise, dropping and the methods.
        digits: significant ones of the values; all if not given.
    """

    sigma: float = 0.0
    drop: float = 0.0
    trajectories: int = 1
    seed: int = 0
    digits: int | None = None

    @property
    def is_clean(self) -> bool:
        """Whether the values are the true ones."""
        return self.sigma == 0.0 and self.digits is None

    def checked(self) -> Protocol:
        """This protocol, or an `InputError` that names the option that is out of range."""
        check_sigma(self.sigma)
        if not 0.0 <= self.drop < 1.0:
            raise InputError(f"--drop must be at least 0 and below 1, got {self.drop}")
        if self.trajectories < 1:
            raise InputError(f"--trajectories must be at least 1, got {self.trajectories}")
        if self.seed < 0:
            raise InputError(f"--seed must be at least 0, got {self.seed}")
        if self.digits is not None and not 1 <= self.digits <= MAX_DIGITS:
            raise InputError(f"--digits must be at least 1 and at most {MAX_DIGITS}, got {self.digits}")
        return self


def check_sigma(sigma: float) -> None:
    """Whether this can be a share of noise.

    Raises:
        InputError: it cannot.
    """
    if not 0.0 <= sigma < math.inf:
        raise InputError(f"--sigma must be at least 0 and finite, got {sigma}")


def check_trajectories(system: SuiteSystem, protocol: Protocol) -> None:
    """Whether a system has that many starts to train on.

    Raises:
        InputError: it has fewer.
    """
    if protocol.trajectories > system.trainable:
        raise InputError(
            f"--trajectories {protocol.trajectories}: systems of {system.suite} have "
            f"at most {system.trainable} to train on"
        )


def true_trajectory(system: SuiteSystem, start: int) -> Array:
    """The noise-free states at `system.times`, [n_samples, states].

    Args:
        start: which of `system.starts`; -1 is the unseen one.

    Raises:
        FitError: no solver can follow the truth.
    """
    begin, times = system.starts[start], system.times
    values = system.equations.simulate(begin, times, RTOL, most_evaluations=_MOST_EVALUATIONS)
    for method in _FALLBACKS:
        if np.isfinite(values).all():
            break
        solved = solve_ivp(
            lambda _, x: system.equations.rhs(x), system.t_span, begin, method, times, rtol=RTOL, atol=1e-12
        )
        if solved.success:
            values = solved.y.T
    if not np.isfinite(values).all():
        raise FitError(f"no solver follows the true equations of {system.suite} {system.id}")
    return values


def training_data(system: SuiteSystem, protocol: Protocol) -> TimeSeries:
    """The series that a method gets: noisy, rounded, thinned samples of the first starts."""
    check_trajectories(system, protocol)
    key = f"{protocol.seed}|{system.suite}|{system.id}|{protocol.sigma!r}"
    stream = zlib.crc32(key.encode())
    # Two streams, so that dropping samples leaves the noise of the others as it is.
    noise, thinning = np.random.default_rng([stream, 0]), np.random.default_rng([stream, 1])
    times, values = [], []
    for start in range(protocol.trajectories):
        clean = true_trajectory(system, start)
        size = np.abs(clean) if system.noise == MULTIPLICATIVE else clean.std(axis=0)
        seen = clean + protocol.sigma * size * noise.standard_normal(clean.shape)
        if protocol.digits is not None:
            seen = rounded(seen, protocol.digits)
        kept = _kept(len(seen), protocol.drop, thinning)
        times.append(system.times[kept])
        values.append(seen[kept])
    if protocol.trajectories == 1:
        return TimeSeries.from_arrays(times[0], values[0], system.states)
    return TimeSeries.from_arrays(list(times), list(values), system.states)


def rounded(values: Array, digits: int) -> Array:
    """Values to so many significant digits.

    >>> rounded(np.array([0.123456, -98765.4]), 3).tolist()
    [0.123, -98800.0]
    """
    each = [float(f"{value:.{digits - 1}e}") for value in values.ravel().tolist()]
    return np.array(each).reshape(values.shape)


def rough_trajectory(system: SuiteSystem, start: Array, size: Array, tolerance: float) -> Array:
    """The states at `system.times` as scipy's Radau gives them at a tolerance, between its steps interpolated.

    Args:
        start: initial values [states].
        size: how large each state becomes [states], for the absolute tolerance.

    Raises:
        FitError: it does not follow the truth.
    """
    solved = solve_ivp(
        lambda _, x: system.equations.rhs(x),
        system.t_span,
        start,
        "Radau",
        system.times,
        rtol=tolerance,
        atol=1e-3 * tolerance * size,
    )
    if not solved.success:
        raise FitError(f"Radau does not follow {system.suite} {system.id} with a tolerance of {tolerance:g}")
    values: Array = solved.y.T
    return values


def _kept(samples: int, drop: float, random: np.random.Generator) -> Array:
    """Places of the samples that stay, in order; the first always does."""
    removed = min(int(drop * samples), max(samples - SERIES.least_values, 0))
    left_out = random.permutation(np.arange(1, samples))[:removed]
    places: Array = np.setdiff1d(np.arange(samples), left_out)
    return places
