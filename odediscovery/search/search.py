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

import numpy as np

from odediscovery.data.noise import CLEAN_SHARE
from odediscovery.errors import InputError, unknown_name
from odediscovery.families import FAMILIES, Family
from odediscovery.judge.criterion import rank, score
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.problem import Problem, has_little_noise
from odediscovery.runtime.monitor import Monitor
from odediscovery.search import proposals
from odediscovery.search.moves import (
    ALWAYS,
    EQUAL_SCORE,
    LARGE_SERIES,
    NEVER,
    Condition,
    Move,
    Pruning,
    Search,
    at_rest,
    begins_a_sine,
    each_alone,
    has_odd_powers,
    in_doubt,
    is_convincing,
    is_named,
    is_settled,
    is_unrivalled,
    leaves_noise_alone,
    leaves_only_rounding,
    likeliest,
    make,
    may_be_it,
    may_be_long,
    simplest,
    warm_start,
    was_sought_in_vain,
)
from odediscovery.search.refinement import is_growable
from odediscovery.settings import Settings
from odediscovery.stages.prune.prune import Elimination
from odediscovery.stages.values import Candidate
from odediscovery.textbook.fit import FittedForm

# The laws with a name, beside the families.
TEXTBOOK_LAWS = "textbook"


@dataclass(frozen=True)
class Vocabulary:
    """What a search may write laws with."""

    families: tuple[Family, ...] = FAMILIES  # from simple to rich; none for textbook laws alone
    textbook: bool = True  # whether laws with a name are tried

    @property
    def functions(self) -> frozenset[str]:
        """Names of the functions of a state that may stand in a law."""
        return frozenset(f.name for family in self.families for f in family.functions)

    @property
    def has_sums(self) -> bool:
        """Whether quotients by sums may stand in a law."""
        return any("sums" in family.name or family.real_inside for family in self.families)


def vocabulary(names: Sequence[str], families: Sequence[Family] = FAMILIES) -> Vocabulary:
    """What the option --library says: "powers,sums" for these alone, "no-functions" for all but these.

    Powers are part of every family, and textbook laws stay unless "no-textbook" is said.
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


def _is_exact_and_plain(at: Search) -> bool:
    p = at.problem
    if not p.clean:
        best = rank(at.candidates, p.samples)[:1]
        return leaves_only_rounding(best, p) and not in_doubt(at, best[0].law).any()
    return is_settled(at.candidates) and not in_doubt(at, simplest(at.candidates, p).law).any()


def _is_beyond_doubt(at: Search) -> bool:
    """Whether no equation of the simplest law is doubtful, by intervals that nothing was smoothed in."""
    p = at.problem
    tells = p.noisiness <= CLEAN_SHARE and at.candidates
    return bool(tells) and not in_doubt(at, simplest(at.candidates, p).law).any()


def _gains_nothing(at: Search) -> bool:
    """Whether no new candidate is better than the best one before it."""
    least = score(rank(at.before, at.problem.samples)[0], at.problem.samples) - EQUAL_SCORE
    return all(score(c, at.problem.samples) > least for c in at.new)


def _is_improvable(at: Search) -> bool:
    least = min((c.mean_square for c in at.candidates), default=np.inf)
    return bool(least >= 1.05 * at.problem.unexplained)


def _of_best(says: str, holds: Callable[[Search, Candidate], bool]) -> Condition:
    """A question to the likeliest law; without any law the answer is no."""
    return Condition(says, lambda at: bool(at.candidates) and holds(at, likeliest(at)))


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
CONVINCING = _of_best(
    "the best law leaves noise only, follows the data closely, and is short or needs all its terms", is_convincing
)
UNCONVINCING = ~CONVINCING
WHOLE = _of_best("it has whole powers", lambda at, best: bool(best.whole.all()))
REGRESSED = Condition(
    "laws of whole powers came of regression", lambda at: any(c.found_by == "regression" for c in at.candidates)
)
NONE_YET = Condition("there is no law yet", lambda at: not at.candidates)
MAY_BE_IT = _of_best("the best law leaves hardly more than noise with few terms", may_be_it)
MAY_BE_LONG = _of_best("it is a polynomial, and there are so many values that it may be long", may_be_long)
LARGE = Condition("there are so many values that growing takes long", lambda at: at.problem.samples >= LARGE_SERIES)
SOUGHT = Condition("terms were sought along it", lambda at: at.unrivalled is not None)
SOUGHT_IN_VAIN = _of_best("terms were sought along it in vain", was_sought_in_vain)
HIDES_SERIES = Condition("it hides terms of a series", lambda at: not has_little_noise(at.problem))
# Values from which on regression along the law that a search ends with may look for others [values]
MANY_VALUES = Condition("there are more values than terms", lambda at: at.problem.samples >= 200)
IMPROVABLE = Condition("the best law leaves more than smoothing does", _is_improvable)
UNRIVALLED = _of_best(
    "such a law is short or needs all its terms, and no terms along its trajectory do better", is_unrivalled
)
ODD = Condition(
    "the best law has odd powers or sines of amounts", lambda at: not at.candidates or has_odd_powers(at, likeliest(at))
)
EXACT_AND_PLAIN = Condition("a law leaves nothing, and no equation is doubtful", _is_exact_and_plain)
SERIES = Condition(
    "terms of the simplest law differ by the square of a state, as those of a sine do",
    lambda at: bool(at.candidates) and bool(begins_a_sine(simplest(at.candidates, at.problem).law, at.problem).any()),
)
NO_SERIES = EXACT_AND_PLAIN & ~SERIES
BEYOND_DOUBT = Condition("no equation is doubtful, and nothing was smoothed", _is_beyond_doubt)
LEAVES_NOISE = _of_best("the best law leaves noise, and is short or needs all its terms", leaves_noise_alone)
NAMED = _of_best("a textbook law that is no sum of powers leaves noise alone", is_named)
GAINS_NOTHING = Condition("real powers gain nothing", _gains_nothing)


FIRST_STEPS = 12  # Levenberg-Marquardt steps before laws are compared; more cost time
PROMISING = 1.3  # laws that are worse than this are not pruned on [mean square of the best one]

FULLY = Pruning("to the end")
AS_GROWN = Pruning("not at all", as_grown=True)
FITTED = Pruning("from where they are", fitted=True)
NEAR_NOISE = Pruning("but for those that leave far more than noise", Elimination(worst=1000.0, beyond=1))
NEAR_NOISE_SOON = dataclasses.replace(
    NEAR_NOISE,
    says="but for those that leave far more than noise after a few steps",
    how=dataclasses.replace(NEAR_NOISE.how, first_steps=FIRST_STEPS),
)
FITTED_NEAR_NOISE = dataclasses.replace(
    NEAR_NOISE, says="from where they are, those that leave hardly more than noise", fitted=True
)
IF_HOPEFUL = Pruning("but for hopeless ones", Elimination(hopeless=100.0))
GROWN_IF_HOPEFUL = Pruning(
    "but for hopeless ones, after a few steps", Elimination(hopeless=10.0, first_steps=FIRST_STEPS)
)
SWAPPED_IF_HOPEFUL = Pruning(
    "only the most promising, after a few steps", Elimination(hopeless=PROMISING, first_steps=FIRST_STEPS)
)
# Subsets of all sizes are proposed for each equation: what has to go is in the others.
REFITTED = Pruning(
    "a little, from where they are, the most promising",
    Elimination(first_steps=20, hopeless=PROMISING, beyond=1),
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
    """Candidate laws of all moves that apply."""
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
    """Every family of laws in the order in which they are tried, as Markdown."""
    rows = [
        (f.name, f.says, f.chain, "real" if f.real_exponents else "whole", "yes" if f.in_noise else "no")
        for f in FAMILIES
    ]
    return _markdown(("family", "what its laws look like", "units", "exponents", "in noise"), rows)


def moves_table() -> str:
    """The moves in their order, as Markdown."""
    rows = [
        (str(i), m.name, m.when.says, m.says, m.pruning.says, "" if m.until is NEVER else m.until.says)
        for i, m in enumerate(MOVES, start=1)
    ]
    return _markdown(("", "move", "is made when", "proposes", "which are pruned", "the search ends when"), rows)


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
