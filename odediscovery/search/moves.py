"""A search is a table of moves, and one loop that makes them.

    for move in moves:   when it applies:   laws = propose   ->   candidates = prune   until the search ends

A move knows the problem and what the search has found so far, but no other move, so a table can be printed, shortened
for an ablation, or extended by a line. Most conditions ask whether the best law may end a search on noisy data: whether
its residuals are noise, and whether it looks like a law.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtri

from odediscovery.families import FAMILIES, TRIGONOMETRIC, Family
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
from odediscovery.judge.criterion import score
from odediscovery.laws.power_sum import SIMPLE, PowerSum, but_whole_powers
from odediscovery.laws.records import SETTLED, Candidate, FittedForm, FoundBy, Polished
from odediscovery.problem.problem import Problem, apply_knowledge, fixed_mask, has_little_noise, rounding_share
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask
from odediscovery.runtime.monitor import JUDGING, OUT_OF_MEMORY, SEARCHING, Monitor, TimeIsUp
from odediscovery.search.refinement import CHAOTIC_STATES, FOLLOWING, follow_closely, leaves_nothing, refined
from odediscovery.settings import Settings
from odediscovery.solve.sensitivities import residuals
from odediscovery.stages.polish import EXACT_SQUARES
from odediscovery.stages.prune import Elimination, NoRoomError, all_whole, prune_laws, whole_features
from odediscovery.textbook.fit import Fitter, as_numbers, is_left_to_noise


def at_rest(p: Problem) -> Candidate:
    """Return the law of states that never change: x' = 0, except for known terms."""
    n = p.data.n_states
    law = apply_knowledge(p, PowerSum(np.zeros((n, 1)), np.zeros((1, n))))
    return Candidate(law, p.initial, 0.0, 0, whole_features(law, p, True), fixed_mask(p, law))


def each_alone(p: Problem) -> Candidate:
    """Fit the law of uncoupled states by regression on the integral form:

        x_i' = a_i + b_i x_i

    This is fast for any number of states.
    """
    n, runs = p.data.n_states, p.smooth.trajectories
    length = np.concatenate([np.diff(run.time) for run in runs])[:, None]
    mean = np.concatenate([(run.values[1:] + run.values[:-1]) / 2 for run in runs])
    rise = np.concatenate([np.diff(run.values, axis=0) for run in runs])
    # Centred on the mean over time, each state is a regression of its own.
    rate, centre = rise.sum(axis=0) / length.sum(), (length * mean).sum(axis=0) / length.sum()
    off = length * (mean - centre)
    squares = (off**2).sum(axis=0)
    own = np.where(squares > 0, (off * (rise - length * rate)).sum(axis=0) / np.where(squares > 0, squares, 1.0), 0.0)
    sources = rate - own * centre
    moving = ~p.constant
    a = np.column_stack([np.where(moving, sources, 0.0), np.diag(np.where(moving, own, 0.0))])
    return as_proposed(p, PowerSum(a, np.vstack([np.zeros((1, n)), np.eye(n)])))


def as_proposed(p: Problem, law: PowerSum) -> Candidate:
    """Make a candidate of an unpruned law, its constants unchanged except for known ones."""
    law = apply_knowledge(p, law)
    squares = interval_squares(law, p)[~p.constant]
    return Candidate(law, p.initial, float(squares.mean()), 0, whole_features(law, p, True), fixed_mask(p, law))


def warm_start(p: Problem, laws: Sequence[PowerSum], monitor: Monitor) -> list[Candidate]:
    """Prune laws found earlier, given in the user's units, to candidates; on clean data rich ones stay as they are."""
    scaled = [law.rescaled(p.scale.state, p.scale.time) for law in laws if law.n_monomials]
    # Real powers of negative states do not exist.
    scaled = [law for law in scaled if not law.mirrored]
    found: list[Candidate] = []
    if p.clean:
        # On clean data, rich laws have nothing to prune.
        rich = [law for law in scaled if law.features is not None]
        scaled = [law for law in scaled if law.features is None]
        found = [as_proposed(p, law) for law in rich]
    for whole in (True, False):
        alike = [law for law in scaled if all_whole(law.exponents) is whole]
        with contextlib.suppress(NoRoomError):
            found += prune_laws(p, alike, Elimination(), monitor, whole=whole)
    return found


def simplest(candidates: Sequence[Candidate], p: Problem) -> Candidate:
    """Return the best candidate on clean data, where a misfit below integration error gains nothing more."""
    return min(candidates, key=lambda c: score(c, p.samples, SETTLED))


def leaves_only_rounding(candidates: Sequence[Candidate], p: Problem) -> bool:
    """Whether some law fits nearly to rounding error although the noise was estimated far higher."""
    least = min((c.mean_square for c in candidates), default=np.inf)
    return rounding_share(p) < 0.1 and least <= UNDERESTIMATED * rounding_share(p)


def is_settled(candidates: Sequence[Candidate]) -> bool:
    """Whether some law explains clean data down to integration error."""
    return min((c.mean_square for c in candidates), default=np.inf) < SETTLED


@dataclass(eq=False)
class Search:
    """The state of a search, which moves read and update."""

    problem: Problem  # the data and what is known, dimensionless
    settings: Settings  # options of the fit
    monitor: Monitor  # receives progress and can end the search
    families: Sequence[Family] = FAMILIES  # families of laws, from simple to rich
    named: Callable[[], Sequence[FittedForm]] = tuple  # gives the textbook laws, fitted
    candidates: list[Candidate] = field(default_factory=list)  # found so far
    before: tuple[Candidate, ...] = ()  # candidates found before the current move
    new: list[Candidate] = field(default_factory=list)  # candidates from the last proposal
    # Cache of the equations in doubt, bool [states], of each law examined.
    doubts: dict[PowerSum, Mask] = field(default_factory=dict)
    # Cache of candidates refined until they follow the data, with the pieces that they follow; None for a candidate
    # that follows none.
    followed: dict[Candidate, tuple[Problem, Polished] | None] = field(default_factory=dict)

    def follow(self, c: Candidate) -> tuple[Problem, Polished] | None:
        """Refine a candidate to follow the data closely, or return None; see `follow_closely`."""
        if c not in self.followed:
            self.followed[c] = follow_closely(self.problem, c)
        return self.followed[c]

    @property
    def out_of_time(self) -> bool:
        """Whether the search must stop and has a candidate to report."""
        return bool(self.candidates) and self.monitor.stopping() is not None


@dataclass(frozen=True)
class Condition:
    """A condition on the state of a search, in words and in code.

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
        """Return the words, in brackets where "and" beside an "or" would be ambiguous."""
        return f"({self.says})" if ", or " in self.says else self.says


ALWAYS = Condition("always", lambda at: True)
NEVER = Condition("never", lambda at: False)


@dataclass(frozen=True, eq=False)
class Proposal:
    """Laws to be pruned side by side."""

    laws: Sequence[PowerSum]  # dimensionless
    whole: bool = False  # whether their exponents are whole numbers and stay fixed
    # Whether residuals are nearly linear in the constants: elimination may remove several at once, if BIC approves.
    linear: bool = False
    found_by: FoundBy | Sequence[FoundBy] = "regression"  # the stage that they come from, or that of each

    def source(self, law: int) -> FoundBy:
        """Return the stage that a law comes from."""
        return self.found_by if isinstance(self.found_by, str) else self.found_by[law]


USUAL = Elimination()


@dataclass(frozen=True)
class Pruning:
    """How the laws of a proposal are pruned, if at all."""

    says: str  # in words
    how: Elimination = USUAL  # how hard
    fitted: bool = False  # whether the constants are nearly right already

    def candidates(self, at: Search, proposal: Proposal) -> list[Candidate]:
        """Prune the laws of a proposal to candidates."""
        p = at.problem
        try:
            return prune_laws(
                p,
                proposal.laws,
                dataclasses.replace(self.how, linear=proposal.linear),
                at.monitor,
                whole=proposal.whole,
                long=at.settings.prune_long,
                fitted=self.fitted,
            )
        except NoRoomError:
            at.monitor.note(event=OUT_OF_MEMORY)
        except TimeIsUp:
            # The only laws are better than none.
            if at.candidates or not proposal.laws:
                raise
        with at.monitor.patient(JUDGING):
            return [as_proposed(p, law) for law in proposal.laws]


@dataclass(frozen=True)
class Move:
    """One step of a search."""

    name: str  # a few words
    when: Condition  # under which it is made; otherwise it is skipped
    says: str  # what it proposes, in words
    # Yields batches of laws; each batch can depend on the candidates from the last.
    laws: Callable[[Search], Iterator[Proposal]]
    pruning: Pruning  # how the laws are pruned
    enough: Condition = NEVER  # stops the proposals
    until: Condition = NEVER  # ends the search
    # Whether it is made even after the time is up: such moves are quick then, and the laws of the first moves alone
    # may diverge on whole trajectories.
    late: bool = False


def make(moves: Sequence[Move], at: Search) -> None:
    """Make the moves in order until one of them ends the search; skip most when time is up."""
    with at.monitor.patient(SEARCHING):
        for move in moves:
            # The end of a move's own share of the time is not the end of the search.
            with contextlib.suppress(TimeIsUp):
                if _ends_search(move, at):
                    return


def _ends_search(move: Move, at: Search) -> bool:
    """Make a move where it applies; return whether it ends the search."""
    if (at.out_of_time and not move.late) or not move.when.holds(at):
        return False
    at.before, at.new = tuple(at.candidates), []
    for proposal in move.laws(at):
        pruned = move.pruning.candidates(at, proposal)
        at.new = [dataclasses.replace(c, found_by=proposal.source(c.origin)) for c in pruned]
        at.candidates += at.new
        if move.enough.holds(at):
            break
    return move.until.holds(at)


# Largest noise at which a few terms with free powers, and residuals of noise, cannot be an approximation [standard
# deviation of a state].
TELLING = 3e-5
# Chance that normal noise is as bounded as what counts as rounding, and how far this reaches [standard deviations].
BY_CHANCE, FARTHEST_ROUNDING = 0.1, 2.25
EQUAL_SCORE = 1e-3  # difference below which neither of two laws is better [of the criterion]


def in_doubt(at: Search, law: PowerSum) -> Mask:
    """Mask the equations with residuals beyond noise, or that do not look like a law, bool [states].

    The first terms of a series may fit intervals exactly. Refined on whole trajectories, their residuals are
    autocorrelated, whereas those of a true law are zero or noise. So a law reveals noise that is too small to be
    estimated without it.
    """
    if law not in at.doubts:
        at.doubts[law] = _in_doubt(law, at.problem)
    return at.doubts[law]


def _in_doubt(law: PowerSum, p: Problem) -> Mask:
    doubt, moving = doubtful(law, p), ~p.constant
    if doubt.any() or (interval_squares(law, p)[moving] > SETTLED).any():
        return doubt
    found = refined(p, law, but_whole_powers(law), p.initial, p.sigma, FOLLOWING)
    if leaves_nothing(p, found):
        return doubt
    if has_no_memory([r[:, moving] for r in residuals(found.law, p.data, found.initial)]):
        return doubt
    return moving & (interval_squares(found.law, p) > EXACT_SQUARES)


def likeliest(at: Search) -> Candidate:
    """Return the candidate with the best score; in little noise, fits closer than the noise gain nothing.

    There, errors of solvers and smoothing are below the estimated noise, and further terms would fit them.
    """
    return min(at.candidates, key=lambda c: _score(at, c))


def _score(at: Search, c: Candidate) -> float:
    p = at.problem
    return score(c, p.samples, max(p.unexplained, 1.0) if has_little_noise(p) else ABOVE_ZERO)


def is_convincing(at: Search, best: Candidate) -> bool:
    """Whether the best law's residuals are noise, it follows the data, and it is short where noise may hide a series.

    A law may fit each window, which has its own start, and yet not follow whole trajectories. A short
    law with three or more changing states need not follow the data, as it may be chaotic. Terms that cancel are a doubt
    about a sum of powers; near rest those of a law with sums or functions may, if the law needs each of them.
    """
    p, short, cancels = at.problem, is_short(best.law), _cancels(best.law, at.problem)
    if not leaves_noise(p, best) or (cancels and best.law.features is None):
        return False
    if not (short or _may_have_many_terms(best.law, p)):
        return False
    if short and not cancels and (~p.constant).sum() >= CHAOTIC_STATES:  # even the true law may diverge in chaos
        return True
    near = at.follow(best)
    return near is not None and (not cancels or needs_every_term(near[1]))


def _cancels(law: PowerSum, p: Problem) -> bool:
    return bool(has_cancelling_terms(law, p)[~p.constant].any())


def may_be_it(at: Search, best: Candidate) -> bool:
    """Whether the residuals of the best law hardly exceed noise, and no equation has more than `CONSTANTS` terms."""
    terms = (best.law.coefficients != 0).sum(axis=1).max()
    return is_within_noise(at.problem, best) and bool(terms <= CONSTANTS)


def _may_have_many_terms(law: PowerSum, p: Problem) -> bool:
    """Whether a law of many terms may be true: a sum of powers only in little noise.

    In more noise, a long polynomial fits a sine, or a conserved sum, to within the noise.
    """
    return law.features is not None or has_little_noise(p)


def leaves_noise_alone(at: Search, best: Candidate) -> bool:
    """Whether the best law is short or needs all its terms, and its residuals on trajectories are noise or rounding."""
    p, short, cancels = at.problem, is_short(best.law), _cancels(best.law, at.problem)
    if not is_within_noise(p, best) or (cancels and best.law.features is None):
        return False
    near = at.follow(best)
    if near is None:
        return False
    q, law = near
    if (cancels or not short) and not needs_every_term(law):
        return False
    own, left = ~q.data.is_control, residuals(law.law, q.data, law.initial)
    return is_rounding(q, left) or has_no_memory([r[:, own] for r in left])


def is_named(at: Search, best: Candidate) -> bool:
    """Whether a textbook law that is no sum of products with constants of its own leaves only noise, with at most the
    best law's constants.

    It joins the candidates, which are sums, only when all are judged. Richer families then need not be searched.
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
    """Whether residuals are bounded like those of rounding to half a unit of the last digit.

    Normal noise of the same variance reaches twice as far.
    """
    own, sigma = ~p.data.is_control, p.sigma
    ratio = np.concatenate([(r / (s * sigma))[:, own] for r, s in zip(left, p.relative_sigma, strict=True)])
    usual, largest = np.nanmean(ratio**2, axis=0) > 0.5, np.nanmax(np.abs(ratio), axis=0)
    # Rounding reaches sqrt(3) of its standard deviations, and errors of the constants a little more; as many residuals
    # of noise all stay within `least` by chance only. Much smaller residuals are not rounding.
    least = ndtri(0.5 + 0.5 * BY_CHANCE ** (1.0 / np.isfinite(ratio).sum(axis=0)))
    return bool((usual & (largest < np.minimum(least, FARTHEST_ROUNDING))).all())


def has_odd_powers(at: Search, best: Candidate) -> bool:
    """Whether the best law has a power that is significantly not simple, or that the data do not determine.

    A law with such free powers may be short with residuals of noise, and yet be an approximation. With almost no
    noise, an approximation would have larger residuals. Sines of a state that never changes its sign are also odd,
    since they approximate any smooth curve; so are laws that may stand for a sine.
    """
    law, p, n = best.law, at.problem, at.problem.data.n_states
    if _has_sines_of_amounts(law, p) or _may_be_sine(law, p):
        return True
    if p.noisiness <= TELLING or not _is_odd(law.exponents[:, :n], 0.0):
        return False
    near = at.follow(best)
    return near is None or _is_odd(near[1].law.exponents[:, :n], near[1].errors.exponents[:, :n])


def _has_sines_of_amounts(law: PowerSum, p: Problem) -> bool:
    if law.features is None:
        return False
    first = law.features.states
    used = (law.exponents[:, first : first + len(law.features.functions)] != 0).any(axis=0)
    waves = {f.name for f in TRIGONOMETRIC.functions}
    return any(
        u and p.nonnegative[f.state] and f.name in waves for u, f in zip(used, law.features.functions, strict=True)
    )


def _may_be_sine(law: PowerSum, p: Problem) -> bool:
    """Whether an equation may be the first terms of a sine, with the next ones hidden by noise, or a quotient near one.

    A quotient by a sum of states that change their sign approximates a sine far more closely than as many terms of its
    series.
    """
    if law.features is None or not len(law.features.sums):
        return not has_little_noise(p) and bool(begins_a_sine(law, p).any())
    weights, inside = law.features.sums.weights, law.features.sums.exponents[:, : law.features.states]
    powers = law.exponents[:, law.exponents.shape[1] - len(weights) :]
    # Halves of powers are norms.
    used = ((powers < 0) & (powers == np.round(powers))).any(axis=0)
    return bool(((weights[used] != 0).any(axis=0) & (inside[:, ~p.nonnegative] != 0).any(axis=1)).any())


def begins_a_sine(law: PowerSum, p: Problem) -> Mask:
    """Mask the equations with two terms that differ by the square of a state that changes its sign, bool [states].

    Examples: x - x^3 / 6 + ..., and x v^2 for x^3 on the single orbit of a pendulum without friction.
    """
    if law.features is not None:
        return np.zeros(len(law.coefficients), dtype=bool)
    used, apart = law.coefficients != 0, np.abs(law.exponents[:, None] - law.exponents)
    step = (apart.sum(axis=2) == 2) & (apart[..., ~p.nonnegative] == 2).any(axis=2)
    found: Mask = (used[:, :, None] & used[:, None, :] & step).any(axis=(1, 2))
    return found


def may_be_series(law: PowerSum) -> bool:
    """Whether three terms of an equation differ only in the power of one state, as those of any function's series do.

    >>> may_be_series(PowerSum(np.array([[3.0, -1.0, 0.1]]), np.array([[0.0], [1.0], [2.0]])))
    True
    """
    equations = [law.exponents[used] for used in law.coefficients != 0 if used.any()]
    others = (np.delete(rows, k, axis=1) for rows in equations for k in range(law.n_states))
    return any(np.unique(rows, axis=0, return_counts=True)[1].max() >= 3 for rows in others)


def _is_odd(exponents: Array, errors: Array | float) -> bool:
    """Whether a power significantly differs from all of `SIMPLE` and 0, or is not determined by the data."""
    apart = np.abs(exponents[..., None] - np.array([0.0, *SIMPLE])).min(axis=-1)
    return bool(((apart > np.maximum(0.03, 3.0 * errors)) | (errors > 0.3)).any())
