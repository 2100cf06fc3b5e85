"""Two sums of subsets of the inputs, added, subtracted or multiplied: the task of Neural Arithmetic Units.

    a, b = sums of two overlapping subsets of x;    t = a + b,  a - b,  a b

Networks of two layers, how their authors train and judge them, and how this package does.

Source: Madsen and Johansen, Neural Arithmetic Units (ICLR 2020), Sec. 4.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from odediscovery.experiments.refit import embed, refit
from odediscovery.experiments.regression import (
    WEIGHT_ERROR,
    Training,
    errors,
    layers,
    parameters_of,
    regulariser,
    train,
    uniform,
)
from odediscovery.runtime.monitor import Monitor
from odediscovery.units import NAC, NALU, NAU, NMU, AbstractUnit, Linear, MultiplicativeNAC, glorot
from odediscovery.units.nac import accumulator

INPUTS, SUBSET, OVERLAP = 100, 0.25, 0.5
TRAIN, TEST = (1.0, 2.0), (2.0, 6.0)
OPERATIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "×": lambda a, b: a * b,
    "(x1+x2)(x1+x2+x3+x4)": lambda a, b: a * b,
}
FOUR = "(x1+x2)(x1+x2+x3+x4)"
# Largest first weight of a NAU in its authors' code: min(0.5, sqrt(3) std).
FIRST_WEIGHT = 0.5
# Where the first weights of an NMU lie there: in the middle half of [0, 1].
MIDDLE = partial(nn.init.uniform_, a=0.25, b=0.75)


@dataclass(frozen=True)
class Setting:
    """Sec. 4.1 of Madsen and Johansen and their code's defaults; `our` fields are this package's.

    Args:
        hidden: width between the two layers.
        steps, rate: theirs are 5e6 steps at a constant rate; `anneal` below 1: the share of the steps after
            which the rate falls to 0.
        points: samples of the test.
        sparse: weight of the sparsity regulariser, which grows between the two steps `growth`.
        checks: how often a run is tested.
        starts: most starts of each of our runs.
        refit_samples, refit_steps, refit_tolerance: of the Levenberg-Marquardt refits.
        wholes: how much whole weights count in them, one after the other; half a unit's error of one
            weight of a hundred moves the relative residuals of 400 samples by 0.2 together.
        fitted: relative error below which a start has fitted.
    """

    runs: int = 50
    hidden: int = 2
    steps: int = 20_000
    rate: float = 1e-3
    anneal: float = 1.0
    batch: int = 128
    points: int = 1000
    sparse: float = 10.0
    growth: tuple[float, float] = (1e6, 2e6)
    checks: int = 200
    starts: int = 8
    our_steps: int = 1000
    our_rate: float = 1e-2
    our_anneal: float = 0.5
    our_growth: tuple[float, float] = (0.2, 0.4)
    refit_samples: int = 400
    refit_steps: int = 60
    refit_tolerance: float = 1e-6
    wholes: tuple[float, ...] = (0.003, 0.03, 0.1)
    fitted: float = 1e-7

    def weight(self, at: float, growth: tuple[float, float]) -> float:
        """Weight of the regulariser at a step, or at a share of the steps: 0, then linearly to `sparse`."""
        low, high = growth
        return self.sparse * min(max((at - low) / (high - low), 0.0), 1.0)


@dataclass(frozen=True, eq=False)
class Data:
    """One task, which inputs the two sums of every run take, [runs, inputs, 2], and where it is trained and tested."""

    task: str
    chosen: Tensor
    inside: tuple[float, float] = TRAIN
    outside: tuple[float, float] = TEST

    def targets(self, x: Tensor) -> Tensor:
        """[runs, batch, 1] of inputs [1 or runs, batch, inputs]."""
        sums = x @ self.chosen
        return OPERATIONS[self.task](sums[..., :1], sums[..., 1:])

    def draw(self, inside: tuple[float, float], count: int, source: torch.Generator) -> tuple[Tensor, Tensor]:
        """The same x [1, count, inputs] for every run, and the runs' targets."""
        inputs = self.chosen.shape[1]
        x = uniform((1, count, inputs), *inside, source)
        return x, self.targets(x)


def sparsity(network: nn.Sequential) -> Tensor:
    """max over all weights of min(|W|, |1 - |W||), [members]; gates left aside."""
    parts = []
    for unit in layers(network):
        p = parameters_of(unit)
        weights = [accumulator(p["weight"], p["mask"])] if "mask" in p else [v for k, v in p.items() if k != "gate"]
        for weight in weights:
            size = weight.detach().abs()
            parts.append(torch.minimum(size, (1.0 - size).abs()).amax(dim=(-1, -2)))
    return torch.stack(parts).amax(dim=0)


class Watched:
    """The checks of every member, judged where its error inside the training range is least.

    Args:
        inside, outside: samples (x, y) of the two ranges.
        limit: largest error outside of a solution, [members].

    Attributes:
        won, sparse, error: whether it succeeds there, its sparsity error and its error outside, [members].
        solved: first step whose error outside is small enough, nan without one.
    """

    def __init__(self, inside: tuple[Tensor, Tensor], outside: tuple[Tensor, Tensor], limit: Tensor) -> None:
        self.inside, self.outside, self.limit = inside, outside, limit
        self.least = torch.full_like(limit, torch.inf)
        unknown = torch.full_like(limit, torch.nan)
        self.sparse, self.error, self.solved = unknown, unknown.clone(), unknown.clone()

    @property
    def won(self) -> Tensor:
        """Whether the error outside is small enough, bool [members]."""
        return self.error < self.limit

    def look(self, step: int, network: nn.Sequential) -> None:
        """One check."""
        inside, outside = (errors(network, *samples)[:, 0] for samples in (self.inside, self.outside))
        self.solved[self.solved.isnan() & (outside < self.limit)] = float(step)
        better = inside < self.least
        self.least[better], self.error[better] = inside[better], outside[better]
        self.sparse[better] = sparsity(network).cpu()[better]


def train_published(
    network: nn.Sequential,
    data: Data,
    how: Setting,
    test: tuple[Tensor, Tensor],
    limit: Tensor,
    source: torch.Generator,
    monitor: Monitor,
    device: str,
) -> Watched:
    """Adam under the sparsity regulariser, looked at as its authors do."""
    watched = Watched(data.draw(data.inside, how.points, source), test, limit)
    training = Training(how.steps, how.rate, anneal=how.anneal, watch_every=max(how.steps // how.checks, 1))
    train(
        network,
        lambda: data.draw(data.inside, how.batch, source),
        training,
        monitor,
        name=f"{layers(network)[1].name} {data.task}",
        device=device,
        watch=lambda step, _loss: watched.look(step, network),
        penalty=lambda step: how.weight(step, how.growth) * regulariser(network),
    )
    return watched


def train_ours(
    model: str, data: Data, how: Setting, source: torch.Generator, monitor: Monitor, device: str
) -> tuple[nn.Sequential, Tensor]:
    """Adam, then Levenberg-Marquardt, from new weights for the runs that have not fitted; fewest hidden units first.

    Returns:
        The best start of every run, its idle units with weights 0, and the Adam steps it came after.
    """
    runs, inputs = data.chosen.shape[:2]
    final = two_layers(model, inputs, runs, source, hidden=how.hidden)
    least = torch.full((runs,), torch.inf, dtype=torch.float64)
    taken = torch.zeros(runs, dtype=torch.float64)
    # A product of a single unit is a sum, so that two are the fewest.
    tries = [(width, start) for width in range(2, how.hidden + 1) for start in range(1, how.starts + 1)]
    for count, (width, start) in enumerate(tries, start=1):
        left = (least > how.fitted).nonzero()[:, 0]
        if not len(left):
            break
        part = replace(data, chosen=data.chosen[left])
        network = two_layers(model, inputs, len(left), source, clip=False, hidden=width)
        missed = _fit_once(network, part, how, source, monitor, f"{model} of {width}, start {start}", device)
        better = missed < least[left]
        least[left[better]] = missed[better]
        taken[left[better]] = float(count * how.our_steps)
        embed(network, better.nonzero()[:, 0], final, left[better])
    return final, taken


def _fit_once(
    network: nn.Sequential, data: Data, how: Setting, source: torch.Generator, monitor: Monitor, name: str, device: str
) -> Tensor:
    """One start of every run, in place; the relative error that is left, [members]."""
    last = layers(network)[1]
    train(
        network,
        lambda: data.draw(data.inside, how.batch, source),
        Training(how.our_steps, how.our_rate, loss="relative", anneal=how.our_anneal),
        monitor,
        name=f"{name}: Adam",
        device=device,
        penalty=lambda s: how.weight(s / how.our_steps, how.our_growth) * last.regulariser(parameters_of(last)),
    )
    monitor.stage(f"{name}: Levenberg-Marquardt", len(how.wholes))
    x, y = data.draw(data.inside, how.refit_samples, source)
    x, weight = x.expand(len(y), -1, -1), torch.ones_like(y) / y.abs().mean(dim=1, keepdim=True)
    for i, whole in enumerate(how.wholes, start=1):
        refit(network, x, y, weight, how.refit_steps, how.refit_tolerance, whole)
        monitor.step(i)
    for unit in layers(network):
        for value in unit.parameters():
            value.data.copy_(value.data.round().clamp(-1.0, 1.0))
        unit.project_()
    with torch.no_grad():
        off: Tensor = ((network(x) - y) * weight).square().mean(dim=(-1, -2)).sqrt()
        return off.nan_to_num(torch.inf)


def two_layers(
    model: str, inputs: int, runs: int, source: torch.Generator, *, clip: bool = True, hidden: int = 2
) -> nn.Sequential:
    """An adding layer and that of the operation.

    Args:
        model: the second layer's unit; NALU, NAC and Linear are both layers.
        clip: whether the weights of NAU stay in [-1, 1], and begin within [-0.5, 0.5] as their authors' do.
        hidden: width between the layers.
    """
    base: dict[str, Any] = {"members": runs, "generator": source, "dtype": torch.float64}

    def nau(n_in: int, n_out: int) -> NAU:
        first = math.sqrt(6.0 / (n_in + n_out))
        return NAU(n_in, n_out, clip=clip, init_weight=glorot(min(1.0, FIRST_WEIGHT / first) if clip else 1.0), **base)

    make: dict[str, Callable[[], tuple[AbstractUnit, AbstractUnit]]] = {
        "NAC": lambda: (NAC(inputs, hidden, **base), NAC(hidden, 1, **base)),
        "Linear": lambda: (Linear(inputs, hidden, **base), Linear(hidden, 1, **base)),
        "NALU": lambda: (NALU(inputs, hidden, **base), NALU(hidden, 1, **base)),
        "NAU": lambda: (nau(inputs, hidden), nau(hidden, 1)),
        "MultiplicativeNAC": lambda: (NAC(inputs, hidden, **base), MultiplicativeNAC(hidden, 1, **base)),
        "NMU": lambda: (nau(inputs, hidden), authors_nmu(hidden, 1, **base)),
    }
    return nn.Sequential(*make[model]())


def authors_nmu(n_in: int, n_out: int, **base: Any) -> NMU:
    """An NMU whose weights begin where its authors' code has them."""
    return NMU(n_in, n_out, init_weight=MIDDLE, **base)


def subsets(task: str, runs: int, source: torch.Generator, inputs: int = INPUTS, overlap: float = OVERLAP) -> Tensor:
    """Which inputs the two sums take, [runs, inputs, 2] of zeros and ones.

    Args:
        inputs: how many there are; each sum takes a quarter.
        overlap: share of a sum's inputs that the other takes too.
    """
    if task == FOUR:
        pair = torch.tensor([[1, 1], [1, 1], [0, 1], [0, 1]], dtype=torch.float64)
        return pair.expand(runs, -1, -1).clone()
    size = round(inputs * SUBSET)
    shift = size - round(size * overlap)
    chosen = torch.zeros(runs, inputs, 2, dtype=torch.float64)
    for k in range(runs):
        begin = int(torch.randint(inputs - size - shift + 1, (1,), generator=source))
        chosen[k, begin : begin + size, 0] = 1.0
        chosen[k, begin + shift : begin + shift + size, 1] = 1.0
    return chosen


def threshold(task: str, x: Tensor, chosen: Tensor) -> Tensor:
    """Error of the exact solution whose weights are all off by 1e-5, [members]."""
    near = (1.0 - WEIGHT_ERROR) * chosen + WEIGHT_ERROR * (1.0 - chosen)
    sums = x @ near
    a, b = sums[..., :1], sums[..., 1:]
    if task in ("+", "-"):
        y = (1.0 - WEIGHT_ERROR) * OPERATIONS[task](a, b)
    else:
        y = (a * (1.0 - WEIGHT_ERROR) + WEIGHT_ERROR) * (b * (1.0 - WEIGHT_ERROR) + WEIGHT_ERROR)
    return (y - Data(task, chosen).targets(x)).square().mean(dim=(-1, -2))
