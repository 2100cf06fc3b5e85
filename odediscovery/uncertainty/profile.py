"""Profile likelihood: intervals of constants without the assumption of a parabola.

    S(c) = min over all other constants and start values of the weighted sum of squares, at c
    {c : S(c) - S(c*) <= t^2 s^2},    s^2 = S(c*) / degrees of freedom

t is the 97.5 % point of Student's t: the likelihood falls by half the 95 % point of chi-squared with one degree of
freedom, corrected for noise that is estimated from few samples. Ends may be infinite where the data hardly determine
the constant.

Source: Venzon and Moolgavkar, Applied Statistics 37 (1988); Bates and Watts, Nonlinear Regression Analysis (1988), Sec.
6.1.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.special import stdtrit

from odediscovery.data.series import Scale, append_controls
from odediscovery.errors import InputError, OdeDiscoveryError, unknown_name
from odediscovery.laws.power_sum import Free, PowerSum, filled, picked
from odediscovery.laws.records import LEVEL, Estimates, Polished, monomial_names, residual_freedom
from odediscovery.result.discovery import Discovery
from odediscovery.result.profiled import KINDS, Profile
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import TELLING, Monitor
from odediscovery.runtime.workers import Backend, Failure
from odediscovery.stages.polish import polish
from odediscovery.uncertainty.bands import checked_estimates, ended, posed, residual_deviation


@dataclass(frozen=True, eq=False)
class _Fit:
    """A fit of a law to whole trajectories in given units, with all constants free."""

    polish: Callable[..., Polished]
    sigma: Array
    law: PowerSum
    free: Free
    initial: Array
    scale: Scale

    @cached_property
    def best(self) -> Polished:
        """The fit of all constants, shared by all profiles in these units."""
        return self.polish(self.law, initial=self.initial, free=self.free)

    def squares(self, found: Polished) -> float:
        """Return the weighted sum of squares, inf for a law that diverges."""
        return float((found.squares / self.sigma**2).sum()) if found.finite else math.inf


def profile(found: Discovery, kind: str, monomial: int, of: str) -> Profile:
    """Compute the interval of one constant of the chosen equations by profile likelihood.

    Args:
        found: a result of the default recipe.
        kind: "coefficient" or "exponent".
        monomial: index of the monomial, as in `terms` of `result.json`.
        of: the state whose equation contains a coefficient; the state or input that has the
            exponent.

    Raises:
        InputError: no such constant, a constant that was not fitted, or equations that follow
            trajectories in pieces only.

    >>> from odediscovery import Equations, fit_constants, simulate_system
    >>> form = Equations.parse(["N"], {"N": "0.4*N - 0.004*N**2"})
    >>> found = fit_constants(simulate_system("logistic", noise=0.05), form, exponents=False)
    >>> growth = profile(found, "coefficient", 0, "N")
    >>> growth.low < 0.4 < growth.high
    True
    """
    estimates = checked_estimates(found)
    return _interval(_asked(found, estimates, _fits(found, estimates), kind, monomial, of))


# From the fitted exponents of a monomial to the fit.
_Fits: TypeAlias = Callable[[tuple[bool, ...] | None], _Fit]


class _Asked(NamedTuple):
    """A constant whose interval is requested, as a task."""

    kind: str  # this and the next two identify the constant for the user
    monomial: int
    of: str
    fit: _Fit
    which: int  # index of the law's array that contains it
    place: tuple[int, int]  # in that array
    unit: float  # factor to the user's units


def profiles(
    found: Discovery, *, monitor: Monitor | None = None, jobs: int = 1, backend: Backend | None = None
) -> tuple[tuple[Profile, ...], tuple[str, ...]]:
    """Compute the intervals of all fitted constants of the chosen equations by profile likelihood.

    Args:
        found: a result of the default recipe.
        monitor: receives the progress and can stop the work; intervals found until then are returned.
        jobs: processes that share the constants; the result is the same.
        backend: another place to share them, such as a dask cluster.

    Returns:
        The intervals, and a sentence for each constant without one.

    Raises:
        InputError: the covariance of the constants is unknown.

    >>> from odediscovery import Equations, fit_constants, simulate_system
    >>> form = Equations.parse(["N"], {"N": "0.4*N - 0.004*N**2"})
    >>> found = fit_constants(simulate_system("logistic", noise=0.05), form, exponents=False)
    >>> intervals, missing = profiles(found)
    >>> len(intervals), missing
    (2, ())
    """
    monitor, names, estimates = monitor or Monitor(), monomial_names(found.equations), checked_estimates(found)
    printed, variables, fits = found.equations.law, found.equations.variables, _fits(found, estimates)
    assert printed is not None  # estimates are those of a law
    places = [(KINDS[0], int(j), variables[i]) for i, j in np.argwhere(printed.coefficients != 0)]
    places += [(KINDS[1], int(j), variables[k]) for j, k in np.argwhere(printed.exponents[:, : len(variables)] != 0)]
    asked = []
    for place in places:
        with suppress(InputError):  # constants that were not fitted
            asked.append(_asked(found, estimates, fits, *place))
    monitor.stage("profile likelihoods", len(asked))

    def here(one: _Asked) -> Profile | str | None:
        return None if monitor.stopping() else monitor.in_time(TELLING, partial(_profiled, one), None)

    results: dict[int, Profile | str] = {}
    for number, result in ended(_profiled, asked, here, monitor, jobs, backend):
        results[number] = result.reason if isinstance(result, Failure) else result
        monitor.step(len(results))
    told, missing = [], []
    for number, one in enumerate(asked):
        result = results.get(number) or f"stopped ({monitor.stopping()})"
        if isinstance(result, Profile):
            told.append(result)
        else:
            name = Profile(0.0, 0.0, 0.0, one.kind, one.monomial, one.of).name(names)
            missing.append(f"no profile of {name}: {result}")
    return tuple(told), tuple(missing)


def with_profiles(found: Discovery, monitor: Monitor, backend: Backend | None = None) -> Discovery:
    """Add the intervals of its constants to a result, and a message for each constant without one."""
    # A requested profile has no default time limit.
    monitor.spend(None)
    try:
        told, missing = profiles(found, monitor=monitor, backend=backend)
    except OdeDiscoveryError as error:
        return dataclasses.replace(found, messages=(*found.messages, f"no profiles: {error}"))
    return dataclasses.replace(found, profiles=told, messages=(*found.messages, *missing))


def _profiled(asked: _Asked) -> Profile | str:
    """Compute the interval of a constant, or return the reason why it has none."""
    try:
        return _interval(asked)
    except OdeDiscoveryError as error:
        return str(error)


def _asked(found: Discovery, estimates: Estimates, fits: _Fits, kind: str, monomial: int, of: str) -> _Asked:
    """Find a constant in the fitted law; InputError if it is not there or was not fitted."""
    printed, variables, law = found.equations.law, found.equations.variables, estimates.law
    if kind not in KINDS:
        raise unknown_name("kind of constant", kind, KINDS)
    if of not in variables:
        raise unknown_name("state", of, variables)
    assert printed is not None  # estimates are those of a law
    if not 0 <= monomial < printed.n_monomials:
        raise InputError(f"monomials are numbered from 0 to {printed.n_monomials - 1}, got {monomial}")
    row = int(np.argmin(np.abs(law.exponents - printed.exponents[monomial]).max(axis=1)))
    which, k = KINDS.index(kind), variables.index(of)
    place = (row, k) if which else (k, row)
    if not estimates.free[which][place]:
        raise InputError(
            f"the {kind} of monomial {monomial} and {of!r} was not fitted: it is "
            "zero, held at a round number, known, or follows from others"
        )
    fit = fits(None if which else tuple(estimates.free[1][row, : law.n_states].tolist()))
    user = fit.law.unscaled(fit.scale.state, fit.scale.time)
    unit = float(user.constants[which][place] / fit.law.constants[which][place])
    return _Asked(kind, monomial, of, fit, which, place, unit)


def _fits(found: Discovery, estimates: Estimates) -> _Fits:
    """Return a function that makes fits in units in which a constant differs from the user's by a factor only.

    The factor holds powers of scales; states with fitted exponents keep the user's units. For exponents pass None.
    """
    (series, p, _), scale = posed(found), estimates.scale
    # Inputs are exact.
    noise = np.append(residual_deviation(found), np.zeros(len(series.controls)))

    @cache
    def in_units(fitted: tuple[bool, ...] | None) -> _Fit:
        law, own = estimates.law, scale
        if fitted is not None:
            own = Scale(np.where(fitted, np.sign(scale.state), scale.state), scale.time)
            law = law.unscaled(scale.state, scale.time).rescaled(own.state, own.time)
        floor = p.floor * p.scale.size / own.size
        sigma, data = np.maximum(noise / own.size, floor), own.apply(append_controls(series))
        initial = found.initial_values / own.state[: len(found.equations.states)]
        polished = partial(
            polish,
            series=data,
            sigma=sigma,
            floor=floor,
            nonnegative=p.nonnegative,
            relative_sigma=p.relative_sigma,
            most=60,  # evaluations of the Jacobian; bounds the time
        )
        return _Fit(polished, sigma, law, estimates.free, initial, own)

    return in_units


def _interval(asked: _Asked) -> Profile:
    fit, best = asked.fit, asked.fit.best
    least = fit.squares(best)
    # Residuals at noise level have a mean square of 1; those of a result fitted in pieces exceed 2.
    if not least < 2.0 * float(best.counts.sum()):
        raise InputError(
            "the equations do not follow whole trajectories from one start: there is no likelihood of these to profile"
        )
    degrees = residual_freedom(best)
    student = float(stdtrit(degrees, 0.5 + LEVEL / 2.0))
    low, high = sorted(asked.unit * _end(asked, side * student, least / degrees) for side in (-1.0, 1.0))
    value = asked.unit * float(best.law.constants[asked.which][asked.place])
    return Profile(value, low, high, asked.kind, asked.monomial, asked.of)


def _end(asked: _Asked, student: float, variance: float) -> float:
    """Find the value at which S has grown by t^2 s^2, above the best value or, for a negative t, below it.

    The root of the growth is nearly linear in the distance; the other constants follow their conditional mean.
    """
    fit, best, which, place = asked.fit, asked.fit.best, asked.which, asked.place
    a, w, b, v = (mask.copy() for mask in best.free)
    held: Free = (a, w, b, v)
    held[which][place] = False
    # Its index among the fitted constants.
    index = int(np.concatenate([left[mask] for left, mask in zip(held, best.free, strict=True)]).argmin())
    along = best.covariance[:, index] / best.covariance[index, index]
    value = float(best.law.constants[which][place])
    size, least, most = max(abs(value), 1.0), fit.squares(best), abs(student)
    stride = 4.0  # largest ratio of steps between two fits
    step = min(most * float(best.errors.constants[which][place]), size)
    now, shorter, longer = best, 0.0, math.inf
    for _ in range(14):  # each fit takes a polish
        target = value + math.copysign(step, student)
        theta = picked(now.law, best.free)
        theta = theta + along * (target - theta[index])
        law = now.law.with_constants(*filled(now.law.constants, best.free, theta))
        tried = fit.polish(law, initial=now.initial, free=held)
        grown = max(fit.squares(tried) - least, 0.0)
        root = math.sqrt(grown / variance)
        if abs(root - most) < 0.01 * most:  # a hundredth of an interval is invisible in print
            return target
        if root > most:
            longer = step
        else:
            shorter = step
        if math.isfinite(root):
            now = tried
        step *= min(most / max(root, most / stride), stride)
        if not shorter < step < longer:
            step = 0.5 * (shorter + longer) if math.isfinite(longer) else stride * shorter
        if step > 1e3 * size:
            return math.copysign(math.inf, student)
    return value + math.copysign(step, student)
