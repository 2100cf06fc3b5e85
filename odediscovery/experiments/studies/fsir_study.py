"""The fSIR grid as a study: 300 runs as the code ran or the paper prints, and our training beside them.

Batches: the hundred members of each model by the published recipe, a hundred random RealNPU and
NPU members by our training and pruning (each alone, no growing), and one member trained by
itself, whose pace shows how long 300 runs would take one after the other. What `discover` finds is
drawn twice: by its defaults, which grow this law, and by recipe `neural`, which trains networks. Quickly,
a few members are trained for a few steps, and the kept 300 runs show how such networks end.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.stats import ks_2samp

from odediscovery.bench.suites.success import WIDTHS, success_rate
from odediscovery.discovery.discover import discover
from odediscovery.experiments.base import Arrays, Experiment, Plan, Ran, Row, Stopped, find, markdown, number
from odediscovery.experiments.studies.fsir import (
    ERRORS,
    FULL,
    MODELS,
    QUICK,
    READABLE,
    UNSCALED,
    Point,
    Trained,
    fsir_series,
    heat_figures,
    julia_points,
    kept_points,
    pareto_figure,
    train_grid,
)
from odediscovery.networks.layers import Layer, Network
from odediscovery.result.discovery import Discovery
from odediscovery.runtime.monitor import Monitor
from odediscovery.search.published.recipes import RECIPES, random_members, train
from odediscovery.search.published.trajectories import Trajectories
from odediscovery.settings import settings_for

DEFAULT, ALONE = "default", "one member alone"
# Errors below it are drawn there: the axis begins at it.
LEAST = ERRORS[0]
# Error of a run that came near, and ends between which distributions of errors are compared.
NEAR, COMPARED = 0.05, (1e-9, 1e9)


@dataclass(frozen=True)
class Beside:
    """What is run beside the published grid.

    Args:
        each, widths, adam_steps: random members of ours, so many of each width, each pruned by itself.
        timed_steps: gradient steps of the member that is timed alone; its LBFGS steps are in proportion.
    """

    each: int = 20
    widths: tuple[int, ...] = WIDTHS
    adam_steps: int = FULL.gradient_steps
    timed_steps: int = 100


BESIDE = Beside()
QUICK_BESIDE = Beside(each=2, widths=(4,), adam_steps=120, timed_steps=2)
SHORT = dataclasses.replace(QUICK, gradient_steps=20, lbfgs_steps=5)


class FractionalSIR(Experiment):
    """Figs. 4 and 5: which network finds the fractional SIR model?"""

    name = "fsir"
    title = "Fractional SIR model (Figs. 4 and 5)"

    def batches(self, plan: Plan) -> list[dict[str, str]]:
        theirs = [{"recipe": plan.preset, "model": model} for model in reversed(MODELS)]
        # In quick mode one model of these is enough to show what they are.
        alone = [{"recipe": ALONE, "model": model} for model in reversed(MODELS)]
        ours = [{"recipe": DEFAULT, "model": model} for model in ("RealNPU", "NPU")]
        return [*theirs, *alone, *ours] if plan.full else [*theirs, alone[0], ours[0]]

    def run(self, plan: Plan, batch: dict[str, str], monitor: Monitor) -> tuple[list[Row], Arrays]:
        if batch["recipe"] == DEFAULT:
            return _ours(plan, batch["model"], monitor), {}
        if batch["recipe"] == ALONE:
            return [_timed(plan, batch["model"], monitor)], {}
        grid = FULL if plan.full else SHORT
        trained = train_grid(batch["model"], grid, plan.preset, plan.seed, monitor, plan.device)
        if monitor.stopping():
            raise Stopped
        rows: list[Row] = [
            {
                "hidden": t.width,
                "l1": t.l1,
                "parameters": t.point.parameters,
                "mse": t.point.mse,
                "gradient steps": grid.gradient_steps,
                "lbfgs steps": grid.lbfgs_steps,
            }
            for t in trained
        ]
        return rows, _weights(trained)

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        return "\n".join((_distributions(plan, ran), _default_table(ran), _time_table(plan, ran)))

    def figure(self, plan: Plan, ran: Sequence[Ran]) -> Figure:
        """Fig. 4: published runs, those of this package by the same recipe, and what `discover` grows."""
        return self._fronts(plan, ran, "default")

    def more_figures(self, plan: Plan, ran: Sequence[Ran]) -> dict[str, Figure]:
        """Fig. 4 with a trained network's law; Fig. 5: that network, and a readable RealNPU, quickly a kept one."""
        trained = [t for t in _trained(plan, ran) if t.point.model == "RealNPU"]
        ours, theirs = heat_figures(_answer(plan, "neural"), trained if plan.full and trained else None)
        return {
            "fsir-neural": self._fronts(plan, ran, "neural"),
            "fsir-network-neural": ours,
            f"fsir-network-{plan.preset}": theirs,
        }

    def _fronts(self, plan: Plan, ran: Sequence[Ran], recipe: str) -> Figure:
        alone = [
            Point(r.batch["model"], int(row["parameters"]), max(float(row["mse"]), LEAST))
            for r in ran
            if r.batch["recipe"] == DEFAULT
            for row in r.rows
        ]
        kept = plan.pick([], kept_points(plan.preset))
        return pareto_figure(_answer(plan, recipe), _trained(plan, ran), _how(plan), alone, kept)


@functools.cache
def _answer(plan: Plan, recipe: str) -> Discovery:
    """What `discover` says: some seconds, and the same every time."""
    return discover(fsir_series(), settings_for(recipe, seed=plan.seed, device=plan.device))


def _how(plan: Plan) -> str:
    """The published recipe, and in how few steps if these are too few to show how its networks end."""
    return plan.pick(plan.preset, f"{plan.preset}, {SHORT.gradient_steps} steps")


def _ours(plan: Plan, model: str, monitor: Monitor) -> list[Row]:
    how = plan.pick(BESIDE, QUICK_BESIDE)
    monitor.stage(f"{model}, default", 1)
    members = success_rate(
        how.each,
        plan.seed,
        lambda line: monitor.stage(f"{model}, default: {line}", 1),
        unit=model,
        sizes=how.widths,
        adam_steps=how.adam_steps,
        monitor=monitor,
        device=plan.device,
    )
    if monitor.stopping():
        raise Stopped
    return [
        {
            "hidden": m.hidden,
            "parameters": m.complexity,
            "mse": m.mse,
            "exact": int(m.exact),
            "exponents": repr(m.exponents),
        }
        for m in members
    ]


def _timed(plan: Plan, model: str, monitor: Monitor) -> Row:
    """Seconds that one run of the study's length takes alone, from some of its steps."""
    how, steps = RECIPES[plan.preset], plan.pick(BESIDE, QUICK_BESIDE).timed_steps
    series, seconds = fsir_series(), 0.0
    data = Trajectories.of(series, series.trajectories[0].values[:1], how.solver)
    for width in WIDTHS:
        settings = settings_for(
            plan.preset,
            seed=plan.seed,
            unit=model,
            members=1,
            adam_steps=steps,
            lbfgs_steps=max(steps * FULL.lbfgs_steps // FULL.gradient_steps, 1),
            device=plan.device,
        )
        began = time.perf_counter()
        train(random_members(model, series.n_states, [width], plan.seed, how), data, how, settings, monitor)
        seconds += (time.perf_counter() - began) / len(WIDTHS)
        if monitor.stopping():
            raise Stopped
    return {"timed steps": steps, "seconds a run": seconds * FULL.gradient_steps / steps}


def _weights(trained: Sequence[Trained]) -> Arrays:
    """Solutions of all members, and the layers of the best one and the best readable one."""
    arrays: Arrays = {"solutions": np.stack([t.solution for t in trained])}
    small = [k for k, t in enumerate(trained) if t.point.parameters <= READABLE]
    keep = {min(part, key=lambda k: trained[k].point.mse) for part in (small, range(len(trained))) if part}
    for k in keep:
        for i, layer in enumerate(trained[k].network.layers):
            for name, value in layer.arrays.items():
                arrays[f"{k}/{i}/{layer.unit}/{name}"] = value
    return arrays


def _trained(plan: Plan, ran: Sequence[Ran]) -> list[Trained]:
    """The members whose solutions can be drawn again; those without layers have empty ones."""
    again = []
    for r in ran:
        if r.batch["recipe"] != plan.preset:
            continue
        for k, row in enumerate(r.rows):
            point = Point(r.batch["model"], int(row["parameters"]), float(row["mse"]))
            again.append(Trained(point, int(row["hidden"]), float(row["l1"]), _network(r, k), r.arrays["solutions"][k]))
    return again


def _network(r: Ran, member: int) -> Network:
    layers: dict[tuple[int, str], dict[str, NDArray[np.float64]]] = {}
    for key, value in r.arrays.items():
        parts = key.split("/")
        if parts[0] == str(member):
            layers.setdefault((int(parts[1]), parts[2]), {})[parts[3]] = value
    built = []
    for (_, unit), arrays in sorted(layers.items()):
        outputs, inputs = arrays["real" if "real" in arrays else "weight"].shape
        built.append(Layer(unit, outputs, inputs, arrays))
    return Network(tuple(built), UNSCALED)


# Tables


def _distributions(plan: Plan, ran: Sequence[Ran]) -> str:
    """Share of runs below 0.05 and below 1, and the median, beside the 300 published points."""
    rows = []
    for model in reversed(MODELS):
        julia = np.array([p.mse for p in julia_points() if p.model == model])
        rows.append((f"{model}, Julia", *_shares(julia), "", ""))
        kept = [p.mse for p in kept_points(plan.preset) if p.model == model]
        r = find(ran, recipe=plan.preset, model=model)
        compared = {} if plan.full else {"kept runs": np.array(kept)}
        if r is not None:
            compared[_how(plan)] = np.nan_to_num(r.column("mse"), nan=np.inf)
        for name, own in compared.items():
            test = ks_2samp(*(np.log10(mse.clip(*COMPARED)) for mse in (own, julia)))
            rows.append((f"{model}, {name}", *_shares(own), number(test.statistic), number(test.pvalue)))
    return markdown(
        (
            "model",
            "runs",
            f"MSE < {NEAR}",
            "MSE < 1",
            "median MSE",
            "best MSE",
            "Kolmogorov-Smirnov distance to Julia's",
            "p",
        ),
        rows,
    )


def _shares(mse: NDArray[np.float64]) -> tuple[str, ...]:
    return (
        str(len(mse)),
        f"{(mse < NEAR).mean():.0%}",
        f"{(mse < 1).mean():.0%}",
        *(number(float(of(mse)), digits=3) for of in (np.median, np.min)),
    )


def _default_table(ran: Sequence[Ran]) -> str:
    ours = [r for r in ran if r.batch["recipe"] == DEFAULT]
    sizes = sorted({int(row["hidden"]) for r in ours for row in r.rows})
    rows = []
    for r in ours:
        exact, widths = r.column("exact"), r.column("hidden")
        rows.append(
            (
                f"{r.batch['model']}, ours",
                str(len(exact)),
                f"{exact.mean():.0%}",
                *(f"{exact[widths == h].sum():.0f} of {(widths == h).sum()}" for h in sizes),
            )
        )
    if not rows:
        return ""
    head = ("random members, each pruned alone", "members", "exactly the true monomials", *(f"h = {h}" for h in sizes))
    return markdown(head, rows)


def _time_table(plan: Plan, ran: Sequence[Ran]) -> str:
    """The batch against its members one after the other, in the same study."""
    rows = []
    for model in reversed(MODELS):
        batch, alone = (find(ran, recipe=recipe, model=model) for recipe in (plan.preset, ALONE))
        if batch is None or alone is None:
            continue
        grid = FULL if plan.full else SHORT
        single = float(alone.rows[0]["seconds a run"])
        single *= grid.gradient_steps / FULL.gradient_steps * len(batch.rows)
        rows.append((model, f"{batch.seconds:.0f} s", f"{single:.0f} s", number(single / batch.seconds)))
    if not rows:
        return ""
    return markdown(("model", "one batch", "one after the other, extrapolated", "ratio"), rows)
