"""The default search: the table of its moves, the functions that propose laws, and the choice of families.

Proposed laws come from the textbook library, from regression on the integral form (exact on clean data) or along the
trajectory of a law (in noise), or from random networks trained by Adam and LBFGS with an L1 penalty. The laws of one
proposal are pruned side by side: on one-interval windows from measured states if the data are clean, otherwise on long
windows with fitted starts, where the noise of a start cannot pass for dynamics. Moves run from cheap to expensive.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from odediscovery.data.noise import CLEAN_SHARE
from odediscovery.errors import InputError, unknown_name
from odediscovery.families import FAMILIES, LOG, TRIGONOMETRIC, Family, Function
from odediscovery.judge.claim import TERMS, interval_squares, is_explained, is_short, memory
from odediscovery.judge.criterion import rank, score
from odediscovery.laws.power_sum import PowerSum
from odediscovery.laws.records import Candidate, FittedForm
from odediscovery.problem.problem import Problem, has_little_noise
from odediscovery.runtime.monitor import Monitor
from odediscovery.search.moves import (
    ALWAYS,
    EQUAL_SCORE,
    NEVER,
    Condition,
    Move,
    Proposal,
    Pruning,
    Search,
    at_rest,
    begins_a_sine,
    each_alone,
    has_odd_powers,
    in_doubt,
    is_convincing,
    is_named,
    is_rounding,
    is_settled,
    leaves_noise_alone,
    leaves_only_rounding,
    likeliest,
    make,
    may_be_it,
    may_be_series,
    simplest,
    warm_start,
)
from odediscovery.search.refinement import NEAR, fit_library, is_coarse, suits_integral_form
from odediscovery.settings import Settings
from odediscovery.solve.sensitivities import residuals
from odediscovery.stages.prune import Elimination, all_whole, has_whole_powers
from odediscovery.stages.regression import fewest_terms, polynomials
from odediscovery.stages.terms import BETTER, Screening, compete, terms_along
from odediscovery.textbook.fit import as_law, criterion_of

FOLLOWERS = 3  # laws, the best first, along one of whose trajectories terms are sought
ALONG_SHARE = 0.5  # of the time left, for each regression along a law
FAR_FROM_NOISE = 1000.0  # residuals of a law that is not pruned further [mean square, in units of the noise]
MANY_STATES = 10  # most changing states for which terms are sought in every vocabulary


def exact_law(at: Search) -> Iterator[Proposal]:
    """Propose the law that proved the data to be noiseless, if one did, and a shorter one with the same rates."""
    law = at.problem.exact
    if law is not None:
        whole = all_whole(law.exponents)
        # Over one sample interval, solutions are nearly linear in the coefficients.
        yield _as_they_are([law], whole=whole)
        short = fewest_terms(simplest(at.new, at.problem).law, at.problem) if at.new and whole else None
        if short is not None:
            yield Proposal([short], whole=True, linear=True)


def named_laws(at: Search) -> Iterator[Proposal]:
    """Propose the two likeliest textbook laws that are sums of products, functions and inner sums included."""
    p = at.problem
    fitted = sorted(at.named(), key=lambda one: criterion_of(p, one))
    scaled = [law.rescaled(p.scale.state, p.scale.time) for one in fitted if (law := as_law(one)) is not None]
    # A fit may have diverged.
    usable = [law for law in scaled if not law.mirrored and all(np.isfinite(part).all() for part in law.constants)]
    for whole in (True, False):
        yield Proposal([law for law in usable[:2] if has_whole_powers(law) is whole], whole=whole, found_by="textbook")


def near(laws: Callable[[Search], Iterator[Proposal]]) -> Callable[[Search], Iterator[Proposal]]:
    """Drop laws whose residuals are too large to be worth pruning, if there are others; see `is_near`."""

    def nearest(at: Search) -> Iterator[Proposal]:
        for proposal in laws(at):
            kept = [k for k, law in enumerate(proposal.laws) if not at.candidates or is_near(law, at.problem)]
            source = [proposal.source(k) for k in kept]
            yield dataclasses.replace(proposal, laws=[proposal.laws[k] for k in kept], found_by=source)

    return nearest


def sines_for_a_series(at: Search) -> Iterator[Proposal]:
    """Propose textbook laws with sines that fit closely, then terms of the data where an equation may begin a sine.

    Laws without functions are left to later moves, where simpler laws compete with them.
    """
    for proposal in near(named_laws)(at):
        yield dataclasses.replace(proposal, laws=_with_functions(proposal.laws), found_by="textbook")
    p, best = at.problem, simplest(at.candidates, at.problem).law
    if begins_a_sine(best, p).any() and TRIGONOMETRIC in at.families:
        found = Screening.of(p, TRIGONOMETRIC, 0, at.monitor)
        yield _as_they_are(_with_functions(found.mended(at.monitor)), whole=True)


def _with_functions(laws: Sequence[PowerSum]) -> list[PowerSum]:
    return [law for law in laws if law.features is not None and law.features.functions]


def terms_of_the_data(at: Search) -> Iterator[Proposal]:
    """Propose what regression on the integral form finds; see `compete`.

    It ignores what is known: real powers are pruned to what that allows, richer terms hardly.
    """
    if (~at.problem.constant).sum() > MANY_STATES:
        return
    known = at.problem.knowledge is not None
    families = [family for family in _sums_first(at) if not known or family.real_exponents]
    for laws in compete(at.problem, families, at.monitor):
        yield from _by_powers(laws)


def _sums_first(at: Search) -> list[Family]:
    """Return the families with sums before those without, whose real powers fit nearly what sums do."""
    return sorted(at.families, key=lambda family: not family.sums)


def is_near(law: PowerSum, p: Problem) -> bool:
    """Whether the residuals of a proposed law are small enough to make pruning worthwhile."""
    moving = ~p.constant
    return bool((interval_squares(law, p)[moving] < NEAR).all() or is_explained(law, p)[moving].all())


def _by_powers(laws: Sequence[PowerSum]) -> Iterator[Proposal]:
    """Propose laws with whole powers of states, then those with others, which are fitted."""
    for whole in (True, False):
        yield _as_they_are([law for law in laws if has_whole_powers(law) is whole], whole=whole)


def _as_they_are(laws: Sequence[PowerSum], *, whole: bool) -> Proposal:
    """Propose laws as they are; with whole powers and without sums, only coefficients remain to be fitted."""
    linear = whole and not any(law.features is not None and len(law.features.sums) for law in laws)
    return Proposal(laws, whole=whole, linear=linear)


def trained_members(at: Search) -> Iterator[Proposal]:
    """Propose laws of random networks trained on one-interval windows."""
    yield Proposal(_trained(at), found_by="training")


def trained_where_real(at: Search) -> Iterator[Proposal]:
    """Propose laws of networks trained on one-interval windows where powers may be real."""
    p = at.problem
    # Where every state changes its sign, powers are whole, and training would find nothing new.
    real = p.nonnegative[~p.constant].any() and not p.integer_exponents
    if at.settings.members and real:
        yield from trained_members(at)


def _trained(at: Search) -> list[PowerSum]:
    from odediscovery.neural.train import trained_laws  # noqa: PLC0415 (torch waits until somebody trains)

    return trained_laws(at.problem, at.settings, at.monitor)


def whole_powers(at: Search) -> Iterator[Proposal]:
    """Propose laws of whole powers by regression; on coarse samples also all products up to degree two, fitted.

    Where sums of products may have functions, x log(x) is a product, too: Gompertz's law is nearly a short polynomial.
    Smoothing flattens coarse samples, so the products are fitted to the samples themselves.
    """
    p, coarse = at.problem, None
    if p.complete and is_coarse(p):
        coarse = fit_library(p, 2, at.monitor)
    free = p.knowledge is None and any(LOG in family.functions for family in at.families)
    amounts = np.flatnonzero(p.nonnegative & ~p.constant & free).tolist()
    logs = [Function(LOG.name, k, abs(float(p.scale.state[k]))) for k in amounts]
    beside = polynomials(p, logs, most=TERMS) if logs else []
    laws = [*polynomials(p), *beside, *([] if coarse is None else [coarse])]
    yield Proposal(laws, whole=True, linear=True)


def freed_powers(at: Search) -> Iterator[Proposal]:
    """Propose the best law with real powers of nonnegative states, if it has any."""
    p, best = at.problem, likeliest(at)
    if not p.integer_exponents and (best.law.exponents[:, : p.data.n_states][:, p.nonnegative] != 0).any():
        yield Proposal([best.law], found_by=[best.found_by])


def terms_along_the_best(at: Search) -> Iterator[Proposal]:
    """Propose terms of each family by regression along the trajectory of the best law, again along each better one.

    With constraints nothing is proposed, since the regression treats all terms as free.
    """
    p, idle = at.problem, 0
    if p.knowledge is not None or (~p.constant).sum() > MANY_STATES:
        return
    every = _sums_first(at)
    for family in itertools.cycle(every):
        if idle == len(every):
            return
        likely = rank(at.candidates, p.samples)[:FOLLOWERS]
        near = next((found for c in likely if (found := at.follow(c)) is not None), None)
        if near is None or at.monitor.stopping():
            return
        q, law = near
        at.monitor.stage(f"terms along a law: {family.name}", 1)
        least = score(likely[0], p.samples) - BETTER
        left = residuals(law.law, q.data, law.initial)
        noise = is_rounding(q, left) or not memory([r[:, ~q.data.is_control] for r in left]).any()
        with at.monitor.part(ALONG_SHARE):
            laws = terms_along(q, law.law, law.initial, q.sigma, family, at.monitor, cheaper=noise)
        # The likeliest first: those with whole powers, or with others, which are fitted.
        whole = [has_whole_powers(one) for one in laws]
        for same in dict.fromkeys(whole):
            yield _as_they_are([one for one, w in zip(laws, whole, strict=True) if w is same], whole=same)
        # Regression along a law that is hardly better would propose the same terms.
        better = score(rank(at.candidates, p.samples)[0], p.samples) < least
        idle = 0 if better else idle + 1


# Name of the textbook laws in --library, beside those of the families.
TEXTBOOK_LAWS = "textbook"


@dataclass(frozen=True)
class Vocabulary:
    """The families of laws that a search may use, and whether it tries textbook laws."""

    families: tuple[Family, ...] = FAMILIES  # from simple to rich; empty for textbook laws alone
    textbook: bool = True  # whether textbook laws are tried

    @property
    def functions(self) -> frozenset[str]:
        """Names of the functions of a state that may occur in a law."""
        return frozenset(f.name for family in self.families for f in family.functions)

    @property
    def has_sums(self) -> bool:
        """Whether quotients by sums may occur in a law."""
        return any(family.sums for family in self.families)


def vocabulary(names: Sequence[str], families: Sequence[Family] = FAMILIES) -> Vocabulary:
    """Parse the values of --library: "powers,sums" for these alone, "no-sums" for all but these.

    Every family includes powers; textbook laws are excluded only by "no-textbook".
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
        return leaves_only_rounding(best, p)
    return is_settled(at.candidates) and not in_doubt(at, simplest(at.candidates, p).law).any()


def _is_beyond_doubt(at: Search) -> bool:
    """Whether no equation of the simplest law is doubtful on data too clean to be smoothed."""
    p = at.problem
    tells = p.noisiness <= CLEAN_SHARE and at.candidates
    return bool(tells) and not in_doubt(at, simplest(at.candidates, p).law).any()


def _gains_nothing(at: Search) -> bool:
    """Whether no new candidate scores better than the best earlier one."""
    least = score(rank(at.before, at.problem.samples)[0], at.problem.samples) - EQUAL_SCORE
    return all(score(c, at.problem.samples) > least for c in at.new)


def _of_best(says: str, holds: Callable[[Search, Candidate], bool]) -> Condition:
    """Make a condition on the likeliest law, false while there is no law."""
    return Condition(says, lambda at: bool(at.candidates) and holds(at, likeliest(at)))


EXACT = Condition("a law is known to leave nothing", lambda at: at.problem.exact is not None)
CLEAN = Condition("there is no noise", lambda at: at.problem.clean)
NOISY = Condition("there is noise", lambda at: not at.problem.clean)
KNOWN = Condition("something of the law is known", lambda at: at.problem.knowledge is not None)
REGRESSION = Condition("regression is allowed", lambda at: at.settings.grow)
SLIGHTLY_NOISY = Condition(
    "no value is missing and there is not much noise",
    lambda at: at.problem.complete and suits_integral_form(at.problem),
)
LITTLE_NOISE = Condition(
    "no value is missing and there is little noise", lambda at: at.problem.complete and has_little_noise(at.problem)
)
UNSETTLED = Condition("every law leaves residuals", lambda at: not is_settled(at.candidates))
CONVINCING = _of_best(
    "the best law leaves noise only, follows the data closely, and is short or needs all its terms", is_convincing
)
WHOLE = _of_best("it has whole powers", lambda at, best: bool(best.whole.all()))
FAR = Condition("every law leaves far more than noise", lambda at: all(c.mean_square > 100.0 for c in at.candidates))
MAY_BE_IT = _of_best("the best law leaves hardly more than noise with few terms", may_be_it)
ODD = Condition(
    "the best law has odd powers or sines of amounts", lambda at: not at.candidates or has_odd_powers(at, likeliest(at))
)
EXACT_AND_PLAIN = Condition(
    "a law leaves nothing, and no equation is doubtful; in noise, the best law leaves rounding only",
    _is_exact_and_plain,
)
SERIES = Condition(
    "terms of the simplest law differ by the square of a state, as those of a sine do",
    lambda at: bool(at.candidates) and bool(begins_a_sine(simplest(at.candidates, at.problem).law, at.problem).any()),
)
BEYOND_DOUBT = Condition("no equation is doubtful, and nothing was smoothed", _is_beyond_doubt)
REAL_OR_LONG = _of_best(
    "the best law has real powers, or many terms and sums",
    lambda at, best: not (best.whole.all() and is_short(best.law)),
)
SHORT_AND_NOISE = _of_best(
    "the best law leaves noise and has few terms", lambda at, best: may_be_it(at, best) and leaves_noise_alone(at, best)
)
SERIES_OF_ONE = _of_best(
    "three terms of an equation differ only in the power of one state", lambda at, best: may_be_series(best.law)
)
NAMED = _of_best("a textbook law that is no sum of products with independent constants leaves only noise", is_named)
GAINS_NOTHING = Condition("real powers gain nothing", _gains_nothing)


FIRST_STEPS = 12  # Levenberg-Marquardt steps before laws are compared; more cost time
PROMISING = 1.3  # laws worse than this are not pruned further [mean square of the best one]

FULLY = Pruning("to the end")
FITTED = Pruning("from where they are", fitted=True)
NEAR_NOISE = Pruning("but for those that leave far more than noise", Elimination(worst=FAR_FROM_NOISE, beyond=1))
NEAR_NOISE_SOON = dataclasses.replace(
    NEAR_NOISE,
    says="but for those that leave far more than noise after a few steps",
    how=dataclasses.replace(NEAR_NOISE.how, first_steps=FIRST_STEPS),
)
FITTED_NEAR_NOISE = dataclasses.replace(
    NEAR_NOISE, says="from where they are, but for those that leave far more than noise", fitted=True
)
IF_HOPEFUL = Pruning("but for hopeless ones", Elimination(hopeless=100.0))
# Subsets of all sizes are proposed for each equation, so little pruning remains, in the other equations.
REFITTED = Pruning(
    "a little, from where they are, the most promising",
    Elimination(first_steps=20, hopeless=PROMISING, beyond=1),
    fitted=True,
)

MOVES: tuple[Move, ...] = (
    Move(
        "exact law", EXACT, "the law without residuals", exact_law, FITTED, until=EXACT_AND_PLAIN & ~SERIES, late=True
    ),
    Move(
        "sines for a series",
        EXACT & SERIES,
        "textbook laws with sines that come near, and those of regression",
        sines_for_a_series,
        FITTED,
        until=EXACT_AND_PLAIN,
    ),
    Move(
        "textbook laws",
        REGRESSION,
        "the likeliest laws that have a name",
        named_laws,
        NEAR_NOISE,
        until=EXACT_AND_PLAIN | BEYOND_DOUBT & ~ODD,
        late=True,
    ),
    Move(
        "whole powers",
        NOISY & REGRESSION & SLIGHTLY_NOISY,
        "laws of whole powers and of x*log(x), found by regression, that come near the data",
        near(whole_powers),
        NEAR_NOISE_SOON,
        until=LITTLE_NOISE & SHORT_AND_NOISE & ~ODD & ~SERIES_OF_ONE,
        late=True,
    ),
    Move(
        "terms of the data",
        REGRESSION & CLEAN,
        "what regression on the integral form says, by the likeliest vocabularies",
        near(terms_of_the_data),
        FITTED_NEAR_NOISE,
        enough=EXACT_AND_PLAIN,
        until=EXACT_AND_PLAIN,
    ),
    Move(
        "terms of smoothed data",
        NOISY & REGRESSION & SLIGHTLY_NOISY & (KNOWN | FAR | LITTLE_NOISE & ~SHORT_AND_NOISE),
        "the same on a smoothed path",
        near(terms_of_the_data),
        REFITTED,
        enough=EXACT_AND_PLAIN,
        until=EXACT_AND_PLAIN | LITTLE_NOISE & SHORT_AND_NOISE | ~LITTLE_NOISE & CONVINCING & ~ODD,
        late=True,
    ),
    Move(
        "whole powers in noise",
        NOISY & REGRESSION & (~SLIGHTLY_NOISY | FAR),
        "laws of whole powers by regression",
        whole_powers,
        FULLY,
        late=True,
    ),
    Move(
        "terms along the best law",
        NOISY & REGRESSION,
        "what regression along its trajectory says",
        terms_along_the_best,
        REFITTED,
        # In slight noise every vocabulary is tried: wrong short laws may leave nothing but noise there, too. In more
        # noise, what richer vocabularies gain is chance.
        enough=~SLIGHTLY_NOISY & CONVINCING & ~REAL_OR_LONG & ~ODD,
    ),
    Move(
        "free powers",
        NOISY & CONVINCING & WHOLE,
        "the best law, its powers real",
        freed_powers,
        FULLY,
        # Whole powers that may be the first terms of a sine stay in doubt: real powers do not settle that.
        until=GAINS_NOTHING & ~ODD,
    ),
    Move(
        "random members",
        # On clean data, regression finds whatever training could.
        NOISY & ~NAMED & ~(SLIGHTLY_NOISY & MAY_BE_IT) | CLEAN & ~REGRESSION & UNSETTLED,
        "networks trained under L1, where powers may be real",
        trained_where_real,
        IF_HOPEFUL,
    ),
)


# The only move of recipe `neural`, which uses no regression.
NETWORKS = Move("networks", ALWAYS, "networks trained under L1", trained_members, IF_HOPEFUL, late=True)


def search(
    p: Problem,
    settings: Settings,
    monitor: Monitor,
    families: Sequence[Family] = FAMILIES,
    named: Callable[[], Sequence[FittedForm]] = tuple,
) -> list[Candidate]:
    """Run the moves of the default search and return all candidate laws."""
    at = Search(p, settings, monitor, families, named)
    make(MOVES, at)
    return at.candidates


def train_networks(
    p: Problem, before: Sequence[PowerSum], settings: Settings, monitor: Monitor
) -> tuple[Problem, list[Candidate]]:
    """Train networks, prune them to laws, and return the problem on which they are compared with all candidates.

        random starts -> Adam, LBFGS under L1, gates drawn to 1 -> pruned -> (judged, polished, simplified)

    Data with little noise are first treated as exact, on one-interval windows that start at samples, and remain so if
    a law has no residuals beyond integration error. Otherwise networks are trained again and pruned on windows of
    several intervals with fitted starts.
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
    # A stopped search returns a law even before the first network is trained.
    return q, candidates or [each_alone(q)] * bool(monitor.stopping())


def families_table() -> str:
    """Return the families of laws, from simple to rich, as a Markdown table."""
    rows = [(f.name, f.says, f.chain, "real" if f.real_exponents else "whole") for f in FAMILIES]
    return _markdown(("family", "what its laws look like", "units", "exponents"), rows)


def moves_table() -> str:
    """Return the moves in their order, as a Markdown table."""
    rows = [
        (str(i), m.name, m.when.says, m.says, m.pruning.says, "" if m.until is NEVER else m.until.says)
        for i, m in enumerate(MOVES, start=1)
    ]
    return _markdown(("", "move", "is made when", "proposes", "which are pruned", "the search ends when"), rows)


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
