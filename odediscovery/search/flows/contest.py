"""The search with unmeasured or dosed states: structures of flows compete on whole trajectories.

    all structures of 1, 2, 3, ... flows -> rough fits, all at once -> the best polished -> judged

Without samples of a state there is no derivative to regress on and no window to start, only whole trajectories from
fitted starts. So simple laws compete: flows between states at rates of mass action, one flow more at each step, from
three on while the criterion improves, and at most five. Then the exponents of the best laws are freed and snapped, as
in other searches.

Notes report fitted starts with their standard errors, scales set by convention, indistinguishable states, and other
laws that are about as good.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from odediscovery.errors import FitError, InputError
from odediscovery.judge.criterion import NO_EVIDENCE, Verdict, judge
from odediscovery.judge.notes import rival_flows
from odediscovery.knowledge.constraints import Knowledge
from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import Free, PowerSum, constant_penalty, count, expanded, none_free
from odediscovery.laws.records import Judged, Origin, Polished
from odediscovery.problem.problem import Problem
from odediscovery.runtime.arrays import Array, Indices
from odediscovery.runtime.monitor import Monitor
from odediscovery.search.flows.flows import BEGINNINGS, Compartments, Rough, Structure, law_of, rough_fits, units
from odediscovery.settings import Settings
from odediscovery.solve.sensitivities import (
    LEAST_START,
    ConservedSums,
    Starts,
    known_starts,
    residual_squares,
    tolerance,
)
from odediscovery.stages.polish import polish_on, snap

# The number of structures grows exponentially with states and flows; these limits bound the time.
STATES = 4  # most states in all
STRUCTURES = 2000  # most structures of a size
POLISHED = 4  # most structures of a size to polish


def compete(p: Problem, known: Knowledge, settings: Settings, monitor: Monitor) -> Contest:
    """Let structures of flows compete where some states have no samples; `known` is in the user's units."""
    problem, sums = _compartments(p, known), _sums(p, known)
    starts = Starts(p.nonnegative[~p.data.is_control], sums, known_starts(p.data))
    p = dataclasses.replace(p, knowledge=None, given=None)
    contest = Contest(p, problem, starts)
    generator = np.random.default_rng(settings.seed)
    _climb(contest, generator, monitor)
    if not contest.rows:
        raise FitError(
            "no flows between the measured and the unmeasured states could be integrated through "
            "the data; say more of them (--conserve, --known), or leave some out"
        )
    if not monitor.stopping():
        contest.thin()
    if not known.integer and not monitor.stopping():
        contest.free_exponents()
    contest.chosen = chosen = simplest_row(contest.rows)
    alike = [contest.structures[chosen]] if not monitor.stopping() else []
    others = rough_fits(p, alike, starts, problem.given, generator, monitor, each=BEGINNINGS)
    twins = [contest.rows[chosen], *contest.twins_of(contest.rows[chosen], others)]
    # Of fits that the data cannot distinguish, choose the one with the smallest unmeasured starts.
    twins.sort(key=lambda row: float(row.polished.initial[:, problem.latent[: len(starts.nonnegative)]].sum()))
    contest.rows[chosen] = twins[0] if monitor.stopping() else contest.ended(twins[0])
    contest.twins = twins[1:]
    return contest


def _climb(contest: Contest, generator: np.random.Generator, monitor: Monitor) -> None:
    """Enter structures with more and more flows until a further flow improves no law."""
    p, problem, ranked = contest.p, contest.problem, list[Rough]()
    for size in range(0 if problem.given.n_monomials else 1, 6):
        few = math.comb(len(problem.flows), size) * len(p.data.trajectories) <= 5000 or not ranked
        # If there are too many structures, the best smaller ones with one more flow.
        longer = ((*fit.structure, f) for fit in ranked[:16] for f in problem.flows if f not in fit.structure)
        structures = problem.sensible(itertools.combinations(problem.flows, size) if few else longer)[:STRUCTURES]
        fits = rough_fits(p, structures, contest.starts, problem.given, generator, monitor)
        ranked = fits or ranked
        before = contest.least
        monitor.stage(f"polish {size} flows", POLISHED)
        for k, fit in enumerate(fits[:POLISHED]):
            if monitor.stopping() and np.isfinite(contest.least):
                break
            contest.enter(fit)
            monitor.step(k + 1)
        # After the time is up, more flows are still tried until one law can be integrated.
        out_of_time = monitor.stopping() is not None and np.isfinite(contest.least)
        # A chain of three compartments has three flows.
        if out_of_time or (size >= 3 and contest.least >= before):
            break


def simplest_row(rows: Sequence[Judged]) -> int:
    """Return the index of the simplest row whose criterion is about as good as the best one.

    Among many structures, a slightly better one is no evidence against a simple law. Laws with
    undetermined constants are chosen only if there are no others.
    """
    known = [i for i, row in enumerate(rows) if is_determined(row)] or list(range(len(rows)))
    least = min(rows[i].criterion for i in known)
    close = [i for i in known if rows[i].criterion < least + NO_EVIDENCE]
    laws = [row.polished.law for row in rows]
    return min(close, key=lambda i: (laws[i].complexity, np.abs(laws[i].exponents).sum(), rows[i].criterion))


def is_determined(row: Judged) -> bool:
    """Whether every fitted coefficient is larger than its standard error."""
    found = row.polished
    a, e = (law.coefficients[found.free[0]] for law in (found.law, found.errors))
    return bool(((e > 0) & (e < np.abs(a))).all())


class Contest:
    """The competition: structures polished and judged one by one on the same data."""

    def __init__(self, p: Problem, problem: Compartments, starts: Starts) -> None:
        self.p = p  # without knowledge, which the possible flows obey
        self.problem, self.starts = problem, starts  # the possible flows, and how start values are bounded
        self.rows, self.structures = list[Judged](), list[Structure]()  # each judged law with its flows
        self.chosen = 0
        # Fits of the chosen flows with clearly different constants that are about as good.
        self.twins = list[Judged]()

    @property
    def verdict(self) -> Verdict:
        """The judged laws and the chosen one."""
        return Verdict(self.p, tuple(self.rows), self.chosen)

    @property
    def least(self) -> float:
        """The best criterion so far."""
        return min((row.criterion for row in self.rows), default=np.inf)

    def ended(self, row: Judged) -> Judged:
        """Continue the fit of a row to convergence, if that is at least as good."""
        found = row.polished
        after = self.judge(found.law, found.free, found.initial, row.origin, most=200)
        return after if after.criterion <= row.criterion else row

    def judge(self, law: PowerSum, free: Free, initial: Array, origin: Origin, most: int = 30) -> Judged:
        """Fit the constants and starts of a law by maximum likelihood and judge it; inf if it is not sound."""
        found = polish_on(self.p, law, free, initial, self.p.sigma, most, sums=self.starts.sums)
        row = judge(found, self.p.sigma, origin)
        a, w = found.law.coefficients[free[0]], found.law.exponents[free[1]]
        least, most_power = self.problem.bounds
        # A flow that runs backwards would drain empty states.
        sound = ((w >= least) & (w <= most_power)).all() and (a > 0).all() and not self._from_nothing(found)
        return row if sound else dataclasses.replace(row, criterion=np.inf)

    def _from_nothing(self, found: Polished) -> bool:
        """Whether the fit depends on starts that noise cannot distinguish from 0.

        An autocatalytic law can use such a start as a free delay.
        """
        sigma = self.p.sigma[: len(self.starts.nonnegative)]
        # A start of a hundredth of the noise cannot be observed.
        least = np.maximum(0.01 * sigma, 2.0 * LEAST_START)
        low = self.starts.nonnegative & (found.initial <= least)
        if not found.finite or not low.any():
            return False
        empty = np.where(low, 0.0, found.initial)
        squares = residual_squares(found.law, self.p.data, empty, self.p.relative_sigma, tolerance(self.p.sigma))[0]
        before, after = ((s / self.p.sigma**2).sum() for s in (found.squares, squares))
        return not after <= 1.1 * before + found.counts.sum()

    def thin(self) -> None:
        """Enter the best structures without one of their flows, which rough fits may have missed."""
        for i in self._best(3):
            flows, found = self.structures[i], self.rows[i].polished
            k = found.law.coefficients[: len(flows)].sum(axis=1) / units(flows, self.p.scale.state)
            for f in range(len(flows)):
                left = (*flows[:f], *flows[f + 1 :])
                if left not in self.structures and self.problem.sensible([left]) == [left]:
                    self.enter(Rough(left, np.delete(k, f), found.initial, np.inf))

    def _best(self, most: int) -> Indices:
        return np.argsort([row.criterion for row in self.rows], kind="stable")[:most]

    def polished(self, fit: Rough) -> Judged:
        """Polish the structure of a rough fit from its constants, and judge it."""
        law, of_a = law_of(fit.structure, fit.constants, self.problem.given, self.p.scale.state)
        free = of_a, *none_free(law)[1:]
        return self.judge(law, free, fit.initial, Origin(len(self.rows), "regression"))

    def twins_of(self, row: Judged, fits: Sequence[Rough]) -> list[Judged]:
        """Find fits of the same flows with clearly different constants that are about as good."""
        a, found = row.polished.law.coefficients, list[Judged]()
        for fit in fits if not row.polished.free[1].any() else ():
            # A rough fit that is somewhat worse may be as good once polished.
            if fit.mean_square > 1.5 * fits[0].mean_square:
                break
            law, _ = law_of(fit.structure, fit.constants, self.problem.given, self.p.scale.state)
            seen = [a, *(r.polished.law.coefficients for r in found)]
            if law.coefficients.shape != a.shape or not _is_apart(law, seen):
                continue
            other = self.polished(fit)
            if _is_apart(other.polished.law, seen) and other.criterion < row.criterion + NO_EVIDENCE:
                found.append(other)
        return found

    def free_exponents(self) -> None:
        """Refit the two best laws with real exponents, snapped to simple ones where the data allow it."""
        for i in self._best(2):
            row = self.rows[i]
            law, free = row.polished.law, row.polished.free
            given = (law.exponents[:, None] == self.problem.given.exponents).all(axis=2).any(axis=1)
            fitted = (law.exponents != 0) & ~given[:, None] & ~self.p.data.is_control
            refit = partial(self.judge, origin=row.origin)
            real = refit(law, (free[0], fitted, *free[2:]), row.polished.initial)
            each = constant_penalty(law.n_states, real.polished.counts.sum())
            if real.criterion - int(fitted.sum()) * each >= row.criterion:
                continue
            # A power chosen among many counts as a fitted constant even if it is simple.
            real = snap(real, refit)
            if real.criterion + each < row.criterion:
                self.keep(real, self.structures[i])

    def enter(self, fit: Rough) -> None:
        """Polish a rough fit and keep it."""
        self.keep(self.polished(fit), fit.structure)

    def keep(self, row: Judged, structure: Structure) -> None:
        """Keep a row in the competition if its criterion is finite."""
        if np.isfinite(row.criterion):
            self.rows.append(row)
            self.structures.append(structure)


def _is_apart(law: PowerSum, others: Sequence[Array]) -> bool:
    a = law.coefficients
    return all((np.abs(a - b) > 0.1 * (np.abs(a) + np.abs(b))).any() for b in others)


def _compartments(p: Problem, known: Knowledge) -> Compartments:
    """Collect the possible flows between states; InputError if the states or the knowledge admit none."""
    names, n, latent = known.states, len(known.states), ~p.measured
    if n > STATES:
        inputs = [name for name, given in zip(names, p.data.is_control, strict=True) if given]
        counted = f", the inputs {', '.join(inputs)} among them; choose fewer with --inputs" * bool(inputs)
        raise InputError(
            f"with unmeasured states, at most {STATES} states and inputs can be searched, got {n}"
            f"{counted or '; choose fewer with --states'}"
        )
    for refused, fact, advice in (
        (~p.nonnegative & ~p.data.is_control, "changes its sign", "measure the others, or fit without them"),
        (p.scale.state < 0.0, "is negative", "give a column of its values times -1"),
    ):
        for i in np.flatnonzero(refused):
            raise InputError(
                f"{names[i]!r} {fact}: with unmeasured states only amounts are understood, which flow and are never "
                f"negative; {advice}"
            )
    scaled = known if p.knowledge is None else p.knowledge
    given = scaled.impose(PowerSum(np.zeros((n, 0)), np.zeros((0, n))))
    given = PowerSum(given.coefficients, given.exponents)
    rows = (given.coefficients != 0).any(axis=1) | known.fully_known
    weights = np.array([c.weights for c in known.conserved]).reshape(-1, n)
    for i in np.flatnonzero(rows & (weights != 0).any(axis=0)):
        raise InputError(
            f"{names[i]}' is known and {names[i]} stands in a conserved sum: with "
            "unmeasured states one of them is enough; drop the other"
        )
    uses = (given.exponents != 0).any(axis=0)
    # A control that changes its sign would reverse a flow.
    forbidden = known.forbidden | (p.data.is_control & ~p.nonnegative)
    distinct = rows | uses | known.forbidden.any(axis=0) | known.forbidden.any(axis=1)
    return Compartments(
        latent, weights, forbidden, known.fully_known, given, (rows | uses) & latent, distinct, p.constant, known.bounds
    )


def _sums(p: Problem, known: Knowledge) -> ConservedSums:
    """Return the conserved sums and their values, dimensionless, that start values must obey."""
    found, taken, own = list[tuple[Array, float]](), np.zeros(len(known.states), bool), ~p.data.is_control
    for weights, value in known.conserved:
        if value is None:
            continue
        sign = np.sign(value)
        if sign == 0 or (weights * sign < 0).any() or taken[weights != 0].any():
            raise InputError(
                "with unmeasured states, sums with a value need positive weights, and no state "
                "may stand in two of them; leave out the value of one"
            )
        taken |= weights != 0
        found.append(((sign * weights * p.scale.state)[own], sign * value))
    return tuple(found)


def flow_notes(won: Contest, names: Sequence[str]) -> list[str]:
    """Write notes on a result with unmeasured states, one sentence each."""
    row = won.rows[won.chosen]
    notes = [_start(won, names, int(i)) for i in np.flatnonzero(won.problem.latent)]
    notes += [
        f"nothing tells the scale of {names[i]}: what passes between it and {names[j]} "
        f"leaves one and enters the other in equal amounts, which puts {names[i]} in units "
        f"of {names[j]}"
        for i, j in _partners(won.problem, won.structures[won.chosen]).items()
    ]
    alike = won.problem.indistinguishable
    if len(alike) > 1:
        notes.append(
            f"nothing tells {' and '.join(names[i] for i in alike)} apart: the flows take "
            "the first named as the one upstream"
        )

    def text(row: Judged) -> str:
        user = expanded(row.polished.law.unscaled(won.p.scale.state, won.p.scale.time))
        return Equations.from_power_sum(tuple(names), user, controls=won.p.data.controls).pretty(3).replace("\n", "; ")

    notes += [
        f"the same flows with other constants, and more of what was not measured, fit as well: {text(r)}"
        for r in won.twins[:2]
    ]
    size = np.count_nonzero(row.polished.free[0])
    as_good = (r for i, r in enumerate(won.rows) if i != won.chosen and r.criterion < row.criterion + NO_EVIDENCE)
    others = [r for r in as_good if is_determined(r) and np.count_nonzero(r.polished.free[0]) == size]
    return [*notes, *(rival_flows(text(r)) for r in sorted(others, key=lambda r: r.criterion)[:2])]


def _start(won: Contest, names: Sequence[str], i: int) -> str:
    """Write a sentence on how well the data determine the start of an unmeasured state."""
    scale, found = won.p.scale.state[i], won.rows[won.chosen].polished
    # nan where the data do not determine a start
    errors = found.joint.deviations()[count(found.free) :].reshape(found.initial.shape)
    value, error = found.initial[:, i] * scale, errors[:, i] * scale
    first = f"{names[i]} was not measured: "
    if won.starts.known is not None and np.isfinite(won.starts.known[:, i]).all():
        return f"{first}its start is the one that was given"
    if not np.isfinite(error).any():
        return first + "the data do not determine its start"
    if len(value) == 1:
        return f"{first}its start is fitted, {value[0]:.4g} with a standard error of {error[0]:.2g}"
    return first + (
        f"its {len(value)} starts are fitted, {value.min():.4g} to {value.max():.4g} "
        f"with standard errors of up to {np.nanmax(error):.2g}"
    )


def _partners(problem: Compartments, structure: Structure) -> dict[int, int]:
    """Map each unmeasured state whose scale is set by convention to the state that sets it."""
    tied = ~problem.latent | problem.summed | problem.anchored
    found: dict[int, int] = {}
    for _ in range(problem.n):
        for flow in sorted(structure, key=lambda f: f.factors):
            for i in flow.touched:
                near = [j for j in flow.touched if tied[j]]
                if not tied[i] and near:
                    found[i], tied[i] = near[0], True
    return found
