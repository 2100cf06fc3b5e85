"""Optimisers for all members at once; they know nothing of differential equations.

Every member has its own loss, step length and line search, while all share each evaluation: a
loss maps theta [members, P] to [members]. A member whose loss turns nan or infinite goes back
to its last good state with a smaller step and never touches the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from odediscovery.runtime.monitor import Monitor

# Trials of a line search before a member is given up.
BACKTRACKS = 8

Loss = Callable[[Tensor, float], Tensor]  # (theta, progress in [0, 1]) -> loss of each member


def loss_and_gradient(loss: Loss, theta: Tensor, progress: float) -> tuple[Tensor, Tensor]:
    """Losses [members] (inf where not finite) and their gradients (0 there)."""
    theta = theta.detach().requires_grad_(True)
    value = loss(theta, progress)
    (gradient,) = torch.autograd.grad(torch.where(value.isfinite(), value, 0.0).sum(), theta)
    bad = ~(value.isfinite() & gradient.isfinite().all(dim=1))
    value = value.detach().masked_fill(bad, torch.inf)
    return value, gradient.masked_fill(bad[:, None], 0.0)


@dataclass(frozen=True)
class FirstOrder:
    """Adam or RMSProp with a learning rate schedule.

    Args:
        steps: number of gradient steps.
        rate: largest learning rate.
        method: "adam" (betas 0.9, 0.999) or "rmsprop" (`decay`).
        schedule: "one-cycle" (rises over the first fifth, then a half cosine to 0) or
            "constant".
        decay: of RMSProp's squared gradients; Julia's default is 0.9, torch's 0.99.

    Source: Kingma and Ba, Adam (2015); Hinton's RMSProp (2012).
    """

    steps: int
    rate: float
    method: str = "adam"
    schedule: str = "one-cycle"
    decay: float = 0.9

    def learning_rate(self, step: int) -> float:
        """Rate at a step, counted from 0."""
        if self.schedule == "constant":
            return self.rate
        part = (step + 1) / self.steps
        if part < 0.2:
            return self.rate * part / 0.2
        return self.rate * 0.5 * (1.0 + math.cos(math.pi * (part - 0.2) / 0.8))

    def run(self, loss: Loss, theta: Tensor, free: Tensor, monitor: Monitor) -> Tensor:
        """theta [members, P] after all steps; entries that are not `free` stay."""
        theta, good = theta.detach().clone(), theta.detach().clone()
        first, second = torch.zeros_like(theta), torch.zeros_like(theta)
        age, caution = theta.new_zeros(len(theta), 1), theta.new_ones(len(theta), 1)
        for step in range(self.steps):
            value, gradient = loss_and_gradient(loss, theta, step / max(self.steps - 1, 1))
            failed = ~value.isfinite()
            if failed.any():
                # Back to the last good state, with half the step and a fresh memory.
                theta = torch.where(failed[:, None], good, theta)
                caution[failed] *= 0.5
                for memory in (first, second, age):
                    memory[failed] = 0.0
            good = torch.where(failed[:, None], good, theta)
            gradient = gradient * free
            rate = self.learning_rate(step) * caution
            age += 1.0
            if self.method == "adam":
                first = 0.9 * first + 0.1 * gradient
                second = 0.999 * second + 0.001 * gradient.square()
                direction = (first / (1 - 0.9**age)) / ((second / (1 - 0.999**age)).sqrt() + 1e-8)
            else:
                second = self.decay * second + (1 - self.decay) * gradient.square()
                direction = gradient / (second.sqrt() + 1e-8)
            theta = theta - rate * direction * ~failed[:, None]
            if step % 20 == 0:
                monitor.step(step, float(value.min()))
                if monitor.stopping():
                    break
        value, _ = loss_and_gradient(loss, theta, 1.0)
        return torch.where(value.isfinite()[:, None], theta, good)


def lbfgs(loss: Loss, theta: Tensor, free: Tensor, steps: int, monitor: Monitor, *, history: int = 10) -> Tensor:
    """Limited-memory BFGS with a backtracking (Armijo) line search of its own for every member.

    Source: Nocedal and Wright, Numerical Optimization (2006), Algorithm 7.4.
    """
    theta = theta.detach().clone()
    value, gradient = loss_and_gradient(loss, theta, 1.0)
    gradient = gradient * free
    pairs: list[tuple[Tensor, Tensor, Tensor]] = []
    active = value.isfinite()
    for step in range(steps):
        direction = _two_loop(gradient, pairs)
        slope = (direction * gradient).sum(dim=1)
        uphill = slope >= 0
        direction = torch.where(uphill[:, None], -gradient, direction)
        slope = torch.where(uphill, -gradient.square().sum(dim=1), slope)
        length = torch.ones_like(value)
        if not pairs:
            length = 1.0 / gradient.abs().sum(dim=1).clamp_min(1.0)
        new, new_value = theta, value
        undecided = active.clone()
        for _ in range(BACKTRACKS):
            trial = torch.where(undecided[:, None], theta + length[:, None] * direction, new)
            with torch.no_grad():
                trial_value = loss(trial, 1.0)
            enough = trial_value <= value + 1e-4 * length * slope
            accept = undecided & enough
            new = torch.where(accept[:, None], trial, new)
            undecided = undecided & ~enough
            if not undecided.any():
                break
            length = torch.where(undecided, 0.3 * length, length)
        new_value, new_gradient = loss_and_gradient(loss, new, 1.0)
        new_gradient = new_gradient * free
        s, y = new - theta, new_gradient - gradient
        curvature = (s * y).sum(dim=1)
        rho = torch.where(curvature > 1e-12 * y.square().sum(dim=1), 1.0 / curvature, 0.0)
        pairs = [*pairs, (s, y, rho.nan_to_num(0.0, 0.0, 0.0))][-history:]
        active = active & ~undecided & (value - new_value > 1e-10 * value.abs())
        theta, value, gradient = new, new_value, new_gradient
        if step % 5 == 0:
            monitor.step(step, float(value.min()))
        if not active.any() or monitor.stopping():
            break
    return theta


def _two_loop(gradient: Tensor, pairs: list[tuple[Tensor, Tensor, Tensor]]) -> Tensor:
    """-H gradient by the two-loop recursion; pairs with rho = 0 are skipped by themselves."""
    q, alphas = gradient, []
    for s, y, rho in reversed(pairs):
        alpha = rho * (s * q).sum(dim=1)
        q = q - alpha[:, None] * y
        alphas.append(alpha)
    if pairs:
        s, y, rho = pairs[-1]
        scale = (s * y).sum(dim=1) / y.square().sum(dim=1).clamp_min(1e-300)
        q = torch.where((rho > 0)[:, None], scale[:, None] * q, q)
    for (s, y, rho), alpha in zip(pairs, reversed(alphas), strict=True):
        beta = rho * (y * q).sum(dim=1)
        q = q + (alpha - beta)[:, None] * s
    return -q


class Residuals(Protocol):
    """What Levenberg-Marquardt minimises: the sum of squares of residuals of each member."""

    def residuals(self, unknowns: Tensor) -> Tensor:
        """Weighted residuals [members, R]."""

    def linearised(self, unknowns: Tensor, free: Tensor) -> tuple[Tensor, Tensor]:
        """Residuals [members, R] and their Jacobian [members, R, unknowns].

        Columns of unknowns that are not `free` [members, unknowns] may hold any number.
        """


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """Where Levenberg-Marquardt ended: unknowns, sum of squares [members] and J^T J."""

    unknowns: Tensor
    sum_of_squares: Tensor
    normal: Tensor


def levenberg_marquardt(
    problem: Residuals,
    unknowns: Tensor,
    free: Tensor,
    steps: int,
    *,
    tolerance: float = 1e-5,
    monitor: Monitor | None = None,
) -> LeastSquares:
    """argmin sum_r residual_r(unknowns)^2 with damping of its own for every member.

    Converged members (relative gain of an accepted step below `tolerance`, or no step found)
    leave the batch, so the last iterations cost only those that still move. A monitor that asks
    to stop ends it where it is.

    Source: Marquardt (1963), damping scaled by the diagonal of J^T J; Nielsen's update.
    """
    unknowns = unknowns.clone()
    total, normal, gradient = _normal_equations(problem, unknowns, free)
    damping = torch.full_like(total, 1e-3)
    growth = torch.full_like(total, 2.0)
    active = total.isfinite().nonzero()[:, 0]
    for _ in range(steps):
        if not len(active) or (monitor is not None and monitor.stopping() is not None):
            break
        h, g, lam = normal[active], gradient[active], damping[active]
        step = _damped_step(h, g, lam, free[active])
        trial = unknowns[active] + step
        value = problem.residuals(trial).square().sum(dim=1).nan_to_num(torch.inf)
        model_gain = -(step * (2 * g + (h @ step[..., None])[..., 0])).sum(dim=1)
        gain = total[active] - value
        better = gain > 0
        if better.any():
            there = _normal_equations(problem, trial[better], free[active[better]])
            # A place without a Jacobian is no place to go on from.
            finite = there[0].isfinite()
            better[better.clone()] = finite
            moved = active[better]
            unknowns[moved] = trial[better]
            total[moved], normal[moved], gradient[moved] = (part[finite] for part in there)
        ratio = (gain / model_gain.clamp_min(1e-300)).clamp(-1e3, 1e3)
        damping[active] = torch.where(
            better, lam * (1 - (2 * ratio - 1) ** 3).clamp(1 / 3, 2.0), lam * growth[active]
        ).clamp_min(1e-12)
        growth[active] = torch.where(better, torch.full_like(lam, 2.0), 2 * growth[active])
        small = better & (gain <= tolerance * (total[active] + gain))
        stuck = ~better & ((lam > 1e8) | (model_gain <= tolerance * total[active]))
        active = active[~(small | stuck)]
    return LeastSquares(unknowns, total, normal)


def _normal_equations(problem: Residuals, unknowns: Tensor, free: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Sum of squares, J^T J and J^T r over the free unknowns (unit rows for the others)."""
    r, jac = problem.linearised(unknowns, free)
    # Where most unknowns are held, products of their columns would be most of the work.
    columns = compact(free)
    kept = free.gather(1, columns)
    jac = jac.gather(2, columns[:, None].expand(-1, jac.shape[1], -1))
    jac = jac.masked_fill(~kept[:, None, :], 0.0)
    bad = ~(r.isfinite().all(dim=1) & jac.isfinite().all(dim=(1, 2)))
    r, jac = r.masked_fill(bad[:, None], 0.0), jac.masked_fill(bad[:, None, None], 0.0)
    total = r.square().sum(dim=1).masked_fill(bad, torch.inf)
    small = jac.transpose(1, 2) @ torch.cat([jac, r[..., None]], dim=2)
    normal, gradient = torch.diag_embed((~free).to(jac)), torch.zeros_like(unknowns)
    member = torch.arange(len(free), device=free.device)[:, None, None]
    normal[member, columns[:, :, None], columns[:, None, :]] += small[..., :-1]
    gradient[member[..., 0], columns] = small[..., -1]
    return total, normal, gradient


def compact(free: Tensor) -> Tensor:
    """Places of the free parameters of each member, [members, F]; F is the most of any."""
    most = max(int(free.sum(dim=1).max()), 1) if len(free) else 1
    return (~free).to(torch.uint8).argsort(dim=1, stable=True)[:, :most]


def within(matrix: Tensor, columns: Tensor) -> Tensor:
    """Rows and columns of [members, U, U] at some places [members, F] of each: [members, F, F]."""
    member = torch.arange(len(columns), device=columns.device)[:, None, None]
    return matrix[member, columns[:, :, None], columns[:, None, :]]


def _damped_step(normal: Tensor, gradient: Tensor, damping: Tensor, free: Tensor) -> Tensor:
    columns = compact(free)
    h, g = within(normal, columns), gradient.gather(1, columns)
    diagonal = h.diagonal(dim1=1, dim2=2)
    # A column that is (nearly) zero must not turn a tiny gradient into a huge step.
    least = 1e-12 * diagonal.amax(dim=1, keepdim=True)
    scale = torch.maximum(diagonal, least).rsqrt()
    h = h * scale[:, :, None] * scale[:, None, :]
    h = h + torch.diag_embed(damping[:, None] + 1e-14 + torch.zeros_like(diagonal))
    factor, info = torch.linalg.cholesky_ex(h)
    step = -torch.cholesky_solve((g * scale)[..., None], factor)[..., 0] * scale
    step = torch.where((info == 0)[:, None], step, -g * scale * scale)
    return torch.zeros_like(gradient).scatter(1, columns, step).masked_fill(~free, 0.0)
