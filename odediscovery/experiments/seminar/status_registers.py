"""Neural Status Registers under three sweeps: lambda, redundancy, and real instead of whole inputs.

    B+ = tanh(lambda d),  B0 = 1 - 2 tanh(lambda d)^2,    lambda = 0.1, 0.3 ... 30

At lambda = 1 a difference of 0.5 has B0 = 0.57: it counts as none. Each of the six comparisons is
learned with every lambda and with 1, 2, 4 and 8 copies, from whole numbers -10 to 9, and with 8
copies from real numbers in that range, whose neighbours differ by 0.1 to 1; tested there and at
numbers up to 1e13 (reals to 1e6: beyond it differences of 0.1 lose their digits). All
lambdas are members of one batch: tanh(lambda d) is the bit of the inputs lambda x.

Source: Faber and Wattenhofer, Neural Status Registers (2020); the seminar, "Continuous Relaxation
and Floating Point Comparison", which prints no table of these sweeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from matplotlib import rc_context
from matplotlib.figure import Figure
from torch import Tensor, nn

from odediscovery.experiments.base import Arrays, Experiment, Plan, Ran, Row, markdown, number
from odediscovery.experiments.drawing import LOOK, STYLE, page
from odediscovery.experiments.pairs import HIGH, LOW, SIGNS, TASKS, equal_share, pairs, truth
from odediscovery.experiments.regression import Training, rows_of, train, uniform
from odediscovery.plots.figures import COLOURS
from odediscovery.runtime.monitor import Monitor
from odediscovery.units import NSR

SCALES = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
COPIES = (1, 2, 4, 8)
# Tested up to: whole numbers are exact in double precision there, and differences of reals nearly.
FAR = {"whole": 1e13, "real": 1e6}
# Smallest and largest difference of real neighbours.
NEAR = (0.1, 1.0)


@dataclass(frozen=True)
class Setting:
    """Runs are for each lambda; the other figures are those of `comparisons`, in fewer steps."""

    runs: int = 5
    steps: int = 3000
    batch: int = 128
    test: int = 4000
    rate: float = 0.05


FULL = Setting()
QUICK = replace(FULL, runs=2, steps=40, test=1000)


class StatusRegisters(Experiment):
    """Six comparisons by redundancy and kind of inputs; all lambdas are in one batch."""

    name = "status-registers"
    title = "Neural Status Registers: lambda, redundancy and real inputs (seminar)"

    def batches(self, plan: Plan) -> list[dict[str, str]]:
        settings = [("whole", copies) for copies in COPIES] + [("real", COPIES[-1])]
        return [
            {"inputs": inputs, "copies": str(copies), "task": task} for inputs, copies in settings for task in TASKS
        ]

    def run(self, plan: Plan, batch: dict[str, str], monitor: Monitor) -> tuple[list[Row], Arrays]:
        how, source, task = plan.pick(FULL, QUICK), plan.generator(batch), batch["task"]
        scale = torch.tensor(SCALES, dtype=torch.float64).repeat_interleave(how.runs)[:, None, None]
        network = nn.Sequential(
            NSR(2, 1, redundancy=int(batch["copies"]), members=len(scale), generator=source, dtype=torch.float64)
        )

        def draw() -> tuple[Tensor, Tensor]:
            x = drawn(batch["inputs"], how.batch, HIGH, equal_share(task), source)
            return scale * x, truth(task, x).expand(len(scale), -1, -1)

        training = Training(how.steps, how.rate)
        train(network, draw, training, monitor, name=" ".join(batch.values()), device=plan.device)
        columns: dict[str, Tensor] = {"lambda": scale.flatten()}
        for name, limit in (("train", HIGH), ("far", FAR[batch["inputs"]])):
            x = drawn(batch["inputs"], how.test, limit, 1 / 2, source)
            with torch.no_grad():
                right = (network(scale * x) > 0.5) == (truth(task, x) > 0.5)
            columns[f"accuracy {name}"] = right.to(torch.float64).mean(dim=(-1, -2))
        return rows_of(columns, training.row()), {}

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        rows = [
            [f"{r.batch['inputs']} numbers, {r.batch['copies']} copies, {SIGNS.get(r.batch['task'], r.batch['task'])}"]
            + [" / ".join(number(_mean(r, name, scale), 3) for name in ("train", "far")) for scale in SCALES]
            for r in ran
        ]
        text = markdown(("inputs, redundancy, task", *(f"lambda {number(s)}" for s in SCALES)), rows)
        bits = ", ".join(f"{number(zero_bit(0.5, s), 2)} at lambda {number(s)}" for s in SCALES)
        return (
            f"Accuracy in the training range / at 1e13 (real numbers: 1e6), mean of {len(ran[0].rows) // len(SCALES)} "
            f"runs.\n\n{text}\nThe zero bit of a difference of 0.5 is {bits} (published: 0.57 at 1).\n"
        )

    def figure(self, plan: Plan, ran: Sequence[Ran]) -> Figure:
        """Accuracy far outside over lambda: inequalities and equalities, a line a setting."""
        with rc_context(STYLE):
            figure = page()
            axes = figure.subplots(1, 2, sharey=True)
            for axis, tasks, title in ((axes[0], TASKS[:4], "inequalities"), (axes[1], TASKS[4:], "= and ≠")):
                for i, (inputs, copies) in enumerate([("whole", str(c)) for c in COPIES] + [("real", str(COPIES[-1]))]):
                    chosen = [r for r in ran if (r.batch["inputs"], r.batch["copies"]) == (inputs, copies)]
                    chosen = [r for r in chosen if r.batch["task"] in tasks]
                    if not chosen:
                        continue
                    y = [np.mean([_mean(r, "far", scale) for r in chosen]) for scale in SCALES]
                    named = f"{inputs}, {copies} {'copy' if copies == '1' else 'copies'}"
                    axis.plot(SCALES, y, "o-", color=COLOURS[i], label=named)
                axis.set(xscale="log", xlabel="lambda", title=title, ylim=LOOK.accuracies)
            axes[0].set_ylabel("accuracy far outside")
            axes[0].legend()
        return figure


def drawn(inputs: str, count: int, limit: float, equal: float, source: torch.Generator) -> Tensor:
    """Pairs [1, count, 2] of numbers: a part `equal` is equal, of the rest half are neighbours.

    Args:
        inputs: "whole" or "real".
        limit: largest of the numbers; those of training begin at -10, all others at -limit.
    """
    low = LOW if limit == HIGH else -limit
    if inputs == "whole":
        return pairs((1, count), round(low), round(limit), equal, source)
    first = uniform((1, count), low, limit, source)
    other = uniform((1, count), low, limit, source)
    kind = uniform((1, count), 0.0, 1.0, source)
    side = 2.0 * (uniform((1, count), 0.0, 1.0, source) < 0.5) - 1.0
    near = first + side * NEAR[0] * (NEAR[1] / NEAR[0]) ** uniform((1, count), 0.0, 1.0, source)
    second = torch.where(kind < equal, first, torch.where(kind < equal + (1.0 - equal) / 2, near, other))
    return torch.stack([first, second], dim=-1)


def zero_bit(difference: float, scale: float) -> float:
    """B0 = 1 - 2 tanh(lambda d)^2."""
    return float(1.0 - 2.0 * np.tanh(scale * difference) ** 2)


def _mean(r: Ran, name: str, scale: float) -> float:
    """Mean accuracy of the runs of one lambda."""
    return float(r.column(f"accuracy {name}")[r.column("lambda") == scale].mean())
