"""Laws of flows between compartments, the small laws that compete where states are unmeasured, and their rough fits.

    dx/dt = sum_f k_f  change_f  prod_k x_k^w_fk        k_f > 0

A flow takes from some states and adds to others, at a rate that is a product of few states. It
leaves a state only at a rate with that state as a factor, so that nothing becomes negative. A
conserved sum c . x allows only changes with c . change = 0. A state that no sum fixes has no
scale of its own: what leaves it for another state enters there in equal amounts, which puts it in
units of that state.

All structures are fitted roughly to whole trajectories, side by side:

    minimise  sum over trajectories, samples, measured states of ((x(t; k, x0) - data) / sigma)^2

over rate constants k > 0 (through their logarithms) and all start values, those of unmeasured
states too. Structures times random beginnings are members of one batch: Runge-Kutta 4 on a grid
shared by all, derivatives by shifts that are rows of the same batch, Levenberg-Marquardt for each
member on its own. Members that lag behind are dropped on the way.

Source: Jacquez and Simon, Qualitative theory of compartmental systems, SIAM Review 35 (1993).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from odediscovery.fitting.windows import damped_steps
from odediscovery.ivp.solvers import rk4_step
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.problem import Problem
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask
from odediscovery.runtime.monitor import Monitor
from odediscovery.solve.sensitivities import Starts

NOTHING = 1e-9  # a smaller entry of a normalised change is rounding
LEAST_NOISE = 0.01  # least noise of a measured state [rms of the state]; a rough fit follows no closer
BEGINNINGS = 16  # random beginnings of a structure; each is integrated once
AT_ONCE = 20_000  # members that are integrated at once; more would leave the cache of the processor
SHIFT = 1e-6  # of derivatives: the root of the precision of float64, with a factor for the solver
RIDGE = 1e-9  # least damping, and ridge of the normal matrix [largest curvature]


@dataclass(frozen=True, order=True)
class Flow:
    """One product of states and what a unit of it changes."""

    change: tuple[float, ...]  # what is added to each state; the largest is 1 or -1
    factors: tuple[int, ...]  # states in the product, in order, doubled for a square; none for a constant

    @property
    def touched(self) -> frozenset[int]:
        """States that it changes."""
        return frozenset(i for i, c in enumerate(self.change) if c)

    @property
    def exponents(self) -> Array:
        """Of the product [states]."""
        w = np.zeros(len(self.change))
        np.add.at(w, list(self.factors), 1.0)
        return w

    def moved(self, order: Sequence[int]) -> Flow:
        """The same with state i called order[i]."""
        change = [0.0] * len(order)
        for i, c in enumerate(self.change):
            change[order[i]] = c
        return Flow(tuple(change), tuple(sorted(order[k] for k in self.factors)))


Structure: TypeAlias = frozenset[Flow]


@dataclass(frozen=True, eq=False)
class Compartments:
    """Which flows there may be, and which of them make sense together."""

    latent: Mask  # states without samples [states]
    weights: Array  # of conserved sums, linearly independent, [sums, states]
    forbidden: Mask  # [states (equation), states (variable)]
    fixed: Mask  # equations that are known whole [states]
    given: PowerSum  # known terms, in which nothing is fitted
    anchored: Mask  # latent states whose scale follows from known terms [states]
    distinct: Mask  # latent states that something given distinguishes from the others [states]
    idle: Mask  # measured states that never change [states]
    bounds: tuple[float, float] = (-np.inf, np.inf)  # least and greatest exponent other than 0

    @property
    def n(self) -> int:
        """Number of states."""
        return len(self.latent)

    @property
    def summed(self) -> Mask:
        """States in conserved sums [states]."""
        return np.asarray((self.weights != 0).any(axis=0))

    @cached_property
    def indistinguishable(self) -> list[int]:
        """Latent states that nothing given distinguishes."""
        found = np.flatnonzero(self.latent & ~self.distinct).tolist()
        return [i for i in found if (self.weights[:, i] == self.weights[:, found[0]]).all()]

    @cached_property
    def flows(self) -> list[Flow]:
        """All flows, in a fixed order."""
        found: list[Flow] = []
        for change in [*elementary(self.weights, self.n), *self._exchanges()]:
            lost = [i for i, c in enumerate(change) if c < 0]
            rest: list[tuple[int, ...]] = [(), *((k,) for k in range(self.n))]
            if not lost:
                rest += itertools.combinations_with_replacement(range(self.n), 2)
            for more in rest if len(lost) < 2 else [()]:
                flow = Flow(change, tuple(sorted((*lost, *more))))
                if self._allowed(flow):
                    found.append(flow)
        return found

    def _exchanges(self) -> Iterator[tuple[float, ...]]:
        """From one state to another in equal amounts, where that defines a scale."""
        loose = np.flatnonzero(~self.summed)
        for i, j in itertools.permutations(loose.tolist(), 2):
            if self.latent[i] or self.latent[j]:
                yield tuple(float(k == j) - float(k == i) for k in range(self.n))

    def _allowed(self, flow: Flow) -> bool:
        touched, used = list(flow.touched), list(set(flow.factors))
        powers = flow.exponents[used]
        if (powers < self.bounds[0]).any() or (powers > self.bounds[1]).any():
            return False
        if self.fixed[touched].any() or self.idle[touched].any():
            return False
        return not self.forbidden[np.ix_(touched, used)].any()

    def is_sensible(self, structure: Structure) -> bool:
        """Whether every flow can be seen in the data and every scale is defined."""
        if len({(f.change, f.factors) for f in structure}) < len(structure):
            return False
        known = self.given.coefficients != 0
        moving = known.any(axis=1)
        for flow in structure:
            moving[list(flow.touched)] = True
        needed = ~self.latent & ~self.idle
        return bool(moving[needed].all()) and self._seen(structure) and self._scaled(structure)

    def _seen(self, structure: Structure) -> bool:
        """Whether all flows have an effect on measured states, and all latent states a part."""
        seen, uses = ~self.latent, self.given.exponents != 0
        part = (self.given.coefficients != 0).any(axis=1)
        for _ in range(self.n):
            for i in np.flatnonzero(seen):
                seen = seen | uses[self.given.coefficients[i] != 0].any(axis=0)
            for flow in structure:
                if any(seen[i] for i in flow.touched):
                    seen[list(flow.factors)] = True
        for flow in structure:
            part[[*flow.touched, *flow.factors]] = True
            if not any(seen[i] for i in flow.touched):
                return False
        return bool((part | seen)[self.latent].all()) and independent(structure)

    def _scaled(self, structure: Structure) -> bool:
        """Whether the scale of every latent state is tied to a measured one's."""
        tied = ~self.latent | self.summed | self.anchored
        alone = [
            f
            for f in structure
            if len(f.touched) == 2
            and not any(
                g != f and g.factors == f.factors and any(self.latent[i] and not tied[i] for i in f.touched & g.touched)
                for g in structure
            )
        ]
        for _ in range(self.n):
            for flow in alone:
                if any(tied[i] for i in flow.touched):
                    tied[list(flow.touched)] = True
        return bool(tied.all())

    def canonical(self, structure: Structure) -> Structure:
        """The same with indistinguishable latent states in the order of the flows.

        The first named one is the farthest upstream.
        """
        forms = []
        for moved in itertools.permutations(self.indistinguishable):
            order = list(range(self.n))
            for i, j in zip(self.indistinguishable, moved, strict=True):
                order[i] = j
            forms.append(frozenset(f.moved(order) for f in structure))
        return min(forms, key=lambda form: (_upstream(form), sorted(form)))

    def structures(self, size: int) -> list[Structure]:
        """All sensible structures of so many flows, each once."""
        return self._distinct(map(frozenset, itertools.combinations(self.flows, size)))

    def larger(self, structures: Sequence[Structure]) -> list[Structure]:
        """Sensible structures with one flow more than some."""
        more = ({*s, f} for s in structures for f in self.flows if f not in s)
        return self._distinct(map(frozenset, more))

    def _distinct(self, found: Iterator[Structure]) -> list[Structure]:
        kept = dict.fromkeys(self.canonical(s) for s in found if self.is_sensible(s))
        return list(kept)


def elementary(weights: Array, n: int) -> list[tuple[float, ...]]:
    """Changes that keep all conserved sums, in as few states as can be, both ways."""
    found: list[tuple[float, ...]] = []
    for size in range(1, len(weights) + 2):
        for chosen in itertools.combinations(range(n), size):
            part = weights[:, chosen] / np.abs(weights).max(axis=1, keepdims=True)
            _, spread, axes = np.linalg.svd(part, full_matrices=True)
            rank = int((spread > NOTHING).sum())
            if size - rank != 1 or (np.abs(axes[-1]) < NOTHING).any():
                continue
            change = np.zeros(n)
            change[list(chosen)] = axes[-1] / axes[-1][np.argmax(np.abs(axes[-1]))]
            # Equal changes become equal numbers.
            change = np.where(np.abs(change) < NOTHING, 0.0, np.round(change, 12))
            found += [tuple(change.tolist()), tuple((0.0 - change).tolist())]
    return found


def independent(structure: Structure) -> bool:
    """Whether no flow is a sum of others with the same product."""
    for factors in {f.factors for f in structure}:
        changes = np.array([f.change for f in structure if f.factors == factors])
        if np.linalg.matrix_rank(changes) < len(changes):
            return False
    return True


def law_of(structure: Sequence[Flow], constants: Array, given: PowerSum, scale: Array) -> tuple[PowerSum, Mask]:
    """The law of flows and known terms, dimensionless, and its coefficients that are fitted."""
    changes = np.array([f.change for f in structure]).reshape(-1, len(scale)).T
    mix = np.hstack([changes, np.eye(len(scale)) * scale[:, None]]) / scale[:, None]
    size = units(structure, scale)
    rows, columns = len(structure) + len(scale), len(structure) + given.n_monomials
    a = np.zeros((rows, columns))
    a[: len(structure), : len(structure)] = np.diag(constants * size)
    a[len(structure) :, len(structure) :] = given.coefficients
    w = np.vstack([*[f.exponents for f in structure], given.exponents])
    used = (a != 0).any(axis=1)
    law = PowerSum(a[used], w, None, mix[:, used]).merged()
    free = law.coefficients != 0
    free[len(structure) :] = False
    return law, free


def units(structure: Sequence[Flow], scale: Array) -> Array:
    """The largest scale of the states that each flow touches [flows]."""
    return np.array([max(scale[i] for i in f.touched) for f in structure])


def _upstream(structure: Structure) -> float:
    """How far late states are up: smaller where the first named one flows into the others."""
    return float(sum(i * -np.sign(c) for f in structure for i, c in enumerate(f.change)))


@dataclass(frozen=True, eq=False)
class Rough:
    """A structure with constants from a rough fit."""

    structure: tuple[Flow, ...]  # its flows in a fixed order
    constants: Array  # k of each, see `flows.law_of`
    initial: Array  # start values [trajectories, states]
    mean_square: float  # of the weighted residuals


class _Batch:
    """Structures as members: the field, the grid of times and the data that all share."""

    def __init__(self, p: Problem, starts: Starts, given: PowerSum) -> None:
        self.starts, self.given, self.n = starts, given, int((~p.data.is_control).sum())
        self.scale, self.runs = p.scale.state, len(p.data.trajectories)
        self.seen = np.flatnonzero(p.measured[: self.n])
        # Fewer samples save time, but between them controls would be no straight lines.
        most = np.inf if p.data.controls else 60
        kept = [
            np.unique(np.linspace(0, len(t.time) - 1, int(min(len(t.time), most))).astype(int))
            for t in p.data.trajectories
        ]
        longest = max(map(len, kept))
        self.gaps = np.zeros((longest - 1, self.runs))
        self.values = np.full((longest, self.runs, len(self.seen)), np.nan)
        # Controls in the middle of every gap [gaps, controls, trajectories].
        self.controls = np.zeros((longest - 1, len(self.scale) - self.n, self.runs))
        sigma = np.ones_like(self.values)
        for r, (t, rows, relative_sigma) in enumerate(zip(p.data.trajectories, kept, p.relative_sigma, strict=True)):
            self.gaps[: len(rows) - 1, r] = np.diff(t.time[rows])
            if t.controls is not None:
                half = 0.5 * np.diff(t.time)[:, None] * t.controls.slopes
                self.controls[: len(rows) - 1, :, r] = t.controls.values[:-1] + half
            self.values[: len(rows), r] = t.values[np.ix_(rows, self.seen)]
            sigma[: len(rows), r] = relative_sigma[np.ix_(rows, self.seen)]
        self.sigma = sigma * np.maximum(p.noise, LEAST_NOISE)[self.seen]
        self.count = int(np.isfinite(self.values).sum())
        self.longest = float(self.gaps.sum(axis=0).max())

    def monomials(self, structures: Sequence[tuple[Flow, ...]]) -> tuple[Array, Array]:
        """Distinct products [Q, states], and what a unit of flow f does by q [S, F, Q, states]."""
        rows = dict.fromkeys(f.factors for s in structures for f in s)
        place = {factors: q for q, factors in enumerate(rows)}
        most = max(map(len, structures))
        of_flow = np.zeros((len(structures), most, len(rows), len(self.scale)))
        for s, flows in enumerate(structures):
            size = units(flows, self.scale)
            for f, flow in enumerate(flows):
                of_flow[s, f, place[flow.factors]] = np.array(flow.change) * size[f] / self.scale
        w = [np.bincount(np.array(k, int), minlength=len(self.scale)) for k in rows]
        return np.array(w, dtype=float).reshape(-1, len(self.scale)), of_flow

    def solve(self, exponents: Array, coefficients: Array, start: Array) -> Array:
        """States at all samples [samples, states, B, trajectories].

        Of exponents [Q, states], coefficients [Q, states, B] and starts [states, B, trajectories].
        """
        w = np.vstack([exponents, self.given.exponents])
        known = np.broadcast_to(
            self.given.coefficients.T[:, :, None], (self.given.n_monomials, *coefficients.shape[1:])
        )
        rhs = _field(w, np.concatenate([coefficients, known])[..., None])
        x, found = start, [start]
        with np.errstate(all="ignore"):
            for gap, controls in zip(self.gaps, self.controls, strict=True):
                acting = np.broadcast_to(controls[:, None], (len(controls), *x.shape[1:]))
                x = np.concatenate([x[: self.n], acting])
                # 48 over the longest trajectory, at least: the chosen laws are integrated accurately later.
                steps = max(int(np.ceil(gap.max() * 48 / self.longest)), 1)
                h = gap / steps
                for _ in range(steps):
                    x = rk4_step(rhs, x, h)
                found.append(x[: self.n])
        return np.stack(found)

    def residuals(self, exponents: Array, of_flow: Array, u: Array, q: Array) -> Array:
        """Weighted residuals [B, trajectories, samples * measured], 0 where nothing was measured.

        Of logarithms u of constants [B, F] and roots q of starts [B, trajectories, states].
        """
        parts = []
        for k in range(0, len(u), AT_ONCE):
            at = slice(k, k + AT_ONCE)
            coefficients = np.einsum("bf,bfqi->qib", np.exp(u[at]), of_flow[at])
            start = np.moveaxis(self.starts.values(q[at]), -1, 0)
            parts.append(self.solve(exponents, coefficients, start)[:, self.seen])
        x = np.moveaxis(np.concatenate(parts, axis=2), 1, -1)  # [samples, B, trajectories, seen]
        with np.errstate(all="ignore"):
            r = (x - self.values[:, None]) / self.sigma[:, None]
        r = np.where(np.isfinite(self.values)[:, None], r, 0.0)
        return np.moveaxis(r, 0, 2).reshape(len(u), self.runs, -1)


def _field(w: Array, coefficients: Array) -> Callable[[float, Array], Array]:
    """(t, x [states, ...]) -> dx/dt for members that share the products of powers."""
    entries = [(q, i) for q, i in np.argwhere(np.any(coefficients, axis=(2, 3)))]

    def rhs(_: float, x: Array) -> Array:
        products = []
        for row in w:
            y = np.ones(x.shape[1:])
            for k in np.flatnonzero(row):
                whole = row[k] == round(row[k]) and 0 < row[k] <= 3
                for _ in range(int(row[k]) if whole else 0):
                    y = y * x[k]
                y = y if whole else y * np.power(np.maximum(x[k], ABOVE_ZERO), row[k])
            products.append(y)
        total = np.zeros(x.shape)
        for q, i in entries:
            total[i] += coefficients[q, i] * products[q]
        return total

    return rhs


def rough_fits(
    p: Problem,
    structures: Sequence[Structure],
    starts: Starts,
    given: PowerSum,
    generator: np.random.Generator,
    monitor: Monitor,
    *,
    each: int = 1,
) -> list[Rough]:
    """The structures that fit best with their constants, the best first; so many fits of `each` are kept."""
    if not structures:
        return []
    batch = _Batch(p, starts, given)
    flows = [tuple(sorted(s)) for s in structures]
    exponents, of_flow = batch.monomials(flows)
    u, q = _beginnings(p, batch, flows, generator)
    own = np.tile(np.arange(len(flows)), BEGINNINGS)
    cost = _cost(batch.residuals(exponents, of_flow[own], u, q))
    index = _best(own, cost, max(6, each))
    u, q, own, cost, damping = u[index], q[index], own[index], cost[index], np.full(len(index), 1e-2)
    # Few steps while there are many members; then how many fits of a structure stay, and which share of all.
    for steps, most, share in ((5, 3, 0.6), (6, 2, 0.5), (12, 1, 0.5), (20, 1, 1.0)):
        monitor.stage("fit flows", steps)
        for step in range(steps):
            if monitor.stopping():
                break
            u, q, cost, damping = _step(batch, exponents, of_flow[own], u, q, damping)
            monitor.step(step + 1)
        keep = _best(own, cost, max(most, each))
        keep = keep[: max(int(share * len(keep)), 12)]
        u, q, own, cost, damping = u[keep], q[keep], own[keep], cost[keep], damping[keep]
    x0 = starts.values(q)
    return [
        Rough(flows[s], np.exp(u[m, : len(flows[s])]), x0[m], float(cost[m] / batch.count))
        for m, s in enumerate(own)
        if np.isfinite(cost[m])
    ]


def _best(own: NDArray[np.int64], cost: Array, each: int) -> NDArray[np.int64]:
    """Indices of the best few members of each structure, the best of all first."""
    order = np.lexsort((cost, own))
    place = np.arange(len(own)) - np.searchsorted(own[order], own[order])
    kept = order[place < each]
    return kept[np.argsort(cost[kept], kind="stable")]


def _beginnings(
    p: Problem, batch: _Batch, flows: Sequence[tuple[Flow, ...]], generator: np.random.Generator
) -> tuple[Array, Array]:
    """Random constants [B, F] and roots of starts [B, trajectories, states]."""
    count, n = BEGINNINGS * len(flows), batch.n
    highest = np.stack([np.nanmax(t.values[:, batch.seen]) for t in p.data.trajectories])
    level = np.abs(highest).clip(LEAST_NOISE)[None, :, None]
    level = level * 10 ** generator.uniform(-0.7, 0.7, (count, 1, n))
    # A quarter of the unmeasured states starts near 0.
    empty = generator.random((count, 1, n)) < 0.25
    start = np.where(empty, LEAST_NOISE * level, level)
    # What a sum holds is mostly in one of its latent states.
    for c, value in batch.starts.sums:
        own = (c != 0) & ~p.measured[:n]
        share = generator.dirichlet(np.full(n, 0.3), count)[:, None]
        start = np.where(own, share * value / np.where(own, c, 1.0), start)
    start[:, :, batch.seen] = np.nan_to_num(p.initial[:, batch.seen], nan=1.0)
    q = batch.starts.roots(start, np.full(n, 0.1 * LEAST_NOISE))
    typical = np.maximum(level, 1e-3).mean(axis=1)
    for c, value in batch.starts.sums:
        own = (c != 0) & ~p.measured[:n]
        typical = np.where(own, value / np.where(own, c, 1.0), typical)
    typical[:, batch.seen] = 1.0
    # Controls are dimensionless too.
    typical = np.hstack([typical, np.ones((count, len(batch.scale) - n))])
    most = max(map(len, flows))
    # Slower flows do not show, and faster ones are over between two samples.
    u = generator.uniform(np.log(1.0 / batch.longest), np.log(5.0), (count, most))
    for m in range(count):
        for f, flow in enumerate(flows[m % len(flows)]):
            own_change = np.abs(np.array(flow.change)) * units([flow], batch.scale) / batch.scale
            u[m, f] -= np.log(typical[m, list(flow.factors)]).sum() + np.log(own_change.max())
    return u, q


def _cost(residuals: Array) -> Array:
    with np.errstate(all="ignore"):
        squares = np.sum(residuals**2, axis=(1, 2))
    cost: Array = np.where(np.isfinite(squares), squares, np.inf)
    return cost


def _linearised(batch: _Batch, exponents: Array, of_flow: Array, u: Array, q: Array) -> tuple[Array, Array, Array]:
    """Cost [B], residuals [B, R] and their Jacobian [B, R, F + trajectories * states], by shifts in one batch.

    A start matters to its own trajectory alone: one shift serves the starts of all trajectories.
    """
    members, most, n, runs = len(u), u.shape[1], batch.n, batch.runs
    shifts = 1 + most + n
    all_u, all_q = np.repeat(u[None], shifts, axis=0), np.repeat(q[None], shifts, axis=0)
    of_u, of_q = np.arange(most), np.arange(n)
    all_u[1 + of_u, :, of_u] += SHIFT
    all_q[1 + most + of_q, :, :, of_q] += SHIFT
    r = batch.residuals(
        exponents, np.tile(of_flow, (shifts, 1, 1, 1)), all_u.reshape(shifts * members, -1), all_q.reshape(-1, runs, n)
    ).reshape(shifts, members, runs, -1)
    # A member that blows up has no direction to go; its cost says so. What is larger cannot be squared.
    with np.errstate(all="ignore"):
        d = (r[1:] - r[0]) / SHIFT
        d, left = (np.where(np.abs(x) < 1e60, x, 0.0) for x in (d, r[0]))
    jacobian = np.zeros((members, runs, r.shape[-1], most + runs * n))
    jacobian[..., :most] = np.moveaxis(d[:most], 0, -1)
    for run in range(runs):
        place = slice(most + run * n, most + (run + 1) * n)
        jacobian[:, run, :, place] = np.moveaxis(d[most:, :, run], 0, -1)
    return _cost(r[0]), left.reshape(members, -1), jacobian.reshape(members, -1, most + runs * n)


def _step(
    batch: _Batch, exponents: Array, of_flow: Array, u: Array, q: Array, damping: Array
) -> tuple[Array, Array, Array, Array]:
    """One Levenberg-Marquardt step of every member: unknowns, their cost, damping.

    Not `fitting.windows.levenberg_marquardt`: rounds have a fixed number of steps, so no member converges or
    leaves; a ridge of 1e-9 of the largest diagonal, not of each one, holds constants that no sample
    feels; constants change by a factor of ten at most. Another rule ends random starts elsewhere.
    """
    members, most, n, runs = len(u), u.shape[1], batch.n, batch.runs
    now, left, jacobian = _linearised(batch, exponents, of_flow, u, q)
    transposed = np.swapaxes(jacobian, 1, 2)
    gradient = (transposed @ left[:, :, None])[..., 0]
    step = damped_steps(transposed @ jacobian, gradient, damping, RIDGE, 1e-12)
    step[:, :most] = np.clip(step[:, :most], -2.3, 2.3)
    new_u, new_q = u + step[:, :most], q + step[:, most:].reshape(members, runs, n)
    cost = _cost(batch.residuals(exponents, of_flow, new_u, new_q))
    better = cost < now
    u, q = np.where(better[:, None], new_u, u), np.where(better[:, None, None], new_q, q)
    return u, q, np.minimum(cost, now), np.where(better, damping / 4.0, damping * 4.0).clip(RIDGE)
