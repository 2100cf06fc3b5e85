"""The default search, written as data: which rungs are climbed, in which order, and until when.

Laws come from two sides. Grown ones are built term by term on the integral form, exact on clean
data; random networks are trained by Adam and LBFGS under L1, robust in noise. Both become members
of one batch and are pruned alike: on clean data on one-interval windows, each from a measured
state; in noise on long windows with fitted starts, where noise of a start cannot pass for physics.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from odediscovery.data.smoothing import SMOOTHING
from odediscovery.families import FAMILIES, Family
from odediscovery.judge.criterion import rank, score
from odediscovery.judge.doubt import is_within_noise
from odediscovery.problem.problem import Problem
from odediscovery.runtime.monitor import Monitor
from odediscovery.runtime.thresholds import Thresholds, threshold
from odediscovery.search import proposals
from odediscovery.search.candidates import is_settled, leaves_only_rounding, simplest
from odediscovery.search.convincing import (
    CONVINCING_LAW,
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
from odediscovery.search.noiseless import has_little_noise, is_coarse, is_growable
from odediscovery.search.rungs import ALWAYS, NEVER, Climb, Condition, Proposer, Pruning, Rung, Strategy, climb
from odediscovery.settings import Settings
from odediscovery.stages.prune.eliminate import Elimination
from odediscovery.stages.values import Candidate
from odediscovery.textbook.fit import FittedForm


@dataclass(frozen=True)
class SearchThresholds(Thresholds):
    """When rungs apply and how hard their laws are pruned."""

    brief_extrema: float = threshold(2.0, "extrema of a window on which coarse samples are pruned")
    hopeless: float = threshold(
        100.0, "trained members worse than this are not pruned", unit="mean square of the best one"
    )
    hopeless_grown: float = threshold(
        10.0, "the same of laws of richer families grown in noise", unit="mean square of the best one"
    )
    hopeless_swapped: float = threshold(
        1.3, "the same of laws with a swapped monomial", unit="mean square of the best one"
    )
    worst: float = threshold(
        1000.0,
        "laws that are expected to come near and leave more are not pruned",
        unit="variance of the noise",
        origin="thirty standard deviations: no removal makes a misfit smaller",
    )
    beyond_near: int = threshold(
        1, "removals that are still made of them after BIC says that nothing wins back what was lost", origin="cost"
    )
    first_steps: int = threshold(12, "Levenberg-Marquardt steps before these two are compared", origin="cost")
    first_steps_along: int = threshold(20, "the same for laws with terms sought along another", origin="cost")
    many_values: int = threshold(
        200,
        "values from which on regression along a law that was found may look for others",
        unit="values",
        origin="chosen: about as many as there are powers of two states to choose from",
    )
    improvable: float = threshold(1.05, "above it the best law may be improved", unit="what smoothing leaves")


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
CONVINCING = Condition("the best law leaves noise only, and is short or needs all its terms", is_convincing)
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
BEYOND_DOUBT = Condition("no equation is doubtful, and nothing was smoothed", _is_beyond_doubt)
LEAVES_NOISE = Condition("the best law leaves noise, and is short or needs all its terms", leaves_noise_alone)
NAMED = Condition("a textbook law that is no sum of powers leaves noise alone", is_named)
GAINS_NOTHING = Condition("real powers gain nothing", _gains_nothing)
COARSE = Condition(
    "no value is missing and samples are few a turn", lambda at: is_coarse(at.problem) and at.problem.complete
)

FULLY = Pruning("to the end")
BRIEFLY = Pruning("on brief windows", extrema=lambda: SEARCH.brief_extrema)
AS_GROWN = Pruning("not at all", as_grown=True)
FITTED = Pruning("from where they are", fitted=True)
NEAR_NOISE = Pruning(
    "but for those that leave far more than noise", lambda: Elimination(worst=SEARCH.worst, beyond=SEARCH.beyond_near)
)
NEAR_NOISE_SOON = dataclasses.replace(
    NEAR_NOISE,
    says="but for those that leave far more than noise after a few steps",
    how=lambda: Elimination(worst=SEARCH.worst, beyond=SEARCH.beyond_near, first_steps=SEARCH.first_steps),
)
FITTED_NEAR_NOISE = dataclasses.replace(
    NEAR_NOISE, says="from where they are, those that leave hardly more than noise", fitted=True
)
IF_HOPEFUL = Pruning("but for hopeless ones", lambda: Elimination(hopeless=SEARCH.hopeless))
GROWN_IF_HOPEFUL = Pruning(
    "but for hopeless ones, after a few steps",
    lambda: Elimination(hopeless=SEARCH.hopeless_grown, first_steps=SEARCH.first_steps),
)
SWAPPED_IF_HOPEFUL = Pruning(
    "only the most promising, after a few steps",
    lambda: Elimination(hopeless=SEARCH.hopeless_swapped, first_steps=SEARCH.first_steps),
)
# Subsets of all sizes are proposed for each equation: what has to go is in the others.
REFITTED = Pruning(
    "a little, from where they are, the most promising",
    lambda: Elimination(first_steps=SEARCH.first_steps_along, hopeless=SEARCH.hopeless_swapped, beyond=1),
    fitted=True,
)


def _freed(pruning: Pruning) -> Rung:
    proposer = Proposer("the best law, its powers real", proposals.freed_powers)
    return Rung("free powers", CONVINCING & WHOLE, proposer, pruning, until=GAINS_NOTHING)


def _swapped(when: Condition, until: Condition = NEVER) -> Rung:
    proposer = Proposer("the best laws with one monomial replaced", proposals.swapped_monomials)
    return Rung("swapped monomials", when, proposer, SWAPPED_IF_HOPEFUL, until=until)


def _rivals(when: Condition) -> Rung:
    """Cheaper than any family that is grown: what regression along a trajectory says needs no fit."""
    return Rung(
        "rivals along the best law",
        GROWS & when & (MAY_BE_IT | MAY_BE_LONG) & (UNCONVINCING | ODD) & ~SOUGHT_IN_VAIN,
        Proposer("what regression along its trajectory says", proposals.terms_along_the_best),
        REFITTED,
        until=(CONVINCING | UNRIVALLED) & ~ODD,
    )


def _families(name: str, when: Condition) -> Rung:
    """Where powers were grown and do not do, richer families come before networks of powers."""
    return Rung(
        name,
        GROWS & when & (UNCONVINCING | ODD),
        Proposer("each family that is looked through in noise", proposals.noisy_families),
        GROWN_IF_HOPEFUL,
        enough=CONVINCING & ~ODD,
        until=CONVINCING & ~ODD & when,
    )


STRATEGIES: tuple[Strategy, ...] = (
    Strategy(
        "clean",
        "as if there were no noise, from the simplest family to the richest",
        ALWAYS,
        (
            Rung(
                "plain exact law",
                EXACT,
                Proposer("that law without terms that are nothing", proposals.plain_exact_law),
                AS_GROWN,
                until=EXACT_AND_PLAIN,
                late=True,
            ),
            Rung(
                "exact law", EXACT, Proposer("that law", proposals.exact_law), FITTED, until=EXACT_AND_PLAIN, late=True
            ),
            Rung(
                "textbook laws",
                GROWS & SLIGHTLY_NOISY,
                Proposer(
                    "the likeliest laws that have a name, if they come near", proposals.near(proposals.named_laws)
                ),
                FITTED_NEAR_NOISE,
                until=EXACT_AND_PLAIN | (BEYOND_DOUBT | NOISY & LEAVES_NOISE) & ~ODD,
                late=True,
            ),
            Rung(
                "whole powers",
                GROWS & SLIGHTLY_NOISY & NOISY,
                Proposer("laws of whole powers by regression that come near", proposals.near(proposals.whole_powers)),
                NEAR_NOISE_SOON,
                until=LEAVES_NOISE & ~ODD,
                late=True,
            ),
            Rung(
                "whole powers along the best law",
                GROWS & SLIGHTLY_NOISY & NOISY & REGRESSED & WHOLE & LARGE & WITHIN_NOISE & ~MAY_BE_IT,
                Proposer("what regression along its trajectory says of whole powers", proposals.whole_powers_along),
                REFITTED,
                until=LEAVES_NOISE & ~ODD,
            ),
            _rivals(NOISY & SLIGHTLY_NOISY & LARGE),
            Rung(
                "few powers",
                GROWS & SLIGHTLY_NOISY,
                Proposer("small sums of real powers, grown", proposals.few_powers),
                FITTED_NEAR_NOISE,
                until=EXACT_AND_PLAIN | (BEYOND_DOUBT | NOISY & (LEAVES_NOISE | CONVINCING)) & ~ODD,
                late=True,
            ),
            Rung(
                "richer families",
                GROWS & CLEAN,
                Proposer("each family in turn, for the equations in doubt", proposals.richer_families),
                AS_GROWN,
                until=SETTLED_BY_A_LAW,
                late=True,
            ),
            Rung("more powers", CLEAN, Proposer("sums of real powers, grown", proposals.more_powers), FULLY),
            Rung(
                "random members",
                CLEAN & UNSETTLED & TRAINS,
                Proposer("networks trained under L1", proposals.trained_members),
                IF_HOPEFUL,
            ),
        ),
    ),
    Strategy(
        "brief",
        "samples that are few a turn, as they are",
        NOISY & GROWS & COARSE,
        (
            Rung(
                "coarse library",
                ALWAYS,
                Proposer("all products up to degree two, fitted", proposals.coarse_library),
                BRIEFLY,
                late=True,
            ),
            _freed(BRIEFLY),
        ),
    ),
    Strategy(
        "noisy",
        "from simple to rich until a short law leaves noise only",
        NOISY,
        begins_with="clean",
        rungs=(
            Rung(
                "textbook laws",
                GROWS & ~SLIGHTLY_NOISY,
                Proposer("the likeliest laws that have a name", proposals.named_laws),
                FULLY,
                late=True,
            ),
            Rung(
                "richer families in little noise",
                GROWS & LITTLE_NOISE & (UNCONVINCING | ODD),
                Proposer("each family in turn, for the equations in doubt", proposals.richer_families),
                GROWN_IF_HOPEFUL,
                enough=CONVINCING & ~ODD,
                until=CONVINCING & ~ODD,
            ),
            Rung(
                "whole powers",
                GROWS & ~REGRESSED & (~SLIGHTLY_NOISY | NONE_YET),
                Proposer("laws of whole powers by regression", proposals.whole_powers),
                FULLY,
                late=True,
            ),
            _freed(FULLY),
            _rivals(ALWAYS),
            _swapped(SLIGHTLY_NOISY & IMPROVABLE & (UNCONVINCING | ODD), until=CONVINCING & ~ODD | UNRIVALLED),
            _families("richer families in slight noise", SLIGHTLY_NOISY),
            Rung(
                "random members",
                ~NAMED,
                Proposer("networks trained under L1, and grown sums of powers", proposals.trained_and_grown),
                IF_HOPEFUL,
                late=True,
            ),
            _swapped(~SLIGHTLY_NOISY & IMPROVABLE & ~NAMED),
            _families("richer families", ~SLIGHTLY_NOISY & ~NAMED),
            Rung(
                "terms along the best law",
                GROWS & UNCONVINCING & ~SOUGHT_IN_VAIN & ~NAMED,
                Proposer("what regression along its trajectory says", proposals.terms_along_the_best),
                REFITTED,
            ),
        ),
    ),
)

# Climbed on what the last strategy found, however that one ended: a short law that leaves noise only has rivals.
CLOSING = Strategy(
    "closing",
    "whether a few shared products, or powers, do as well as the terms of the law that was found",
    NOISY & GROWS & HIDES_SERIES,
    (
        Rung("few products", ALWAYS, Proposer("shared by all equations", proposals.few_products), GROWN_IF_HOPEFUL),
        Rung(
            "powers along the best law",
            MANY_VALUES & ~SOUGHT,
            Proposer("what regression along its trajectory says of powers", proposals.powers_along_the_best),
            REFITTED,
        ),
    ),
)


def search(
    p: Problem,
    settings: Settings,
    monitor: Monitor,
    families: Sequence[Family] = FAMILIES,
    named: Callable[[], Sequence[FittedForm]] = tuple,
) -> list[Candidate]:
    """Candidate laws of the strategies that apply, one after the other until one of them ends.

    `named` gives the textbook laws, fitted, when they are asked for.
    Candidates of different strategies are found on different windows and do not compare, but for those
    that a strategy begins with; so what comes back is what the last one has, and what rivals it.
    """
    at, earlier = Climb(p, settings, monitor, families, named), dict[str, list[Candidate]]()
    for strategy in STRATEGIES:
        at = at.begin(earlier, strategy.begins_with)
        if strategy.when.holds(at):
            ended = climb(strategy, at)
            earlier[strategy.name] = at.candidates
            if ended:
                break
    if CLOSING.when.holds(at) and not at.out_of_time:
        climb(CLOSING, at)
    # Out of time a strategy may have begun in vain.
    found = [candidates for candidates in earlier.values() if candidates or not monitor.stopping()]
    return found[-1] if found else []
