"""Runge-Kutta steps of a batch of networks on fixed grids, with numpy, and their derivatives.

An adaptive method shares one step size over the whole batch, so one difficult window slows all, and one member that
turns nan stops all. Here an interval of the data is integrated over tau in [0, 1] with its duration as a factor, on one
of a few `GRIDS`, chosen beforehand from an error estimate. The graded ones begin with tiny steps for a start near a
singular point (I = 0.01 under sqrt(I)). Training solves on the same grids, see `fixed_step`. For few windows and
members a call of numpy takes longer than its arithmetic; each is then integrated separately, in straight-line code.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float, Int

from odediscovery.ivp.solvers import march, three_eighths_step
from odediscovery.networks.chain import Chain, Linearisation, Rhs, member_rates
from odediscovery.runtime.arrays import Array, Indices
from odediscovery.runtime.monitor import check_time

Theta: TypeAlias = Float[np.ndarray, "members parameters"]
Unknowns: TypeAlias = Float[np.ndarray, "members unknowns"]
States: TypeAlias = Float[np.ndarray, "members windows states"]
# The start, then the state after every step.
Nodes: TypeAlias = Float[np.ndarray, "members windows 1+steps states"]
# States at the ends of all intervals of every window.
Ends: TypeAlias = Float[np.ndarray, "members windows intervals states"]
Durations: TypeAlias = Float[np.ndarray, " windows"]
Steps: TypeAlias = Float[np.ndarray, "windows steps"]
# Index into `grids.GRIDS`.
GridIndex: TypeAlias = Int[np.ndarray, " windows"]
# Increasing points from 0 to 1, between which the steps lie.
Grid: TypeAlias = Float[np.ndarray, " points"]
Residual: TypeAlias = Float[np.ndarray, "members residuals"]
Jacobian: TypeAlias = Float[np.ndarray, "members residuals unknowns"]


def plain_nodes(chain: Chain, theta: Theta, start: States, steps: Steps) -> Nodes | None:
    """The states of `rk4_nodes` up to rounding; None if arrays are faster, if `member_rates` does not support the law,
    or if a number is not finite or overflows."""
    members, windows, n = start.shape
    faster = windows * np.count_nonzero(theta) <= 250
    if not (chain.pairs and faster and np.isfinite(theta).all()):
        return None
    go, ways = march(n), steps.tolist()
    nodes = np.empty((members, windows, 1 + len(steps[0]), n))
    for m, of_member in enumerate(start.tolist()):
        rates = member_rates(chain, theta[m])
        if rates is None:
            return None
        for b, x in enumerate(of_member):
            check_time()
            try:
                nodes[m, b] = list(go(rates, x, ways[b]))
            except (ArithmeticError, ValueError):
                return None
    return nodes


def _grid(steps: int, graded: bool) -> Grid:
    points: Array = np.linspace(0.0, 1.0, steps + 1)
    return np.expm1(4.0 * points) / math.expm1(4.0) if graded else points


# From cheap to expensive; an interval uses the first that is accurate enough.
GRIDS: tuple[Array, ...] = tuple(_grid(n, graded=n in (6, 12, 24)) for n in (1, 2, 4, 6, 8, 12, 16, 24, 32))
REFERENCE = _grid(64, graded=True)
DEFAULT_GRID = 1


@dataclass(frozen=True, eq=False)
class LinearControls:
    """Controls that are linear in each interval of time: u = entry + slope * time."""

    entry: Float[np.ndarray, "*intervals states"]  # values at the beginning of an interval; nan of other states
    slope: Float[np.ndarray, "*intervals states"]  # rates of change in it; 0 of other states

    def enter(self, x: Array) -> Array:
        """States with the controls set to their entry values."""
        return np.where(np.isnan(self.entry), x, self.entry)

    def added(self, rhs: Rhs) -> Rhs:
        """dx/dt of all states: the rates of the law, and the slopes of the controls."""
        return lambda x: rhs(x) + self.slope

    def at(self, index: Indices | slice | tuple[slice, int] | tuple[Indices, Indices]) -> LinearControls:
        """The controls of some intervals."""
        return LinearControls(self.entry[index], self.slope[index])

    def through(self, steps: Array) -> LinearControls:
        """The controls of every step, [windows, K, states], from those of intervals [windows, states]."""
        before = (steps.cumsum(axis=1) - steps)[..., None]
        slope = np.repeat(self.slope[:, None], steps.shape[1], axis=1)
        return LinearControls(self.entry[:, None] + before * slope, slope)

    def flat(self) -> LinearControls:
        """The controls of all intervals of all windows along one axis."""
        n = self.entry.shape[-1]
        return LinearControls(self.entry.reshape(-1, n), self.slope.reshape(-1, n))


def advance(
    rhs: Rhs,
    start: Float[np.ndarray, "members windows *rest"],
    duration: Durations,
    grid: Grid,
    controls: LinearControls | None = None,
) -> Float[np.ndarray, "members windows *rest"]:
    """States at the end of one interval for every member and window."""
    x = start
    if controls is not None:
        x, rhs = controls.enter(x), controls.added(rhs)
    factor = duration.reshape(1, -1, *[1] * (start.ndim - 2))
    for step in np.diff(grid).tolist():
        x = three_eighths_step(rhs, x, factor * step)
    return x


def rk4_nodes(rhs: Rhs, start: States, steps: Steps, controls: LinearControls | None = None) -> Nodes:
    """The start and the states after every step, by Kutta's 3/8 rule."""
    x, nodes, dx_dt = start, [start], rhs
    for k, h in enumerate(steps.T[:, :, None]):
        if controls is not None:
            here = controls.at((slice(None), k))
            x, dx_dt = here.enter(x), here.added(rhs)
        x = three_eighths_step(dx_dt, x, h)
        nodes.append(x)
    return np.stack(nodes, axis=2)


def advance_by_grid(
    rhs: Rhs, start: States, duration: Durations, grid_index: GridIndex, controls: LinearControls | None = None
) -> States:
    """`advance` with a grid for every window."""
    ends = np.empty_like(start)
    for g in np.unique(grid_index).tolist():
        part = np.flatnonzero(grid_index == g)
        ends[:, part] = advance(rhs, start[:, part], duration[part], GRIDS[g], controls and controls.at(part))
    return ends


def sensitivities(
    chain: Chain,
    theta: Theta,
    start: States,
    duration: Durations,
    grid_index: GridIndex,
    columns: Int[np.ndarray, "members columns"],
    controls: LinearControls | None = None,
) -> tuple[States, Float[np.ndarray, "members windows states inputs"]]:
    """End states and their derivatives S with respect to start state and parameters:

    dS/dt = df/dx S + [0, df/dtheta],    S(0) = [1, 0]
    """
    members, windows, n = start.shape
    linear, rhs = chain.linearisation(theta, columns), chain.rhs(theta)
    count = columns.shape[1]
    ends, slopes = np.empty(start.shape), np.empty((members, windows, n, n + count))
    for g in np.unique(grid_index).tolist():
        part = np.flatnonzero(grid_index == g)
        x, h, grid, own = start[:, part], duration[part], GRIDS[g], controls and controls.at(part)
        # Several steps are integrated in parallel unless there are too many members and windows.
        if len(grid) > 3 and members * len(part) * len(grid) <= 20_000:
            ends[:, part], slopes[:, part] = _by_nodes(linear, count, rhs, x, h, grid, own)
        else:
            ends[:, part], slopes[:, part] = _variational(linear, count, x, h, grid, own)
    return ends, slopes


def _variational(
    linear: Linearisation, count: int, start: Array, duration: Array, grid: Array, controls: LinearControls | None
) -> tuple[Array, Array]:
    """End states, and S for `count` parameters, by steps of [x, S]."""
    members, windows, n = start.shape

    def rhs(y: Array) -> Array:
        f, f_x, f_theta = linear(y[..., 0])
        found = np.empty_like(y)
        found[..., 0] = f if controls is None else f + controls.slope
        np.matmul(f_x, y[..., 1:], out=found[..., 1:])
        found[..., 1 + n :] += f_theta
        return found

    y = np.zeros((members, windows, n, 1 + n + count))
    y[..., 0] = start if controls is None else controls.enter(start)
    own = np.ones(n) if controls is None else np.isnan(controls.entry).astype(float)
    y[..., 1 : n + 1] = own[..., None] * np.eye(n)
    end = advance(rhs, y, duration, grid)
    return end[..., 0], end[..., 1:]


def _by_nodes(
    linear: Linearisation,
    count: int,
    rhs: Rhs,
    start: Array,
    duration: Array,
    grid: Array,
    controls: LinearControls | None,
) -> tuple[Array, Array]:
    """`_variational` from the nodes of a plain solve, all steps in parallel: S_{k+1} = Phi_k S_k + [0, Theta_k]."""
    members, windows, n = start.shape
    steps = duration[:, None] * np.diff(grid)
    each_step = controls and controls.through(steps)
    nodes = rk4_nodes(rhs, start, steps, each_step)
    begin = nodes[:, :, :-1].reshape(members, -1, n)
    _, each = _variational(linear, count, begin, steps.reshape(-1), GRIDS[0], each_step and each_step.flat())
    each = each.reshape(members, windows, -1, n, n + count)
    total = each[:, :, 0]
    for k in range(1, each.shape[2]):
        later = each[:, :, k, :, :n] @ total
        later[..., n:] += each[:, :, k, :, n:]
        total = later
    return nodes[:, :, -1], total


def choose_grids(
    rhs: Rhs,
    start: States,
    duration: Durations,
    tolerance: Float[np.ndarray, " states"],
    controls: LinearControls | None = None,
) -> GridIndex:
    """The cheapest grid of every window with an error of at most `tolerance`, the finest if none has.

    The error is the distance to the solution on a finer grid, as the median over members with a finite solution.
    """
    index = np.full(len(duration), len(GRIDS) - 1)
    grids, ends, todo = (*GRIDS, REFERENCE), dict[int, Array](), np.arange(len(duration))
    with np.errstate(all="ignore"):
        for g in range(len(GRIDS) - 1):
            for k in {g, g + 2} - ends.keys():
                ends[k] = advance(rhs, start[:, todo], duration[todo], grids[k], controls and controls.at(todo))
            off = np.abs(ends[g] - ends[g + 2]) / tolerance
            good = _median(off.max(axis=-1)) <= 1.0
            index[todo[good]], todo = g, todo[~good]
            if not len(todo):
                break
            ends = {k: x[:, ~good] for k, x in ends.items() if k > g}
    return index


def _median(errors: Array) -> Array:
    """The median of each column of [members, windows] without nan; nan where all values are."""
    ordered, known = np.sort(errors, axis=0), (~np.isnan(errors)).sum(axis=0)
    lower, upper = np.maximum(known - 1, 0) // 2, np.minimum(known // 2, len(errors) - 1)
    each = np.arange(errors.shape[1])
    middle: Array = (ordered[lower, each] + ordered[upper, each]) / 2.0
    return middle
