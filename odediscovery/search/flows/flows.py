"""Laws of flows between compartments, which compete where states are unmeasured or dosed, and their rough fits.

    dx/dt = sum_f k_f  change_f  prod_k x_k^w_fk        k_f > 0

A flow takes from some states and adds to others, at a rate that is a product of a few states. A state that it takes
from is a factor of its rate, so no state becomes negative. A conserved sum allows only changes that keep it. An
unmeasured state in no sum has no scale of its own: by convention, whatever flows from it to another state arrives in
the same amount, so both have the same unit.

All structures are fitted roughly to whole trajectories, side by side:

    minimise  sum over trajectories, samples, measured states of ((x(t; k, x0) - data) / sigma)^2

over the logarithms of rate constants k > 0 and all start values, also those of unmeasured states. Every structure with
every random initial guess is a member of one batch: Runge-Kutta 4 on a shared grid, derivatives by finite differences
that are rows of the same batch. The worst members are dropped after each round of steps.

Source: Jacquez and Simon, Qualitative theory of compartmental systems, SIAM Review 35 (1993).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from odediscovery.fitting.windows import descend, finite_squares
from odediscovery.ivp.solvers import rk4_step
from odediscovery.laws.compiled import compiled_law
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.problem import Problem
from odediscovery.runtime.arrays import Array, Mask
from odediscovery.runtime.monitor import Monitor
from odediscovery.solve.sensitivities import Starts

NOTHING = 1e-9  # a smaller entry of a normalised change is rounding
LEAST_NOISE = 0.01  # least noise assumed of a measured state [rms of the state]; a rough fit is no closer
BEGINNINGS = 16  # random initial guesses for a structure; each is integrated once
AT_ONCE = 20_000  # members integrated at once; more would exceed the cache of the processor
RIDGE = 1e-9  # on the normal matrix, to hold constants that no sample depends on [largest curvature]
SHIFT = 1e-6  # for derivatives: the root of the precision of float64, with a factor for the solver


@dataclass(frozen=True, order=True)
class Flow:
    """A flow: a product of states and the changes that it causes."""

    change: tuple[float, ...]  # added to each state; the largest is 1 or -1
    factors: tuple[int, ...]  # states in the product, in order, doubled for a square; empty for a constant

    @property
    def touched(self) -> frozenset[int]:
        """States that it changes."""
        return frozenset(i for i, c in enumerate(self.change) if c)

    @property
    def exponents(self) -> Array:
        """Exponents of the product [states]."""
        w = np.zeros(len(self.change))
        np.add.at(w, list(self.factors), 1.0)
        return w

    def moved(self, order: Sequence[int]) -> Flow:
        """Renumber state i to order[i]."""
        change = tuple(self.change[i] for i in np.argsort(order))
        return Flow(change, tuple(sorted(order[k] for k in self.factors)))


Structure: TypeAlias = tuple[Flow, ...]  # in order


@dataclass(frozen=True, eq=False)
class Compartments:
    """The possible flows between states, and the sensible structures of them."""

    latent: Mask  # states without samples [states]
    weights: Array  # of conserved sums, linearly independent, [sums, states]
    forbidden: Mask  # [states (equation), states (variable)]
    fixed: Mask  # equations that are fully known [states]
    given: PowerSum  # known terms, with fixed constants
    anchored: Mask  # latent states whose scale follows from known terms [states]
    distinct: Mask  # states that some knowledge distinguishes from the others [states]
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
        """Latent states that no knowledge distinguishes."""
        found = np.flatnonzero(self.latent & ~self.distinct).tolist()
        return [i for i in found if (self.weights[:, i] == self.weights[:, found[0]]).all()]

    @cached_property
    def flows(self) -> list[Flow]:
        """All flows, in a fixed order."""
        found, changes = list[Flow](), elementary(self.weights, self.n)
        for i, j in itertools.permutations(np.flatnonzero(~self.summed).tolist(), 2):
            if self.latent[i] or self.latent[j]:  # equal amounts, which defines a scale
                changes.append(tuple((np.eye(self.n)[j] - np.eye(self.n)[i]).tolist()))
        for change in changes:
            lost = [i for i, c in enumerate(change) if c < 0]
            rest: list[tuple[int, ...]] = [(), *((k,) for k in range(self.n))]
            if not lost:
                rest += itertools.combinations_with_replacement(range(self.n), 2)
            for more in rest if len(lost) < 2 else [()]:
                found.append(Flow(change, tuple(sorted((*lost, *more)))))
        return list(filter(self._allowed, found))

    def _allowed(self, flow: Flow) -> bool:
        touched, used = list(flow.touched), list(set(flow.factors))
        powers, (least, most) = flow.exponents[used], self.bounds
        inside = ((least <= powers) & (powers <= most)).all()
        held = (self.fixed | self.idle)[touched].any() or self.forbidden[np.ix_(touched, used)].any()
        return bool(inside and not held)

    def is_sensible(self, structure: Structure) -> bool:
        """Whether all flows affect measured states, all latent states take part, and every scale is defined."""
        # The states that each known term and each flow changes, and those in its product.
        parts = [
            (np.flatnonzero(a), np.flatnonzero(w))
            for a, w in zip(self.given.coefficients.T, self.given.exponents, strict=True)
        ]
        parts += [(np.array([*f.touched]), np.array(f.factors, int)) for f in structure]
        moving, seen = np.zeros(self.n, bool), ~self.latent
        for touched, _ in parts:
            moving[touched] = True
        for touched, factors in parts * self.n:
            seen[factors] |= seen[touched].any()
        return (
            bool(moving[~self.latent & ~self.idle].all() and (moving | seen)[self.latent].all())
            and all(seen[list(flow.touched)].any() for flow in structure)
            and independent(structure)
            and self._scaled(structure)
        )

    def _scaled(self, structure: Structure) -> bool:
        """Whether known terms, sums or flows tie the scale of every latent state to a measured one."""
        tied = ~self.latent | self.summed | self.anchored
        loose = set(np.flatnonzero(~tied).tolist())

        def splits(f: Flow) -> bool:
            """Whether another flow with the same product changes a loose state that it changes."""
            return any(g != f and g.factors == f.factors and f.touched & g.touched & loose for g in structure)

        alone = [f for f in structure if len(f.touched) == 2 and not splits(f)]
        for _ in range(self.n):
            for flow in alone:
                if any(tied[i] for i in flow.touched):
                    tied[list(flow.touched)] = True
        return bool(tied.all())

    def canonical(self, structure: Structure) -> Structure:
        """Order indistinguishable latent states of a structure along the flows.

        The first one named is farthest upstream.
        """
        forms, order = [], np.arange(self.n)
        for moved in itertools.permutations(self.indistinguishable):
            order[self.indistinguishable] = moved
            forms.append(tuple(sorted(f.moved(order.tolist()) for f in structure)))
        # How far upstream the last states are: smaller where the first one flows into the others.
        return min(
            forms, key=lambda form: (float(sum(i * -np.sign(c) for f in form for i, c in enumerate(f.change))), form)
        )

    def sensible(self, found: Iterable[Structure]) -> list[Structure]:
        """The sensible ones of some structures, each once."""
        return list(dict.fromkeys(self.canonical(s) for s in found if self.is_sensible(s)))


def elementary(weights: Array, n: int) -> list[tuple[float, ...]]:
    """List the changes that conserve all sums and involve a minimal set of states, in both directions."""
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
            # Rounding makes equal changes equal numbers.
            change = np.where(np.abs(change) < NOTHING, 0.0, np.round(change, 12))
            found += [tuple(change.tolist()), tuple((0.0 - change).tolist())]
    return found


def independent(structure: Structure) -> bool:
    """Whether flows with the same product have linearly independent changes."""
    alike = ([f.change for f in structure if f.factors == own] for own in {f.factors for f in structure})
    return all(np.linalg.matrix_rank(np.array(changes)) == len(changes) for changes in alike)


def law_of(structure: Structure, constants: Array, given: PowerSum, scale: Array) -> tuple[PowerSum, Mask]:
    """Build the dimensionless law of flows and known terms, and the mask of its fitted coefficients."""
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


def units(structure: Structure, scale: Array) -> Array:
    """Return the largest scale of the states that each flow changes [flows]."""
    return np.array([max(scale[i] for i in f.touched) for f in structure])


class Rough(NamedTuple):
    """A structure with constants from a rough fit."""

    structure: Structure
    constants: Array  # k of each flow, see `law_of`
    initial: Array  # start values [trajectories, states]
    mean_square: float  # of the weighted residuals


class _Batch:
    """The data, the time grid and the known terms that all members of a batch share."""

    def __init__(self, p: Problem, starts: Starts, given: PowerSum) -> None:
        self.starts, self.given, self.n = starts, given, int((~p.data.is_control).sum())
        self.scale, self.runs = p.scale.state, len(p.data.trajectories)
        self.seen = np.flatnonzero(p.measured[: self.n])
        # Fewer samples save time, but controls are not linear between thinned samples.
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

    def monomials(self, structures: Sequence[Structure]) -> tuple[Array, Array]:
        """Return distinct products [Q, states], and the change by a unit of flow F through Q [S, F, Q, states]."""
        rows = {flow.factors: flow.exponents for flows in structures for flow in flows}
        place = {factors: q for q, factors in enumerate(rows)}
        of_flow = np.zeros((len(structures), max(map(len, structures)), len(rows), len(self.scale)))
        for own, flows in zip(of_flow, structures, strict=True):
            for one, flow, size in zip(own, flows, units(flows, self.scale), strict=False):
                one[place[flow.factors]] = np.array(flow.change) * size / self.scale
        return np.array([*rows.values()]).reshape(-1, len(self.scale)), of_flow

    def solve(self, exponents: Array, coefficients: Array, start: Array) -> Array:
        """Integrate to all samples, [samples, states, B, trajectories].

        Takes exponents [Q, states], coefficients [Q, states, B] and starts [states, B, trajectories].
        """
        w = np.vstack([exponents, self.given.exponents])
        known = np.broadcast_to(
            self.given.coefficients.T[:, :, None], (self.given.n_monomials, *coefficients.shape[1:])
        )
        a = np.concatenate([coefficients, known]).swapaxes(0, 1)[..., None]
        used = np.any(a, axis=(2, 3))
        form, _ = compiled_law(PowerSum(used.astype(float), w))
        constants = [*a[used], *w[w != 0].tolist()]
        x, found = start, [start]
        for gap, controls in zip(self.gaps, self.controls, strict=True):
            acting = np.broadcast_to(controls[:, None], (len(controls), *x.shape[1:]))
            x = np.concatenate([x[: self.n], acting])
            # At least 48 steps over the longest trajectory suffice: chosen laws are integrated accurately later.
            steps = max(int(np.ceil(gap.max() * 48 / self.longest)), 1)
            for _ in range(steps):
                x = rk4_step(lambda _, x: form.rates(x, constants), x, gap / steps)
            found.append(x[: self.n])
        return np.stack(found)

    def residuals(self, exponents: Array, of_flow: Array, z: Array) -> Array:
        """Compute weighted residuals [B, trajectories, samples * measured], 0 for missing values.

        The unknowns z are logarithms of constants and roots of starts [B, F + trajectories * states].
        """
        parts, most = [], of_flow.shape[1]
        for k in range(0, len(z), AT_ONCE):
            u, q = z[k : k + AT_ONCE, :most], z[k : k + AT_ONCE, most:].reshape(-1, self.runs, self.n)
            coefficients = np.einsum("bf,bfqi->qib", np.exp(u), of_flow[k : k + AT_ONCE])
            start = np.moveaxis(self.starts.values(q), -1, 0)
            parts.append(self.solve(exponents, coefficients, start)[:, self.seen])
        x = np.moveaxis(np.concatenate(parts, axis=2), 1, -1)  # [samples, B, trajectories, seen]
        r = np.where(np.isfinite(self.values)[:, None], (x - self.values[:, None]) / self.sigma[:, None], 0.0)
        return np.moveaxis(r, 0, 2).reshape(len(z), self.runs, -1)

    def equations(self, exponents: Array, of_flow: Array, z: Array) -> tuple[Array, Array, Array]:
        """Compute cost, gradient and normal matrix of `residuals` by finite differences in one batch.

        A start affects only its own trajectory, so one shift serves all trajectories.
        """
        (members, size), most, n = z.shape, of_flow.shape[1], self.n
        shifts = np.zeros((1 + most + n, size))
        shifts[1 + np.arange(most), np.arange(most)] = SHIFT
        shifts[1 + most :, most:] = np.tile(SHIFT * np.eye(n), self.runs)
        moved = (z + shifts[:, None]).reshape(-1, size)
        r = self.residuals(exponents, np.tile(of_flow, (len(shifts), 1, 1, 1)), moved)
        r = r.reshape(len(shifts), members, self.runs, -1)
        # A member that diverges gets no descent direction, only its cost. Larger values would overflow when squared.
        d, left = (np.where(np.abs(x) < 1e60, x, 0.0) for x in ((r[1:] - r[0]) / SHIFT, r[0]))
        jacobian = np.zeros((members, self.runs, r.shape[-1], size))
        jacobian[..., :most] = np.moveaxis(d[:most], 0, -1)
        for run in range(self.runs):
            jacobian[:, run, :, most + run * n : most + (run + 1) * n] = np.moveaxis(d[most:, :, run], 0, -1)
        slopes = jacobian.reshape(members, -1, size)
        turned = slopes.swapaxes(1, 2)
        return (
            finite_squares(r[0].reshape(members, -1)),
            (turned @ left.reshape(members, -1, 1))[..., 0],
            turned @ slopes,
        )


@np.errstate(all="ignore")  # members that diverge are dropped
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
    """Fit all structures roughly; return the fits, best first, with at most `each` of a structure."""
    if not structures:
        return []
    batch = _Batch(p, starts, given)
    exponents, of_flow = batch.monomials(structures)
    most, z = of_flow.shape[1], _beginnings(p, batch, structures, generator)
    own = np.tile(np.arange(len(structures)), BEGINNINGS)
    cost = finite_squares(batch.residuals(exponents, of_flow[own], z).reshape(len(z), -1))
    keep, damping = _best(own, cost, max(6, each)), np.full(len(z), 1e-2)
    # A constant changes by a factor of ten at most.
    longest = np.where(np.arange(z.shape[1]) < most, 2.3, np.inf)
    # Few steps while there are many members; then the fits kept per structure, and the share kept of all.
    for steps, kept, share in ((5, 3, 0.6), (6, 2, 0.5), (12, 1, 0.5), (20, 1, 1.0)):
        monitor.stage("fit flows", steps)
        if not monitor.stopping():
            z, own, damping = z[keep], own[keep], damping[keep]
            equations = partial(batch.equations, exponents, of_flow[own])
            z, cost, damping = descend(equations, z, steps, longest, damping, RIDGE, monitor)
        keep = _best(own, cost, max(kept, each))
        keep = keep[: max(int(share * len(keep)), 12)]
    x0 = starts.values(z[:, most:].reshape(-1, batch.runs, batch.n))
    return [
        Rough(structures[own[m]], np.exp(z[m, : len(structures[own[m]])]), x0[m], float(cost[m] / batch.count))
        for m in keep
        if np.isfinite(cost[m])
    ]


def _best(own: NDArray[np.int64], cost: Array, each: int) -> NDArray[np.int64]:
    """Return the indices of the best `each` members of each structure, the best of all first."""
    order = np.lexsort((cost, own))
    place = np.arange(len(own)) - np.searchsorted(own[order], own[order])
    kept = order[place < each]
    return kept[np.argsort(cost[kept], kind="stable")]


def _beginnings(p: Problem, batch: _Batch, flows: Sequence[Structure], generator: np.random.Generator) -> Array:
    """Draw random initial guesses for the unknowns of `_Batch.residuals`."""
    count, n = BEGINNINGS * len(flows), batch.n
    highest = np.stack([np.nanmax(t.values[:, batch.seen]) for t in p.data.trajectories])
    level = np.abs(highest).clip(LEAST_NOISE)[None, :, None]
    level = level * 10 ** generator.uniform(-0.7, 0.7, (count, 1, n))
    # A quarter of the unmeasured states start near 0.
    empty = generator.random((count, 1, n)) < 0.25
    start = np.where(empty, LEAST_NOISE * level, level)
    typical = np.maximum(level, 1e-3).mean(axis=1)
    # Most of a conserved sum is usually in one of its latent states.
    for c, value in batch.starts.sums:
        own = (c != 0) & ~p.measured[:n]
        most_of_it = value / np.where(own, c, 1.0)
        start = np.where(own, generator.dirichlet(np.full(n, 0.3), count)[:, None] * most_of_it, start)
        typical = np.where(own, most_of_it, typical)
    start[:, :, batch.seen] = np.nan_to_num(p.initial[:, batch.seen], nan=1.0)
    q = batch.starts.roots(start, np.full(n, 0.1 * LEAST_NOISE))
    typical[:, batch.seen] = 1.0
    # Controls are dimensionless too.
    typical = np.hstack([typical, np.ones((count, len(batch.scale) - n))])
    most = max(map(len, flows))
    # Slower flows have no visible effect, and faster ones end between two samples.
    u = generator.uniform(np.log(1.0 / batch.longest), np.log(5.0), (count, most))
    for m in range(count):
        for f, flow in enumerate(flows[m % len(flows)]):
            own_change = np.abs(np.array(flow.change)) * units((flow,), batch.scale) / batch.scale
            u[m, f] -= np.log(typical[m, list(flow.factors)]).sum() + np.log(own_change.max())
    return np.hstack([u, q.reshape(count, -1)])
