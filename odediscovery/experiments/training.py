"""The one training of all experiments: chains of units on samples, all runs of a setting as members of one batch.

torch's optimisers work element by element, so that every member is trained as if it were alone. After Adam all members
are refined together by Levenberg-Marquardt; a wide chain is thinned first, since the cost grows with the cube of the
number of unknowns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import lr_scheduler

from odediscovery.experiments.base import Job, Row
from odediscovery.fitting.windows import levenberg_marquardt
from odediscovery.networks.vector_field import VectorField, pulled_through
from odediscovery.runtime.arrays import Array, Mask
from odediscovery.runtime.device import device_of
from odediscovery.units import NAU, NMU, UNITS, AbstractUnit, Dense, RealNPU
from odediscovery.units.base import l1_norm

# A parameter counts if its size is above this (Neural Power Units, Figs. 4 and 7).
NONZERO = 1e-3
# Largest error of weights of a solution that counts as exact (Madsen and Johansen, Sec. 4.1).
WEIGHT_ERROR = 1e-5
# Least |value| in a logarithm.
TINY = 1e-12


def relative_scale(y: Tensor) -> Tensor:
    """|y| + median |y| of each member's batch, a scale of errors for all magnitudes of y."""
    size = y.abs()
    return size + size.median(dim=1, keepdim=True).values


def uniform(shape: tuple[int, ...], low: float | Tensor, high: float | Tensor, source: torch.Generator) -> Tensor:
    """Draw uniform numbers from low to high, in double precision."""
    return low + (high - low) * torch.rand(shape, generator=source, dtype=torch.float64)


DISTANCES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mse": lambda prediction, y: (prediction - y).square(),
    "smooth-l1": lambda a, b: nn.functional.smooth_l1_loss(a, b, reduction="none"),
    "relative": lambda prediction, y: ((prediction - y) / relative_scale(y)).square(),
    # For classes: y is 1 for the right one, 0 for the others.
    "cross-entropy": lambda prediction, y: -y * nn.functional.log_softmax(prediction, dim=-1),
}
OPTIMISERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "rmsprop": partial(torch.optim.RMSprop, alpha=0.9),  # the default of the Julia code
    "sgd": torch.optim.SGD,
}
Task = Callable[[Tensor], Tensor]
Draw = Callable[[], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Setting:
    """Common sizes of experiments, and options of their training."""

    runs: int = 20  # members of a batch
    steps: int = 10_000  # gradient steps
    batch: int = 64  # samples per step
    rate: float = 1e-2
    points: int = 1000  # test samples or grid points
    method: str = "adam"  # of OPTIMISERS
    loss: str = "mse"  # of DISTANCES
    clip: float | None = None  # largest absolute value of a gradient's entry, or None
    # Bring parameters back into the units' ranges after every step; False leaves that to the formulas alone, as the
    # Julia code does.
    project: bool = True
    anneal: float = 1.0  # share of the steps after which the rate falls linearly to 0; 1: never
    cosine: bool = False  # instead, the rate falls to a fiftieth as half a cosine
    checks: int = 1  # how often `watch` is called
    # Of our training: starts of every run, at the most, Adam steps of each, and what follows by Levenberg-Marquardt.
    starts: int = 8
    our_steps: int = 1000
    refit_samples: int = 1024
    refit_steps: int = 60

    def falling(self, step: int) -> float:
        """Rate at a step, counted from 0, as a share of the first one."""
        return 1.0 if self.anneal >= 1.0 else min((1.0 - step / self.steps) / (1.0 - self.anneal), 1.0)

    def schedule(self, optimiser: torch.optim.Optimizer) -> lr_scheduler.LRScheduler:
        """The rates of all steps."""
        if self.cosine:
            return lr_scheduler.CosineAnnealingLR(optimiser, self.steps, 0.02 * self.rate)
        return lr_scheduler.LambdaLR(optimiser, self.falling)

    def row(self) -> Row:
        """Columns of the training in the row of a run."""
        return {"steps": self.steps, "rate": self.rate, "method": self.method}


def rows_of(columns: dict[str, Any], shared: Row) -> list[Row]:
    """Build a row for each run from columns [runs] (tensors or lists) and common entries."""
    lists = [c.tolist() if isinstance(c, Tensor) else list(c) for c in columns.values()]
    return [dict(zip(columns, values, strict=True)) | shared for values in zip(*lists, strict=True)]


def fresh(runs: int, source: torch.Generator | None, unit: Any, n_in: int, n_out: int, **options: Any) -> Any:
    """Draw a unit with `runs` members from a source."""
    return unit(n_in, n_out, members=runs, generator=source, dtype=torch.float64, **options)


def chain(runs: int, source: torch.Generator | None, *parts: nn.Module | tuple[Any, ...]) -> nn.Sequential:
    """Draw a chain with `runs` members layer by layer, from modules and (unit, n_in, n_out[, options])."""
    drawn = (p if isinstance(p, nn.Module) else fresh(runs, source, *p[:3], **dict(*p[3:])) for p in parts)
    return nn.Sequential(*drawn)


class PReLU(nn.Module):
    """max(x, 0) + a min(x, 0) with one trained slope a per member, initially 0.25 as in torch."""

    def __init__(self, members: int) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.full((members, 1, 1), 0.25, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        """The activation, elementwise; x [members, batch, features]."""
        return x.clamp(min=0.0) + self.slope * x.clamp(max=0.0)


# Nonlinearities of the dense networks that the papers compare with arithmetic units.
ACTIVATIONS = ("ReLU", "Sigmoid", "Tanh", "ReLU6", "LeakyReLU", "ELU", "SELU", "PReLU", "Swish")


def stack(runs: int, source: torch.Generator | None, model: str, *widths: int) -> nn.Sequential:
    """Draw a chain of units of a model between these widths; an activation names dense layers with it in between."""
    parts: list[Any] = []
    for n_in, n_out in pairwise(widths):
        if parts and model in ACTIVATIONS:
            named = "SiLU" if model == "Swish" else model
            parts.append(PReLU(runs) if model == "PReLU" else getattr(nn, named)())
        parts.append((UNITS.get(model, Dense), n_in, n_out))
    return chain(runs, source, *parts)


def open_gates(unit: Any) -> Any:
    """Set the gates of a power unit to 1 for good."""
    unit.gate.data.fill_(1.0)
    unit.gate.requires_grad_(False)
    return unit


def layers(network: nn.Module) -> list[AbstractUnit]:
    """The units of a network."""
    return [unit for unit in network.modules() if isinstance(unit, AbstractUnit)]


def parameters_of(unit: AbstractUnit) -> dict[str, Tensor]:
    """A unit's own parameters by name."""
    return dict(unit.named_parameters())


def l1(network: nn.Sequential) -> Tensor:
    """L1 norm of all parameters of each member, [members]."""
    return torch.stack([l1_norm(u, parameters_of(u)) for u in layers(network)]).sum(dim=0)


def group_norm(network: nn.Sequential) -> Tensor:
    """Sum of the Euclidean norms of each member's parameter arrays, as Julia's `norm(params, 1)`, [members]."""
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
    """Count the non-zero parameters of each member, [members]."""
    return (flat(network).abs() > NONZERO).sum(dim=1)


def grown_tenfold(step: int, low: float, high: float) -> float:
    """A weight that grows tenfold every 10,000 steps from low to high (Neural Power Units, Table A6; Mistry et al.)."""
    return min(low * 10.0 ** (step // 10_000), high)


def ramp(at: float, begin: float, end: float) -> float:
    """A weight that grows linearly from 0 at `begin` to 1 at `end`."""
    return min(max((at - begin) / (end - begin), 0.0), 1.0)


def inalu_penalty(network: nn.Sequential, step: int, steps: int, summed: bool = False) -> Tensor:
    """iNALU's regulariser in the second half of training, when weights have settled."""
    return 1e-5 * regulariser(network, summed) * (2 * step >= steps)


def errors(network: nn.Sequential, x: Tensor, y: Tensor, power: int = 2) -> Tensor:
    """mean |network(x) - y|^power over samples, on the CPU, [members, outputs]; inf where not finite."""
    device = next(network.parameters()).device
    with torch.no_grad():
        difference: Tensor = (network(x.to(device)) - y.to(device)).abs() ** power
        return difference.mean(dim=-2).nan_to_num(torch.inf, torch.inf, torch.inf).cpu()


def sampler(shape: tuple[int, ...], ends: tuple[float, float], source: torch.Generator, task: Task) -> Draw:
    """Draw uniform inputs and compute the targets of a task, anew for every step."""

    def draw() -> tuple[Tensor, Tensor]:
        x = uniform(shape, *ends, source)
        return x, task(x)

    return draw


def train(
    network: nn.Sequential,
    draw: Draw,
    training: Setting,
    job: Job,
    *,
    name: str = "",
    unit_of_loss: float | Tensor = 1.0,
    penalty: Callable[[int], Tensor] | None = None,
    watch: Callable[[int, Tensor], None] | None = None,
) -> None:
    """Train all members in place on samples from `draw`, whose targets may be shared by all, under `penalty(step)`
    [members]; `watch` receives the losses at intervals, without gradients, and may change parameters."""
    place = device_of(job.plan.device)
    network.to(place)
    weights = [p for p in network.parameters() if p.requires_grad]
    optimiser = OPTIMISERS[training.method](weights, lr=training.rate, foreach=True)
    schedule = training.schedule(optimiser)
    every = max(training.steps // training.checks, 1)
    job.monitor.stage(name or job.name, training.steps)
    for step in range(training.steps):
        x, y = (part.to(place) for part in draw())
        answer = network(x)
        loss = DISTANCES[training.loss](answer, y.expand_as(answer)).mean(dim=(-1, -2)) / unit_of_loss
        _set_gradients(weights, loss if penalty is None else loss + penalty(step), training.clip)
        optimiser.step()
        schedule.step()
        for unit in layers(network) if training.project else ():
            unit.project_()
        if watch is not None and (step + 1) % every == 0:
            with torch.no_grad():
                watch(step + 1, loss.detach())
        if step % 100 == 0:
            job.monitor.step(step, float(loss.detach().nan_to_num(torch.inf).min()))
            job.check()
    network.cpu()


def _set_gradients(weights: Sequence[nn.Parameter], losses: Tensor, limit: float | None) -> None:
    """Set the gradients of the losses of all members, clipped to a limit, and 0 where they are not finite."""
    total = torch.where(losses.isfinite(), losses, 0.0).sum()
    for weight, gradient in zip(weights, torch.autograd.grad(total, weights, materialize_grads=True), strict=True):
        gradient = gradient.nan_to_num(0.0, 0.0, 0.0)
        weight.grad = gradient if limit is None else gradient.clamp(-limit, limit)


class ChainResiduals:
    """Residuals weight (network(x) - y) of a selection of members.

    Levenberg-Marquardt drops members that have converged, so the last unknown, which is not free,
    is the index of the member. The others are the parameters with gradients, unit by unit.
    """

    def __init__(self, network: nn.Sequential, x: Tensor, y: Tensor, weight: Tensor, whole: float = 0.0) -> None:
        self.field = VectorField.of(layers(network))
        self.columns = self.field.free[0].nonzero()[:, 0]
        self.x, self.y, self.weight, self.whole = x, y, weight, whole

    def gathered(self) -> Tensor:
        """Collect the unknowns from the network, [members, unknowns]."""
        own = self.field.theta[:, self.columns]
        return torch.cat([own, torch.arange(len(own), dtype=own.dtype)[:, None]], dim=1)

    def parameters(self, unknowns: Tensor) -> list[dict[str, Tensor]]:
        """Parameters of every unit for these unknowns; fixed ones as in the network."""
        theta = self.field.theta[unknowns[:, -1].long()]
        theta[:, self.columns] = unknowns[:, :-1]
        return self.field.unpack(theta)

    def solve(self, unknowns: Array) -> Array:
        """Residuals [members, samples x outputs], followed by whole w (1 - w^2) of every parameter w if whole > 0."""
        given = torch.as_tensor(unknowns)
        y = self.x[given[:, -1].long()]
        for unit, p in zip(self.field.units, self.parameters(given), strict=True):
            y = unit.compute(p, y)
        return self._weighted(given, y)

    def residuals(self, unknowns: Array, solved: Array | None = None) -> Array:
        """The same, since a chain needs no solver."""
        return self.solve(unknowns) if solved is None else solved

    def linearised(self, unknowns: Array, free: Mask, solved: Array | None = None) -> tuple[Array, Array]:
        """Residuals and their Jacobian [members, residuals, unknowns]."""
        given = torch.as_tensor(unknowns)
        which, w = given[:, -1].long(), given[:, :-1]
        own = self.parameters(given), self.x[which], torch.diag_embed(self.weight[which])
        y, _, slopes = pulled_through(self.field.units, *own)
        jacobian = slopes[..., self.columns].flatten(1, 2)
        if self.whole:
            jacobian = torch.cat([jacobian, torch.diag_embed(self.whole * (1.0 - 3.0 * w * w))], dim=1)
        # The derivative with respect to the member's index is 0.
        return self._weighted(given, y), nn.functional.pad(jacobian, (0, 1)).numpy()

    def _weighted(self, given: Tensor, y: Tensor) -> Array:
        which, w = given[:, -1].long(), given[:, :-1]
        parts = [((y - self.y[which]) * self.weight[which]).flatten(1)]
        if self.whole:
            parts.append(self.whole * w * (1.0 - w * w))
        found: Array = torch.cat(parts, dim=1).numpy()
        return found


def refit(
    network: nn.Sequential, x: Tensor, y: Tensor, weight: Tensor, steps: int, tolerance: float, whole: float = 0.0
) -> Tensor:
    """Minimise sum (weight (network(x) - y))^2 over the parameters in place; return the sums of squares [members]."""
    problem = ChainResiduals(network, x, y, weight, whole)
    unknowns: Array = problem.gathered().numpy()
    free = np.ones(unknowns.shape, dtype=bool)
    free[:, -1] = False
    fitted = levenberg_marquardt(problem, unknowns, free, steps, tolerance=tolerance)
    for unit, p in zip(problem.field.units, problem.parameters(torch.as_tensor(fitted.unknowns)), strict=True):
        for name, value in parameters_of(unit).items():
            value.data.copy_(p[name])
    return torch.as_tensor(fitted.sum_of_squares)


@torch.no_grad()
def thinned(network: nn.Sequential, x: Tensor, y: Tensor, kept: int) -> nn.Sequential:
    """Reduce members to the `kept` hidden units whose factors vary most: a NAU, then an NMU or a RealNPU of gates 1."""
    sums, products = layers(network)
    h = sums(x)
    if isinstance(products, NMU):
        weight = products.weight[:, None, 0].clamp(0.0, 1.0)
        size = (weight * h + 1.0 - weight).abs().clamp_min(TINY).log()
    else:
        p = parameters_of(products)
        gate = p["gate"][:, None].clamp(0.0, 1.0)
        size = (gate * h.abs() + 1.0 - gate).clamp_min(TINY).log() * p["real"]
    best = size.std(dim=1).nan_to_num(0.0).argsort(dim=1, descending=True)[:, :kept]
    members, inputs = len(best), x.shape[-1]
    first = NAU(inputs, kept, members=members, dtype=torch.float64)
    chosen = best[:, :, None].expand(-1, -1, inputs)
    first.weight.data.copy_(parameters_of(sums)["weight"].gather(1, chosen))
    if isinstance(products, NMU):
        factors = NMU(kept, 1, members=members, dtype=torch.float64)
        # A weight of 0 has no gradient.
        own = products.weight.gather(2, best[:, None]).clamp(0.02, 1.0)
        factors.weight.data.copy_(own)
        return nn.Sequential(first, factors)
    powers = open_gates(RealNPU(kept, 1, members=members, dtype=torch.float64))
    _regress(first, powers, x, y)
    return nn.Sequential(first, powers)


def _regress(first: NAU, powers: RealNPU, x: Tensor, y: Tensor) -> None:
    """Set exponents by ridge regression of ln |y| = sum p_k ln |h_k| + c; c scales the h_k of the largest |p_k|."""
    h = first(x).abs().clamp_min(TINY).log()
    target = y.abs().clamp_min(TINY).log()
    centred = h - h.mean(dim=1, keepdim=True)
    normal = centred.mT @ centred
    ridge = 1e-2 * normal.diagonal(dim1=1, dim2=2) + TINY * h.shape[1]
    p = torch.linalg.solve(normal + torch.diag_embed(ridge), centred.mT @ (target - target.mean(dim=1, keepdim=True)))
    constant = (target.mean(dim=1) - (h.mean(dim=1, keepdim=True) @ p)[:, 0])[:, 0]
    members, strongest = torch.arange(len(p)), p[..., 0].abs().argmax(dim=1)
    shift = (constant / p[members, strongest, 0]).nan_to_num(0.0)
    powers.real.data.copy_(p.mT)
    first.weight.data[members, strongest] *= shift.clamp(-12.0, 12.0).exp()[:, None]


@torch.no_grad()
def embed(thin: nn.Sequential, chosen: Tensor, network: nn.Sequential, into: Tensor) -> None:
    """Write members `chosen` of a thinned chain into the first units of members `into` of a wide one; other units are
    idle."""
    for small, large in zip(layers(thin), layers(network), strict=True):
        values = parameters_of(small)
        for name, value in parameters_of(large).items():
            value.data[into] = 0.0
            if name in values:
                part, whole = values[name][chosen], value.data[into]
                whole[(slice(None), *map(slice, part.shape[1:]))] = part.to(whole)
                value.data[into] = whole
