"""A search is a table of moves, and one loop that makes them.

    for move in moves:   when it applies:   laws = propose   ->   candidates = prune   until the search ends

A move knows the problem and the candidates so far, but no other move, so that a table can be printed, shortened for an
ablation, or lengthened by one more line.

The questions that moves ask of a search, in words and in code, and the numbers in them.

Most of them are on whether the best law ends the search in noise: it leaves noise only, and looks like a law.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from odediscovery.data.noise import CLEAN_SHARE
from odediscovery.data.series import pooled
from odediscovery.families import FAMILIES, Family
from odediscovery.judge.criterion import CRITERION, rank, score
from odediscovery.judge.doubt import (
    DOUBT,
    doubtful,
    escapes,
    has_cancelling_terms,
    has_no_memory,
    interval_squares,
    is_short,
    is_within_noise,
    leaves_noise,
    needs_every_term,
)
from odediscovery.laws.power_sum import SIMPLE, PowerSum, but_whole_powers
from odediscovery.problem.problem import Problem, apply_knowledge, fixed_mask, has_little_noise, rounding_share
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask
from odediscovery.runtime.monitor import OUT_OF_MEMORY, SEARCHING, Monitor, TimeIsUp
from odediscovery.search.refinement import (
    REFINEMENT,
    SHORTENING,
    follow_closely,
    follows,
    is_growable,
    leaves_nothing,
    refined,
    sigma_of,
)
from odediscovery.settings import Settings
from odediscovery.solve.sensitivities import residuals
from odediscovery.stages.polish.polish import INTERVALS
from odediscovery.stages.prune.prune import Elimination, NoRoomError, all_whole, prune_laws, whole_features
from odediscovery.stages.values import STAGES, Candidate, FoundBy, Polished
from odediscovery.textbook.fit import FittedForm, Fitter
from odediscovery.textbook.judged import as_numbers, is_left_to_noise


def at_rest(p: Problem) -> Candidate:
    """The law of states that never change: x' = 0, but for what is known."""
    n = p.data.n_states
    law = apply_knowledge(p, PowerSum(np.zeros((n, 1)), np.zeros((1, n))))
    return Candidate(law, p.initial, 0.0, 0, whole_features(law, p, True), fixed_mask(p, law))


def each_alone(p: Problem) -> Candidate:
    """The law of states that know nothing of each other, by regression on the integral form.

        x_i' = a_i + b_i x_i

    It is found at once, however many states there are.
    """
    n, runs = p.data.n_states, p.smooth.trajectories
    length = np.concatenate([np.diff(run.time) for run in runs])[:, None]
    mean = np.concatenate([(run.values[1:] + run.values[:-1]) / 2 for run in runs])
    rise = np.concatenate([np.diff(run.values, axis=0) for run in runs])
    # Rates about their mean over time: one regression for each state.
    rate, centre = rise.sum(axis=0) / length.sum(), (length * mean).sum(axis=0) / length.sum()
    off = length * (mean - centre)
    squares = (off**2).sum(axis=0)
    own = np.where(squares > 0, (off * (rise - length * rate)).sum(axis=0) / np.where(squares > 0, squares, 1.0), 0.0)
    sources = rate - own * centre
    moving = ~p.constant
    a = np.column_stack([np.where(moving, sources, 0.0), np.diag(np.where(moving, own, 0.0))])
    return as_grown(p, PowerSum(a, np.vstack([np.zeros((1, n)), np.eye(n)])))


def as_grown(p: Problem, law: PowerSum) -> Candidate:
    """A law of a rich family as it was grown; only rates of exponentials are no whole numbers."""
    law = apply_knowledge(p, law)
    squares = interval_squares(law, p)[~p.constant]
    return Candidate(law, p.initial, float(squares.mean()), 0, whole_features(law, p, True), fixed_mask(p, law))


def warm_start(p: Problem, laws: Sequence[PowerSum], monitor: Monitor) -> list[Candidate]:
    """What becomes of laws that were found before, in the user's units."""
    scaled = [law.rescaled(p.scale.state, p.scale.time) for law in laws if law.n_monomials]
    # Real powers of what is negative here are none.
    scaled = [law for law in scaled if not law.mirrored]
    found: list[Candidate] = []
    if p.clean:
        # As they were grown: on clean data pruning has nothing to take from them.
        rich = [law for law in scaled if law.features is not None]
        scaled = [law for law in scaled if law.features is None]
        found = [as_grown(p, law) for law in rich]
    for whole in (True, False):
        alike = [law for law in scaled if all_whole(law.exponents) is whole]
        with contextlib.suppress(NoRoomError):
            found += prune_laws(p, alike, Elimination(), monitor, whole=whole)
    return found


def simplest(candidates: Sequence[Candidate], p: Problem) -> Candidate:
    """The best of clean data, where what is left is the error of integration."""
    return min(candidates, key=lambda c: score(c, p.samples, STAGES.settled))


def leaves_only_rounding(candidates: Sequence[Candidate], p: Problem) -> bool:
    """Whether some law leaves hardly more than rounding of data whose noise was taken to be far more."""
    least = min((c.mean_square for c in candidates), default=np.inf)
    return rounding_share(p) < STAGES.rounding and least <= DOUBT.underestimated * rounding_share(p)


def is_settled(candidates: Sequence[Candidate]) -> bool:
    """Whether some law already explains clean data down to integration error."""
    return min((c.mean_square for c in candidates), default=np.inf) < STAGES.settled


@dataclass(eq=False)
class Search:
    """Where a search stands; what moves may look at.

    Args:
        problem: the data and what is known, dimensionless.
        settings: options of the fit.
        monitor: hears the progress and can end the search.
        families: families of laws, from simple to rich.
        named: gives the textbook laws, fitted.
        candidates: found so far.
        before: those that were there when the present move began.
        new: what became of the last proposal.
        reference: the law that richer families go on from; its equations beyond doubt stay.
        unrivalled: a candidate along whose trajectory no terms of any family do better.
        doubts: equations of laws that are in doubt, bool [states], of those that were looked at.
        followed: candidates that were refined until they follow the data, and the pieces that they follow; None of
            those that follow none.
    """

    problem: Problem
    settings: Settings
    monitor: Monitor
    families: Sequence[Family] = FAMILIES
    named: Callable[[], Sequence[FittedForm]] = tuple
    candidates: list[Candidate] = field(default_factory=list)
    before: tuple[Candidate, ...] = ()
    new: list[Candidate] = field(default_factory=list)
    reference: PowerSum | None = None
    unrivalled: Candidate | None = None
    doubts: dict[PowerSum, Mask] = field(default_factory=dict)
    followed: dict[Candidate, tuple[Problem, Polished] | None] = field(default_factory=dict)

    def follow(self, c: Candidate) -> tuple[Problem, Polished] | None:
        """The candidate refined until it follows the data closely, see `follow_closely`."""
        if c not in self.followed:
            self.followed[c] = follow_closely(self.problem, c)
        return self.followed[c]

    @property
    def out_of_time(self) -> bool:
        """Whether the work has to end, and there is something to end with."""
        return bool(self.candidates) and self.monitor.stopping() is not None


@dataclass(frozen=True)
class Condition:
    """A question to a search, in words and in code.

    >>> always = Condition("always", lambda at: True)
    >>> (always & Condition("it rains", lambda at: False)).says
    'always, and it rains'
    """

    says: str
    holds: Callable[[Search], bool]

    def __and__(self, other: Condition) -> Condition:
        return Condition(f"{self._in_and()}, and {other._in_and()}", lambda at: self.holds(at) and other.holds(at))

    def __or__(self, other: Condition) -> Condition:
        return Condition(f"{self.says}, or {other.says}", lambda at: self.holds(at) or other.holds(at))

    def __invert__(self) -> Condition:
        says = f"not ({self.says})" if ", " in self.says else f"not: {self.says}"
        return Condition(says, lambda at: not self.holds(at))

    def _in_and(self) -> str:
        """The words with brackets where an "and" beside them would be misread."""
        return f"({self.says})" if ", or " in self.says else self.says


ALWAYS = Condition("always", lambda at: True)
NEVER = Condition("never", lambda at: False)


@dataclass(frozen=True, eq=False)
class Proposal:
    """Laws to be pruned side by side.

    Args:
        laws: dimensionless.
        whole: whether their exponents are whole numbers and stay.
        linear: whether all that elimination would take one after another may go at once, if BIC approves.
        found_by: the stage that they come from, or that of each.
    """

    laws: Sequence[PowerSum]
    whole: bool = False
    linear: bool = False
    found_by: FoundBy | Sequence[FoundBy] = "growing"

    def source(self, law: int) -> FoundBy:
        """The stage that a law comes from."""
        return self.found_by if isinstance(self.found_by, str) else self.found_by[law]


USUAL = Elimination()


@dataclass(frozen=True)
class Pruning:
    """How the laws of a proposal are pruned: on which windows, and how hard.

    Args:
        says: in words.
        how: how hard.
        fitted: whether the laws are nearly right already.
        as_grown: whether they are taken as they are.
    """

    says: str
    how: Elimination = USUAL
    fitted: bool = False
    as_grown: bool = False

    def candidates(self, at: Search, proposal: Proposal) -> list[Candidate]:
        """What becomes of the laws."""
        p = at.problem
        if self.as_grown:
            return [as_grown(p, law) for law in proposal.laws]
        try:
            return prune_laws(
                p,
                proposal.laws,
                dataclasses.replace(self.how, linear=proposal.linear),
                at.monitor,
                whole=proposal.whole,
                long=at.settings.prune_long and not p.clean,
                fitted=self.fitted,
            )
        except NoRoomError:  # laws stay as they came
            at.monitor.note(event=OUT_OF_MEMORY)
            return [as_grown(p, law) for law in proposal.laws]


@dataclass(frozen=True)
class Move:
    """One step of a search.

    Args:
        name: a few words.
        when: it is made; else it is passed by.
        says: what it proposes, in words.
        laws: proposes them, batch after batch, each seeing what became of the last.
        pruning: what is done with them.
        enough: no more laws are proposed.
        until: the search ends here.
        late: it is made although the time is up: such moves are quick then, and what comes of the first ones alone
            may blow up on whole trajectories.
        last: it is made when the search has ended, however it did.
    """

    name: str
    when: Condition
    says: str
    laws: Callable[[Search], Iterator[Proposal]]
    pruning: Pruning
    enough: Condition = NEVER
    until: Condition = NEVER
    late: bool = False
    last: bool = False


def make(moves: Sequence[Move], at: Search) -> None:
    """The moves in their order until one of them, or the time, ends the search; then those that are made last."""
    try:
        with at.monitor.patient(SEARCHING):
            _make([move for move in moves if not move.last], at)
            _make([move for move in moves if move.last], at)
    except TimeIsUp:
        return


def _make(moves: Sequence[Move], at: Search) -> None:
    for move in moves:
        if (at.out_of_time and not move.late) or not move.when.holds(at):
            continue
        at.before, at.new = tuple(at.candidates), []
        for proposal in move.laws(at):
            pruned = move.pruning.candidates(at, proposal)
            at.new = [dataclasses.replace(c, found_by=proposal.source(c.origin)) for c in pruned]
            at.candidates += at.new
            if move.enough.holds(at):
                break
        if move.until.holds(at):
            return


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

    brief_extrema: float = 2.0  # extrema of the pieces of trajectories that no law can follow whole
    hopeless: float = 100.0  # trained members worse than this are not pruned [mean square of the best one]
    hopeless_grown: float = 10.0  # the same of laws of richer families grown in noise [mean square of the best one]
    hopeless_swapped: float = 1.3  # the same of laws with a swapped monomial [mean square of the best one]
    worst: float = 1000.0  # laws that are expected to come near and leave more are not pruned [variance of the noise]
    beyond_near: int = 1  # removals that are still made of them after BIC says that nothing wins back what was lost
    first_steps: int = 12  # Levenberg-Marquardt steps before laws are compared; cost
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
    tells = p.noisiness <= CLEAN_SHARE and at.candidates
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
