"""Whether what looks like noise is only coarse sampling: a law that leaves nothing tells."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from odediscovery.data.noise import shows_noise
from odediscovery.data.smoothing import SMOOTHING
from odediscovery.families import POWERS, TRIGONOMETRIC, Family
from odediscovery.fitting.levenberg_marquardt import levenberg_marquardt
from odediscovery.fitting.windows import ShortResiduals, short_windows
from odediscovery.judge.doubt import interval_squares
from odediscovery.laws.power_sum import PowerSum, but_whole_powers
from odediscovery.networks.chain import Chain
from odediscovery.networks.translate import chain_of, laws_of
from odediscovery.problem.problem import Problem, increment_squares
from odediscovery.runtime.arrays import ABOVE_ZERO
from odediscovery.runtime.monitor import Monitor
from odediscovery.stages.grow.grow import GROWING, grow
from odediscovery.stages.grow.polynomials import allowed_products, library_law, products
from odediscovery.stages.polish.intervals import sharpened
from odediscovery.stages.prune.paths import PRUNING_WINDOWS, all_whole
from odediscovery.stages.values import STAGES


@dataclass(frozen=True)
class NoiselessThresholds:
    """When a library is fitted to samples as they are."""

    # What a law may leave of clean data for a fit, or its pruning, to be worth its time [mean squared increment of
    # an interval]
    near: float = 1e-3
    degrees: tuple[int, ...] = (1, 2, 3, 4, 5)  # highest degrees of the libraries, in this order
    spare: float = 2.0  # fewest values for each coefficient of a library that shows that there is no noise [values]
    coarse_sampling: float = 0.1  # above it smoothing is not believed [clear extrema of a sample interval]
    # highest degree that is fitted although regression leaves much: samples may be few a turn; cost: each such fit
    # takes seconds
    coarse_degree: int = 2
    solved: float = 1.6e-3  # what a coarse fit leaves of samples without noise [mean squared increment of an interval]
    noise_share: float = 0.3  # what it leaves of noise, at least [variance of the noise of both ends]
    steps: int = 20  # most Levenberg-Marquardt steps of a fit
    rounds: int = 4  # fits of a library, each on steps that are fine enough for the last one
    turning_noise: float = 0.05  # what looks like more noise is not only curvature [standard deviation of a state]
    products: int = 200  # most coefficients of a library that is fitted to intervals as a whole
    nothing: float = 1e-6  # terms that are no larger are nothing [rms of their equation]
    growable_noise: float = 0.02  # above it growing on the integral form leads astray [standard deviation of a state]


NOISELESS = NoiselessThresholds()


def is_growable(p: Problem) -> bool:
    """Whether there is so little noise that growing on the integral form is to be trusted."""
    return bool(p.noisiness <= NOISELESS.growable_noise)


def detect_noiseless(p: Problem, monitor: Monitor) -> Problem:
    """The series without noise if some law of whole powers leaves nothing between samples.

    The noise of fast changes that are sampled coarsely cannot be estimated before a law is known,
    nor that of states whose controls bend or jump at samples; there a law of real powers will do.
    Where whole powers leave nothing of clean data, real ones would be hard to tell from them.
    """
    if not p.complete or _is_rounded(p) or _shows_noise_alone(p):
        return p
    taken = p.without_noise(None)
    for degree in NOISELESS.degrees:
        if p.samples < NOISELESS.spare * len(p.constant) * math.comb(len(p.constant) + degree, degree):
            break
        sure = p.noisiness > SMOOTHING.clean and degree <= NOISELESS.coarse_degree
        law = fit_library(p, degree, monitor, near=np.inf if sure else NOISELESS.near)
        if monitor.stopping():
            break
        if law is not None and _leaves_nothing(law, taken):
            return p.without_noise(law)
    if not p.clean:
        for family in _grown_as_if_clean(p):
            for law in grow(taken, family=family, max_monomials=GROWING.quick_monomials, monitor=monitor)[:1]:
                if _leaves_nothing(law, taken):
                    return p.without_noise(law)
    return p


def plain_law(law: PowerSum, p: Problem) -> PowerSum | None:
    """A law of whole powers, once all products up to its degree have exact constants, without those that are nothing.

    What regression leaves out, or pruning, is what is small beside its own errors; here terms that are none have
    coefficients a million times smaller than those that are.

    Args:
        law: dimensionless, one that leaves nothing.
        p: data without noise.

    Returns:
        None where intervals do not tell the constants apart, or terms from nothing.
    """
    n, w = law.n_states, law.exponents
    if law.features is not None or law.stoichiometry is not None or not (all_whole(w) and (w >= 0.0).all()):
        return None
    rows = products(n, int(w.sum(axis=1).max(initial=0.0)))
    if n * len(rows) > NOISELESS.products:
        return None
    a = np.zeros((n, len(rows)))
    for own, column in zip(w, law.coefficients.T, strict=True):
        a[:, (rows == own).all(axis=1)] += column[:, None]
    nothing = np.zeros_like(rows, dtype=bool), np.zeros((0, 0), dtype=bool), np.zeros((0, 0), dtype=bool)
    full = sharpened(p, PowerSum(a, rows), (allowed_products(p, rows), *nothing), told=True)
    if full is None:
        return None
    x = np.concatenate([t.values for t in p.smooth.trajectories])
    terms, rates = full.monomials(x), full.rhs(x)
    size = np.sqrt(np.mean(terms**2, axis=0)) * np.abs(full.coefficients)
    share = size / np.maximum(np.sqrt(np.mean(rates**2, axis=0)), ABOVE_ZERO)[:, None]
    kept = share > NOISELESS.nothing
    if not kept.any():
        return None
    small = PowerSum(np.where(kept, full.coefficients, 0.0), rows).merged()
    return sharpened(p, small, but_whole_powers(small))


def _shows_noise_alone(p: Problem) -> bool:
    """Whether what looks like noise is noise in every state: of fine samples curvature would look otherwise."""
    shown = shows_noise(p.data) | p.constant
    return not p.clean and bool(shown.all()) and not is_coarse(p)


def is_coarse(p: Problem) -> bool:
    """Whether samples are few a turn, so that neither smoothing nor an estimate of the noise is to be trusted."""
    return p.extrema_per_interval > NOISELESS.coarse_sampling


def _is_rounded(p: Problem) -> bool:
    """Whether digits that were left out are more than what counts as nothing, so that no law can leave so little."""
    moving = ~p.constant & p.measured
    return bool((2.0 * p.floor**2 > STAGES.settled * increment_squares(p))[moving].any())


def fit_library(p: Problem, degree: int, monitor: Monitor, near: float = np.inf) -> PowerSum | None:
    """All products up to a degree, fitted to the samples as they are, without smoothing.

    Args:
        near: what regression may leave between samples, for the fit to be worth its time.

    Returns:
        None where there are too many products, or regression leaves more than `near`; what regression found
        where it leaves nothing.
    """
    taken = p.without_noise(None)
    law = library_law(taken, degree)
    if law is None or p.constant.all():
        return None
    left = interval_squares(law, taken)[~p.constant].max()
    if left < STAGES.settled:
        return law
    if left > near:
        return None
    chain = chain_of([law], taken.nonnegative, whole=True)
    for accuracy in (PRUNING_WINDOWS.accuracy, PRUNING_WINDOWS.accuracy_clean):
        chain = _fitted(chain, taken, accuracy, monitor)
        if _leaves_noise(laws_of(chain)[0], p, taken):
            break
    return laws_of(chain)[0]


def _fitted(chain: Chain, p: Problem, accuracy: float, monitor: Monitor) -> Chain:
    """The law fitted to intervals, on steps that are fine enough for what comes of it."""
    windows, grid = short_windows(p), None
    for _ in range(NOISELESS.rounds):
        windows = windows.refined(chain, chain.theta, accuracy)
        if grid is not None and np.array_equal(windows.grid, grid):
            break
        grid = windows.grid
        residuals = ShortResiduals(windows, chain)
        fit = levenberg_marquardt(residuals, chain.theta, chain.free, NOISELESS.steps, monitor=monitor)
        chain = chain.replace(fit.unknowns)
    return chain


def _grown_as_if_clean(p: Problem) -> list[Family]:
    """Families of which a law may show that there is no noise, where whole powers did not.

    Real powers where controls bend or jump; sines where a state that changes its sign turns fast.
    """
    turns = bool((~p.nonnegative & ~p.constant).any()) and p.noisiness <= NOISELESS.turning_noise
    return [POWERS] * (bool(p.data.controls) and is_growable(p)) + [TRIGONOMETRIC] * turns


def _leaves_noise(law: PowerSum, p: Problem, taken: Problem) -> bool:
    """Whether a law leaves so much that it is noise: more accurate solutions would leave as much."""
    moving = ~p.constant
    noise = 2.0 * p.noise**2 / increment_squares(taken)
    least = np.maximum(NOISELESS.noise_share * noise, NOISELESS.solved)
    return bool((interval_squares(law, taken) > least)[moving].any())


def _leaves_nothing(law: PowerSum, p: Problem) -> bool:
    return bool(interval_squares(law, p)[~p.constant].max(initial=0.0) < STAGES.settled)
