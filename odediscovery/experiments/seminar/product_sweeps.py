"""Products of two sums when hidden size, inputs, overlap or range change; units with a gate between them.

    t = a b,  a, b sums of two overlapping subsets of the inputs (`static-arithmetic`)

One parameter at a time leaves its default: 2 hidden units, 100 inputs, overlap 1/2, trained on
[1, 2] and tested on [2, 6]. Beside it, on sums and products, a gate that may choose,

    y = g NAU(x) + (1 - g) NMU(x),    g = sigmoid(G x)

against the unit alone, what the slides call "gating does not converge consistently".

Source: Madsen and Johansen, Neural Arithmetic Units (ICLR 2020): Fig. 3, a figure without numbers,
whose ranges are those of its Appendix C.4; gating from Appendix C.5 (success of the gated pair: 37 %
on +, 62 % on ×). Verdicts are those of `static-arithmetic`; the published training is compressed, with the
regulariser that grows from the half to three quarters of the steps. Ours tries two hidden units first and more
where those do not fit; units that stay idle get weights of 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import sympy
import torch
from matplotlib import rc_context
from matplotlib.figure import Figure
from torch import Tensor, nn

from odediscovery.experiments.base import Arrays, Experiment, Plan, Ran, Row, find, markdown, number, wilson
from odediscovery.experiments.drawing import LOOK, STYLE, page
from odediscovery.experiments.regression import rows_of
from odediscovery.experiments.subset_sums import (
    INPUTS,
    MIDDLE,
    OVERLAP,
    Data,
    Setting,
    Watched,
    authors_nmu,
    subsets,
    threshold,
    train_ours,
    train_published,
    two_layers,
)
from odediscovery.plots.figures import COLOURS
from odediscovery.runtime.monitor import Monitor
from odediscovery.units import NAU, NMU, AbstractUnit
from odediscovery.units.base import Arrays as Weights
from odediscovery.units.base import Initialiser, Tensors, weighted_sum

OURS = "NMU, ours"
MODELS = (OURS, "NMU", "MultiplicativeNAC", "NALU")
SWEEPS: dict[str, tuple[str, ...]] = {
    "range": ("-2 to -1", "-2 to 2", "0 to 1", "0.1 to 0.2", "1 to 2", "10 to 20"),
    "overlap": ("0", "0.25", "0.5", "0.75", "1"),
    "inputs": ("4", "10", "50", "100", "200"),
    "hidden size": ("2", "4", "6", "8", "10"),
}
# Where the runs of a training range are tested.
OUTSIDE = {
    "-2 to -1": (-6.0, -2.0),
    "-2 to 2": (2.0, 6.0),
    "0 to 1": (1.0, 5.0),
    "0.1 to 0.2": (0.2, 2.0),
    "1 to 2": (2.0, 6.0),
    "10 to 20": (20.0, 40.0),
}
GATING = {("gated", "+"): "37 %", ("gated", "×"): "62 %", ("alone", "+"): "100 %", ("alone", "×"): "98 %"}
# The published 5e6 steps in 10 000: ten times the rate, which falls to 0 over the second half.
FULL = Setting(runs=10, steps=10_000, rate=1e-2, anneal=0.5, growth=(5000, 7500), checks=100, refit_steps=40)
QUICK = replace(
    FULL, runs=2, steps=10, growth=(5, 7.5), our_steps=30, starts=2, points=200, refit_samples=150, refit_steps=20
)


class Gated(AbstractUnit):
    """y = g NAU(x) + (1 - g) NMU(x), g = sigmoid(G x): a sum or a product, as a gate chooses.

    Source: the gated NAU/NMU of Madsen and Johansen (2020), Appendix C.5.
    """

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return dict.fromkeys(("sum", "product", "gate"), (self.n_out, self.n_in))

    def initialisers(self) -> Mapping[str, Initialiser]:
        return {"sum": "glorot", "product": MIDDLE, "gate": "glorot"}

    def compute(self, p: Tensors, x: Tensor) -> Tensor:
        sums, products = self._parts
        g = torch.sigmoid(x @ p["gate"].transpose(-1, -2))
        return g * sums.compute({"weight": p["sum"]}, x) + (1.0 - g) * products.compute({"weight": p["product"]}, x)

    def symbolic(self, p: Weights, x: Sequence[sympy.Expr]) -> list[sympy.Expr]:
        sums, products = self._parts
        gates = [1 / (1 + sympy.exp(-z)) for z in weighted_sum(p["gate"], x)]
        a, m = sums.symbolic({"weight": p["sum"]}, x), products.symbolic({"weight": p["product"]}, x)
        return [g * total + (1 - g) * times for g, total, times in zip(gates, a, m, strict=True)]

    def regulariser(self, p: Tensors) -> Tensor:
        """The sum of both units' own, [members]; the gate has none."""
        sums, products = self._parts
        return sums.regulariser({"weight": p["sum"]}) + products.regulariser({"weight": p["product"]})

    def project_(self) -> None:
        """Clip the weights of both units to their ranges."""
        own = dict(self.named_parameters())
        own["sum"].data.clamp_(-1.0, 1.0)
        own["product"].data.clamp_(0.0, 1.0)

    @cached_property  # not a child: its own parameters are not used
    def _parts(self) -> tuple[NAU, NMU]:
        return NAU(self.n_in, self.n_out, clip=True), authors_nmu(self.n_in, self.n_out)


class ProductSweeps(Experiment):
    """Four models along four parameters, and two units with and without a gate."""

    name = "product-sweeps"
    title = "Products when the task changes, and gates (slides, Fig. 3; Appendices C.4 and C.5)"

    def batches(self, plan: Plan) -> list[dict[str, str]]:
        values = {name: plan.pick(each, each[:1]) for name, each in SWEEPS.items()}
        sweeps = [
            {"sweep": name, "value": value, "model": model}
            for model in MODELS
            for name, each in values.items()
            for value in each
        ]
        return sweeps + [{"sweep": "gate", "value": task, "model": model} for model, task in GATING]

    def run(self, plan: Plan, batch: dict[str, str], monitor: Monitor) -> tuple[list[Row], Arrays]:
        how, source = plan.pick(FULL, QUICK), plan.generator(batch)
        data, hidden = posed(batch, how.runs, source)
        how = replace(how, hidden=hidden)
        test = data.draw(data.outside, how.points, source)
        limit = threshold(data.task, test[0], data.chosen)
        if batch["model"] == OURS:
            network, taken = train_ours("NMU", data, how, source, monitor, plan.device)
            watched = Watched(data.draw(data.inside, how.points, source), test, limit)
            watched.look(0, network)
            watched.solved = torch.where(watched.won, taken, torch.nan)
        else:
            network = _network(batch, data, how, source)
            watched = train_published(network, data, how, test, limit, source, monitor, plan.device)
        columns = {"success": watched.won.int(), "solved at": watched.solved, "test mse": watched.error}
        return rows_of(columns, {"steps": how.our_steps if batch["model"] == OURS else how.steps}), {}

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        text = f"Runs of {len(ran[0].rows)} that succeed; in parentheses the median step after which they do.\n"
        for name, values in SWEEPS.items():
            rows = []
            for value in values:
                cells = [_cell(find(ran, sweep=name, value=value, model=model)) for model in MODELS]
                if any(cell != "-" for cell in cells):
                    rows.append((f"{name} {value}", *cells))
            text += "\n" + markdown((name, *MODELS), rows)
        rows = []
        for (model, task), published in GATING.items():
            r = find(ran, sweep="gate", value=task, model=model)
            if r is not None:
                low, high = wilson(int(r.column("success").sum()), len(r.rows))
                named = f"{'gate of NAU and NMU' if model == 'gated' else 'NMU' if task == '×' else 'NAU'}, {task}"
                rows.append((named, published, _cell(r), f"{low:.0%} to {high:.0%}"))
        return text + "\n" + markdown(("second layer and task", "published (5e6 steps)", "ours", "95 %"), rows)

    def figure(self, plan: Plan, ran: Sequence[Ran]) -> Figure:
        """Success over each parameter, as Fig. 3 has it."""
        with rc_context(STYLE):
            figure = page(rows=2)
            for axis, (name, values) in zip(figure.subplots(2, 2, sharey=True).flat, SWEEPS.items(), strict=True):
                for i, model in enumerate(MODELS):
                    found = [find(ran, sweep=name, value=value, model=model) for value in values]
                    place = [k for k, r in enumerate(found) if r is not None]
                    share = [100.0 * float(r.column("success").mean()) for r in found if r is not None]
                    axis.plot(place, share, "o-", color=COLOURS[i], label=model)
                axis.set_xticks(range(len(values)), values)
                axis.set(title=name, ylabel="success, %", ylim=LOOK.per_cents)
            axis.legend()
        return figure


def posed(batch: dict[str, str], runs: int, source: torch.Generator) -> tuple[Data, int]:
    """The task of a batch and its hidden size; what is not swept has its default."""
    name, value = batch["sweep"], batch["value"]
    task = value if name == "gate" else "×"
    inputs = int(value) if name == "inputs" else INPUTS
    chosen = subsets(task, runs, source, inputs, float(value) if name == "overlap" else OVERLAP)
    hidden = int(value) if name == "hidden size" else FULL.hidden
    if name != "range":
        return Data(task, chosen), hidden
    low, high = map(float, value.split(" to "))
    return Data(task, chosen, (low, high), OUTSIDE[value]), hidden


def _network(batch: dict[str, str], data: Data, how: Setting, source: torch.Generator) -> nn.Sequential:
    inputs = data.chosen.shape[1]
    if batch["model"] == "gated":
        first = NAU(inputs, how.hidden, clip=True, members=how.runs, generator=source, dtype=torch.float64)
        return nn.Sequential(first, Gated(how.hidden, 1, members=how.runs, generator=source, dtype=torch.float64))
    model = {"+": "NAU", "×": "NMU"}[data.task] if batch["model"] == "alone" else batch["model"]
    return two_layers(model, inputs, how.runs, source, hidden=how.hidden)


def _cell(r: Ran | None) -> str:
    if r is None:
        return "-"
    won = r.column("success") > 0
    after = f" ({number(float(np.median(r.column('solved at')[won])))})" if won.any() else ""
    return f"{int(won.sum())}{after}"
