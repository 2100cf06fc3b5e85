"""Structures of flows between states: the small laws that compete where states are unmeasured.

    dx/dt = sum_f k_f  change_f  prod_k x_k^w_fk        k_f > 0

A flow takes from some states and adds to others, at a rate that is a product of few states. It
leaves a state only at a rate with that state as a factor, so that nothing becomes negative. A
conserved sum c . x allows only changes with c . change = 0. A state that no sum fixes has no
scale of its own: what leaves it for another state enters there in equal amounts, which puts it in
units of that state.

Source: Jacquez and Simon, Qualitative theory of compartmental systems, SIAM Review 35 (1993).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from odediscovery.laws.power_sum import PowerSum
from odediscovery.runtime.arrays import Array, Mask


@dataclass(frozen=True)
class FlowThresholds:
    """What is nothing in a change that keeps all sums."""

    # a smaller entry of a normalised change is 0 [largest entry]; above the rounding of a singular value
    # decomposition
    nothing: float = 1e-9
    digits: int = 12  # decimals to which changes are rounded, so that equal ones are equal; as before


FLOWS = FlowThresholds()


@dataclass(frozen=True)
class Flow:
    """One product of states and what a unit of it changes.

    Args:
        change: what is added to each state; the largest is 1 or -1.
        factors: states in the product, in order, doubled for a square; none for a constant.
    """

    change: tuple[float, ...]
    factors: tuple[int, ...]

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
    """Which flows there may be, and which of them make sense together.

    Args:
        latent: states without samples [states].
        weights: of conserved sums, linearly independent, [sums, states].
        forbidden: [states (equation), states (variable)].
        fixed: equations that are known whole [states].
        given: known terms, in which nothing is fitted.
        anchored: latent states whose scale follows from known terms [states].
        distinct: latent states that something given distinguishes from the others [states].
        idle: measured states that never change [states].
        bounds: least and greatest exponent other than 0.
    """

    latent: Mask
    weights: Array
    forbidden: Mask
    fixed: Mask
    given: PowerSum
    anchored: Mask
    distinct: Mask
    idle: Mask
    bounds: tuple[float, float] = (-np.inf, np.inf)

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
        return min(forms, key=lambda form: (_upstream(form), _sorted(form)))

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
    """Changes that keep all conserved sums, in as few states as can be, both ways.

    Args:
        weights: [sums, states].

    >>> elementary(np.array([[1.0, 2.0, 0.0]]), 3)  # b becomes 2 a, or c comes or goes
    [(0.0, 0.0, 1.0), (0.0, 0.0, -1.0), (1.0, -0.5, 0.0), (-1.0, 0.5, 0.0)]
    """
    found: list[tuple[float, ...]] = []
    for size in range(1, len(weights) + 2):
        for chosen in itertools.combinations(range(n), size):
            part = weights[:, chosen] / np.abs(weights).max(axis=1, keepdims=True)
            _, spread, axes = np.linalg.svd(part, full_matrices=True)
            rank = int((spread > FLOWS.nothing).sum())
            if size - rank != 1 or (np.abs(axes[-1]) < FLOWS.nothing).any():
                continue
            change = np.zeros(n)
            change[list(chosen)] = axes[-1] / axes[-1][np.argmax(np.abs(axes[-1]))]
            change = np.where(np.abs(change) < FLOWS.nothing, 0.0, np.round(change, FLOWS.digits))
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
    """The law of flows and known terms, dimensionless, and its coefficients that are fitted.

    Args:
        constants: k of each flow for changes in units of the largest scale that it touches.
        given: known terms, dimensionless.
        scale: what states were divided by [states].
    """
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


def _sorted(structure: Structure) -> list[tuple[tuple[float, ...], tuple[int, ...]]]:
    return sorted((f.change, f.factors) for f in structure)
