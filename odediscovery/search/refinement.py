"""Refinement of judged laws on all data, window lengths for chaotic systems, and the detection of noiseless data.

Laws are found and judged on thinned series, or on pieces that they can follow. Their constants are then refined on
longer pieces, whole trajectories and all samples.

In chaos, a window may be only so long that the error of its start stays small:

    y_{j+1} = Phi_j y_j,    y_0 ~ N(0, sigma^2),    mean over windows, samples and states of (y / sigma)^2

with Phi of a law that fits every interval, along the smoothed data. In chaos and through spikes, errors grow a
thousandfold over a window, and no fit recovers, not even that of the true law.

A law without residuals shows that apparent noise is only coarse sampling.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from odediscovery.data.noise import CLEAN_SHARE, shows_noise
from odediscovery.data.series import complete, pooled
from odediscovery.families import POWERS, SUMS, TRIGONOMETRIC
from odediscovery.fitting.windows import ShortResiduals, levenberg_marquardt, short_windows
from odediscovery.judge.claim import autocorrelated, interval_squares, is_explained, memory
from odediscovery.judge.criterion import SOLVER, SYSTEMATIC, Verdict, judge_on, misfit, non_dominated
from odediscovery.laws.power_sum import Free, PowerSum, none_free
from odediscovery.laws.records import SETTLED, Candidate, Judged, Polished
from odediscovery.networks.chain import chain_of, laws_of
from odediscovery.problem.problem import Independent, Problem, apply_knowledge_to_fit, increment_squares
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import Monitor
from odediscovery.solve.sensitivities import carried_along, residuals
from odediscovery.stages.polish import EXACT_SQUARES, balance, join_pieces, polish_on, sharpened
from odediscovery.stages.prune import ACCURACY, ACCURACY_CLEAN, FEW_EXTREMA, SHORTEST, has_whole_powers, window_length
from odediscovery.stages.regression import library_law, polynomials
from odediscovery.stages.terms import compete

EVALUATIONS = 25  # most evaluations of a polish
FOLLOWING = 10  # most evaluations to bring a law near the data
EXACT_SHARE = 0.5  # of the search's time, for laws of noisy samples that may be exact
LOST = 0.3  # unexplained share of the variance above which a law has lost the trajectories
# The same limit for laws without residuals on windows: chaos magnifies solver errors, but a law that has lost the
# trajectories leaves all of the variance unexplained.
FOLLOWED = 1e-9
CHAOTIC_STATES = 3  # fewest of a chaotic law: curves in a plane do not cross (Poincare and Bendixson)
# Largest squared residual on clean data at which fitting or pruning a law is worthwhile [mean squared increment of an
# interval].
NEAR = 1e-3


def residual_sigma(p: Problem, found: Polished) -> Array:
    """Compute the standard deviation of a law's residuals, at least the floor [states]."""
    sigma: Array = np.maximum(np.sqrt(found.squares / found.counts.clip(1)), p.floor)
    return sigma


def refined(
    p: Problem, law: PowerSum, free: Free, initial: Array, sigma: Array, most: int | None = None, *, fully: bool = True
) -> Polished:
    """Impose what is known on a law and fit its constants by maximum likelihood; see `polish`.

    Without noise, a law without residuals on intervals gets its constants from these; see `sharpened`.
    """
    law, free = apply_knowledge_to_fit(p, law, free)
    most = EVALUATIONS if most is None else most
    sharp = sharpened(p, law, free) if most else None
    if sharp is not None:
        law, initial, most = sharp, p.initial, 0
    return polish_on(p, law, free, initial, sigma, most, fully)


def follow_closely(p: Problem, c: Candidate) -> tuple[Problem, Polished] | None:
    """Refine a candidate on whole trajectories, or else on pieces; None if it follows neither."""
    for q in (p, p.pieces(window_length(p))):
        initial = c.initial if q is p else q.initial
        found = refined(q, c.law, c.free, initial, q.sigma, FOLLOWING)
        if follows_closely(q, found, c):
            return q, found
    return None


def lengthened(whole: Problem, p: Problem, row: Judged, monitor: Monitor) -> Judged:
    """Refine a row's constants on longer pieces, and judge it on the original ones."""
    monitor.stage("join pieces", 1)

    def refit(q: Problem, found: Polished) -> Polished:
        return refined(q, found.law, found.free, found.initial, q.sigma)

    return with_constants(p, row, join_pieces(whole, p, row.polished, refit))


def with_constants(p: Problem, row: Judged, better: Polished) -> Judged:
    """Give a row the constants found on other data, and judge it on the original data."""
    if better is row.polished:
        return row
    law = better.law
    here = polish_on(p, law, none_free(law), row.polished.initial, p.sigma)
    if not here.finite:
        return row
    joint = better.joint
    if better.initial.shape != here.initial.shape:
        # The pieces differ, but starts depend on the constants in the same way.
        there = polish_on(p, law, better.free, here.initial, p.sigma, most=0)
        joint = there.joint.with_first(better.joint.part(slice(len(better.covariance))))
    polished = dataclasses.replace(here, free=better.free, errors=better.errors, joint=joint)
    return judge_on(p, polished, row.origin)


def without_excess(p: Problem, row: Judged) -> Judged:
    """Remove terms of tied equations that balance to zero within error; see `balance`."""
    return row if p.knowledge is None else with_constants(p, row, balance(row.polished))


def count_independent(verdict: Verdict) -> Verdict:
    """Judge laws by the number of independent samples where the residuals of the closest law are systematic.

        m = n (1 - r) / (1 + r),    r the correlation of neighbouring residuals

    The error of a solver, or of a model that is nearly right, is as smooth as the states: many samples of it are no
    more evidence than a few, and ever closer laws would be found. For values interpolated by a solver, m is the
    number of its steps, each of which adds an error. Without noise, what exceeds the error of any solver counts by all
    samples.
    """
    p, rows = verdict.p, verdict.rows
    if p.heads is not None:
        return verdict
    if p.samples_a_step:
        return with_independent(verdict, Independent(np.full(len(p.noise), 1.0 / p.samples_a_step)))
    sigma = p.sigma
    left = [row.polished.squares / row.polished.counts.clip(1) for row in rows]
    misfits = [misfit(row.polished.squares, row.polished.counts, sigma) for row in rows]
    nearest = int(np.argmin(misfits))
    if not np.isfinite(left[nearest]).all():
        return verdict
    found = rows[nearest].polished
    errors = residuals(found.law, p.data, found.initial)
    far, r = left[nearest] > SYSTEMATIC * sigma**2, memory(errors)
    solver = SOLVER * np.nanstd(pooled(p.data), axis=0)
    # A law that fits even a solver's error leaves no autocorrelation; other laws within that error do.
    if far.any():
        for row, squares in zip(rows, left, strict=True):
            if np.all(squares <= np.where(p.constant, np.inf, solver**2)):
                r = np.maximum(r, memory(residuals(row.polished.law, p.data, row.polished.initial)))
    # The noise may have been lowered to the closest law's residuals; on clean data they are our own solver's error.
    smooth = [] if p.clean else [i for i, _ in autocorrelated(errors)]
    # Autocorrelated residuals as large as the noise are systematic too [variance of the noise]
    far[smooth] |= (left[nearest] >= 0.9 * sigma**2)[smooth]
    if not (far & (r > 0)).any():
        return verdict
    # The share of samples that are independent where neighbours correlate by r.
    share = np.where(far, (1.0 - r) / (1.0 + r), 1.0)
    return with_independent(verdict, Independent(share, np.maximum(solver, sigma) if p.clean else None))


def with_independent(verdict: Verdict, independent: Independent) -> Verdict:
    """Judge the laws with only some of the samples as independent."""
    p, fewer = verdict.p, dataclasses.replace(verdict.p, independent=independent)

    def again(row: Judged) -> Judged:
        # A difference keeps the bonus of a law with a name.
        before, after = (judge_on(of, row.polished, row.origin) for of in (p, fewer))
        return dataclasses.replace(row, criterion=row.criterion + after.criterion - before.criterion)

    return verdict.with_rows([again(row) for row in verdict.rows], fewer)


def on_all_samples(p: Problem, verdict: Verdict, monitor: Monitor) -> Verdict | None:
    """Judge the rows of the front on all samples; None if the claimed law cannot follow whole trajectories.

    Only the constants of the claimed law are refined on them.
    """
    chosen, scale = verdict.chosen, verdict.p.scale
    kept = non_dominated(verdict.rows, chosen, scale.state)
    monitor.stage("all samples", len(kept))
    found: dict[int, Judged] = {}
    # A start without a sample has to be fitted before a law can follow.
    initial, measured_starts = p.initial, complete(p.data) is p.data
    for i in sorted(kept, key=lambda i: i != chosen):
        before = verdict.rows[i].polished
        law = before.law.unscaled(scale.state, scale.time).rescaled(p.scale.state, p.scale.time)
        # Once a law has diverged in chaos, no fit recovers, and trying takes longer than all else.
        most = FOLLOWED if p.clean else LOST
        ahead = i == chosen and measured_starts
        if ahead and not follows(p, refined(p, law, before.free, initial, p.sigma, 0), most):
            return None
        after = refined(p, law, before.free, initial, p.sigma, EVALUATIONS if i == chosen else 0)
        if i == chosen:
            if not follows(p, after):
                return None
            initial = after.initial
        if after.finite:
            found[i] = judge_on(p, after, verdict.rows[i].origin)
        monitor.step(len(found))
    order = [i for i in kept if i in found]
    rows = tuple(found[i] for i in order)
    return dataclasses.replace(verdict, p=p, rows=rows, chosen=order.index(chosen))


def follows(p: Problem, found: Polished, most: float = LOST) -> bool:
    """Whether a law leaves at most a share `most` of the variance of the series unexplained."""
    values, moving = pooled(p.data), ~p.constant
    spread = np.nansum((values - np.nanmean(values, axis=0))[:, moving] ** 2)
    return found.finite and bool(found.plain_squares.sum() <= most * spread)


def follows_closely(p: Problem, found: Polished, c: Candidate) -> bool:
    """Whether the mean squared residual on trajectories is at most twice that on windows, or a solver's by default."""
    moving = ~p.constant
    left = (found.squares / p.sigma**2)[moving].sum() / found.counts[moving].sum()
    return found.finite and (bool(left <= 2.0 * c.mean_square) or follows(p, found, SOLVER**2))


def follows_exactly(p: Problem, found: Polished, c: Candidate) -> bool:
    """Whether a law follows trajectories exactly if it has no residuals on windows; true of all other laws."""
    return c.mean_square > SETTLED or follows(p, found, FOLLOWED)


def leaves_nothing(p: Problem, found: Polished) -> bool:
    """Whether a law's residuals on whole trajectories are at most the errors of solvers."""
    return follows(p, found, EXACT_SQUARES)


def shorten_windows(p: Problem) -> Problem:
    """Halve the windows until the errors of their starts stay small beside the spread of the states.

    A law of whole powers measures their growth. Windows keep their length if fewer than three or more than ten states
    change, if data are clean, short or incomplete, or if no such law explains the intervals.
    """
    length, moving = window_length(p), ~p.constant
    # The laws are found state by state, which takes long for many states.
    if not CHAOTIC_STATES <= moving.sum() <= 10 or p.clean or not p.complete or not is_long(p, length):
        return p
    law = next((law for law in polynomials(p) if is_explained(law, p)[moving].all()), None)
    if law is None:
        return p
    # Any such law will do: near the data, all are alike.
    carried = [carried_along(law, t) for t in p.smooth.trajectories]
    spread = np.std(pooled(p.smooth)[:, moving], axis=0)
    # The mean square of the error of a start, and the most that may become of it [variance of the states]
    noise, most = float(np.mean((p.sigma[moving] / spread) ** 2)), 0.5
    shortest = min(SHORTEST, window_length(p, FEW_EXTREMA))
    while length > shortest and not noise * _growth(p, carried, length) <= most:
        length = max(length // 2, shortest)
    return p if length == window_length(p) else dataclasses.replace(p, longest_window=length)


def is_long(p: Problem, length: int) -> bool:
    """Whether some trajectory is longer than two windows; shorter ones would give a single piece."""
    return max(len(t.time) for t in p.data.trajectories) > 2.0 * length


@np.errstate(over="ignore", invalid="ignore")
def _growth(p: Problem, carried: Sequence[Array], length: int) -> float:
    """Compute the mean squared error that the starts of windows cause at their samples [variance of the noise].

    `carried` holds Phi of every interval, [intervals, states, states] for each trajectory.
    """
    moving = ~p.constant
    sigma = p.sigma[moving]
    squares, count = 0.0, 0
    for phi in (of_trajectory[:, moving][:, :, moving] for of_trajectory in carried):
        first = np.arange(0, len(phi) - length + 1, length)
        y = np.broadcast_to(np.diag(sigma), (len(first), len(sigma), len(sigma)))
        for j in range(length if len(first) else 0):
            y = phi[first + j] @ y
            squares += float(np.sum((y / sigma[:, None]) ** 2))
        count += len(first) * length * len(sigma)
    return squares / max(count, 1)


def suits_integral_form(p: Problem) -> bool:
    """Whether noise is low enough for regression on the integral form."""
    return bool(p.noisiness <= 0.02)


def detect_noiseless(p: Problem, monitor: Monitor) -> Problem:
    """Treat the samples as exact if some law of powers, whole ones first, of sines or of sums leaves nothing.

    With coarsely sampled fast changes, noise cannot be estimated before a law is known.
    """
    if not p.complete or _is_rounded(p) or _shows_noise_alone(p):
        return p
    taken = p.without_noise(None)
    for degree in range(1, 6):
        # With fewer than two values for each coefficient, an exact fit is no evidence.
        if p.samples < 2.0 * len(p.constant) * math.comb(len(p.constant) + degree, degree):
            break
        # On samples that may be coarse, regression errors are large, so small libraries are fitted in any case.
        sure = p.noisiness > CLEAN_SHARE and degree <= 2
        law = fit_library(p, degree, monitor, near=np.inf if sure else NEAR)
        if monitor.stopping():
            break
        if law is not None and _leaves_nothing(law, taken):
            return p.without_noise(law)
    # More noise than 5 % is not only curvature.
    if not p.clean and p.noisiness <= 0.05:
        with monitor.part(EXACT_SHARE):
            moving = ~p.constant
            real, signed = (p.nonnegative[moving].any() and not p.integer_exponents), not p.nonnegative[moving].all()
            families = [POWERS] * bool(real) + [TRIGONOMETRIC] * signed + [SUMS]
            for law in (laws[0] for laws in compete(taken, families, monitor) if laws):
                near = SETTLED < interval_squares(law, taken)[moving].max() < NEAR
                law = _fitted_to_intervals(law, taken, ACCURACY_CLEAN, monitor) if near else law
                if _leaves_nothing(law, taken):
                    return p.without_noise(law)
    return p


def _shows_noise_alone(p: Problem) -> bool:
    """Whether the apparent noise is real in every state: curvature would look different on fine samples."""
    shown = shows_noise(p.data) | p.constant
    return not p.clean and bool(shown.all()) and not is_coarse(p)


def is_coarse(p: Problem) -> bool:
    """Whether samples are too coarse between extrema to trust smoothing or an estimate of the noise."""
    return p.extrema_per_interval > 0.1


def _is_rounded(p: Problem) -> bool:
    """Whether rounding of the data alone exceeds the residuals of an exact law, so that none can be exact."""
    moving = ~p.constant & p.measured
    return bool((2.0 * p.floor**2 > SETTLED * increment_squares(p))[moving].any())


def fit_library(p: Problem, degree: int, monitor: Monitor, near: float = np.inf) -> PowerSum | None:
    """Fit all products up to a degree to the samples, without smoothing.

    None if there are too many products, or if the residuals of regression exceed `near`. If regression already leaves
    none, its law is returned.
    """
    taken = p.without_noise(None)
    law = library_law(taken, degree)
    if law is None or p.constant.all():
        return None
    left = interval_squares(law, taken)[~p.constant].max()
    if left < SETTLED:
        return law
    if left > near:
        return None
    law = _fitted_to_intervals(law, taken, ACCURACY, monitor)
    return law if _leaves_noise(law, p, taken) else _fitted_to_intervals(law, taken, ACCURACY_CLEAN, monitor)


def _fitted_to_intervals(law: PowerSum, p: Problem, accuracy: float, monitor: Monitor) -> PowerSum:
    """Fit the law to intervals, refining solver steps until they suffice for the fitted law."""
    chain = chain_of([law], p.nonnegative, whole=has_whole_powers(law))
    windows, grid = short_windows(p), None
    for _ in range(4):
        windows = windows.refined(chain, chain.theta, accuracy)
        if grid is not None and np.array_equal(windows.grid, grid):
            break
        grid = windows.grid
        residuals = ShortResiduals(windows, chain)
        fit = levenberg_marquardt(residuals, chain.theta, chain.free, steps=20, monitor=monitor)
        chain = chain.replace(fit.unknowns)
    return laws_of(chain)[0]


def _leaves_noise(law: PowerSum, p: Problem, taken: Problem) -> bool:
    """Whether a law's residuals are so large that more accurate solutions would not reduce them."""
    moving = ~p.constant
    noise = 2.0 * p.noise**2 / increment_squares(taken)
    # Even without noise, a coarse fit has squared residuals of 1.6e-3.
    least = np.maximum(0.3 * noise, 1.6e-3)
    return bool((interval_squares(law, taken) > least)[moving].any())


def _leaves_nothing(law: PowerSum, p: Problem) -> bool:
    return bool(interval_squares(law, p)[~p.constant].max(initial=0.0) < SETTLED)
