"""Solving initial value problems: the only door to torchdiffeq.

Training uses fixed steps: an adaptive method shares one step size over the whole batch, so one
difficult window slows all, and one member that turns nan stops all. In exchange the steps of
every interval are chosen beforehand, from an error estimate: an interval of the data is
integrated over tau in [0, 1] with its duration as a factor, on one of a few `GRIDS`. The graded
ones begin with tiny steps for a start near a singular point (I = 0.01 under sqrt(I)).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torchdiffeq import odeint, odeint_adjoint

from odediscovery.networks.vector_field import Linearisation, VectorField
from odediscovery.runtime.monitor import check_time
from odediscovery.runtime.thresholds import Thresholds, threshold
from odediscovery.solve.shapes import Durations, Grid, GridIndex, Nodes, States, Steps, Theta


def _uniform(steps: int) -> Tensor:
    return torch.linspace(0.0, 1.0, steps + 1, dtype=torch.float64)


def _graded(steps: int, spread: float = 4.0) -> Tensor:
    return torch.expm1(spread * _uniform(steps)) / math.expm1(spread)


# From cheap to dear; an interval takes the first that is accurate enough.
GRIDS: tuple[Tensor, ...] = (
    _uniform(1),
    _uniform(2),
    _uniform(4),
    _graded(6),
    _uniform(8),
    _graded(12),
    _uniform(16),
    _graded(24),
    _uniform(32),
)
REFERENCE = _graded(64)
DEFAULT_GRID = 1


@dataclass(frozen=True)
class StepThresholds(Thresholds):
    """Where sensitivities are computed for all steps of an interval side by side."""

    points_of_pair: int = threshold(
        3, "points of a grid above which its steps stand side by side", origin="cost: two steps are faster in turn"
    )
    side_by_side: int = threshold(
        20_000, "members times windows times points at most for that", origin="cost: more would leave the cache"
    )


STEPS = StepThresholds()

Rhs = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class LinearControls:
    """Controls in intervals of time, straight lines: u = entry + slope * time.

    Args:
        entry: values where an interval begins [..., states]; nan for states with an equation.
        slope: rates of change in it [..., states]; 0 for states with an equation.
    """

    entry: Float[Tensor, "*intervals states"]
    slope: Float[Tensor, "*intervals states"]

    def enter(self, x: Tensor) -> Tensor:
        """States [members, ..., states], the controls among them set to their entry values."""
        return torch.where(self.entry.isnan(), x, self.entry)

    def added(self, rhs: Rhs) -> Rhs:
        """dx/dt of all states: the law's, and the slopes of the controls."""
        return lambda x: rhs(x) + self.slope

    def at(self, index: Tensor | slice | tuple[slice, int]) -> LinearControls:
        """The controls of some intervals."""
        return LinearControls(self.entry[index], self.slope[index])

    def through(self, steps: Tensor) -> LinearControls:
        """That of every step, [windows, K, states], of intervals [windows, states].

        Args:
            steps: their lengths [windows, K].
        """
        before = (steps.cumsum(dim=1) - steps)[..., None]
        slope = self.slope[:, None].expand(-1, steps.shape[1], -1)
        return LinearControls(self.entry[:, None] + before * slope, slope)

    def flat(self) -> LinearControls:
        """All intervals of all windows in one row."""
        return LinearControls(self.entry.flatten(0, 1), self.slope.flatten(0, 1))


def advance(
    rhs: Rhs,
    start: Float[Tensor, "members windows *rest"],
    duration: Durations,
    grid: Grid,
    controls: LinearControls | None = None,
    adjoint: Theta | None = None,
) -> Float[Tensor, "members windows *rest"]:
    """State at the end of one interval for every member and window.

    Args:
        rhs: x [members, windows, ...] -> dx/dt, the same shape.
        start: [members, windows, ...].
        duration: length of each window's interval, [windows], in the unit of time of `rhs`.
        grid: increasing points of tau from 0 to 1; one Runge-Kutta step between neighbours.
        controls: of the windows; states are then [members, windows, states].
        adjoint: parameters of `rhs` [members, P], if the gradient is to be that of the continuous
            adjoint, solved backwards by the same steps; else it is that of the steps.
    """
    factor = duration.reshape(1, -1, *[1] * (start.dim() - 2))
    grid = grid.to(start.device)
    ends = grid[:: len(grid) - 1]
    options = {"grid_constructor": lambda func, y0, t: grid if t[0] < t[-1] else grid.flip(0)}
    if controls is not None:
        start, rhs = controls.enter(start), controls.added(rhs)
    if adjoint is not None:
        solution: Tensor = odeint_adjoint(
            lambda t, x: factor * rhs(x), start, ends, method="rk4", options=options, adjoint_params=(adjoint,)
        )
    else:
        solution = odeint(lambda t, x: factor * rhs(x), start, ends, method="rk4", options=options)
    return solution[-1]


def advance_together(
    rhs: Rhs, start: States, times: Float[Tensor, " times"], grid: Grid, method: str = "rk4"
) -> Float[Tensor, "members windows times-1 states"]:
    """States at all `times` behind the first in one solve, for windows that share their times.

    Args:
        times: [L + 1], the first is that of `start` [members, windows, states].
        grid: all steps from the first to the last time; contains `times`.

    Returns:
        [members, windows, L, states]
    """
    options = {"grid_constructor": lambda func, y0, t: grid}
    solution: Tensor = odeint(lambda t, x: rhs(x), start, times, method=method, options=options)
    return solution[1:].movedim(0, 2)


def rk4_nodes(rhs: Rhs, start: States, steps: Steps, controls: LinearControls | None = None) -> Nodes:
    """States after every step, without gradients.

    torchdiffeq's fourth-order method (Kutta's 3/8 rule) as a plain loop: refits solve so many
    small problems one interval after the other that the bookkeeping of a general solver takes
    longer than they.

    Args:
        rhs: x [members, windows, states] -> dx/dt.
        start: [members, windows, states].
        steps: lengths of the K steps of every window, [windows, K]; 0 beyond its end.
        controls: of each of them [windows, K, states].

    Returns:
        [members, windows, 1 + K, states], the start first.
    """
    x, nodes, dx_dt = start, [start], rhs
    with torch.no_grad():
        for k, h in enumerate(steps.T[:, :, None]):
            if controls is not None:
                here = controls.at((slice(None), k))
                x, dx_dt = here.enter(x), here.added(rhs)
            x = three_eighths_step(dx_dt, x, h)
            nodes.append(x)
    return torch.stack(nodes, dim=2)


def three_eighths_step(rhs: Rhs, x: Tensor, h: Tensor) -> Tensor:
    """x after one step of length h by Kutta's 3/8 rule, what torchdiffeq calls rk4.

    Source: Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I (1993), Table II.1.2.
    """
    check_time()
    k1 = rhs(x)
    third = h / 3.0
    k2 = rhs(torch.addcmul(x, third, k1))
    k3 = rhs(torch.addcmul(torch.addcmul(x, h, k2), third, k1, value=-1.0))
    k4 = rhs(torch.addcmul(x, h, k1 - k2 + k3))
    return torch.addcmul(x, h / 8.0, k1 + 3.0 * (k2 + k3) + k4)


def advance_by_grid(
    rhs: Rhs,
    start: States,
    duration: Durations,
    grid_index: GridIndex,
    controls: LinearControls | None = None,
    adjoint: Theta | None = None,
) -> States:
    """`advance` with every window on its own grid."""

    def part(index: Tensor | slice, grid: Tensor) -> Tensor:
        return advance(rhs, start[:, index], duration[index], grid, controls and controls.at(index), adjoint)

    return by_grid(part, grid_index)


def by_grid(
    solve: Callable[[Tensor | slice, Tensor], Tensor], grid_index: GridIndex
) -> Float[Tensor, "members windows *rest"]:
    """One batched solve for each grid in use, windows in their order again.

    Args:
        solve: (places of windows, their grid) -> [members, those windows, ...].
        grid_index: of every window, [windows].
    """
    first = int(grid_index[0])
    if bool((grid_index == first).all()):
        return solve(slice(None), GRIDS[first].to(grid_index.device))
    used = torch.unique(grid_index).tolist()
    parts = [(grid_index == g).nonzero()[:, 0] for g in used]
    solved = [solve(part, GRIDS[g].to(part.device)) for g, part in zip(used, parts, strict=True)]
    return torch.cat(solved, dim=1)[:, torch.argsort(torch.cat(parts))]


def sensitivities(
    field: VectorField,
    theta: Theta,
    start: States,
    duration: Durations,
    grid_index: GridIndex,
    columns: Int[Tensor, "members columns"] | None = None,
    controls: LinearControls | None = None,
) -> tuple[States, Float[Tensor, "members windows states inputs"]]:
    """End states and their derivatives by start state and parameters, by forward sensitivities.

        dX/dt = f,    d(S)/dt = df/dx S + [0, df/dtheta],    S(0) = [1, 0]

    Args:
        columns: parameters that are asked for, [members, F] (default: all P).
        controls: of the windows; no start and no parameter changes them.

    Returns:
        end [members, windows, states] and S [members, windows, states, states + F].
    """
    members = start.shape[0]
    linear, rhs = field.linearisation(theta, columns), field.rhs(theta)
    count = theta.shape[1] if columns is None else columns.shape[1]
    ends, slopes, order = [], [], []
    for g in torch.unique(grid_index).tolist():
        part = (grid_index == g).nonzero()[:, 0]
        x, h, grid, own = start[:, part], duration[part], GRIDS[g], controls and controls.at(part)
        if len(grid) > STEPS.points_of_pair and members * len(part) * len(grid) <= STEPS.side_by_side:
            end, s = _step_by_step(linear, rhs, x, h, grid, count, own)
        else:
            end, s = _variational(linear, x, h, grid, count, own)
        ends.append(end)
        slopes.append(s)
        order.append(part)
    back = torch.argsort(torch.cat(order))
    return torch.cat(ends, dim=1)[:, back], torch.cat(slopes, dim=1)[:, back]


def _variational(
    linear: Linearisation,
    start: Tensor,
    duration: Tensor,
    grid: Tensor,
    count: int,
    controls: LinearControls | None = None,
) -> tuple[Tensor, Tensor]:
    members, windows, n = start.shape

    def rhs(y: Tensor) -> Tensor:
        check_time()
        f, f_x, f_theta = linear(y[..., 0])
        f = f if controls is None else f + controls.slope
        s = f_x @ y[..., 1:]
        s[..., n:] += f_theta
        return torch.cat([f[..., None], s], dim=-1)

    y = start.new_zeros(members, windows, n, 1 + n + count)
    y[..., 0] = start if controls is None else controls.enter(start)
    own = torch.ones_like(start) if controls is None else controls.entry.isnan().to(start)
    y[..., 1 : n + 1] = torch.diag_embed(own)
    with torch.no_grad():
        end = advance(rhs, y, duration, grid)
    return end[..., 0], end[..., 1:]


def _step_by_step(
    linear: Linearisation,
    rhs: Rhs,
    start: Tensor,
    duration: Tensor,
    grid: Tensor,
    count: int,
    controls: LinearControls | None = None,
) -> tuple[Tensor, Tensor]:
    """The same with all steps side by side, from a solve without sensitivities, then multiplied.

    S_{k+1} = Phi_k S_k + [0, Theta_k]
    """
    members, windows, n = start.shape
    steps = duration[:, None] * grid.diff().to(duration.device)
    each_step = controls and controls.through(steps)
    nodes = rk4_nodes(rhs, start, steps, each_step)
    begin = nodes[:, :, :-1].reshape(members, -1, n)
    _, each = _variational(linear, begin, steps.reshape(-1), GRIDS[0], count, each_step and each_step.flat())
    each = each.reshape(members, windows, -1, n, n + count)
    total = each[:, :, 0]
    for k in range(1, each.shape[2]):
        later = each[:, :, k, :, :n] @ total
        later[..., n:] += each[:, :, k, :, n:]
        total = later
    return nodes[:, :, -1], total


def choose_grids(
    field: VectorField,
    theta: Theta,
    start: States,
    duration: Durations,
    tolerance: Float[Tensor, " states"],
    controls: LinearControls | None = None,
) -> GridIndex:
    """For every window the cheapest grid whose error stays below `tolerance` [states].

    The error is the distance to a fine graded solution, its median over the members with a
    finite solution; windows that no grid solves get the finest.
    """
    rhs = field.rhs(theta)
    with torch.no_grad():
        reference = advance(rhs, start, duration, REFERENCE, controls)
        todo = torch.ones_like(duration, dtype=torch.bool)
        index = torch.full_like(duration, len(GRIDS) - 1, dtype=torch.long)
        for g, grid in enumerate(GRIDS[:-1]):
            end = advance(rhs, start, duration, grid, controls)
            error = ((end - reference).abs() / tolerance).amax(dim=-1)
            good = error.nanquantile(0.5, dim=0) <= 1.0
            index[todo & good] = g
            todo &= ~good
            if not todo.any():
                break
    return index
