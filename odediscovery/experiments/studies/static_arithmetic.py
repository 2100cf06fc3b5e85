"""Sums, differences and products of two subset sums of a hundred inputs (slides, Table 2).

    a, b = sums of two overlapping subsets of x;    t = a + b,  a - b,  a b
    and of four inputs:    t = (x1 + x2)(x1 + x2 + x3 + x4)

A network has two layers, an adding one and that of the operation. As in the authors' evaluation, a
run is judged at the check where its error on fresh samples of the training range [1, 2] is least: it
succeeds if its error (MSE) on [2, 6] is below that of the exact solution whose weights are all off by
1e-5 there, and that is where its sparsity error, max min(|W|, |1 - |W||), is taken; solved-at is the
first check whose error on [2, 6] is. The authors trained 100 seeds at a rate of 1e-3, 5e6 steps in
which the regulariser grows from the millionth to the two millionth, on four inputs 2e5 without it.
Here it is 50 seeds and the first of these steps, before the regulariser is on: 20 000 or 100 000 where
the authors' median run is solved within them, else 2000, which show a beginning and no more. First
weights of NAU are Glorot's; the authors' are at most 0.5, which differs where inputs are few.

Ours, for NAU and NMU: 1000 Adam steps on relative errors, the second layer's regulariser growing over
the second fifth, then Levenberg-Marquardt on 400 samples, in which every weight w has a residual
w (1 - w^2) of its own that counts more and more, and rounding to weights that the unit may have. A
run whose rounded weights have not fitted the samples begins anew, eight times at most.

Source: Madsen and Johansen, Neural Arithmetic Units (ICLR 2020), Table 2 and Sec. 4.1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from matplotlib import rc_context
from matplotlib.figure import Figure

from odediscovery.experiments.base import Arrays, Experiment, Plan, Ran, Row, markdown, number, wilson
from odediscovery.experiments.drawing import LOOK, STYLE, page
from odediscovery.experiments.regression import rows_of
from odediscovery.experiments.subset_sums import (
    FOUR,
    OPERATIONS,
    Data,
    Setting,
    Watched,
    subsets,
    threshold,
    train_ours,
    train_published,
    two_layers,
)
from odediscovery.plots.figures import COLOURS
from odediscovery.runtime.monitor import Monitor

OURS = ", ours"


@dataclass(frozen=True)
class StaticSetting(Setting):
    """That of the task, with other steps of the published training where `steps` do not fit.

    Args:
        more_steps: where the authors' median run needs them and no more.
        few_steps: where it needs even more: a beginning.
    """

    more_steps: int = 100_000
    few_steps: int = 2_000


FULL = StaticSetting()
QUICK = replace(FULL, runs=3, steps=40, our_steps=200)
# Success rate, median solved-at step and sparsity error of 100 seeds.
PUBLISHED: dict[tuple[str, str], tuple[str, str, str]] = {
    ("NAC", "+"): ("100 %", "2.5e5", "0.23"),
    ("Linear", "+"): ("100 %", "6.1e4", "0.25"),
    ("NALU", "+"): ("14 %", "1.5e6", "0.17"),
    ("NAU", "+"): ("100 %", "1.8e4", "3.2e-5"),
    ("NAC", "-"): ("100 %", "9.0e3", "0.23"),
    ("Linear", "-"): ("7 %", "3.3e6", "0.18"),
    ("NALU", "-"): ("14 %", "1.9e6", "0.21"),
    ("NAU", "-"): ("100 %", "5.0e3", "0.066"),
    ("MultiplicativeNAC", "×"): ("31 %", "2.8e6", "5.8e-4"),
    ("NALU", "×"): ("0 %", "-", "-"),
    ("NMU", "×"): ("98 %", "1.4e6", "4.2e-7"),
    ("MultiplicativeNAC", FOUR): ("13 %", "5.5e4", "7.5e-6"),
    ("NALU", FOUR): ("26 %", "7.0e4", "9.2e-6"),
    ("NMU", FOUR): ("94 %", "1.4e4", "2.6e-8"),
}


class StaticArithmetic(Experiment):
    """Every published pair of unit and operation; the seeds are members."""

    name = "static-arithmetic"
    title = "Static arithmetic (slides, Table 2)"

    def batches(self, plan: Plan) -> list[dict[str, str]]:
        ours = [(model + OURS, task) for model, task in PUBLISHED if model in ("NAU", "NMU")]
        # What a moment settles comes first.
        published = sorted(PUBLISHED, key=lambda key: (steps_of(*key) != FULL.steps, key[1] != FOUR, steps_of(*key)))
        return [{"model": model, "task": task} for model, task in ours + published]

    def run(self, plan: Plan, batch: dict[str, str], monitor: Monitor) -> tuple[list[Row], Arrays]:
        model, task = batch["model"].removesuffix(OURS), batch["task"]
        how = plan.pick(replace(FULL, steps=steps_of(model, task)), QUICK)
        source = plan.generator(batch)
        data = Data(task, subsets(task, how.runs, source))
        network = two_layers(model, data.chosen.shape[1], how.runs, source)
        test = data.draw(data.outside, how.points, source)
        limit = threshold(task, test[0], data.chosen)
        if model == batch["model"]:
            steps, rate = how.steps, how.rate
            watched = train_published(network, data, how, test, limit, source, monitor, plan.device)
        else:
            steps, rate = how.our_steps, how.our_rate
            network, taken = train_ours(model, data, how, source, monitor, plan.device)
            watched = Watched(data.draw(data.inside, how.points, source), test, limit)
            watched.look(0, network)
            watched.solved = torch.where(watched.won, taken, torch.nan)
        columns = {
            "success": watched.won.int(),
            "solved at": watched.solved,
            "sparsity error": watched.sparse,
            "test mse": watched.error,
            "threshold": limit,
        }
        return rows_of(columns, {"steps": steps, "rate": rate}), {}

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        rows = []
        for r in sorted(ran, key=lambda r: (list(PUBLISHED).index(_key(r)), *r.batch.values())):
            won = r.column("success")
            low, high = wilson(int(won.sum()), len(won))
            solved = r.column("solved at")[won > 0]
            sparse = r.column("sparsity error")[won > 0]
            rate, step, error = PUBLISHED[_key(r)]
            rows.append(
                (
                    f"{r.batch['model']} {r.batch['task']}",
                    rate,
                    f"{won.mean():.0%} ({low:.0%} to {high:.0%})",
                    str(r.rows[0]["steps"]),
                    step,
                    number(float(np.median(solved))) if len(solved) else "-",
                    error,
                    number(float(sparse.mean())) if len(sparse) else "-",
                    f"{r.seconds:.0f}",
                )
            )
        return markdown(
            (
                "model and task",
                "success, published (100 seeds; 5e6 steps, 2e5 on four inputs)",
                f"success, ours ({len(ran[0].rows)} seeds; 95 %)",
                "our steps",
                "solved at, published",
                "solved at, ours (median)",
                "sparsity error, published",
                "sparsity error, ours (mean)",
                "seconds",
            ),
            rows,
        )

    def figure(self, plan: Plan, ran: Sequence[Ran]) -> Figure:
        """Share of runs that are solved, over the steps."""
        colours = dict(zip(("NAU", "NMU", "NAC", "MultiplicativeNAC", "NALU", "Linear"), COLOURS, strict=False))
        with rc_context(STYLE):
            figure = page(rows=2)
            for axis, task in zip(figure.subplots(2, 2).flat, OPERATIONS, strict=True):
                for r in (r for r in ran if r.batch["task"] == task):
                    model = r.batch["model"]
                    solved = np.sort(np.nan_to_num(r.column("solved at"), nan=np.inf))
                    done = solved[np.isfinite(solved)]
                    steps = float(r.rows[0]["steps"])
                    axis.step(
                        np.append(np.insert(done, 0, 0.0), steps),
                        np.append(np.arange(len(done) + 1), len(done)) / len(solved),
                        where="post",
                        label=model,
                        color=colours[model.removesuffix(OURS)],
                        ls="--" if model.endswith(OURS) else "-",
                    )
                axis.set(title=task, xlabel="step", ylabel="share solved", ylim=LOOK.shares)
                if axis.lines:
                    axis.legend()
        return figure


def steps_of(model: str, task: str) -> int:
    """Steps of the published training that are run, by those after which the authors' median run is solved."""
    solved = PUBLISHED[model, task][1]
    median = math.inf if solved == "-" else float(solved)
    return next((steps for steps in (FULL.steps, FULL.more_steps) if median <= steps), FULL.few_steps)


def _key(r: Ran) -> tuple[str, str]:
    return r.batch["model"].removesuffix(OURS), r.batch["task"]
