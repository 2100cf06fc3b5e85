"""Chains of units trained on samples, all runs of a setting as members of one batch.

The networks of the arithmetic experiments are static, y = unit_L(... unit_1(x)): they are
`torch.nn.Sequential` chains of units with a members axis, and torch's own optimisers, which
work element by element, train every member as if it were alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from odediscovery.experiments.base import Row, Stopped
from odediscovery.runtime.device import device_of
from odediscovery.runtime.monitor import Monitor
from odediscovery.units import AbstractUnit
from odediscovery.units.base import l1_norm

# Gradient steps between two looks at the monitor.
BREATH = 100
# A parameter counts if its size is above this (Neural Power Units, Figs. 4 and 7).
NONZERO = 1e-3
# Steps after which the published L1 weights grow tenfold (Neural Power Units, Table A6; Mistry et al.).
DECADE_STEPS = 10_000
# Error of all weights with which a solution still counts as exact (Madsen and Johansen, Sec. 4.1).
WEIGHT_ERROR = 1e-5
# Weight of iNALU's regulariser, which acts in the second half of training only.
INALU_REGULARISER = 1e-5


def relative_scale(y: Tensor) -> Tensor:
    """|y| + median |y| of each member's batch: errors divided by it count at every magnitude of y."""
    size = y.abs()
    return size + size.median(dim=1, keepdim=True).values


def uniform(shape: tuple[int, ...], low: float | Tensor, high: float | Tensor, source: torch.Generator) -> Tensor:
    """Uniform numbers from low to high, in double precision."""
    return low + (high - low) * torch.rand(shape, generator=source, dtype=torch.float64)


DISTANCES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mse": lambda prediction, y: (prediction - y).square(),
    "smooth-l1": lambda a, b: nn.functional.smooth_l1_loss(a, b, reduction="none"),
    "relative": lambda prediction, y: ((prediction - y) / relative_scale(y)).square(),
    # Of classes: y is 1 for the right one, 0 for the others.
    "cross-entropy": lambda prediction, y: -y * nn.functional.log_softmax(prediction, dim=-1),
}
Draw = Callable[[], tuple[Tensor, Tensor]]
Penalty = Callable[[int], Tensor]  # step -> [members]


@dataclass(frozen=True)
class Training:
    """How a network is trained.

    Args:
        steps: gradient steps.
        rate: constant learning rate.
        method: "adam", "rmsprop" or "sgd".
        loss: "mse", "smooth-l1" (with beta 1), "relative", the squares of (y_hat - y) / s with s of
            `relative_scale`, or "cross-entropy" of the outputs' softmax.
        clip: largest absolute value of a gradient's entry, or None.
        project: bring parameters back into the units' ranges after every step; False leaves
            that to the formulas alone, as the Julia code does.
        anneal: share of the steps after which the rate falls linearly to 0; 1: never.
        watch_every: steps between two calls of `watch`.
        decay: of the mean squares of RMSProp; Julia's default.
    """

    steps: int
    rate: float
    method: str = "adam"
    loss: str = "mse"
    clip: float | None = None
    project: bool = True
    anneal: float = 1.0
    watch_every: int = 0
    decay: float = 0.9

    def learning_rate(self, step: int) -> float:
        """Rate at a step, counted from 0."""
        if self.anneal >= 1.0:
            return self.rate
        return self.rate * min((1.0 - step / self.steps) / (1.0 - self.anneal), 1.0)

    def row(self) -> Row:
        """What the rows of a run say of its training."""
        return {"steps": self.steps, "rate": self.rate, "method": self.method}


def rows_of(columns: dict[str, Any], shared: Row) -> list[Row]:
    """A row for each run, from columns [runs] (tensors or lists) and from what all runs share."""
    lists = [c.tolist() if isinstance(c, Tensor) else list(c) for c in columns.values()]
    return [dict(zip(columns, values, strict=True)) | shared for values in zip(*lists, strict=True)]


def layers(network: nn.Sequential) -> list[AbstractUnit]:
    """The units of a chain."""
    return [unit for unit in network if isinstance(unit, AbstractUnit)]


def parameters_of(unit: AbstractUnit) -> dict[str, Tensor]:
    """A unit's own parameters by name."""
    return dict(unit.named_parameters())


def l1(network: nn.Sequential) -> Tensor:
    """L1 norm of all parameters of each member, [members]."""
    return torch.stack([l1_norm(u, parameters_of(u)) for u in layers(network)]).sum(dim=0)


def group_norm(network: nn.Sequential) -> Tensor:
    """Sum of the Euclidean norms of each member's parameter arrays, [members].

    Julia's `norm(params, 1)`: the 1-norm of the list of arrays, each by its own norm.
    """
    return torch.stack([p.flatten(1).norm(dim=1) for p in network.parameters()]).sum(dim=0)


def regulariser(network: nn.Sequential, summed: bool = False) -> Tensor:
    """Sum of the units' own regularisers, means over their parameters or `summed`, [members]."""
    units = [(u, parameters_of(u)) for u in layers(network)]
    sizes = [sum(p[0].numel() for p in own.values()) if summed else 1 for _, own in units]
    return torch.stack([n * u.regulariser(own) for n, (u, own) in zip(sizes, units, strict=True)]).sum(dim=0)


def flat(network: nn.Sequential) -> Tensor:
    """All parameters of each member, [members, P]."""
    return torch.cat([p.detach().flatten(1) for p in network.parameters()], dim=1)


def count_parameters(network: nn.Sequential) -> Tensor:
    """How many parameters of each member are not zero, [members]."""
    return (flat(network).abs() > NONZERO).sum(dim=1)


def grown_tenfold(step: int, low: float, high: float) -> float:
    """A weight that grows tenfold every `DECADE_STEPS` steps from low to high."""
    return min(low * 10.0 ** (step // DECADE_STEPS), high)


def inalu_penalty(network: nn.Sequential, step: int, steps: int, summed: bool = False) -> Tensor:
    """iNALU's regulariser, in the second half of training: by then weights know where they go."""
    return INALU_REGULARISER * regulariser(network, summed) * (2 * step >= steps)


def errors(network: nn.Sequential, x: Tensor, y: Tensor, power: int = 2) -> Tensor:
    """mean |network(x) - y|^power over samples, [members, outputs]; inf where not finite.

    x and y are on the CPU, and so is what comes out, wherever the network is.
    """
    device = next(network.parameters()).device
    with torch.no_grad():
        difference: Tensor = (network(x.to(device)) - y.to(device)).abs() ** power
        return difference.mean(dim=-2).nan_to_num(torch.inf, torch.inf, torch.inf).cpu()


def train(
    network: nn.Sequential,
    draw: Draw,
    training: Training,
    monitor: Monitor,
    *,
    name: str = "",
    device: str = "cpu",
    penalty: Penalty | None = None,
    watch: Callable[[int, Tensor], None] | None = None,
) -> None:
    """Train all members of a network in place.

    Args:
        network: chain of units with a members axis.
        draw: gives a batch (x [members, batch, inputs], y [members, batch, outputs]) a step.
        name: of the stage, for the progress bar.
        device: where this is done, "cpu" or "cuda"; the network comes back to the CPU.
        penalty: what is added to each member's loss at a step, [members].
        watch: called with the step and the losses [members] every `watch_every` steps, with
            gradients off; it may change parameters (reinitialisation). The network is still on
            the device then, and so are the losses.

    Raises:
        Stopped: the monitor asked to stop.
    """
    place = device_of(device)
    network.to(place)
    weights = [p for p in network.parameters() if p.requires_grad]
    optimiser = _optimiser(weights, training)
    distance = DISTANCES[training.loss]
    monitor.stage(name, training.steps)
    for step in range(training.steps):
        x, y = (part.to(place) for part in draw())
        loss = distance(network(x), y).mean(dim=(-1, -2))
        total = loss if penalty is None else loss + penalty(step)
        # A member that has left the finite numbers gets no step and spoils nobody else's.
        finite = torch.where(total.isfinite(), total, 0.0).sum()
        for weight, gradient in zip(weights, torch.autograd.grad(finite, weights), strict=True):
            gradient = gradient.nan_to_num(0.0, 0.0, 0.0)
            limit = training.clip
            weight.grad = gradient if limit is None else gradient.clamp(-limit, limit)
        for group in optimiser.param_groups:
            group["lr"] = training.learning_rate(step)
        optimiser.step()
        for unit in layers(network) if training.project else ():
            unit.project_()
        if watch is not None and (step + 1) % training.watch_every == 0:
            with torch.no_grad():
                watch(step + 1, loss.detach())
        if step % BREATH == 0:
            monitor.step(step, float(loss.detach().nan_to_num(torch.inf).min()))
            if monitor.stopping():
                raise Stopped
    network.cpu()


def _optimiser(weights: list[nn.Parameter], training: Training) -> torch.optim.Optimizer:
    if training.method == "adam":
        return torch.optim.Adam(weights, lr=training.rate, foreach=True)
    if training.method == "rmsprop":
        return torch.optim.RMSprop(weights, lr=training.rate, alpha=training.decay, foreach=True)
    return torch.optim.SGD(weights, lr=training.rate, foreach=True)
