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
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib import rc_context
from matplotlib.figure import Figure
from torch import Tensor, nn

from odediscovery.experiments.base import Arrays, Experiment, Plan, Ran, Row, find, markdown, wilson
from odediscovery.experiments.refit import refit
from odediscovery.experiments.regression import Training, errors, l1, regulariser, train
from odediscovery.plots.figures import COLOURS, STYLE, empty_figure
from odediscovery.runtime.monitor import Monitor
from odediscovery.units import NALU, NPU, RealNPU, iNALU

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
PUBLISHED = {"RealNPU": "70.2 % (85.3 % modified)", OURS: "91.6 % (NMRU, the best unit)"}
INPUTS, RUNS, STEPS, BATCH, TEST = 10, 25, 50_000, 128, 10_000
QUICK_RANGES, QUICK_RUNS, QUICK_STEPS = ("[1, 2]", "[-2, -1]"), 3, 100
# Ours: random starts a seed, Adam steps and rate, samples and most steps of the refit.
STARTS, OUR_STEPS, OUR_RATE, REFIT, REFIT_STEPS = 8, 600, 0.02, 512, 80
# A weight error of a solution that counts as exact.
EPSILON = 1e-5


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
        draw = torch.rand(len(self.chosen), count, INPUTS, generator=source, dtype=torch.float64)
        x = self.low + (self.high - self.low) * draw
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
        source = plan.generator(batch)
        names = [r for r in (RANGES if plan.full else QUICK_RANGES) for _ in range(RUNS if plan.full else QUICK_RUNS)]
        pairs = [torch.randperm(INPUTS, generator=source)[:2] for _ in names]
        empty = torch.zeros(len(names), 1, 1)
        data = Data(empty, empty, torch.stack(pairs)).within([RANGES[n][0] for n in names])
        if batch["model"] == OURS:
            steps = OUR_STEPS if plan.full else QUICK_STEPS
            network = _train_ours(data, steps, source, monitor, plan.device)
        else:
            steps = STEPS if plan.full else QUICK_STEPS
            network = _train_published(batch["model"], data, steps, source, monitor, plan.device)
        # Two test ranges or twice the same one.
        outside = [(o[0], o[-1]) for o in (RANGES[n][1] for n in names)]
        test = torch.cat([data.within([o[k] for o in outside]).draw(TEST // 2, source)[0] for k in (0, 1)], dim=1)
        tested = errors(network, test, data.quotients(test))[:, 0]
        limit = _threshold(test, data)
        return [
            {
                "range": names[k],
                "success": int(tested[k] < limit[k]),
                "test mse": float(tested[k]),
                "threshold": float(limit[k]),
                "steps": steps,
            }
            for k in range(len(names))
        ], {}

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        ranges = list(RANGES if plan.full else QUICK_RANGES)
        rows = []
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
        ranges = list(RANGES if plan.full else QUICK_RANGES)
        with rc_context(STYLE):
            figure = empty_figure(11, 4.8)
            axis = figure.subplots()
            width = 0.8 / len(MODELS)
            for i, (colour, model) in enumerate(zip(COLOURS, MODELS, strict=False)):
                r = find(ran, model=model)
                if r is not None:
                    place = np.arange(len(ranges)) + (i - len(MODELS) / 2 + 0.5) * width
                    axis.bar(place, _rates(r, ranges), width, color=colour, label=model)
            axis.axhline(0.702, color="#707070", ls="--", label="RealNPU, published average")
            axis.set_xticks(range(len(ranges)), ranges)
            axis.set(ylabel="success rate", ylim=(0, 1.02), xlabel="training range")
            axis.legend(ncols=6, loc="lower center", bbox_to_anchor=(0.5, 1.0))
        return figure


def _rates(r: Ran, ranges: Sequence[str]) -> list[float]:
    won = [[int(row["success"]) for row in r.rows if row["range"] == x] for x in ranges]
    return [float(np.mean(part)) for part in won]


def _threshold(x: Tensor, data: Data) -> Tensor:
    """Test error of the exact solution with all weights off by 1e-5, [members]."""
    exponents = torch.full((len(x), INPUTS), EPSILON, dtype=x.dtype)
    exponents.scatter_(1, data.chosen[:, :1], 1.0 - EPSILON)
    exponents.scatter_(1, data.chosen[:, 1:], -1.0 + EPSILON)
    near = (torch.log(x.abs()) * exponents[:, None, :]).sum(dim=-1).exp()
    return (near - data.quotients(x).abs()[..., 0]).square().mean(dim=1)


def _train_published(
    model: str, data: Data, steps: int, source: torch.Generator, monitor: Monitor, device: str
) -> nn.Sequential:
    """Adam, rate 5e-3; L1 that grows tenfold every 10 000 steps from 1e-11 to 1e-9."""
    units: dict[str, Any] = {"RealNPU": RealNPU, "NPU": NPU, "NALU": NALU, "iNALU": iNALU}
    network = nn.Sequential(units[model](INPUTS, 1, members=len(data.chosen), generator=source))

    def penalty(step: int) -> Tensor:
        if model == "iNALU":
            return 1e-5 * regulariser(network) * (2 * step >= steps)
        return min(1e-11 * 10.0 ** (step // 10_000), 1e-9) * l1(network)

    train(
        network,
        lambda: data.draw(BATCH, source),
        Training(steps, 5e-3, project=False),
        monitor,
        name=model,
        device=device,
        penalty=penalty,
    )
    return network


def _train_ours(data: Data, steps: int, source: torch.Generator, monitor: Monitor, device: str) -> nn.Sequential:
    """The best of several starts, each trained by Adam and refitted; gates are 1 throughout."""
    members = len(data.chosen)
    many = Data(*(part.repeat_interleave(STARTS, dim=0) for part in (data.low, data.high, data.chosen)))
    unit = RealNPU(INPUTS, 1, members=members * STARTS, generator=source)
    unit.gate.data.fill_(1.0)
    unit.gate.requires_grad_(False)
    train(
        nn.Sequential(unit),
        lambda: many.draw(BATCH, source),
        Training(steps, OUR_RATE, loss="relative"),
        monitor,
        name=OURS,
        device=device,
    )
    monitor.stage("Levenberg-Marquardt", 1)
    # Relative residuals (y_hat - y) / (|y| + median |y|).
    x, y = many.draw(REFIT, source)
    weight = 1.0 / (y.abs() + y.abs().median(dim=1, keepdim=True).values)
    left = refit(nn.Sequential(unit), x, y, weight, REFIT_STEPS, tolerance=1e-9)
    best = torch.arange(members) * STARTS + left.reshape(members, STARTS).argmin(dim=1)
    final = RealNPU(INPUTS, 1, members=members)
    final.real.data.copy_(unit.real.data[best])
    final.gate.data.fill_(1.0)
    return nn.Sequential(final)
