"""Whole trajectories from one start, as the published recipes see them: error and gradient.

    MSE = mean over trajectories, samples and states of (x(t; theta, x0) - data)^2

The gradient is that of the value, or the one that the Julia code had.

Source: Heim, Pevny, Smidl, Neural Power Units (2020), Sec. 4.1, and the code of its authors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from odediscovery.data.samples import pooled
from odediscovery.data.series import TimeSeries
from odediscovery.errors import InputError
from odediscovery.networks.vector_field import VectorField
from odediscovery.runtime.arrays import Array
from odediscovery.solve.adjoint import applies, nodes
from odediscovery.solve.fixed_step import GRIDS, advance_together


@dataclass(frozen=True)
class EulerThresholds:
    """The steps of the Julia code."""

    step: float = 1.0  # an Euler step of the Julia code [units of time]; code of Heim et al. (2020)
    most_steps: int = 10_000  # steps at most; cost: all stay in memory for the gradient
    edge: float = 1e-9  # a gap may be longer than whole steps by this [steps]; rounding of times


EULER = EulerThresholds()
# Runge-Kutta steps of an interval, and of the first one, where a state may start near 0: with
# them the true law has an error of 7e-7 on the study's data.
INTERVAL, FIRST = GRIDS[1], GRIDS[5]


@dataclass(frozen=True, eq=False)
class Trajectories:
    """Whole trajectories as the training sees them: one initial value problem each.

    Args:
        parts: (times [n], steps, start [1, 1, states], values [n, states] with nan where
            missing) of each trajectory; the grid of `steps` need not hold the times, between
            which the solution is interpolated linearly, as Julia's solver does for Euler.
        solver: fixed-grid method of torchdiffeq.
        count: number of measured values, those at the starts included.
    """

    parts: tuple[tuple[Tensor, Tensor, Tensor, Tensor], ...]
    solver: str
    count: int

    @classmethod
    def of(cls, series: TimeSeries, start: Array, solver: str) -> Trajectories:
        """The trajectories of a series from given starts [trajectories, states]."""
        parts = []
        for run, x in zip(series.trajectories, start, strict=True):
            times = torch.as_tensor(run.time - run.time[0])
            parts.append((times, _steps(times, solver), torch.as_tensor(x)[None, None], torch.as_tensor(run.values)))
        return cls(tuple(parts), solver, int(np.isfinite(pooled(series)).sum()))

    def solutions(self, field: VectorField, theta: Tensor) -> list[Tensor]:
        """States at all times of each trajectory, [members, n, states]."""
        found, direct = [], self.solver == "rk4" and applies(field)
        for times, steps, start, _ in self.parts:
            start = start.expand(theta.shape[0], -1, -1)
            if direct:
                at = torch.searchsorted(steps, times)
                found.append(nodes(field, theta, start, steps.diff()[None])[:, 0, at])
                continue
            later = advance_together(field.rhs(theta), start, times, steps, self.solver)[:, 0]
            found.append(torch.cat([start, later], dim=1))
        return found

    def mse(self, field: VectorField, theta: Tensor) -> Tensor:
        """Mean squared error over all values of all trajectories, [members]."""
        total = torch.zeros_like(theta[:, 0])
        solutions = self.solutions(field, theta)
        for (_, _, _, values), solution in zip(self.parts, solutions, strict=True):
            error = (solution - values.nan_to_num()) * values.isfinite()
            total = total + error.square().sum(dim=(1, 2))
        return total / self.count

    def adjoint_mse(self, field: VectorField, theta: Tensor) -> Tensor:
        """Mean squared error with the gradient of the Julia code, which is not that of the value.

            lambda' = -(df/dx)^T lambda,    lambda jumps by dMSE/dx(t_i) at each time of the data
            dMSE/dtheta = integral of lambda^T df/dtheta

        Both by Euler steps of one time unit, back from the end and anew from each time of the data,
        along the solution between the nodes of its own Euler steps. It is 1 % off; LBFGS notices.

        Source: DiffEqSensitivity.jl 6.14, InterpolatingAdjoint (Zygote), as chosen by NeuralODE.
        """
        if not torch.is_grad_enabled():
            return self.mse(field, theta)
        total, gradient = torch.zeros_like(theta[:, 0]), torch.zeros_like(theta)
        for times, steps, start, values in self.parts:
            nodes = _back_nodes(times)
            start = start.expand(theta.shape[0], -1, -1)
            with torch.no_grad():
                later = advance_together(field.rhs(theta), start, nodes, steps, self.solver)[:, 0]
            x = torch.cat([start, later], dim=1).requires_grad_()
            at = torch.searchsorted(nodes, times)
            error = (x.detach()[:, at] - values.nan_to_num()) * values.isfinite()
            total = total + error.square().sum(dim=(1, 2)) / self.count
            own = theta.detach().requires_grad_()
            f = field.rhs(own)(x)
            # df/dx, one row a state: [members, nodes, states, states]
            slopes = torch.stack(
                [torch.autograd.grad(row.sum(), x, retain_graph=True)[0] for row in f.unbind(dim=-1)], dim=2
            )
            jumps = torch.zeros_like(f).index_copy(1, at, 2.0 / self.count * error)
            weight, adjoint = torch.zeros_like(f), torch.zeros_like(f[:, 0])
            for k in range(len(nodes) - 1, 0, -1):
                adjoint = adjoint + jumps[:, k]
                weight[:, k] = (nodes[k] - nodes[k - 1]) * adjoint
                adjoint = adjoint + (weight[:, k, :, None] * slopes[:, k]).sum(dim=1)
            gradient += torch.autograd.grad(f, own, weight)[0]
        return total + ((theta - theta.detach()) * gradient).sum(dim=1)


def _back_nodes(times: Tensor) -> Tensor:
    """Ends of Euler steps that go back from each time until the one before, the last one cut."""
    nodes = [times[:1]]
    for end, gap in zip(times[1:], times.diff().tolist(), strict=True):
        count = max(math.ceil(gap / EULER.step - EULER.edge), 1)
        nodes.append(end - EULER.step * torch.arange(count - 1, -1, -1).to(times))
    return torch.cat(nodes)


def _steps(times: Tensor, solver: str) -> Tensor:
    """Where the steps of a fixed-step solver begin and end."""
    if solver == "euler":
        count = math.ceil(float(times[-1]) / EULER.step)
        if count > EULER.most_steps:
            raise InputError(
                f"recipe as-run takes Euler steps of one unit of time, {count} for these data, at "
                f"most {EULER.most_steps}: give the times in a larger unit, or use --recipe paper"
            )
        whole = torch.arange(count, dtype=times.dtype)
        return torch.cat([whole * EULER.step, times[-1:]])
    gaps = times.diff()
    inner = [times[j] + (FIRST if j == 0 else INTERVAL)[:-1] * gap for j, gap in enumerate(gaps)]
    return torch.cat([*inner, times[-1:]])
