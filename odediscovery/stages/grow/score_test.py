"""Which terms would explain the data better than a law does? Regression along its trajectory.

A law f that follows the data is near the true one, f + g, in effect: to first order in g

    data - x = Phi(t, 0) d + integral_0^t Phi(t, s) g(x(s)) ds + noise,    dPhi/dt = (df/dx) Phi

along its own trajectory x, d being the error of its start. So what any candidate term does to the
trajectory is known without fitting it, and which few terms together should stand in an equation
is a linear regression on the data themselves, with their own noise. Nothing is smoothed or
differentiated, which is what misleads regression on increments or derivatives in noise.

Source: the score test (Rao 1948) for terms of a right-hand side; Gauss-Newton, in function space.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from odediscovery.families import Family, Terms, power_is_rate
from odediscovery.laws.power_sum import (
    COSTS,
    NO_SUMS,
    Features,
    PowerSum,
    Sums,
    all_free,
    constant_penalty,
    cost,
    snap_penalty,
)
from odediscovery.problem.problem import Problem
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask, column_norms
from odediscovery.solve.linearised import LinearisedTrajectory
from odediscovery.stages.grow.grow import best_subsets
from odediscovery.stages.grow.integral_form import Integral, Path, features_for, grid_for, values_of

# Indices of candidates or equations.
Indices: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class ScoreThresholds:
    """How many terms are sought along a trajectory, and which look good enough."""

    terms: int = 4  # most terms of an equation
    subsets: int = 40  # subsets of each size that are looked at
    children: int = 20  # columns that a subset is extended by
    alike: float = 0.9999  # correlation from which on two columns are one
    of_equation: int = 30  # subsets of one equation that go into laws
    beam: int = 50  # sets of terms for the first equations that are kept; cost
    laws: int = 8  # laws that come of them
    # how much worse a law may look whose real powers, rates or sums are only near [of the criterion]
    worse: float = 6.0
    columns_at_once: int = 500  # columns whose responses are computed together
    least_response: float = 1e-9  # response that does nothing [the largest one]
    largest: float = 1e100  # largest force


SCORE = ScoreThresholds()


@dataclass(frozen=True, eq=False)
class Choice:
    """Terms for one equation and what they would gain over the present ones.

    Args:
        terms: indices of candidates, behind them those of the law's monomials; None for the terms that it has.
        coefficients: of them.
        gain: by which the criterion would fall.
    """

    terms: tuple[int, ...] | None
    coefficients: Array
    gain: float


@dataclass(frozen=True, eq=False)
class _Pool:
    """Candidates, and behind them the monomials of the law.

    Args:
        rows: their exponents outside of sums [C, features].
        kinds: columns of one kind differ by a constant that is fitted later [C].
        cost: of each as a term; of a monomial that the law has, its coefficient alone [C].
        saved: of that where another equation has the same term [C].
        plain: those without sums of their own [C].
        rough: those with constants that are fitted afterwards: real powers, rates, sums [C].
        beside: candidates with the next smaller and larger constant in the sum, themselves for none [C, 2].
    """

    rows: Array
    kinds: Indices
    cost: Array
    saved: Array
    plain: Mask
    rough: Mask
    beside: Indices

    @classmethod
    def of(cls, law: PowerSum, grid: Terms, problem: Integral, samples: int) -> _Pool:
        """Of a law and candidates for its equations."""
        own, w, worth = law.n_monomials, law.exponents, constant_penalty(law.n_states, samples)
        cost = np.append(_costs(grid, problem.features, worth), np.full(own, worth))
        return cls(
            np.vstack([np.pad(grid.rows, ((0, 0), (0, w.shape[1] - grid.rows.shape[1]))), w]),
            np.append(grid.kinds, len(grid) + np.arange(own)),
            cost,
            cost - worth,
            np.append(grid.constant == 0, np.ones(own, dtype=bool)),
            np.append(_rough(grid, problem), (w != np.round(w)).any(axis=1)),
            np.vstack([_beside(grid), np.repeat(len(grid) + np.arange(own), 2).reshape(-1, 2)]),
        )


def propose_terms(p: Problem, law: PowerSum, initial: Array, sigma: Array, family: Family) -> list[PowerSum]:
    """Laws of a family that should be at least about as good as a law that follows the data.

    Args:
        law: dimensionless, with the constants and starts that fit best.
        initial: its start values [trajectories, states].
        sigma: standard deviation of the noise [states].
        family: whose terms are sought.

    Returns:
        The most promising first; each equation has the terms of the law or new ones. Empty where
        none looks as good, or the law has flows or cannot be integrated.
    """
    changing = ~p.constant
    features = features_for(family, ~p.nonnegative, changing, p.scale.state)
    along = None if law.stoichiometry is not None else LinearisedTrajectory.of(p, law, initial, sigma)
    if along is None:
        return []
    wide = _widened(law, features)
    whole = family.whole(~p.nonnegative)
    problem = Integral.of(p.data, p.noise, whole, features)
    grid = grid_for(problem, family, ~p.nonnegative | p.integer_exponents, changing)
    equations = np.flatnonzero(changing)
    responses = _responses(along, grid, problem, equations)
    pool = _Pool.of(wide, grid, problem, along.samples)
    choices = [_choices(along, wide, pool, int(i), equations, responses[int(i)]) for i in equations]
    found = []
    for picks in _combined(choices, pool):
        found.append(_law(wide, grid, equations, picks))
    return found


def _widened(law: PowerSum, features: Features) -> PowerSum:
    """The same law over the states and functions of a family, its other functions behind them."""
    own, n = law.features or Features(law.n_states), law.n_states
    functions = tuple(dict.fromkeys((*features.functions, *own.functions)))
    simple = n + len(functions)
    places = [*range(n), *(n + functions.index(f) for f in own.functions)]
    w = np.zeros((law.n_monomials, simple + len(own.sums)))
    w[:, [*places, *range(simple, w.shape[1])]] = law.exponents
    sums = NO_SUMS
    if len(own.sums):
        v = np.zeros((len(own.sums.exponents), simple))
        v[:, places] = own.sums.exponents
        sums = Sums(own.sums.weights, v)
    return PowerSum(law.coefficients, w, Features(n, functions, sums))


def _forces(along: LinearisedTrajectory, grid: Terms, problem: Integral, chosen: Indices) -> list[Array]:
    """Values of some candidates along the trajectories, [nodes, candidates] each."""
    terms = grid.select(chosen)
    smallest = np.full(problem.features.size, 1e-9)
    forces = []
    for x in along.x:
        values = values_of(terms, Path.of(problem.features.values(x), problem.integer, smallest))
        forces.append(np.clip(np.nan_to_num(values), -SCORE.largest, SCORE.largest))
    return forces


def _responses(along: LinearisedTrajectory, grid: Terms, problem: Integral, equations: Indices) -> dict[int, Array]:
    """What each candidate does to the samples as a term of each equation, [rows, candidates] each."""
    parts = np.array_split(np.arange(len(grid)), max(len(grid) // SCORE.columns_at_once, 1))
    found: dict[int, list[Array]] = {int(i): [] for i in equations}
    for part in parts:
        forces = _forces(along, grid, problem, part)
        for i, columns in found.items():
            columns.append(along.responses(i, forces))
    return {i: np.hstack(columns) for i, columns in found.items()}


def _choices(
    along: LinearisedTrajectory, law: PowerSum, pool: _Pool, i: int, equations: Indices, responses: Array
) -> list[Choice]:
    """The best sets of terms for one equation, what it has among them.

    Starts and the coefficients of the other equations are free along with it. Their monomials are candidates too,
    and cost no more than a coefficient: what leaves one state often enters another.

    Args:
        responses: to the candidates as terms of it [rows, candidates].
    """
    nuisance = [along.starts()]
    for e in equations[equations != i]:
        used = law.coefficients[e] != 0
        nuisance.append(along.responses(int(e), [law.monomials(x)[..., used] for x in along.x]))
    q = np.linalg.qr(_unit(np.hstack(nuisance))[0])[0]

    def projected(columns: Array) -> Array:
        rest: Array = columns - q @ (q.T @ columns)
        return rest

    used, values = law.coefficients != 0, [law.monomials(x) for x in along.x]
    shared = np.delete(used, i, axis=0).any(axis=0)
    carried = along.responses(i, values)
    columns, norm = _unit(projected(np.hstack([responses, np.where(shared, carried, 0.0)])))
    used = used[i]
    y = projected(along.residual) + projected(carried[:, used]) @ law.coefficients[i, used]
    n, present = along.samples, _left(projected(carried[:, used]), y)[0] + along.within
    present = n * np.log(present / n) + _cost(law, i, shared, n)
    found = [Choice(None, law.coefficients[i], 0.0)]
    here = {w.tobytes() for w in law.exponents[used]}
    for level in best_subsets(
        columns, y, pool.kinds, SCORE.terms, SCORE.subsets, alike=SCORE.alike, children=SCORE.children, pairs=True
    ):
        for subset in level:
            own = list(subset)
            if {w.tobytes() for w in pool.rows[own]} == here and pool.plain[own].all():
                continue
            left, a = _left(columns[:, subset], y)
            # Between its neighbours lies what a sum explains once its constant is fitted.
            spanned = np.union1d(own, pool.beside[own])
            left = left if len(spanned) == len(own) else _left(columns[:, spanned], y)[0]
            gain = present - n * np.log((left + along.within) / n) - pool.cost[own].sum()
            if gain + pool.saved[own].sum() > (-SCORE.worse if pool.rough[own].any() else 0.0):
                found.append(Choice(subset, a / norm[own], float(gain)))
    # Of those that differ by constants alone, which are fitted afterwards, the best one will do.
    kinds: dict[tuple[int, ...] | None, Choice] = {}
    for choice in sorted(found, key=lambda c: -c.gain):
        kinds.setdefault(choice.terms and tuple(sorted(pool.kinds[list(choice.terms)])), choice)
    return list(kinds.values())[: SCORE.of_equation]


def _cost(law: PowerSum, i: int, shared: Mask, samples: int) -> float:
    """What the terms of one equation cost; monomials that it shares cost no more than a coefficient."""
    assert law.features is not None
    a = np.where((np.arange(law.n_states)[:, None] == i) & ~shared, law.coefficients, 0.0)
    coefficients = np.count_nonzero(law.coefficients[i, shared]) * constant_penalty(law.n_states, samples)
    one = PowerSum(a, law.exponents, law.features).merged().compact()
    free, n = all_free(one), law.n_states
    whole = one.exponents == np.round(one.exponents)
    if one.features is not None:
        rates = [n + k for k, f in enumerate(one.features.functions) if power_is_rate(f)]
        whole[:, rates] = False
    return cost(one, (free[0], free[1] & ~whole, free[2], np.zeros_like(free[3])), samples) + coefficients


def _costs(grid: Terms, features: Features, worth: float) -> Array:
    """What each candidate costs as a term; rates and constants of sums are fitted."""
    rates = np.array([False] * features.states + [power_is_rate(f) for f in features.functions])
    powers = np.column_stack([grid.rows[:, ~rates], grid.inner[:, ~rates], grid.power])
    fitted = np.count_nonzero(np.column_stack([grid.rows[:, rates], grid.inner[:, rates]]), axis=1)
    kinds = np.array([sum(snap_penalty(float(v)) for v in row[row != 0]) for row in powers])
    of = slice(features.states, None)
    chosen = np.count_nonzero(np.hstack([grid.rows[:, of], grid.inner[:, of]]), axis=1)
    costs: Array = kinds + worth * (1.0 + fitted + (grid.constant != 0)) + COSTS.function * chosen
    return costs


def _beside(grid: Terms) -> Indices:
    """Places of the candidates with the next smaller and the next larger constant in a sum [C, 2]."""
    form = np.unique(np.column_stack([grid.rows, grid.inner, grid.power]), axis=0, return_inverse=True)[1].ravel()
    order = np.lexsort((grid.constant, form))
    found = np.repeat(np.arange(len(grid)), 2).reshape(-1, 2)
    one, next_one = order[:-1], order[1:]
    alike = (form[one] == form[next_one]) & (grid.constant[one] != 0.0)
    found[next_one[alike], 0], found[one[alike], 1] = one[alike], next_one[alike]
    return found


def _rough(grid: Terms, problem: Integral) -> Mask:
    """Candidates with constants that are fitted afterwards: real powers, rates, sums."""
    simple = len(problem.integer)
    real: Mask = (grid.rows[:, :simple][:, ~problem.integer] != 0).any(axis=1)
    rough: Mask = real | (grid.constant != 0)
    return rough


def _unit(columns: Array) -> tuple[Array, Array]:
    """Columns of norm 1, those that do nothing as 0, and the norms."""
    norm = column_norms(columns)
    usable = np.isfinite(norm) & (norm > SCORE.least_response * np.max(norm, where=np.isfinite(norm), initial=0.0))
    norm = np.where(usable, norm, 1.0)
    return np.where(usable, columns / norm, 0.0), norm


def _left(columns: Array, y: Array) -> tuple[float, Array]:
    """Sum of squares that columns leave of y, and their coefficients."""
    a = np.asarray(np.linalg.lstsq(columns, y, rcond=1e-10)[0], dtype=np.float64)
    return max(float(np.sum((y - columns @ a) ** 2)), ABOVE_ZERO), a


def _combined(choices: Sequence[Sequence[Choice]], pool: _Pool) -> list[tuple[Choice, ...]]:
    """One choice for every equation, those with the largest gain in all; none without a new one.

    A term that two equations have is paid for once, as one of a kind: its constant is fitted to both.
    """

    def gain(picks: tuple[Choice, ...]) -> float:
        saved = {int(pool.kinds[c]): float(pool.saved[c]) for pick in picks for c in pick.terms or ()}
        used = [kind for pick in picks for kind in {int(pool.kinds[c]) for c in pick.terms or ()}]
        return sum(pick.gain for pick in picks) + sum(saved[kind] * (used.count(kind) - 1) for kind in saved)

    beam: list[tuple[Choice, ...]] = [()]
    for own in choices:
        longer = ((*picks, c) for picks, c in itertools.product(beam, own))
        beam = heapq.nlargest(SCORE.beam, longer, key=gain)
    found = []
    for picks in beam:
        used = [c for pick in picks for c in pick.terms or ()]
        # What is rough becomes better once its constants are fitted.
        if used and gain(picks) > (-SCORE.worse if pool.rough[used].any() else 0.0):
            found.append(_shared(picks, pool))
    return found[: SCORE.laws]


def _shared(picks: tuple[Choice, ...], pool: _Pool) -> tuple[Choice, ...]:
    """The same with terms of one kind in two equations as the same term."""
    first: dict[int, int] = {}
    found = []
    for pick in picks:
        if pick.terms is not None:
            kinds = [int(pool.kinds[c]) for c in pick.terms]
            own = dict(zip(kinds, pick.terms, strict=True))
            pick = dataclasses.replace(
                pick, terms=tuple(first.get(k, c) for k, c in zip(kinds, pick.terms, strict=True))
            )
            first = own | first
        found.append(pick)
    return tuple(found)


def _law(law: PowerSum, grid: Terms, equations: Indices, picks: Sequence[Choice]) -> PowerSum:
    """The law with the terms that were chosen for its equations."""
    assert law.features is not None
    simple, sums = law.features.simple, law.features.sums
    rows, columns = [*law.exponents], [*np.zeros_like(law.coefficients.T)]
    for e, pick in zip(equations, picks, strict=True):
        if pick.terms is None:
            for j in range(law.n_monomials):
                columns[j] = columns[j].copy()
                columns[j][e] = law.coefficients[e, j]
            continue
        for c, a in zip(pick.terms, pick.coefficients, strict=True):
            if c >= len(grid):
                columns[c - len(grid)] = columns[c - len(grid)] + a * np.eye(law.n_states)[e]
                continue
            row, inner = np.pad([grid.rows[c], grid.inner[c]], ((0, 0), (0, simple - grid.rows.shape[1])))
            if grid.constant[c]:
                own = Sums(grid.constant[c : c + 1, None], inner[None])
                place = sums.alike(own, 1.05)
                if place is None:
                    place, sums = len(sums), sums.and_also(own)
                row = np.concatenate([row, np.eye(len(sums))[place] * grid.power[c]])
            rows.append(row)
            columns.append(a * np.eye(law.n_states)[e])
    size = simple + len(sums)
    w = np.array([np.pad(row, (0, size - len(row))) for row in rows])
    features = Features(law.n_states, law.features.functions, sums)
    return PowerSum(np.array(columns).T, w, features).merged().compact()
