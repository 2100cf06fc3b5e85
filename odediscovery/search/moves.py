"""A search is a table of moves, and one loop that makes them.

    for move in moves:   when it applies:   laws = propose   ->   candidates = prune   until the search ends

A move knows the problem and the candidates so far, but no other move, so that a table can be printed, shortened for an
ablation, or lengthened by one more line.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from odediscovery.families import FAMILIES, Family
from odediscovery.judge.criterion import score
from odediscovery.judge.doubt import DOUBT, interval_squares
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.problem import Problem, apply_knowledge, fixed_mask, rounding_share
from odediscovery.runtime.arrays import Mask
from odediscovery.runtime.monitor import OUT_OF_MEMORY, SEARCHING, Monitor, TimeIsUp
from odediscovery.search.refinement import follow_closely
from odediscovery.settings import Settings
from odediscovery.stages.prune.eliminate import Elimination
from odediscovery.stages.prune.paths import NoRoomError, all_whole, prune_laws, whole_features
from odediscovery.stages.values import STAGES, Candidate, FoundBy, Polished
from odediscovery.textbook.fit import FittedForm


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


@dataclass(frozen=True)
class Pruning:
    """How the laws of a proposal are pruned: on which windows, and how hard.

    Args:
        says: in words.
        how: how hard, from thresholds as they are when it is asked.
        extrema: that a long window holds; None for the usual number.
        fitted: whether the laws are nearly right already.
        as_grown: whether they are taken as they are.
    """

    says: str
    how: Callable[[], Elimination] = Elimination
    extrema: Callable[[], float] | None = None
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
                dataclasses.replace(self.how(), linear=proposal.linear),
                at.monitor,
                whole=proposal.whole,
                long=at.settings.prune_long and not p.clean,
                extrema=None if self.extrema is None else self.extrema(),
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
