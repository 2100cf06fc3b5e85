"""A search is a table of moves, and one loop that makes them.

    for move in moves:   when it applies:   laws = propose   ->   candidates = prune   until the search ends

A move knows the problem and the candidates so far, but no other move, so that a table can be printed, shortened for an
ablation, or lengthened by one more line.

What moves ask of a search is mostly whether the best law ends it in noise: it leaves noise only, and looks like a law.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from odediscovery.families import FAMILIES, Family
from odediscovery.judge.claim import (
    CONSTANTS,
    UNDERESTIMATED,
    doubtful,
    has_cancelling_terms,
    has_no_memory,
    interval_squares,
    is_short,
    is_within_noise,
    leaves_noise,
    needs_every_term,
)
from odediscovery.judge.criterion import CLOSE, score
from odediscovery.laws.power_sum import SIMPLE, PowerSum, but_whole_powers
from odediscovery.laws.records import SETTLED, Candidate, FoundBy, Polished
from odediscovery.problem.problem import Problem, apply_knowledge, fixed_mask, has_little_noise, rounding_share
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask
from odediscovery.runtime.monitor import OUT_OF_MEMORY, SEARCHING, Monitor, TimeIsUp
from odediscovery.search.refinement import CHAOTIC_STATES, FOLLOWING, follow_closely, leaves_nothing, refined, sigma_of
from odediscovery.settings import Settings
from odediscovery.solve.sensitivities import residuals
from odediscovery.stages.polish import EXACT_SQUARES
from odediscovery.stages.prune import Elimination, NoRoomError, all_whole, prune_laws, whole_features
from odediscovery.textbook.fit import FittedForm, Fitter, as_numbers, is_left_to_noise


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
    return min(candidates, key=lambda c: score(c, p.samples, SETTLED))


def leaves_only_rounding(candidates: Sequence[Candidate], p: Problem) -> bool:
    """Whether some law leaves hardly more than rounding of data whose noise was taken to be far more."""
    least = min((c.mean_square for c in candidates), default=np.inf)
    return rounding_share(p) < 0.1 and least <= UNDERESTIMATED * rounding_share(p)


def is_settled(candidates: Sequence[Candidate]) -> bool:
    """Whether some law already explains clean data down to integration error."""
    return min((c.mean_square for c in candidates), default=np.inf) < SETTLED


@dataclass(eq=False)
class Search:
    """Where a search stands; what moves may look at."""

    problem: Problem  # the data and what is known, dimensionless
    settings: Settings  # options of the fit
    monitor: Monitor  # hears the progress and can end the search
    families: Sequence[Family] = FAMILIES  # families of laws, from simple to rich
    named: Callable[[], Sequence[FittedForm]] = tuple  # gives the textbook laws, fitted
    candidates: list[Candidate] = field(default_factory=list)  # found so far
    before: tuple[Candidate, ...] = ()  # those that were there when the present move began
    new: list[Candidate] = field(default_factory=list)  # what became of the last proposal
    reference: PowerSum | None = None  # the law that richer families go on from; its equations beyond doubt stay
    unrivalled: Candidate | None = None  # a candidate along whose trajectory no terms of any family do better
    # Equations of laws that are in doubt, bool [states], of those that were looked at.
    doubts: dict[PowerSum, Mask] = field(default_factory=dict)
    # Candidates that were refined until they follow the data, and the pieces that they follow; None of those that
    # follow none.
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
    """Laws to be pruned side by side."""

    laws: Sequence[PowerSum]  # dimensionless
    whole: bool = False  # whether their exponents are whole numbers and stay
    linear: bool = False  # whether all that elimination would take one after another may go at once, if BIC approves
    found_by: FoundBy | Sequence[FoundBy] = "growing"  # the stage that they come from, or that of each

    def source(self, law: int) -> FoundBy:
        """The stage that a law comes from."""
        return self.found_by if isinstance(self.found_by, str) else self.found_by[law]


USUAL = Elimination()


@dataclass(frozen=True)
class Pruning:
    """How the laws of a proposal are pruned: on which windows, and how hard."""

    says: str  # in words
    how: Elimination = USUAL  # how hard
    fitted: bool = False  # whether the laws are nearly right already
    as_grown: bool = False  # whether they are taken as they are

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
    """One step of a search."""

    name: str  # a few words
    when: Condition  # it is made; else it is passed by
    says: str  # what it proposes, in words
    # Proposes them, batch after batch, each seeing what became of the last.
    laws: Callable[[Search], Iterator[Proposal]]
    pruning: Pruning  # what is done with them
    enough: Condition = NEVER  # no more laws are proposed
    until: Condition = NEVER  # the search ends here
    # It is made although the time is up: such moves are quick then, and what comes of the first ones alone may blow up
    # on whole trajectories.
    late: bool = False
    last: bool = False  # it is made when the search has ended, however it did


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


# Noise up to which few terms with free powers that leave noise only are no approximation [standard deviation of a
# state].
TELLING = 3e-5
EQUAL_SCORE = 1e-3  # difference below which neither of two laws is better [of the criterion]
# Values from which on regression along a law comes before laws are grown, and tells long polynomials from other laws.
LARGE_SERIES = 2000


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
    if doubt.any() or (interval_squares(law, p)[moving] > SETTLED).any():
        return doubt
    found = refined(p, law, but_whole_powers(law), p.initial, sigma_of(p), FOLLOWING)
    if leaves_nothing(p, found):
        return doubt
    if has_no_memory([r[:, moving] for r in residuals(found.law, p.data, found.initial)]):
        return doubt
    return moving & (interval_squares(found.law, p) > EXACT_SQUARES)


def likeliest(at: Search) -> Candidate:
    """The best of the laws so far, where in little noise a fit that is closer than noise earns little.

    There solvers and smoothing leave errors that are smaller than noise seems, and that more terms would fit.
    """
    return min(at.candidates, key=lambda c: _score(at, c))


def _score(at: Search, c: Candidate) -> float:
    p = at.problem
    return score(c, p.samples, max(p.unexplained, 1.0) if has_little_noise(p) else ABOVE_ZERO)


def is_convincing(at: Search, best: Candidate) -> bool:
    """Whether the best law leaves noise only, follows the data closely, and is short where noise may hide a series.

    A law may meet windows and not their neighbours: each window has a start of its own. Of
    trajectories that may be chaotic nothing is asked of a short law.
    """
    p, short = at.problem, is_short(best.law)
    if not leaves_noise(p, best) or _cancels(best.law, p) or not (short or _may_have_many_terms(best.law, p)):
        return False
    if short and (~p.constant).sum() >= CHAOTIC_STATES:  # chaos may carry the true law off its trajectory
        return True
    return at.follow(best) is not None


def _cancels(law: PowerSum, p: Problem) -> bool:
    return bool(has_cancelling_terms(law, p)[~p.constant].any())


def may_be_it(at: Search, best: Candidate) -> bool:
    """Whether the best law leaves hardly more than noise with so few terms that it may be believed."""
    terms = (best.law.coefficients != 0).sum(axis=1).max()
    return is_within_noise(at.problem, best) and bool(terms <= CONSTANTS)


def is_unrivalled(at: Search, best: Candidate) -> bool:
    """Whether the best law may be it, is short or needs all its terms, and no terms along its trajectory do as well.

    So odd powers are believed in noise too: where they are the series of another law, or
    approximate it, that law's own terms explain more, or as much with fewer constants. And so are laws that seem to
    leave a little more than noise, which may be underestimated: nothing explains any of it.
    """
    if not was_sought_in_vain(at, best) or not may_be_it(at, best) or _is_rivalled(at, best):
        return False
    if is_short(best.law):
        return True
    near = at.follow(best)
    return near is not None and needs_every_term(near[1])


def may_be_long(at: Search, best: Candidate) -> bool:
    """Whether the best law is a polynomial, and there are so many values that one of any length is told from others."""
    p = at.problem
    if p.samples < LARGE_SERIES:
        return False
    return best.law.features is None and bool(best.whole.all()) and is_within_noise(p, best)


def was_sought_in_vain(at: Search, best: Candidate) -> bool:
    """Whether terms were sought along the best law in vain, or along one with the same terms, fitted otherwise."""
    sought = at.unrivalled
    if sought is None:
        return False
    alike = sought.law.structure() == best.law.structure() and _functions(sought.law) == _functions(best.law)
    return alike or _score(at, best) > _score(at, sought) - EQUAL_SCORE


def _is_rivalled(at: Search, best: Candidate) -> bool:
    """Whether a law with other functions or sums is about as good: whether its powers are simple is not known yet."""
    most, own = _score(at, best) + CLOSE, _functions(best.law)
    return any(_functions(c.law) != own and _score(at, c) < most for c in at.candidates)


def _functions(law: PowerSum) -> tuple[object, ...]:
    return () if law.features is None else (law.features.functions, len(law.features.sums))


def _may_have_many_terms(law: PowerSum, p: Problem) -> bool:
    """Whether many terms may be all there is: of whole powers only where there is little noise.

    In more of it a long polynomial leaves no more of a sine, or of a conserved sum, than noise hides.
    """
    return law.features is not None or has_little_noise(p)


def leaves_noise_alone(at: Search, best: Candidate) -> bool:
    """Whether the best law is short or needs all its terms, and what it leaves of whole trajectories is noise."""
    p, short = at.problem, is_short(best.law)
    if _cancels(best.law, p) or not is_within_noise(p, best) or not (short or _may_have_many_terms(best.law, p)):
        return False
    near = at.follow(best)
    if near is None:
        return False
    q, law = near
    if not short and not needs_every_term(law):
        return False
    own, left = ~q.data.is_control, residuals(law.law, q.data, law.initial)
    return is_rounding(q, left) or has_no_memory([r[:, own] for r in left])


def is_named(at: Search, best: Candidate) -> bool:
    """Whether a textbook law that is no sum of powers leaves noise alone, with no more constants than the best law.

    It is no candidate, which are sums: it stands beside them once all are judged. Richer families would look for what
    is known already.
    """
    p = at.problem
    fitter, most = Fitter.of(p), sum(int((part != 0).sum()) for part in best.law.constants)
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
    own, sigma = ~p.data.is_control, sigma_of(p)
    ratio = np.concatenate([(r / (s * sigma))[:, own] for r, s in zip(left, p.relative_sigma, strict=True)])
    if np.isfinite(ratio).sum(axis=0).min() < 40:  # so few residuals do not tell
        return False
    # Rounding reaches the root of 3 of its standard deviations; what is much smaller than it may be anything.
    usual, largest = np.nanmean(ratio**2, axis=0) > 0.5, np.nanmax(np.abs(ratio), axis=0)
    return bool((usual & (largest < 1.15 * math.sqrt(3.0))).all())


def has_odd_powers(at: Search, best: Candidate) -> bool:
    """Whether the best law has a power that the data tell from all that laws of nature like, or do not tell at all.

    Such a law may be short and leave noise only, and yet be an approximation: its powers are free numbers. Where
    there is next to no noise, an approximation would leave more.
    Functions of a state that never changes its sign are as odd: sines of an amount meet any smooth curve. And so are
    the first terms of the series of a sine, or of a real power, where noise hides the others.
    """
    law, p, n = best.law, at.problem, at.problem.data.n_states
    if _has_functions_of_amounts(law, p) or _may_be_sine(law, p):
        return True
    if p.noisiness <= TELLING or not _is_odd(law.exponents[:, :n], 0.0):
        return False
    near = at.follow(best)
    return near is None or _is_odd(near[1].law.exponents[:, :n], near[1].errors.exponents[:, :n])


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
    step = (apart.sum(axis=2) == 2) & (apart[..., ~p.nonnegative] == 2).any(axis=2)
    found: Mask = (used[:, :, None] & used[:, None, :] & step).any(axis=(1, 2))
    return found


def _is_odd(exponents: Array, errors: Array | float) -> bool:
    """Whether a power is clearly none of those that laws of nature like, or is not told by the data."""
    apart = np.abs(exponents[..., None] - np.array([0.0, *SIMPLE])).min(axis=-1)
    return bool(((apart > np.maximum(0.03, 3.0 * errors)) | (errors > 0.3)).any())
