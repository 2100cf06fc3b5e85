"""The default search, written as data: which rungs are climbed, in which order, and until when.

Laws come from two sides. Grown ones are built term by term on the integral form, exact on clean
data; random networks are trained by Adam and LBFGS under L1, robust in noise. Both become members
of one batch and are pruned alike: on clean data on one-interval windows, each from a measured
state; in noise on long windows with fitted starts, where noise of a start cannot pass for physics.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from odediscovery.families import FAMILIES, Family
from odediscovery.problem.problem import Problem
from odediscovery.runtime.monitor import Monitor
from odediscovery.search import proposals
from odediscovery.search.conditions import (
    BEYOND_DOUBT,
    CLEAN,
    COARSE,
    CONVINCING,
    EXACT,
    EXACT_AND_PLAIN,
    GAINS_NOTHING,
    GROWS,
    HIDES_SERIES,
    IMPROVABLE,
    LARGE,
    LEAVES_NOISE,
    LITTLE_NOISE,
    MANY_VALUES,
    MAY_BE_IT,
    MAY_BE_LONG,
    NAMED,
    NO_SERIES,
    NOISY,
    NONE_YET,
    ODD,
    REGRESSED,
    SEARCH,
    SERIES,
    SETTLED_BY_A_LAW,
    SLIGHTLY_NOISY,
    SOUGHT,
    SOUGHT_IN_VAIN,
    TRAINS,
    UNCONVINCING,
    UNRIVALLED,
    UNSETTLED,
    WHOLE,
    WITHIN_NOISE,
)
from odediscovery.search.rungs import ALWAYS, NEVER, Climb, Condition, Proposer, Pruning, Rung, Strategy, climb
from odediscovery.settings import Settings
from odediscovery.stages.prune.eliminate import Elimination
from odediscovery.stages.values import Candidate
from odediscovery.textbook.fit import FittedForm

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


# Whole powers that may be the first terms of a sine are in doubt still: real ones say nothing of that.
NO_POWERS_AND_NO_SINES = GAINS_NOTHING & ~ODD


def _freed(when: Condition, pruning: Pruning, until: Condition = NEVER) -> Rung:
    return Rung(
        "free powers", when, Proposer("the best law, its powers real", proposals.freed_powers), pruning, until=until
    )


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
        # Along so many values regression tells a sine from its first terms, and odd powers, or sines of amounts, from
        # what they meet.
        until=(CONVINCING | UNRIVALLED) & ~ODD | UNRIVALLED & LARGE,
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
                until=NO_SERIES,
                late=True,
            ),
            Rung(
                "exact law",
                EXACT & ~EXACT_AND_PLAIN,
                Proposer("that law", proposals.exact_law),
                FITTED,
                until=NO_SERIES,
                late=True,
            ),
            Rung(
                "sines for a series",
                EXACT & SERIES,
                Proposer("textbook laws with sines that come near, and grown ones", proposals.sines_for_a_series),
                FITTED,
                until=EXACT_AND_PLAIN,
            ),
            Rung(
                "textbook laws",
                GROWS & SLIGHTLY_NOISY,
                Proposer(
                    "the likeliest laws that have a name, if they come near", proposals.near(proposals.named_laws)
                ),
                FITTED_NEAR_NOISE,
                # Where powers were fitted, whole ones may do as well with fewer constants.
                until=EXACT_AND_PLAIN | (BEYOND_DOUBT | NOISY & LEAVES_NOISE & WHOLE) & ~ODD,
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
                CLEAN & UNSETTLED & TRAINS & ~GROWS,
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
            _freed(CONVINCING & WHOLE, BRIEFLY, until=NO_POWERS_AND_NO_SINES),
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
            _freed(CONVINCING & WHOLE, FULLY, until=NO_POWERS_AND_NO_SINES),
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
    "whether real powers, a few shared products, or other terms, do as well as those of the law that was found",
    NOISY & GROWS & HIDES_SERIES,
    (
        # In slight noise whole powers that leave noise alone have ended the search.
        _freed(SLIGHTLY_NOISY & CONVINCING & WHOLE, FULLY),
        Rung("few products", ALWAYS, Proposer("shared by all equations", proposals.few_products), GROWN_IF_HOPEFUL),
        Rung(
            "terms along the best law",
            MANY_VALUES & ~SOUGHT,
            Proposer("what regression along its trajectory says", proposals.terms_along_the_best),
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
