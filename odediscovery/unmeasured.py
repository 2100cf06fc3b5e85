"""The search where states are unmeasured: structures of flows compete on whole trajectories.

    all structures of 1, 2, 3, ... flows -> rough fits, all at once -> the best polished -> judged

Without samples of a state there is no derivative to regress on and no window to start; what is
left are whole trajectories from fitted starts. So few and simple laws compete, all flows between
states at rates of mass action, more flows step by step until the judge is no longer pleased. Then
the exponents of the best are free and snapped, as in other laws.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from odediscovery.compartments import Rough, rough_fits
from odediscovery.cost import Free, price
from odediscovery.errors import FitError, InputError
from odediscovery.flows import Compartments, Structure, law_of
from odediscovery.judge import Judged, judged
from odediscovery.knowledge import Knowledge
from odediscovery.monitor import Monitor
from odediscovery.polish import polish
from odediscovery.powersum import PowerSum
from odediscovery.prepare import Prepared
from odediscovery.settings import Settings
from odediscovery.snap import snapped
from odediscovery.starts import Starts, Sums

# States in all, flows of a structure, and those that are tried in any case.
MOST_STATES, MOST_FLOWS, TRIED = 4, 5, 3
# Structures with all combinations of flows; beyond, the best smaller ones get one flow more.
MOST_STRUCTURES, BEAM = 1500, 16
# Structures of each size that are polished, and judged ones whose exponents are freed.
POLISHED, FREED = 4, 2
# Difference of the criterion that is no evidence.
CLOSE = 4.0
# Evaluations of a polish.
MOST = 30


@dataclass(frozen=True, eq=False)
class Competed:
    """What the competition of structures left.

    Args:
        p: what they were judged on, without knowledge: their flows agree with it.
        rows: judged laws.
        chosen: index of the best.
        structures: the flows of each.
        problem: which flows there may be.
        starts: how start values are bounded.
    """

    p: Prepared
    rows: list[Judged]
    chosen: int
    structures: list[Structure]
    problem: Compartments
    starts: Starts


def competed(p: Prepared, known: Knowledge, settings: Settings, monitor: Monitor) -> Competed:
    """Laws of flows for states of which some have no samples.

    Args:
        p: from `hidden.widely_prepared`.
        known: in the user's units; `p.knowledge` is the same without dimension.

    Raises:
        InputError: what is known, or the data, do not allow for a search of flows.
        FitError: no structure could be integrated through the data.
    """
    problem, sums = _problem(p, known), _sums(p, known)
    starts = Starts(p.nonnegative, sums)
    p = dataclasses.replace(p, knowledge=None, given=None)
    contest = _Contest(p, problem, starts, known.bounds)
    generator = np.random.default_rng(settings.seed)
    ranked: list[Rough] = []
    for size in range(0 if problem.given.n_monomials else 1, MOST_FLOWS + 1):
        structures = _structures(problem, size, ranked)
        fits = rough_fits(p, structures, starts, problem.given, generator, monitor)
        ranked = fits or ranked
        before = contest.least
        monitor.stage(f"polish {size} flows", POLISHED)
        for k, fit in enumerate(fits[:POLISHED]):
            contest.enter(fit)
            monitor.step(k + 1)
        if monitor.stopping() or (size >= TRIED and contest.least >= before):
            break
    if not contest.rows:
        raise FitError(
            "no flows between the measured and the unmeasured states could be integrated through "
            "the data; say more of them (--conserve, --known), or leave some out"
        )
    if not known.integer and not monitor.stopping():
        contest.free_exponents()
    return Competed(p, contest.rows, simplest(contest.rows), contest.structures, problem, starts)


def simplest(rows: Sequence[Judged]) -> int:
    """Index of the simplest row whose criterion is about as good as the best one's.

    Among so many structures a slightly better one is no evidence against a simple law.
    """
    least = min(row.criterion for row in rows)
    close = [i for i, row in enumerate(rows) if row.criterion < least + CLOSE]
    return min(close, key=lambda i: (rows[i].polished.law.complexity, rows[i].criterion))


def _structures(problem: Compartments, size: int, smaller: Sequence[Rough]) -> list[Structure]:
    """All structures of a size, or those that are the best smaller ones and one flow more."""
    if not size:
        return [frozenset()] if problem.sensible(frozenset()) else []
    few = size == 1 or (size == 2 and len(problem.flows) ** 2 / 2 <= MOST_STRUCTURES * 4)
    if few or not smaller:
        return problem.structures(size)[:MOST_STRUCTURES]
    return problem.larger([frozenset(fit.structure) for fit in smaller[:BEAM]])[:MOST_STRUCTURES]


class _Contest:
    """Structures polished and judged one by one, on the same data."""

    def __init__(
        self, p: Prepared, problem: Compartments, starts: Starts, bounds: tuple[float, float]
    ) -> None:
        self.p, self.problem, self.starts, self.bounds = p, problem, starts, bounds
        self.sigma = np.maximum(p.noise, p.floor)
        self.rows: list[Judged] = []
        self.structures: list[Structure] = []

    @property
    def least(self) -> float:
        """The best criterion so far."""
        return min((row.criterion for row in self.rows), default=np.inf)

    def judge(self, law: PowerSum, free: Free, initial: np.ndarray, origin: int) -> Judged:
        """A law with constants and starts at the maximum of the likelihood."""
        found = polish(law, self.p.data, initial, self.sigma, floor=self.p.floor, free=free,
                       nonnegative=self.starts.nonnegative, most=MOST, shape=self.p.shape,
                       sums=self.starts.sums)  # fmt: skip
        row = judged(found, self.sigma, origin)
        a, w = found.law.coefficients[free[0]], found.law.exponents[free[1]]
        inside = bool(((w >= self.bounds[0]) & (w <= self.bounds[1])).all())
        # A flow that runs backwards would take from states that are empty.
        return row if inside and (a > 0).all() else dataclasses.replace(row, criterion=np.inf)

    def enter(self, fit: Rough) -> None:
        """Polish and judge one structure, and keep it if it can be integrated."""
        law, of_a = law_of(fit.structure, fit.constants, self.problem.given, self.p.scale.state)
        none = np.zeros((0, 0), dtype=bool)
        free = of_a, np.zeros(law.exponents.shape, dtype=bool), none, none
        self._keep(self.judge(law, free, fit.initial, len(self.rows)), frozenset(fit.structure))

    def free_exponents(self) -> None:
        """The best laws once more with real exponents, simple ones where data cannot tell."""
        for i in np.argsort([row.criterion for row in self.rows], kind="stable")[:FREED]:
            row = self.rows[i]
            law, free = row.polished.law, row.polished.free
            given = (law.exponents[:, None] == self.problem.given.exponents).all(axis=2).any(axis=1)
            fitted = (law.exponents != 0) & ~given[:, None]

            def refit(law: PowerSum, free: Free, row: Judged = row) -> Judged:
                return self.judge(law, free, row.polished.initial, row.origin)

            real = refit(law, (free[0], fitted, *free[2:]))
            gain = int(fitted.sum()) * price(law.n_states, real.polished.counts.sum())
            if real.criterion - gain < row.criterion:
                self._keep(snapped(real, refit), self.structures[i])

    def _keep(self, row: Judged, structure: Structure) -> None:
        if np.isfinite(row.criterion):
            self.rows.append(row)
            self.structures.append(structure)


def _problem(p: Prepared, known: Knowledge) -> Compartments:
    """Which flows there may be, or why there can be none."""
    names, n, hidden = known.states, len(known.states), ~p.measured
    if n > MOST_STATES:
        raise InputError(f"{n} states with unmeasured ones among them are too many to search: "
                         f"expected at most {MOST_STATES}; choose fewer with --states")  # fmt: skip
    for i in np.flatnonzero(~p.nonnegative):
        raise InputError(
            f"{names[i]!r} changes its sign: with unmeasured states only amounts are understood, "
            "which flow and are never negative; measure the others, or fit without them"
        )
    scaled = known if p.knowledge is None else p.knowledge
    given = scaled.impose(PowerSum(np.zeros((n, 0)), np.zeros((0, n))))
    given = PowerSum(given.coefficients, given.exponents)
    rows = (given.coefficients != 0).any(axis=1) | known.fixed
    weights = np.array([c.weights for c in known.conserved]).reshape(-1, n)
    both = rows & (weights != 0).any(axis=0)
    for i in np.flatnonzero(both):
        raise InputError(f"{names[i]}' is known and {names[i]} stands in a conserved sum: with "
                         "unmeasured states one of them is enough; drop the other")  # fmt: skip
    uses = (given.exponents != 0).any(axis=0)
    forbidden = known.forbidden
    distinct = rows | uses | forbidden.any(axis=0) | forbidden.any(axis=1)
    return Compartments(hidden, weights, forbidden, known.fixed, given, (rows | uses) & hidden,
                        distinct, p.constant, known.bounds)  # fmt: skip


def _sums(p: Prepared, known: Knowledge) -> Sums:
    """Conserved sums with their values, dimensionless, that start values have to keep."""
    found: list[tuple[np.ndarray, float]] = []
    taken = np.zeros(len(known.states), dtype=bool)
    for one in (c for c in known.conserved if c.value is not None):
        assert one.value is not None
        sign = np.sign(one.value)
        if sign == 0 or (one.weights * sign < 0).any() or taken[one.weights != 0].any():
            raise InputError(
                "with unmeasured states, sums with a value need positive weights, and no state "
                "may stand in two of them; leave out the value of one"
            )
        taken |= one.weights != 0
        found.append((sign * one.weights * p.scale.state, sign * one.value))
    return tuple(found)


def said(won: Competed, names: Sequence[str]) -> list[str]:
    """What the reader of a result with unmeasured states should know, one sentence each."""
    return []
