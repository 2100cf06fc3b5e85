"""What a user of torchdiffeq would write: one `nn.Module` a model, `odeint`, `backward`, a loop.

    dx/dt = A exp(W log r) cos(W k),    r = g (|x| + eps) + 1 - g,    k = pi g for x < 0, else 0

Members are trained one after the other. The method and its steps are those of our training, and
nothing here is ours: the network, its loss and its gradient are plain PyTorch.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torchdiffeq import odeint

NAME = "torchdiffeq, plain loop"
EPSILON = torch.finfo(torch.float64).eps


class PowerNetwork(nn.Module):
    """RealNPU -> NAU of one member.

    Args:
        theta: all its parameters [P]: exponents W [hidden, states], gates, weights A.
        states: how many.
        nonnegative: max(x, 0) in place of |x|, and k = 0.
    """

    def __init__(self, theta: Tensor, states: int, nonnegative: bool) -> None:
        super().__init__()
        self.nonnegative = nonnegative
        hidden = (len(theta) - states) // (2 * states)
        power, gate, total = torch.split(theta, [hidden * states, states, states * hidden])
        self.power = nn.Parameter(power.reshape(hidden, states).clone())
        self.gate = nn.Parameter(gate.clone())
        self.total = nn.Parameter(total.reshape(states, hidden).clone())

    def forward(self, t: Tensor, x: Tensor) -> Tensor:
        """dx/dt at x [..., states]."""
        gate = self.gate + (self.gate.clamp(0.0, 1.0) - self.gate).detach()
        size = x.clamp_min(0.0) if self.nonnegative else x.abs()
        y = torch.exp(torch.log(gate * (size + EPSILON) + 1.0 - gate) @ self.power.T)
        if not self.nonnegative:
            y = y * torch.cos((torch.pi * gate * (x < 0)) @ self.power.T)
        rates: Tensor = y @ self.total.T
        return rates

    def flat(self) -> Tensor:
        """The gradients of all parameters, in the order of theta."""
        parts = (self.power.grad, self.gate.grad, self.total.grad)
        return torch.cat([part.flatten() for part in parts if part is not None])


def solve(network: PowerNetwork, start: Tensor, times: Tensor, steps: Tensor, method: str = "rk4") -> Tensor:
    """States at all times [times, ..., states], by fixed steps."""
    grid = {"grid_constructor": lambda func, y0, t: steps}
    solution: Tensor = odeint(network, start, times, method=method, options=grid)
    return solution


def window_gradient(
    network: PowerNetwork, start: Tensor, duration: float, target: Tensor, weight: Tensor, grid: Tensor
) -> Tensor:
    """Loss of one member on one-interval windows of equal duration; its gradients are set.

    Args:
        start, target, weight: [windows, states].
        grid: steps of tau in [0, 1].
    """
    network.zero_grad()
    ends = torch.tensor([0.0, duration], dtype=start.dtype)
    end = solve(network, start, ends, duration * grid)[-1]
    loss = ((end - target) * weight).square().sum() / (weight > 0).sum()
    loss.backward()  # type: ignore[no-untyped-call]
    return loss.detach()


def whole_gradient(
    network: PowerNetwork, start: Tensor, times: Tensor, values: Tensor, steps: Tensor, method: str = "rk4"
) -> Tensor:
    """Mean squared error of one member on a whole trajectory; its gradients are set."""
    network.zero_grad()
    loss = (solve(network, start, times, steps, method) - values).square().mean()
    loss.backward()  # type: ignore[no-untyped-call]
    return loss.detach()


def as_run_steps(
    network: PowerNetwork,
    start: Tensor,
    times: Tensor,
    values: Tensor,
    steps: Tensor,
    count: int,
    rate: float,
    l1: float,
) -> float:
    """So many RMSProp steps of the recipe `as-run` (Euler); the last loss."""
    optimiser = torch.optim.RMSprop(network.parameters(), lr=rate, alpha=0.9)
    loss = torch.zeros(())
    for _ in range(count):
        optimiser.zero_grad()
        mse = (solve(network, start, times, steps, "euler") - values).square().mean()
        norm = torch.stack([p.abs().sum() for p in network.parameters()]).sum()
        loss = mse + l1 * norm
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return float(loss.detach())
