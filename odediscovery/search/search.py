"""The default search as a table of moves: which are made, in which order, and until when; the families that they try.

Laws have a name, come of regression, are grown term by term on the integral form, exact on clean data, or are random
networks trained by Adam and LBFGS under L1, robust in noise. Those of one proposal are pruned side by side: on clean
data on one-interval windows, each from a measured state; in noise on long windows with fitted starts, where noise of
a start cannot pass for physics. Moves are made from cheap to expensive: first those for data that may have no
noise, then those for noise.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from odediscovery.errors import InputError, unknown_name
from odediscovery.families import FAMILIES, Family
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.problem import Problem
from odediscovery.runtime.monitor import Monitor
from odediscovery.search import proposals
from odediscovery.search.moves import (
    ALWAYS,
    BEYOND_DOUBT,
    CLEAN,
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
    NEVER,
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
    UNCONVINCING,
    UNRIVALLED,
    UNSETTLED,
    WHOLE,
    Move,
    Pruning,
    Search,
    at_rest,
    each_alone,
    is_settled,
    make,
    warm_start,
)
from odediscovery.settings import Settings
from odediscovery.stages.prune.prune import Elimination
from odediscovery.stages.values import Candidate
from odediscovery.textbook.fit import FittedForm

# The laws with a name, beside the families.
TEXTBOOK_LAWS = "textbook"


@dataclass(frozen=True)
class Vocabulary:
    """What a search may write laws with.

    Args:
        families: from simple to rich; none for textbook laws alone.
        textbook: whether laws with a name are tried.
    """

    families: tuple[Family, ...] = FAMILIES
    textbook: bool = True

    @property
    def functions(self) -> frozenset[str]:
        """Names of the functions of a state that may stand in a law."""
        return frozenset(f.name for family in self.families for f in family.functions)

    @property
    def has_sums(self) -> bool:
        """Whether quotients by sums may stand in a law."""
        return any("sums" in family.name or family.real_inside for family in self.families)


def vocabulary(names: Sequence[str], families: Sequence[Family] = FAMILIES) -> Vocabulary:
    """What the option --library says.

    Args:
        names: "powers,sums" for these alone, "no-functions" for all but these; spaces may be written -.
            Powers are part of every family, and textbook laws stay unless "no-textbook" is said.
        families: all that there are.

    Raises:
        InputError: a name that is none of a family, or nothing is left.

    >>> [family.name for family in vocabulary(["sums,powers"]).families]
    ['powers', 'sums']
    >>> "sums" in [family.name for family in vocabulary(["no-sums"]).families]
    False
    >>> vocabulary(["textbook"]).families
    ()
    """
    known = {family.name: family for family in families}
    words = [word.strip().replace("-", " ") for text in names for word in text.split(",") if word.strip()]
    for word in words:
        if word.removeprefix("no ") not in (*known, TEXTBOOK_LAWS):
            raise unknown_name("library", word, [*known, TEXTBOOK_LAWS])
    wanted = [word for word in words if not word.startswith("no ")] or [*known, TEXTBOOK_LAWS]
    chosen = tuple(known[word] for word in known if word in wanted and f"no {word}" not in words)
    textbook = f"no {TEXTBOOK_LAWS}" not in words
    if not chosen and not (textbook and TEXTBOOK_LAWS in wanted):
        raise InputError("--library leaves nothing to try: name a family, or textbook")
    return Vocabulary(chosen, textbook)


FULLY = Pruning("to the end")
AS_GROWN = Pruning("not at all", as_grown=True)
FITTED = Pruning("from where they are", fitted=True)
NEAR_NOISE = Pruning(
    "but for those that leave far more than noise", Elimination(worst=SEARCH.worst, beyond=SEARCH.beyond_near)
)
NEAR_NOISE_SOON = dataclasses.replace(
    NEAR_NOISE,
    says="but for those that leave far more than noise after a few steps",
    how=Elimination(worst=SEARCH.worst, beyond=SEARCH.beyond_near, first_steps=SEARCH.first_steps),
)
FITTED_NEAR_NOISE = dataclasses.replace(
    NEAR_NOISE, says="from where they are, those that leave hardly more than noise", fitted=True
)
IF_HOPEFUL = Pruning("but for hopeless ones", Elimination(hopeless=SEARCH.hopeless))
GROWN_IF_HOPEFUL = Pruning(
    "but for hopeless ones, after a few steps",
    Elimination(hopeless=SEARCH.hopeless_grown, first_steps=SEARCH.first_steps),
)
SWAPPED_IF_HOPEFUL = Pruning(
    "only the most promising, after a few steps",
    Elimination(hopeless=SEARCH.hopeless_swapped, first_steps=SEARCH.first_steps),
)
# Subsets of all sizes are proposed for each equation: what has to go is in the others.
REFITTED = Pruning(
    "a little, from where they are, the most promising",
    Elimination(first_steps=SEARCH.first_steps_along, hopeless=SEARCH.hopeless_swapped, beyond=1),
    fitted=True,
)

MOVES: tuple[Move, ...] = (
    Move(
        "plain exact law",
        EXACT,
        "the law that leaves nothing, without terms that are nothing",
        proposals.plain_exact_law,
        AS_GROWN,
        until=NO_SERIES,
        late=True,
    ),
    Move(
        "exact law",
        EXACT & ~EXACT_AND_PLAIN,
        "the law that leaves nothing",
        proposals.exact_law,
        FITTED,
        until=NO_SERIES,
        late=True,
    ),
    Move(
        "sines for a series",
        EXACT & SERIES,
        "textbook laws with sines that come near, and grown ones",
        proposals.sines_for_a_series,
        FITTED,
        until=EXACT_AND_PLAIN,
    ),
    Move(
        "textbook laws",
        GROWS & SLIGHTLY_NOISY,
        "the likeliest laws that have a name, if they come near",
        proposals.near(proposals.named_laws),
        FITTED_NEAR_NOISE,
        # Where powers were fitted, whole ones may do as well with fewer constants.
        until=EXACT_AND_PLAIN | (BEYOND_DOUBT | NOISY & LEAVES_NOISE & WHOLE) & ~ODD,
        late=True,
    ),
    Move(
        "whole powers",
        GROWS & SLIGHTLY_NOISY & NOISY,
        "laws of whole powers by regression that come near",
        proposals.near(proposals.whole_powers),
        NEAR_NOISE_SOON,
        until=LEAVES_NOISE & ~ODD,
        late=True,
    ),
    Move(
        "few powers",
        GROWS & SLIGHTLY_NOISY,
        "small sums of real powers, grown",
        proposals.few_powers,
        FITTED_NEAR_NOISE,
        until=EXACT_AND_PLAIN | (BEYOND_DOUBT | NOISY & (LEAVES_NOISE | CONVINCING)) & ~ODD,
        late=True,
    ),
    Move(
        "richer families",
        GROWS & CLEAN,
        "each family in turn, for the equations in doubt",
        proposals.richer_families,
        AS_GROWN,
        until=SETTLED_BY_A_LAW,
        late=True,
    ),
    Move(
        "textbook laws in noise",
        NOISY & GROWS & ~SLIGHTLY_NOISY,
        "the likeliest laws that have a name",
        proposals.named_laws,
        FULLY,
        late=True,
    ),
    Move(
        "richer families in little noise",
        NOISY & GROWS & LITTLE_NOISE & (UNCONVINCING | ODD),
        "each family in turn, for the equations in doubt",
        proposals.richer_families,
        GROWN_IF_HOPEFUL,
        enough=CONVINCING & ~ODD,
        until=CONVINCING & ~ODD,
    ),
    Move(
        "whole powers in noise",
        NOISY & GROWS & ~REGRESSED & (~SLIGHTLY_NOISY | NONE_YET),
        "laws of whole powers by regression",
        proposals.whole_powers,
        FULLY,
        late=True,
    ),
    Move(
        "free powers",
        NOISY & CONVINCING & WHOLE,
        "the best law, its powers real",
        proposals.freed_powers,
        FULLY,
        # Whole powers that may be the first terms of a sine are in doubt still: real ones say nothing of that.
        until=GAINS_NOTHING & ~ODD,
    ),
    Move(
        "terms along the best law",
        NOISY & GROWS & (MAY_BE_IT | MAY_BE_LONG) & (UNCONVINCING | ODD) & ~SOUGHT_IN_VAIN,
        "what regression along its trajectory says",
        proposals.terms_along_the_best,
        REFITTED,
        # Along so many values regression tells a sine from its first terms, and odd powers, or sines of amounts, from
        # what they meet.
        until=(CONVINCING | UNRIVALLED) & ~ODD | UNRIVALLED & LARGE,
    ),
    Move(
        "swapped monomials",
        NOISY & SLIGHTLY_NOISY & IMPROVABLE & (UNCONVINCING | ODD),
        "the best laws with one monomial replaced",
        proposals.swapped_monomials,
        SWAPPED_IF_HOPEFUL,
        until=CONVINCING & ~ODD | UNRIVALLED,
    ),
    Move(
        "richer families in slight noise",
        NOISY & GROWS & SLIGHTLY_NOISY & (UNCONVINCING | ODD),
        "each family that is looked through in noise",
        proposals.noisy_families,
        GROWN_IF_HOPEFUL,
        enough=CONVINCING & ~ODD,
        until=CONVINCING & ~ODD,
    ),
    Move(
        "random members",
        NOISY & ~NAMED | CLEAN & UNSETTLED,
        "networks trained under L1, and grown sums of powers",
        proposals.trained_and_grown,
        IF_HOPEFUL,
        late=True,
    ),
    Move(
        "swapped monomials in noise",
        NOISY & ~SLIGHTLY_NOISY & IMPROVABLE & ~NAMED,
        "the best laws with one monomial replaced",
        proposals.swapped_monomials,
        SWAPPED_IF_HOPEFUL,
    ),
    Move(
        "richer families in noise",
        NOISY & GROWS & ~SLIGHTLY_NOISY & ~NAMED & (UNCONVINCING | ODD),
        "each family that is looked through in noise",
        proposals.noisy_families,
        GROWN_IF_HOPEFUL,
        enough=CONVINCING & ~ODD,
    ),
    # In slight noise whole powers that leave noise alone have ended the search.
    Move(
        "free powers at the end",
        NOISY & GROWS & HIDES_SERIES & SLIGHTLY_NOISY & CONVINCING & WHOLE,
        "the best law, its powers real",
        proposals.freed_powers,
        FULLY,
        last=True,
    ),
    Move(
        "few products",
        NOISY & GROWS & HIDES_SERIES,
        "a few products shared by all equations",
        proposals.few_products,
        GROWN_IF_HOPEFUL,
        last=True,
    ),
    Move(
        "terms along the last law",
        NOISY & GROWS & HIDES_SERIES & MANY_VALUES & ~SOUGHT,
        "what regression along its trajectory says",
        proposals.terms_along_the_best,
        REFITTED,
        last=True,
    ),
)


# The only move of recipe `neural`: nothing is grown, no library is regressed.
NETWORKS = Move("networks", ALWAYS, "networks trained under L1", proposals.trained_members, IF_HOPEFUL, late=True)


def search(
    p: Problem,
    settings: Settings,
    monitor: Monitor,
    families: Sequence[Family] = FAMILIES,
    named: Callable[[], Sequence[FittedForm]] = tuple,
) -> list[Candidate]:
    """Candidate laws of all moves that apply.

    Args:
        named: gives the textbook laws, fitted, when they are asked for.
    """
    at = Search(p, settings, monitor, families, named)
    make(MOVES, at)
    return at.candidates


def train_networks(
    p: Problem, before: Sequence[PowerSum], settings: Settings, monitor: Monitor
) -> tuple[Problem, list[Candidate]]:
    """Pruned laws of trained networks, and the data as they compare on them.

        random starts -> Adam, LBFGS under L1, gates drawn to 1 -> pruned -> (judged, polished, simplified)

    The data are taken for exact first, with one-interval windows that start at samples: where the law that comes of
    it leaves nothing, they are. Otherwise the networks are trained once more and pruned as data with noise want it,
    on windows of several intervals with fitted starts.

    Args:
        before: laws in the user's units that compete, such as those of an earlier fit.

    Returns:
        The data, without noise where a law leaves nothing, and the candidates.
    """
    if p.constant.all():
        return p, [at_rest(p)]
    little = LITTLE_NOISE.holds(Search(p, settings, monitor))
    for q in (*[p.without_noise(None)] * little, *[p] * (not p.clean)):
        at = Search(q, settings, monitor)
        make([NETWORKS], at)
        if is_settled(at.candidates) or monitor.stopping():
            break
    candidates = warm_start(q, before, monitor) + at.candidates
    # A stop ends with a law, also before the first network is trained.
    return q, candidates or [each_alone(q)] * bool(monitor.stopping())


def families_table() -> str:
    """Every family of laws in the order in which they are tried, as Markdown.

    >>> print(families_table().splitlines()[2])
    | powers | sums of products of real powers of states | NPU -> NAU | real | yes |
    """
    rows = [
        (f.name, f.says, f.chain, "real" if f.real_exponents else "whole", "yes" if f.in_noise else "no")
        for f in FAMILIES
    ]
    return _markdown(("family", "what its laws look like", "units", "exponents", "in noise"), rows)


def moves_table() -> str:
    """The moves in their order, as Markdown."""
    rows = []
    for i, move in enumerate(MOVES, start=1):
        ends = "" if move.until is NEVER else move.until.says
        rows.append((str(i), move.name, move.when.says, move.says, move.pruning.says, ends))
    return _markdown(("", "move", "is made when", "proposes", "which are pruned", "the search ends when"), rows)


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
