"""The questions that moves ask of a search, in words and in code, and the numbers in them.

Most of them are on whether the best law ends the search in noise: it leaves noise only, and looks like a law.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from odediscovery.data.samples import pooled
from odediscovery.data.smoothing import SMOOTHING
from odediscovery.judge.criterion import CRITERION, rank, score
from odediscovery.judge.doubt import (
    DOUBT,
    doubtful,
    escapes,
    has_cancelling_terms,
    interval_squares,
    is_short,
    is_within_noise,
    leaves_noise,
    needs_every_term,
)
from odediscovery.judge.residual_tests import has_no_memory
from odediscovery.laws.power_sum import SIMPLE, PowerSum, but_whole_powers
from odediscovery.problem.problem import Problem, has_little_noise
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask
from odediscovery.search.moves import Condition, Search, is_settled, leaves_only_rounding, simplest
from odediscovery.search.noiseless import is_growable
from odediscovery.search.refinement import REFINEMENT, SHORTENING, follows, leaves_nothing, refined, sigma_of
from odediscovery.solve.sensitivities import residuals
from odediscovery.stages.polish.intervals import INTERVALS
from odediscovery.stages.values import STAGES, Candidate, Polished
from odediscovery.textbook.fit import Fitter
from odediscovery.textbook.judged import as_numbers, is_left_to_noise


@dataclass(frozen=True)
class ConvincingThresholds:
    """When a law is believed in noise."""

    odd_power: float = 0.03  # a power that differs by less from those that laws of nature like is usual
    # Noise up to which few terms with free powers that leave noise only are no approximation [standard deviation of
    # a state]
    telling: float = 3e-5
    likely: float = 3.0  # standard errors by which it has to differ
    undetermined: float = 0.3  # standard error from which on the data do not tell a power
    within: float = 1.15 * math.sqrt(3.0)  # residuals of rounding reach no farther [standard deviations of rounding]
    usual: float = 0.5  # mean square from which on they are of the size of rounding [variance of rounding]
    series: int = 2  # step between the powers in the series of a sine
    powers: int = 4  # whole powers of one state in an equation that may be a series
    # A law that leaves nothing of intervals and more than this of whole trajectories has lost them [variance]
    astray: float = 1e-4
    equal_score: float = 1e-3  # difference below which neither of two laws is better [of the criterion]
    # Values from which on regression along a law comes before laws are grown, and tells long polynomials from other
    # laws [values]
    large: int = 2000
    samples: int = 40  # residuals of a state from which on this is asked


CONVINCING_LAW = ConvincingThresholds()


def in_doubt(at: Search, law: PowerSum) -> Mask:
    """Equations that leave something, or do not look like those of a law, bool [states].

    The first terms of a series leave nothing of intervals, as far as laws are fitted to these. Refined on whole
    trajectories they leave something that has memory, where a law leaves nothing, or noise alone. So a law tells
    noise that is too small to be estimated before it is known.
    """
    if law not in at.doubts:
        at.doubts[law] = _in_doubt(law, at.problem)
    return at.doubts[law]


def _in_doubt(law: PowerSum, p: Problem) -> Mask:
    doubt, moving = doubtful(law, p), ~p.constant
    if doubt.any() or (interval_squares(law, p)[moving] > STAGES.settled).any():
        return doubt
    found = refined(p, law, but_whole_powers(law), p.initial, sigma_of(p), REFINEMENT.following)
    # In chaos whole trajectories say nothing of a law that leaves nothing of intervals.
    if not follows(p, found, CONVINCING_LAW.astray) or leaves_nothing(p, found):
        return doubt
    if has_no_memory([r[:, moving] for r in residuals(found.law, p.data, found.initial)]):
        return doubt
    return moving & (interval_squares(found.law, p) > INTERVALS.exact)


def likeliest(at: Search) -> Candidate:
    """The best of the laws so far, where in little noise a fit that is closer than noise earns little.

    There solvers and smoothing leave errors that are smaller than noise seems, and that more terms would fit.
    """
    return min(at.candidates, key=lambda c: _score(at, c))


def _score(at: Search, c: Candidate) -> float:
    p = at.problem
    return score(c, p.samples, max(p.unexplained, 1.0) if has_little_noise(p) else ABOVE_ZERO)


def is_convincing(at: Search) -> bool:
    """Whether the best law leaves noise only, follows the data closely, and is short or needs all its terms.

    A law may meet windows and not their neighbours: each window has a start of its own. Of
    trajectories that may be chaotic nothing is asked of a short law.
    """
    p = at.problem
    if not at.candidates:
        return False
    best = likeliest(at)
    if not leaves_noise(p, best) or has_cancelling_terms(best.law, p)[~p.constant].any():
        return False
    short = is_short(best.law)
    if not (short or _may_be_long(best.law, p)):
        return False
    if short and (~p.constant).sum() >= SHORTENING.states:  # chaos may carry the true law off its trajectory
        return True
    near = at.follow(best)
    return near is not None and (short or needs_every_term(near[1], p.nonnegative & ~p.constant))


def may_be_it(at: Search) -> bool:
    """Whether the best law leaves hardly more than noise with so few terms that it may be believed."""
    if not at.candidates:
        return False
    best = likeliest(at)
    terms = (best.law.coefficients != 0).sum(axis=1).max()
    return is_within_noise(at.problem, best) and bool(terms <= DOUBT.constants)


def is_unrivalled(at: Search) -> bool:
    """Whether the best law may be it, is short or needs all its terms, and no terms along its trajectory do as well.

    So long polynomials and odd powers are believed in noise too: where they are the series of another law, or
    approximate it, that law's own terms explain more, or as much with fewer constants. And so are laws that seem to
    leave a little more than noise, which may be underestimated: nothing explains any of it.
    """
    p = at.problem
    if not was_sought_in_vain(at) or not (may_be_it(at) or may_be_long(at)) or _is_rivalled(at, best := likeliest(at)):
        return False
    if has_cancelling_terms(best.law, p)[~p.constant].any():
        return False
    if escapes(p, best):
        return False
    if is_short(best.law):
        return True
    near, changing = at.follow(best), p.nonnegative & ~p.constant
    return near is not None and needs_every_term(near[1], changing, long=may_be_long(at))


def may_be_long(at: Search) -> bool:
    """Whether the best law is a polynomial, and there are so many values that one of any length is told from others."""
    p = at.problem
    if not at.candidates or p.samples < CONVINCING_LAW.large:
        return False
    best = likeliest(at)
    return best.law.features is None and bool(best.whole.all()) and is_within_noise(p, best)


def was_sought_in_vain(at: Search) -> bool:
    """Whether terms were sought along the best law in vain, or along one with the same terms, fitted otherwise."""
    sought = at.unrivalled
    if sought is None:
        return False
    best = likeliest(at)
    alike = sought.law.structure() == best.law.structure() and _functions(sought.law) == _functions(best.law)
    return alike or _score(at, best) > _score(at, sought) - CONVINCING_LAW.equal_score


def _is_rivalled(at: Search, best: Candidate) -> bool:
    """Whether a law with other functions or sums is about as good: whether its powers are simple is not known yet."""
    most, own = _score(at, best) + CRITERION.close, _functions(best.law)
    return any(_functions(c.law) != own and _score(at, c) < most for c in at.candidates)


def _functions(law: PowerSum) -> tuple[object, ...]:
    return () if law.features is None else (law.features.functions, len(law.features.sums))


def _may_be_long(law: PowerSum, p: Problem) -> bool:
    """Whether many terms may be all there is: of whole powers only where there is little noise.

    In more of it a long polynomial leaves no more of a sine, or of a conserved sum, than noise hides.
    """
    return law.features is not None or has_little_noise(p)


def leaves_noise_alone(at: Search) -> bool:
    """Whether the best law is short or needs all its terms, and what it leaves of whole trajectories is noise."""
    p = at.problem
    if not at.candidates:
        return False
    best = likeliest(at)
    if has_cancelling_terms(best.law, p)[~p.constant].any():
        return False
    may_be = is_within_noise(p, best) and (is_short(best.law) or _may_be_long(best.law, p))
    near = at.follow(best) if may_be else None
    if near is None:
        return False
    q, law = near
    own = ~q.data.is_control
    left = residuals(law.law, q.data, law.initial)
    if not is_short(best.law) and not needs_every_term(law, p.nonnegative & ~p.constant):
        return False
    return is_rounding(q, left) or has_no_memory([r[:, own] for r in left])


def is_named(at: Search) -> bool:
    """Whether a textbook law that is no sum of powers leaves noise alone, with no more constants than the best law.

    It is no candidate, which are sums: it stands beside them once all are judged. Richer families would look for what
    is known already.
    """
    p = at.problem
    if not at.candidates:
        return False
    best, fitter = likeliest(at).law, Fitter.of(p)
    most = sum(int((part != 0).sum()) for part in best.constants)
    return any(
        len(form.constants) <= most
        and as_numbers(form) is None
        and is_left_to_noise(p, form)
        and has_no_memory([left[:, ~p.constant] for left in fitter.residuals(form.found)])
        for form in at.named()
    )


def is_rounding(p: Problem, left: Sequence[Array]) -> bool:
    """Whether residuals lie within half a unit of the last digit, as rounding leaves them: alike where little changes.

    Noise of the same size that is normal reaches twice as far.
    """
    own, sigma = ~p.data.is_control, np.maximum(p.noise, p.floor)
    ratio = np.concatenate([(r / (s * sigma))[:, own] for r, s in zip(left, p.relative_sigma, strict=True)])
    if np.isfinite(ratio).sum(axis=0).min() < CONVINCING_LAW.samples:
        return False
    usual = np.nanmean(ratio**2, axis=0) > CONVINCING_LAW.usual
    return bool((usual & (np.nanmax(np.abs(ratio), axis=0) < CONVINCING_LAW.within)).all())


def has_odd_powers(at: Search) -> bool:
    """Whether the best law has a power that the data tell from all that laws of nature like, or do not tell at all.

    Such a law may be short and leave noise only, and yet be an approximation: its powers are free numbers. Where
    there is next to no noise, an approximation would leave more.
    Functions of a state that never changes its sign are as odd: sines of an amount meet any smooth curve. And so are
    the first terms of the series of a sine, or of a real power, where noise hides the others.
    """
    if not at.candidates:
        return True
    best = likeliest(at)
    n = at.problem.data.n_states
    law, p = best.law, at.problem
    if _has_functions_of_amounts(law, p) or _may_be_sine(law, p):
        return True
    # Once real powers were grown it is known whether they do as well.
    if at.reference is None and _may_be_real_power(law, p):
        return True
    if at.problem.noisiness <= CONVINCING_LAW.telling or not _is_odd(best.law.exponents[:, :n], 0.0):
        return False
    near = at.follow(best)
    if near is not None and _left(*near) <= CONVINCING_LAW.telling:
        return False
    return near is None or _is_odd(near[1].law.exponents[:, :n], near[1].errors.exponents[:, :n])


def _left(p: Problem, found: Polished) -> float:
    """What a law leaves, as a share of the standard deviation of each state, the largest."""
    moving = ~p.constant
    left = found.plain_squares / np.maximum(found.counts, 1)
    return float(np.sqrt(left[moving] / np.nanvar(pooled(p.data)[:, moving], axis=0)).max(initial=0.0))


def _has_functions_of_amounts(law: PowerSum, p: Problem) -> bool:
    if law.features is None:
        return False
    first = law.features.states
    used = (law.exponents[:, first : first + len(law.features.functions)] != 0).any(axis=0)
    return any(u and p.nonnegative[f.state] for u, f in zip(used, law.features.functions, strict=True))


def _may_be_sine(law: PowerSum, p: Problem) -> bool:
    """Whether an equation may be the first terms of a sine, whose next ones noise hides."""
    return not has_little_noise(p) and bool(begins_a_sine(law, p).any())


def begins_a_sine(law: PowerSum, p: Problem) -> Mask:
    """Equations two terms of which differ by the square of a state that changes its sign, bool [states].

    x - x^3 / 6 + ..., and x v^2 for x^3 on the single orbit of a pendulum without friction.
    """
    if law.features is not None:
        return np.zeros(len(law.coefficients), dtype=bool)
    used, apart = law.coefficients != 0, np.abs(law.exponents[:, None] - law.exponents)
    only = apart.sum(axis=2) == CONVINCING_LAW.series
    step = only & (apart[..., ~p.nonnegative] == CONVINCING_LAW.series).any(axis=2)
    found: Mask = (used[:, :, None] & used[:, None, :] & step).any(axis=(1, 2))
    return found


def _may_be_real_power(law: PowerSum, p: Problem) -> bool:
    """Whether an equation has so many whole powers of one state that they may be the series of a real one."""
    if law.features is not None or p.noisiness <= CONVINCING_LAW.telling:
        return False
    used, w = law.coefficients != 0, law.exponents
    whole = (w == np.round(w)).all(axis=1)
    for k in np.flatnonzero(p.nonnegative):
        beside = np.delete(w, k, axis=1)
        alike = (beside[:, None] == beside).all(axis=2) & whole & whole[:, None]
        if (used[:, None, :] & used[:, :, None] & alike).sum(axis=2).max(initial=0) >= CONVINCING_LAW.powers:
            return True
    return False


def _is_odd(exponents: Array, errors: Array | float) -> bool:
    apart = np.abs(exponents[..., None] - np.array([0.0, *SIMPLE])).min(axis=-1)
    far = apart > np.maximum(CONVINCING_LAW.odd_power, CONVINCING_LAW.likely * errors)
    return bool((far | (errors > CONVINCING_LAW.undetermined)).any())


@dataclass(frozen=True)
class SearchThresholds:
    """When moves apply and how hard their laws are pruned."""

    brief_extrema: float = 2.0  # extrema of a window on which coarse samples are pruned
    hopeless: float = 100.0  # trained members worse than this are not pruned [mean square of the best one]
    hopeless_grown: float = 10.0  # the same of laws of richer families grown in noise [mean square of the best one]
    hopeless_swapped: float = 1.3  # the same of laws with a swapped monomial [mean square of the best one]
    worst: float = 1000.0  # laws that are expected to come near and leave more are not pruned [variance of the noise]
    beyond_near: int = 1  # removals that are still made of them after BIC says that nothing wins back what was lost
    first_steps: int = 12  # Levenberg-Marquardt steps before these two are compared; cost
    first_steps_along: int = 20  # the same for laws with terms sought along another
    # Values from which on regression along the law that a search ends with may look for others [values]
    many_values: int = 200
    improvable: float = 1.05  # above it the best law may be improved [what smoothing leaves]


SEARCH = SearchThresholds()


def _is_exact_and_plain(at: Search) -> bool:
    p = at.problem
    if not p.clean:
        best = rank(at.candidates, p.samples)[:1]
        return leaves_only_rounding(best, p) and not in_doubt(at, best[0].law).any()
    return is_settled(at.candidates) and not in_doubt(at, simplest(at.candidates, p).law).any()


def _is_beyond_doubt(at: Search) -> bool:
    """Whether no equation of the simplest law is doubtful, by intervals that nothing was smoothed in."""
    p = at.problem
    tells = p.noisiness <= SMOOTHING.clean and at.candidates
    return bool(tells) and not in_doubt(at, simplest(at.candidates, p).law).any()


def _gains_nothing(at: Search) -> bool:
    """Whether no new candidate is better than the best one before it."""
    least = score(rank(at.before, at.problem.samples)[0], at.problem.samples) - CONVINCING_LAW.equal_score
    return all(score(c, at.problem.samples) > least for c in at.new)


def _is_improvable(at: Search) -> bool:
    least = min((c.mean_square for c in at.candidates), default=np.inf)
    return bool(least >= SEARCH.improvable * at.problem.unexplained)


EXACT = Condition("a law is known to leave nothing", lambda at: at.problem.exact is not None)
CLEAN = Condition("there is no noise", lambda at: at.problem.clean)
NOISY = Condition("there is noise", lambda at: not at.problem.clean)
GROWS = Condition("laws may be grown", lambda at: at.settings.grow)
SLIGHTLY_NOISY = Condition(
    "no value is missing and there is not much noise", lambda at: at.problem.complete and is_growable(at.problem)
)
LITTLE_NOISE = Condition(
    "no value is missing and there is little noise", lambda at: at.problem.complete and has_little_noise(at.problem)
)
SETTLED_BY_A_LAW = Condition("some law leaves nothing", lambda at: is_settled(at.candidates))
UNSETTLED = Condition("every law leaves something", lambda at: not is_settled(at.candidates))
CONVINCING = Condition(
    "the best law leaves noise only, follows the data closely, and is short or needs all its terms", is_convincing
)
UNCONVINCING = ~CONVINCING
WHOLE = Condition("it has whole powers", lambda at: bool(likeliest(at).whole.all()))
REGRESSED = Condition(
    "laws of whole powers came of regression", lambda at: any(c.found_by == "regression" for c in at.candidates)
)
NONE_YET = Condition("there is no law yet", lambda at: not at.candidates)
MAY_BE_IT = Condition("the best law leaves hardly more than noise with few terms", may_be_it)
MAY_BE_LONG = Condition("it is a polynomial, and there are so many values that it may be long", may_be_long)
LARGE = Condition(
    "there are so many values that growing takes long", lambda at: at.problem.samples >= CONVINCING_LAW.large
)
SOUGHT = Condition("terms were sought along it", lambda at: at.unrivalled is not None)
SOUGHT_IN_VAIN = Condition("terms were sought along it in vain", was_sought_in_vain)
HIDES_SERIES = Condition("it hides terms of a series", lambda at: not has_little_noise(at.problem))
MANY_VALUES = Condition("there are more values than terms", lambda at: at.problem.samples >= SEARCH.many_values)
IMPROVABLE = Condition("the best law leaves more than smoothing does", _is_improvable)
UNRIVALLED = Condition(
    "such a law is short or needs all its terms, and no terms along its trajectory do better", is_unrivalled
)
ODD = Condition("the best law has odd powers or sines of amounts", has_odd_powers)
EXACT_AND_PLAIN = Condition("a law leaves nothing, and no equation is doubtful", _is_exact_and_plain)
SERIES = Condition(
    "terms of the simplest law differ by the square of a state, as those of a sine do",
    lambda at: bool(at.candidates) and bool(begins_a_sine(simplest(at.candidates, at.problem).law, at.problem).any()),
)
NO_SERIES = EXACT_AND_PLAIN & ~SERIES
BEYOND_DOUBT = Condition("no equation is doubtful, and nothing was smoothed", _is_beyond_doubt)
LEAVES_NOISE = Condition("the best law leaves noise, and is short or needs all its terms", leaves_noise_alone)
NAMED = Condition("a textbook law that is no sum of powers leaves noise alone", is_named)
GAINS_NOTHING = Condition("real powers gain nothing", _gains_nothing)
