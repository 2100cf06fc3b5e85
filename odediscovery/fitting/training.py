"""Training of networks: the loss on windows, and optimisers for all members at once.

Every member has its own loss, step length and line search, but all share each evaluation: a loss
maps theta [members, P] to [members]. A member whose loss is not finite returns to its last good
state, or stays there, without affecting the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from odediscovery.fitting.windows import Windows
from odediscovery.networks.vector_field import VectorField
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Indices
from odediscovery.runtime.monitor import Monitor
from odediscovery.solve.adjoint import interval_ends
from odediscovery.solve.fixed_step import Ends, LinearControls, Theta

Free: TypeAlias = Bool[Tensor, "members parameters"]
Losses: TypeAlias = Float[Tensor, " members"]
Loss = Callable[[Tensor, float], Tensor]  # (theta, progress in [0, 1]) -> loss of each member


def loss_and_gradient(loss: Loss, theta: Theta, progress: float) -> tuple[Losses, Theta]:
    """Compute losses [members] and their gradients; inf and 0 for members where either is not finite."""
    theta = theta.detach().requires_grad_(True)
    value = loss(theta, progress)
    (gradient,) = torch.autograd.grad(torch.where(value.isfinite(), value, 0.0).sum(), theta)
    bad = ~(value.isfinite() & gradient.isfinite().all(dim=1))
    value = value.detach().masked_fill(bad, torch.inf)
    return value, gradient.masked_fill(bad[:, None], 0.0)


@dataclass(frozen=True)
class FirstOrder:
    """torch's Adam or RMSProp for all members at once, with a learning rate schedule.

    A member whose loss is not finite returns to its last good state with half the rate and its averages reset; the
    others are not affected.

    Source: Kingma and Ba, Adam (2015); Hinton's RMSProp (2012).
    """

    steps: int
    rate: float  # largest learning rate
    method: str = "adam"  # "adam" (betas 0.9, 0.999) or "rmsprop" (decay 0.9, Julia's default)
    schedule: str = "one-cycle"  # "one-cycle" (rises over the first fifth, then a half cosine to 0) or "constant"

    def learning_rate(self, step: int) -> float:
        """Return the learning rate at a `step`, counted from 0."""
        if self.schedule == "constant":
            return self.rate
        part, rise = (step + 1) / self.steps, 0.2
        if part < rise:
            return self.rate * part / rise
        return self.rate * 0.5 * (1.0 + math.cos(math.pi * (part - rise) / (1.0 - rise)))

    def run(self, loss: Loss, theta: Theta, free: Free, monitor: Monitor) -> Theta:
        """Minimise the loss and return theta [members, P]; entries that are not `free` stay fixed."""
        theta, good = theta.detach().clone(), theta.detach().clone()
        caution = theta.new_ones(len(theta), 1)
        optimiser = torch.optim.Adam([theta]) if self.method == "adam" else torch.optim.RMSprop([theta], alpha=0.9)
        for step in range(self.steps):
            value, gradient = loss_and_gradient(loss, theta, step / max(self.steps - 1, 1))
            failed = ~value.isfinite()
            if failed.any():
                theta[failed], caution[failed] = good[failed], caution[failed] * 0.5
                for memory in optimiser.state.get(theta, {}).values():
                    if memory.shape == theta.shape:
                        memory[failed] = 0.0
            good = theta.clone()
            optimiser.param_groups[0]["lr"] = self.learning_rate(step)
            theta.grad = gradient * free
            optimiser.step()
            theta.copy_(torch.where(failed[:, None], good, good + caution * (theta - good)))
            if step % 20 == 0:
                monitor.step(step, float(value.min()))
                if monitor.stopping():
                    break
        value, _ = loss_and_gradient(loss, theta, 1.0)
        return torch.where(value.isfinite()[:, None], theta, good)


def lbfgs(loss: Loss, theta: Theta, free: Free, steps: int, monitor: Monitor) -> Theta:
    """Minimise by limited-memory BFGS, with a separate backtracking (Armijo) line search for every member.

    `torch.optim.LBFGS` minimises one loss: all members would share step lengths and curvature pairs, and one failure
    would stop them all. One optimiser for each member would lose the batch, in which a solve of sixteen members costs
    as much as one of two.

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
        length = torch.ones_like(value) if pairs else 1.0 / gradient.abs().sum(dim=1).clamp_min(1.0)
        new, undecided = _line_search(loss, theta, value, direction, slope, length, active)
        new_value, new_gradient = loss_and_gradient(loss, new, 1.0)
        new_gradient = new_gradient * free
        s, y = new - theta, new_gradient - gradient
        curvature = (s * y).sum(dim=1)
        # Pairs with negligible curvature, which would be rounding, are skipped.
        rho = torch.where(curvature > 1e-12 * y.square().sum(dim=1), 1.0 / curvature, 0.0)
        pairs = [*pairs, (s, y, rho.nan_to_num(0.0, 0.0, 0.0))][-10:]
        active = active & ~undecided & (value - new_value > 1e-10 * value.abs())
        theta, value, gradient = new, new_value, new_gradient
        if step % 5 == 0:
            monitor.step(step, float(value.min()))
        if not active.any() or monitor.stopping():
            break
    return theta


def _line_search(
    loss: Loss, theta: Tensor, value: Tensor, direction: Tensor, slope: Tensor, length: Tensor, active: Tensor
) -> tuple[Tensor, Tensor]:
    """Theta after backtracking in every active member, unchanged for members without a step, and a mask of these:

        loss(theta + length direction) <= loss(theta) + 1e-4 length slope

    Source: Nocedal and Wright (2006), p. 33.
    """
    new, undecided = theta, active.clone()
    for _ in range(8):  # the last step is 0.3^7 of the first, 2e-4
        trial = torch.where(undecided[:, None], theta + length[:, None] * direction, new)
        with torch.no_grad():
            trial_value = loss(trial, 1.0)
        enough = trial_value <= value + 1e-4 * length * slope
        new = torch.where((undecided & enough)[:, None], trial, new)
        undecided = undecided & ~enough
        if not undecided.any():
            break
        length = torch.where(undecided, 0.3 * length, length)
    return new, undecided


def _two_loop(gradient: Tensor, pairs: list[tuple[Tensor, Tensor, Tensor]]) -> Tensor:
    """-H gradient by the two-loop recursion, in which pairs with rho = 0 have no effect."""
    q, alphas = gradient, []
    for s, y, rho in reversed(pairs):
        alpha = rho * (s * q).sum(dim=1)
        q = q - alpha[:, None] * y
        alphas.append(alpha)
    if pairs:
        s, y, rho = pairs[-1]
        scale = (s * y).sum(dim=1) / y.square().sum(dim=1).clamp_min(ABOVE_ZERO)
        q = torch.where((rho > 0)[:, None], scale[:, None] * q, q)
    for (s, y, rho), alpha in zip(pairs, reversed(alphas), strict=True):
        beta = rho * (y * q).sum(dim=1)
        q = q + (alpha - beta)[:, None] * s
    return -q


@dataclass(frozen=True, eq=False)
class TrainingWindows:
    """B windows of L intervals of n states, as tensors on the processor or a GPU."""

    plain: Windows  # the windows as arrays, which documents the tensors of the same names
    start: Float[Tensor, "windows states"]
    duration: Float[Tensor, "windows intervals"]
    target: Float[Tensor, "windows intervals states"]
    weight: Float[Tensor, "windows intervals states"]
    grid: Int[Tensor, "windows intervals"]
    controls: LinearControls | None = None
    gradients: str = "closed-form"  # how the loss is differentiated, see `solve.adjoint.interval_ends`

    @classmethod
    def of(cls, plain: Windows, gradients: str = "closed-form", device: torch.device | None = None) -> TrainingWindows:
        """Convert windows to tensors on a device (default: the processor)."""

        def tensor(values: Array | Indices) -> Tensor:
            return torch.as_tensor(values, device=device)

        own = plain.controls
        controls = None if own is None else LinearControls(tensor(own.entry), tensor(own.slope))
        start, duration, target = tensor(plain.start), tensor(plain.duration), tensor(plain.target)
        return cls(plain, start, duration, target, tensor(plain.weight), tensor(plain.grid), controls, gradients)

    def predict(self, field: VectorField, theta: Theta) -> Ends:
        """Integrate to the end of every interval, [members, B, L, n]."""
        x, found = self.start.expand(theta.shape[0], *self.start.shape), []
        for j in range(self.target.shape[1]):
            own = self.controls and self.controls.at((slice(None), j))
            x = interval_ends(field, theta, x, self.duration[:, j], self.grid[:, j], own, self.gradients)
            found.append(x)
        return torch.stack(found, dim=2)

    def loss(self, field: VectorField, theta: Theta) -> Losses:
        """Compute the mean squared weighted residual of every member, [members]."""
        residual = (self.predict(field, theta) - self.target) * self.weight
        return residual.square().sum(dim=(1, 2, 3)) / (self.weight > 0).sum()

    def refined(self, field: VectorField, theta: Theta, accuracy: float) -> TrainingWindows:
        """Refine the step grids until they are fine enough for these members; see `Windows.refined`."""
        rhs, device = field.rhs(theta), self.start.device

        @torch.no_grad()
        def on_arrays(x: Array) -> Array:
            found: Array = rhs(torch.as_tensor(x, device=device)).cpu().numpy()
            return found

        finer = self.plain.refined_for(on_arrays, len(theta), accuracy)
        return TrainingWindows.of(finer, self.gradients, device)
