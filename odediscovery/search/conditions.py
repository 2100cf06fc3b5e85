"""The questions that the rungs of the search ask of a climb, in words and in code, and the numbers in them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from odediscovery.data.smoothing import SMOOTHING
from odediscovery.judge.criterion import rank, score
from odediscovery.judge.doubt import is_within_noise
from odediscovery.problem.problem import has_little_noise
from odediscovery.search.candidates import is_settled, leaves_only_rounding, simplest
from odediscovery.search.convincing import (
    CONVINCING_LAW,
    begins_a_sine,
    has_odd_powers,
    in_doubt,
    is_convincing,
    is_named,
    is_unrivalled,
    leaves_noise_alone,
    likeliest,
    may_be_it,
    may_be_long,
    was_sought_in_vain,
)
from odediscovery.search.noiseless import is_coarse, is_growable
from odediscovery.search.rungs import Climb, Condition


@dataclass(frozen=True)
class SearchThresholds:
    """When rungs apply and how hard their laws are pruned."""

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


def _is_exact_and_plain(at: Climb) -> bool:
    p = at.problem
    if not p.clean:
        best = rank(at.candidates, p.samples)[:1]
        return leaves_only_rounding(best, p) and not in_doubt(at, best[0].law).any()
    return is_settled(at.candidates) and not in_doubt(at, simplest(at.candidates, p).law).any()


def _is_beyond_doubt(at: Climb) -> bool:
    """Whether no equation of the simplest law is doubtful, by intervals that nothing was smoothed in."""
    p = at.problem
    tells = p.noisiness <= SMOOTHING.clean and at.candidates
    return bool(tells) and not in_doubt(at, simplest(at.candidates, p).law).any()


def _gains_nothing(at: Climb) -> bool:
    """Whether no new candidate is better than the best one before it."""
    least = score(rank(at.before, at.problem.samples)[0], at.problem.samples) - CONVINCING_LAW.equal_score
    return all(score(c, at.problem.samples) > least for c in at.new)


def _is_improvable(at: Climb) -> bool:
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
TRAINS = Condition(
    "there are members and real powers", lambda at: bool(at.settings.members) and not at.problem.integer_exponents
)
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
WITHIN_NOISE = Condition(
    "the best law leaves hardly more than noise", lambda at: is_within_noise(at.problem, likeliest(at))
)
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
COARSE = Condition(
    "no value is missing and samples are few a turn", lambda at: is_coarse(at.problem) and at.problem.complete
)
