"""Runge-Kutta steps on fixed grids with torch, the only interface to torchdiffeq.

Training solves on the grids of `grids`, which gives the reasons, and differentiates the solutions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torchdiffeq import odeint, odeint_adjoint

from odediscovery.solve import grids

# The types and grids of `grids`, as tensors.
Theta: TypeAlias = Float[Tensor, "members parameters"]
States: TypeAlias = Float[Tensor, "members windows states"]
Nodes: TypeAlias = Float[Tensor, "members windows 1+steps states"]
Ends: TypeAlias = Float[Tensor, "members windows intervals states"]
Durations: TypeAlias = Float[Tensor, " windows"]
Steps: TypeAlias = Float[Tensor, "windows steps"]
GridIndex: TypeAlias = Int[Tensor, " windows"]
Grid: TypeAlias = Float[Tensor, " points"]
GRIDS: tuple[Tensor, ...] = tuple(torch.as_tensor(grid) for grid in grids.GRIDS)

Rhs = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class LinearControls:
    """Controls that are linear in each interval of time: u = entry + slope * time."""

    entry: Float[Tensor, "*intervals states"]  # values at the beginning of an interval; nan of other states
    slope: Float[Tensor, "*intervals states"]  # rates of change in it; 0 of other states

    def enter(self, x: Tensor) -> Tensor:
        """States with the controls set to their entry values."""
        return torch.where(self.entry.isnan(), x, self.entry)

    def at(self, index: Tensor | slice | tuple[slice, int]) -> LinearControls:
        """The controls of some intervals."""
        return LinearControls(self.entry[index], self.slope[index])


def advance(
    rhs: Rhs,
    start: Float[Tensor, "members windows *rest"],
    duration: Durations,
    grid: Grid,
    controls: LinearControls | None = None,
    adjoint: Theta | None = None,
) -> Float[Tensor, "members windows *rest"]:
    """States at the end of one interval for every member and window, with one Runge-Kutta step per step of the grid.

    The gradient is that of the steps; with `adjoint`, the parameters, that of the continuous adjoint, solved backwards.
    """
    factor = duration.reshape(1, -1, *[1] * (start.dim() - 2))
    grid = grid.to(start.device)
    ends = grid[:: len(grid) - 1]
    options = {"grid_constructor": lambda func, y0, t: grid if t[0] < t[-1] else grid.flip(0)}
    start = start if controls is None else controls.enter(start)

    def scaled(t: Tensor, x: Tensor) -> Tensor:
        return factor * (rhs(x) if controls is None else rhs(x) + controls.slope)

    if adjoint is None:
        solution: Tensor = odeint(scaled, start, ends, method="rk4", options=options)
    else:
        solution = odeint_adjoint(scaled, start, ends, method="rk4", options=options, adjoint_params=(adjoint,))
    return solution[-1]


def advance_together(
    rhs: Rhs, start: States, times: Float[Tensor, " times"], grid: Grid, method: str = "rk4"
) -> Float[Tensor, "members windows times-1 states"]:
    """States at all `times` after the first from one solve, for windows with the same times."""
    options = {"grid_constructor": lambda func, y0, t: grid}
    solution: Tensor = odeint(lambda t, x: rhs(x), start, times, method=method, options=options)
    return solution[1:].movedim(0, 2)


def by_grid(
    solve: Callable[[Tensor | slice, Tensor], Tensor], grid_index: GridIndex
) -> Float[Tensor, "members windows *rest"]:
    """One batched solve per grid in use, with the results in the order of the windows."""
    first = int(grid_index[0])
    if bool((grid_index == first).all()):
        return solve(slice(None), GRIDS[first].to(grid_index.device))
    used = torch.unique(grid_index).tolist()
    parts = [(grid_index == g).nonzero()[:, 0] for g in used]
    solved = [solve(part, GRIDS[g].to(part.device)) for g, part in zip(used, parts, strict=True)]
    return torch.cat(solved, dim=1)[:, torch.argsort(torch.cat(parts))]
