"""Division with redundant inputs: y = x_i / x_j out of ten inputs, by one unit.

Nine ranges of inputs times 25 seeds are the members of one batch. Success: the test error (MSE)
lies below that of the exact solution whose weights are all off by 1e-5. The published training
is Adam at a rate of 5e-3 for 50 000 steps under an L1 norm that grows from 1e-11 to 1e-9. Ours,
the same for every range, is the schedule of this package's fits: several random starts a seed,
Adam, then Levenberg-Marquardt without penalty, and the start with the least training error.

Source: Mistry, Farrahi, Hare, Learning division with neural arithmetic logic modules (2021).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from matplotlib import rc_context
from matplotlib.figure import Figure
from torch import Tensor, nn

from odediscovery.experiments.base import Arrays, Experiment, Plan, Ran, Row, find, markdown, wilson
from odediscovery.experiments.drawing import LOOK, STYLE, aside, page
from odediscovery.experiments.refit import refit
from odediscovery.experiments.regression import (
    WEIGHT_ERROR,
    Training,
    errors,
    grown_tenfold,
    inalu_penalty,
    l1,
    relative_scale,
    rows_of,
    train,
    uniform,
)
from odediscovery.plots.figures import COLOURS, MUTED
from odediscovery.runtime.monitor import Monitor
from odediscovery.units import UNITS, RealNPU

Range = tuple[float, float]
# Training range and the test ranges beside it.
RANGES: dict[str, tuple[Range, tuple[Range, ...]]] = {
    "[-20, -10]": ((-20, -10), ((-40, -20),)),
    "[-2, -1]": ((-2, -1), ((-6, -2),)),
    "[-1.2, -1.1]": ((-1.2, -1.1), ((-6.1, -1.2),)),
    "[-0.2, -0.1]": ((-0.2, -0.1), ((-2, -0.2),)),
    "[-2, 2]": ((-2, 2), ((-6, -2), (2, 6))),
    "[0.1, 0.2]": ((0.1, 0.2), ((0.2, 2),)),
    "[1, 2]": ((1, 2), ((2, 6),)),
    "[1.1, 1.2]": ((1.1, 1.2), ((1.2, 6),)),
    "[10, 20]": ((10, 20), ((20, 40),)),
}
OURS = "RealNPU, ours"
MODELS = (OURS, "RealNPU", "NPU", "NALU", "iNALU")
# Average success over all ranges (Mistry et al.); of the others there are figures only.
PUBLISHED_RATE = 0.702
PUBLISHED = {"RealNPU": "70.2 % (85.3 % modified)", OURS: "91.6 % (NMRU, the best unit)"}
INPUTS = 10


@dataclass(frozen=True)
class Setting:
    """Mistry et al., Table 1 and Appendix; fields named `our` belong to the schedule of this package.

    Args:
        ranges: training ranges that are run.
        runs: seeds of each range.
        test: samples of the test.
        l1: weight of the L1 norm at the beginning and at the end, see `grown_tenfold`.
        starts: random starts of each of our runs.
        refit_samples, refit_steps: of the Levenberg-Marquardt refit.
    """

    ranges: tuple[str, ...] = tuple(RANGES)
    runs: int = 25
    steps: int = 50_000
    batch: int = 128
    test: int = 10_000
    rate: float = 5e-3
    l1: tuple[float, float] = (1e-11, 1e-9)
    starts: int = 8
    our_steps: int = 600
    our_rate: float = 0.02
    refit_samples: int = 512
    refit_steps: int = 80
    refit_tolerance: float = 1e-9


FULL = Setting()
QUICK = replace(FULL, ranges=("[1, 2]", "[-2, -1]"), runs=3, steps=100, our_steps=100)


@dataclass(frozen=True, eq=False)
class Data:
    """Inputs and pairs of all members.

    Args:
        low, high: training range of every member, [members, 1, 1].
        chosen: indices of numerator and denominator, [members, 2].
    """

    low: Tensor
    high: Tensor
    chosen: Tensor

    def draw(self, count: int, source: torch.Generator) -> tuple[Tensor, Tensor]:
        """x [members, count, inputs] and x_i / x_j [members, count, 1]."""
        x = uniform((len(self.chosen), count, INPUTS), self.low, self.high, source)
        return x, self.quotients(x)

    def quotients(self, x: Tensor) -> Tensor:
        """x_i / x_j of every member's own pair, [members, batch, 1]."""
        pair = x.gather(2, self.chosen[:, None, :].expand(-1, x.shape[1], 2))
        return pair[..., :1] / pair[..., 1:]

    def within(self, ranges: Sequence[Range]) -> Data:
        """The same pairs with other ranges, one a member."""
        edges = torch.tensor(ranges, dtype=torch.float64)
        return Data(edges[:, 0, None, None], edges[:, 1, None, None], self.chosen)


class Division(Experiment):
    """Nine ranges, 25 seeds; the published training and ours."""

    name = "division"
    title = "Division with ten inputs: success rate over nine ranges"

    def batches(self, plan: Plan) -> list[dict[str, str]]:
        return [{"model": model} for model in MODELS]

    def run(self, plan: Plan, batch: dict[str, str], monitor: Monitor) -> tuple[list[Row], Arrays]:
        source, how = plan.generator(batch), plan.pick(FULL, QUICK)
        names = [name for name in how.ranges for _ in range(how.runs)]
        pairs = [torch.randperm(INPUTS, generator=source)[:2] for _ in names]
        empty = torch.zeros(len(names), 1, 1)
        data = Data(empty, empty, torch.stack(pairs)).within([RANGES[n][0] for n in names])
        if batch["model"] == OURS:
            network, steps = _train_ours(data, how, source, monitor, plan.device), how.our_steps
        else:
            network = _train_published(batch["model"], data, how, source, monitor, plan.device)
            steps = how.steps
        # Two test ranges or twice the same one.
        outside = [(o[0], o[-1]) for o in (RANGES[n][1] for n in names)]
        test = torch.cat([data.within([o[k] for o in outside]).draw(how.test // 2, source)[0] for k in (0, 1)], dim=1)
        tested = errors(network, test, data.quotients(test))[:, 0]
        limit = _threshold(test, data)
        columns = {"range": names, "success": (tested < limit).int(), "test mse": tested, "threshold": limit}
        return rows_of(columns, {"steps": steps}), {}

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        rows, ranges = [], plan.pick(FULL, QUICK).ranges
        for r in ran:
            won = r.column("success")
            low, high = wilson(int(won.sum()), len(won))
            rows.append(
                (
                    r.batch["model"],
                    PUBLISHED.get(r.batch["model"], "-"),
                    f"{won.mean():.1%}",
                    f"{low:.0%} to {high:.0%}",
                    *(f"{rate:.0%}" for rate in _rates(r, ranges)),
                    f"{r.seconds:.0f}",
                )
            )
        head = ("model", "published average", "success", "95 % interval", *ranges, "seconds")
        return markdown(head, rows)

    def figure(self, plan: Plan, ran: Sequence[Ran]) -> Figure:
        """Success rate of every model in every range."""
        ranges = plan.pick(FULL, QUICK).ranges
        with rc_context(STYLE):
            figure = page()
            axis = figure.subplots()
            width = LOOK.group / len(MODELS)
            for i, (colour, model) in enumerate(zip(COLOURS, MODELS, strict=False)):
                r = find(ran, model=model)
                if r is not None:
                    place = np.arange(len(ranges)) + aside(i, len(MODELS))
                    axis.bar(place, _rates(r, ranges), width, color=colour, label=model)
            axis.axhline(PUBLISHED_RATE, color=MUTED, ls="--", label="RealNPU, published average")
            axis.set_xticks(range(len(ranges)), ranges)
            axis.set(ylabel="success rate", ylim=(0.0, LOOK.shares[1]), xlabel="training range")
            figure.legend(loc="outside upper center", ncols=len(MODELS) + 1)
        return figure


def _rates(r: Ran, ranges: Sequence[str]) -> list[float]:
    won = [[int(row["success"]) for row in r.rows if row["range"] == x] for x in ranges]
    return [float(np.mean(part)) for part in won]


def _threshold(x: Tensor, data: Data) -> Tensor:
    """Test error of the exact solution with all weights off by 1e-5, [members]."""
    exponents = torch.full((len(x), INPUTS), WEIGHT_ERROR, dtype=x.dtype)
    exponents.scatter_(1, data.chosen[:, :1], 1.0 - WEIGHT_ERROR)
    exponents.scatter_(1, data.chosen[:, 1:], -1.0 + WEIGHT_ERROR)
    near = (torch.log(x.abs()) * exponents[:, None, :]).sum(dim=-1).exp()
    return (near - data.quotients(x).abs()[..., 0]).square().mean(dim=1)


def _train_published(
    model: str, data: Data, how: Setting, source: torch.Generator, monitor: Monitor, device: str
) -> nn.Sequential:
    """Adam at a constant rate, under an L1 norm that grows."""
    unit: Any = UNITS[model]
    network = nn.Sequential(unit(INPUTS, 1, members=len(data.chosen), generator=source, dtype=torch.float64))

    def penalty(step: int) -> Tensor:
        if model == "iNALU":
            return inalu_penalty(network, step, how.steps)
        return grown_tenfold(step, *how.l1) * l1(network)

    train(
        network,
        lambda: data.draw(how.batch, source),
        Training(how.steps, how.rate, project=False),
        monitor,
        name=model,
        device=device,
        penalty=penalty,
    )
    return network


def _train_ours(data: Data, how: Setting, source: torch.Generator, monitor: Monitor, device: str) -> nn.Sequential:
    """The best of several starts, each trained by Adam and refitted; gates are 1 throughout."""
    members, starts = len(data.chosen), how.starts
    many = Data(*(part.repeat_interleave(starts, dim=0) for part in (data.low, data.high, data.chosen)))
    unit = RealNPU(INPUTS, 1, members=members * starts, generator=source, dtype=torch.float64)
    unit.gate.data.fill_(1.0)
    unit.gate.requires_grad_(False)
    train(
        nn.Sequential(unit),
        lambda: many.draw(how.batch, source),
        Training(how.our_steps, how.our_rate, loss="relative"),
        monitor,
        name=OURS,
        device=device,
    )
    monitor.stage("Levenberg-Marquardt", 1)
    x, y = many.draw(how.refit_samples, source)
    weight = 1.0 / relative_scale(y)
    left = refit(nn.Sequential(unit), x, y, weight, how.refit_steps, tolerance=how.refit_tolerance)
    best = torch.arange(members) * starts + left.reshape(members, starts).argmin(dim=1)
    final = RealNPU(INPUTS, 1, members=members, dtype=torch.float64)
    final.real.data.copy_(unit.real.data[best])
    final.gate.data.fill_(1.0)
    return nn.Sequential(final)
