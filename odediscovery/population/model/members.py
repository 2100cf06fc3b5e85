r"""Many groups solved side by side, with the derivatives of every curve by its constants.

    dx/dt = f(x; c),    dS/dt = (df/dx) S + df/dc,    S = dx/dc

Each group has its own constants, starts and times. Groups are the last axis of every array, so that a
law of a few terms is a few operations on long vectors. Runge-Kutta 4 with steps that are fixed
beforehand: a multiple of the accuracy is asked for once, at the end (`Members.refined`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from odediscovery.ivp.steps import rk4_step
from odediscovery.population.model.structures import Structure
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.thresholds import Thresholds, threshold


@dataclass(frozen=True)
class MemberThresholds(Thresholds):
    """How groups are solved side by side."""

    steps: int = threshold(48, "steps over the longest span of a group, at least", origin="cost; doubled until settled")
    rounding: float = threshold(
        1e-9, "part of a step by which samples miss a grid and still lie on it", unit="steps", origin="rounding"
    )
    least_steps: int = threshold(
        2, "steps between two samples, at least", origin="early samples stand close where rates are high"
    )
    tiny: float = threshold(
        1e-9, "least size of a state in a power", unit="largest sample", origin="keeps 0 ** p differentiable"
    )
    most_log: float = threshold(
        600.0, "largest logarithm of a product of powers", origin="times the largest constant it is a float"
    )
    wild: float = threshold(1e6, "beyond this a solution has run away", unit="largest sample")
    leaving: float = threshold(0.1, "beyond this no step of a fit follows from a solution", unit="`wild`")
    lost: float = threshold(1e30, "residual that stands for one beyond all numbers", origin="its square is a float")


MEMBERS = MemberThresholds()


@dataclass(frozen=True, eq=False)
class Members:
    """Measured groups of the same states, padded to one length.

    Args:
        times: [samples, groups], the last one repeated behind the end.
        values: [samples, states, groups], nan where nothing was measured.
        steps: steps of the solver over the longest span.
        doses: amounts that are added right after each sample [samples, states, groups]; None for none.

    >>> data = Members(np.array([[0.0], [1.0]]), np.array([[[1.0]], [[0.5]]]))
    >>> data.n_groups, data.n_states
    (1, 1)
    """

    times: Array
    values: Array
    steps: int = MEMBERS.steps
    doses: Array | None = None

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return int(self.times.shape[1])

    @property
    def n_states(self) -> int:
        """Number of states."""
        return int(self.values.shape[1])

    @property
    def scale(self) -> Array:
        """Largest size of every state [states], 1 where nothing was measured."""
        seen = np.nan_to_num(np.abs(self.values)).max(axis=(0, 2))
        return np.where(seen > 0, seen, 1.0)

    def refined(self) -> Members:
        """The same groups, solved with twice as many steps."""
        return replace(self, steps=2 * self.steps)

    def taken(self, groups: Sequence[int] | NDArray[np.intp]) -> Members:
        """Some of the groups, in this order; one may come more than once."""
        which = np.asarray(groups, dtype=int)
        doses = None if self.doses is None else self.doses[:, :, which]
        return replace(self, times=self.times[:, which], values=self.values[:, :, which], doses=doses)

    def given(self) -> Array:
        """What doses added to each state before each sample [samples, states, groups]."""
        found = np.zeros(self.values.shape)
        if self.doses is not None:
            found[1:] = np.cumsum(self.doses[:-1], axis=0)
        return found

    def grid(self) -> list[tuple[int, Array]]:
        """Number and size [groups] of the steps from each sample to the next."""
        gaps = np.diff(self.times, axis=0)
        longest = (self.times[-1] - self.times[0]) / self.steps
        longest = np.where(longest > 0, longest, 1.0)
        found = []
        for gap in gaps:
            most = max(int(np.ceil(np.max(gap / longest) - MEMBERS.rounding)), MEMBERS.least_steps)
            found.append((most, gap / most))
        return found


def members_of(runs: Sequence[tuple[Array, Array]], doses: Sequence[Array] = ()) -> Members:
    """Groups from their times [samples] and values [samples, states].

    Args:
        runs: of the groups.
        doses: amounts right after the samples of each group [samples, states]; nothing for none.

    >>> members_of([(np.arange(3.0), np.ones((3, 1))), (np.arange(2.0), np.ones((2, 1)))]).values[2, 0].tolist()
    [1.0, nan]
    """
    longest, n = max(len(t) for t, _ in runs), runs[0][1].shape[1]
    times, values = np.zeros((longest, len(runs))), np.full((longest, n, len(runs)), np.nan)
    for g, (t, x) in enumerate(runs):
        times[:, g] = np.append(t, np.full(longest - len(t), t[-1]))
        values[: len(t), :, g] = x
    if not doses:
        return Members(times, values)
    amounts = np.zeros(values.shape)
    for g, given in enumerate(doses):
        amounts[: len(given), :, g] = given
    return Members(times, values, doses=amounts)


class Field:
    """Right-hand sides and their derivatives of one structure for constants of each group's own.

    Args:
        structure: which terms.
        logs: logarithms of the constants [constants, groups].
        exponents: [monomials, states, groups], where they differ from group to group.
        signs: of the entries [entries, groups], 0 for a term that a group lacks.
        scale: sizes of the states [states].
    """

    def __init__(
        self,
        structure: Structure,
        logs: Array,
        scale: Array,
        exponents: Array | None = None,
        signs: Array | None = None,
    ) -> None:
        self.structure, groups = structure, logs.shape[1]
        w = structure.exponents[:, :, None] if exponents is None else exponents
        self.w, self.n, self.m = w, structure.n_states, len(structure.exponents)
        own = np.array([e.sign for e in structure.entries], float)[:, None] if signs is None else signs
        self.i, self.j, self.k = (np.array([e[at] for e in structure.entries], int) for at in range(3))
        with np.errstate(over="ignore"):
            sizes = own * np.exp(logs[self.k])
        self.a = np.zeros((self.n, self.m, groups))
        np.add.at(self.a, (self.i, self.j), sizes)
        self.sizes = sizes
        self.tiny, self.most = (MEMBERS.tiny * scale)[:, None], (MEMBERS.wild * scale)[:, None]
        self.of_minus = np.where(np.mod(w, 2) == 1, -1.0, np.where(np.mod(w, 2) == 0, 1.0, 0.0))

    def monomials(self, x: Array) -> tuple[Array, Array, Array]:
        """Products of powers [monomials, groups], log |x| and 1 / x (kept from 0), of x [states, groups]."""
        size = np.maximum(np.abs(x), self.tiny)
        logs = np.log(size)
        powers = self.w[:, :, 0] @ logs if self.w.shape[2] == 1 else np.einsum("jkg,kg->jg", self.w, logs)
        found = np.exp(np.minimum(powers, MEMBERS.most_log))
        negative = x < 0
        if not negative.any():
            return found, logs, 1.0 / size
        found = found * np.where(negative, self.of_minus, 1.0).prod(axis=1)
        return found, logs, np.where(negative, -1.0, 1.0) / size

    def rates(self, x: Array) -> Array:
        """dx/dt [states, groups]."""
        total: Array = np.einsum("ijg,jg->ig", self.a, self.monomials(x)[0])
        return total

    def both(self, y: Array) -> Array:
        """dx/dt and dS/dt side by side, as x and S are in y [states, 1 + unknowns, groups].

        The unknowns are constants, free exponents, starts.
        """
        m, logs, inverse = self.monomials(y[:, 0])
        terms = self.a * m
        if self.w.shape[2] == 1:
            slope = np.einsum("ijg,jk->ikg", terms, self.w[:, :, 0]) * inverse
        else:
            slope = np.einsum("ijg,jkg->ikg", terms, self.w) * inverse
        found = np.empty(y.shape)
        found[:, 0] = terms.sum(axis=1)
        ds = found[:, 1:]
        np.einsum("ikg,kpg->ipg", slope, y[:, 1:], out=ds)
        ds[self.i, self.k] += self.sizes * m[self.j]
        first_free = self.structure.n_constants
        for f, (row, state) in enumerate(self.structure.free):
            ds[:, first_free + f] += terms[:, row] * logs[state]
        return found

    def bounded(self, x: Array) -> Array:
        """x within what may be computed with."""
        return np.clip(x, -self.most, self.most)


def solve(data: Members, field: Field, start: Array, jumps: Array | None = None) -> Array:
    """Curves at the samples [samples, states, groups] from start [states, groups].

    Args:
        jumps: of the states right after the samples [samples, states, groups].
    """
    x, found = start, [start]
    with np.errstate(all="ignore"):
        for k, (count, h) in enumerate(data.grid()):
            x = x if jumps is None else x + jumps[k]
            for _ in range(count):
                x = field.bounded(rk4_step(lambda _, at: field.rates(at), x, h))
            found.append(x)
    return np.stack(found)


def solve_with_slopes(
    data: Members,
    field: Field,
    start: Array,
    seeds: Array | None = None,
    jumps: Array | None = None,
    pushes: Array | None = None,
) -> tuple[Array, Array]:
    """Curves [samples, states, groups] and their derivatives [samples, states, unknowns, groups].

    The unknowns are the constants' logarithms, the free exponents, and one number of each state on which its
    start, and its doses if it has some, depend.

    Args:
        start: [states, groups].
        seeds: derivatives of the starts by these numbers [states, groups], by default 1.
        jumps: of the states right after the samples [samples, states, groups].
        pushes: their derivatives by these numbers [samples, states, groups].
    """
    n, groups = start.shape
    unknowns = field.structure.n_constants + len(field.structure.free) + n
    y = np.zeros((n, 1 + unknowns, groups))
    y[:, 0] = start
    for i in range(n):
        y[i, 1 + unknowns - n + i] = 1.0 if seeds is None else seeds[i]
    found = [y]
    own = np.arange(n), np.arange(1 + unknowns - n, 1 + unknowns)
    with np.errstate(all="ignore"):
        for k, (count, h) in enumerate(data.grid()):
            if jumps is not None and pushes is not None:
                y = y.copy()
                y[:, 0] += jumps[k]
                y[own] += pushes[k]
            for _ in range(count):
                y = rk4_step(lambda _, at: field.both(at), y, h)
                y[:, 0] = field.bounded(y[:, 0])
            found.append(y)
    whole = np.stack(found)
    return whole[:, :, 0], whole[:, :, 1:]
