"""Sec. 4.1 of Neural Power Units: which network finds the fractional SIR model? (Figs. 4 and 5)

    S' = -r + eta R,    I' = r - alpha I,    R' = alpha I - eta R,    r = beta I^gamma S^kappa

The paper trains 100 dense nets, 100 NPUs and 100 RealNPUs and plots size against error. Here the same grid is trained
by a published recipe (all members of a model in one batch), and compared with the 300 points of the original Julia runs
and the laws found by `discover`. Errors of trained members are computed with the solver of the training, as in the
paper; those of found laws with the printed equations, integrated accurately.
"""

from __future__ import annotations

import csv
import functools
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from itertools import product
from typing import Any

import numpy as np
import torch
from matplotlib import rc_context
from matplotlib.figure import Figure
from scipy.stats import ks_2samp
from torch import Tensor

from odediscovery.bench.success import WIDTHS, success_rate
from odediscovery.data.series import Scale, TimeSeries
from odediscovery.discovery.discover import discover
from odediscovery.experiments.base import Arrays, Experiment, Job, Plan, Ran, Row, find, having
from odediscovery.experiments.figures import POINTS, STYLE, Cloud, fronts_figure
from odediscovery.experiments.tables import markdown, number
from odediscovery.laws.power_sum import PowerSum
from odediscovery.laws.systems import simulate_system
from odediscovery.networks.chain import Layer, Network, network_of
from odediscovery.networks.vector_field import VectorField
from odediscovery.plots.figures import weights_figure
from odediscovery.plots.heatmaps import mixed_inputs, network_figure
from odediscovery.result.discovery import Discovery, describe_chain
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import Monitor
from odediscovery.search.published import recipes
from odediscovery.settings import settings_for

MODELS = ("Dense", "NPU", "RealNPU")
COLOURS = {"Dense": "#E69F00", "NPU": "#56B4E9", "RealNPU": "#009E73"}
OUR_COLOURS = {"NPU": "#F0B28A", "RealNPU": "#A03C00"}
MARKERS = {"Dense": "s", "NPU": "^", "RealNPU": "o"}
# Limits of the axis of errors: some runs diverge, ours reach the integration error.
ERRORS = (1e-15, 1e4)
# Limits of the errors in the paper's Fig. 4.
CLOSER = (1e-2, 1e2)
# In a network with more parameters no single row is the transmission rate.
READABLE = 24
# Scale of networks in the units of the data.
UNSCALED = Scale(np.ones(3), 1.0)
NO_EXPONENTS: tuple[str, ...] = ("", "", "")
# Runs besides those of the published recipe.
DEFAULT, ALONE = "default", "one member alone"
# The plan of figures and tables without one.
AS_RUN = Plan()
# Error below which a run comes close, and limits to which errors are clipped when distributions are compared.
NEAR, COMPARED = 0.05, (1e-9, 1e9)


@dataclass(frozen=True)
class Grid:
    """The trained members, `runs` of every width and L1 weight, and the settings of the other runs."""

    widths: tuple[int, ...]
    l1: tuple[float, ...]
    runs: int
    gradient_steps: int
    lbfgs_steps: int
    each: int = 2  # our random members of each width, each pruned alone
    our_widths: tuple[int, ...] = (4,)
    adam_steps: int = 120
    timed_steps: int = 2  # gradient steps of the member that is timed alone; its LBFGS steps are in proportion

    @property
    def members(self) -> list[tuple[int, float]]:
        """(width, L1 weight) of every member."""
        return [(width, l1) for width in self.widths for l1 in self.l1 for _ in range(self.runs)]


FULL = Grid((6, 9, 12, 15, 20), (0.0, 0.01, 0.1, 1.0), 5, 3000, 1000, 20, WIDTHS, 3000, 100)
QUICK = Grid((6, 9), (0.01, 0.1), 1, 120, 40)


@dataclass(frozen=True)
class Point:
    """One model of Fig. 4: its name, number of parameters above 0.001 and mean squared error."""

    model: str
    parameters: int
    mse: float


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained member: its point, its width and L1 weight, its network and its solution."""

    point: Point
    width: int
    l1: float
    network: Network
    solution: Array


@functools.cache
def fsir_series() -> TimeSeries:
    """The 40 clean samples on [0, 200] of the paper."""
    return simulate_system("fsir")


def julia_points() -> list[Point]:
    """The 300 runs of the original Julia code, in the order they were stored."""
    return _points("julia_fsir_pareto.csv")


def kept_points(recipe: str = "as-run") -> list[Point]:
    """Load the 300 saved runs of the full grid in this package, to avoid training them again."""
    return _points("kept_fsir_runs.csv", recipe)


def _points(name: str, recipe: str | None = None) -> list[Point]:
    own = (row for row in csv.DictReader(_data(name).splitlines()) if row.get("recipe") == recipe)
    return [Point(row["model"], int(row["nonzero_parameters"]), float(row["mse"])) for row in own]


def _data(name: str) -> str:
    return (resources.files("odediscovery.experiments") / "data" / name).read_text(encoding="utf-8")


def train_grid(model: str, grid: Grid, plan: Plan = AS_RUN, monitor: Monitor | None = None) -> list[Trained]:
    """Train all members of a model's grid by the recipe of a plan; those that diverge have an infinite error."""
    widths, weights = zip(*grid.members, strict=True)
    steps, l1 = (grid.gradient_steps, grid.lbfgs_steps), torch.tensor(weights, dtype=torch.float64)
    field, data = _train(model, widths, steps, plan, monitor or Monitor(), l1)
    with torch.no_grad():
        errors = data.mse(field, field.theta).nan_to_num(torch.inf).tolist()
        solutions = data.solutions(field, field.theta)[0].numpy()
    sizes = recipes.count_parameters(field).tolist()
    return [
        Trained(Point(model, sizes[i], errors[i]), *grid.members[i], recipes.network(field, i), solutions[i])
        for i in range(field.members)
    ]


def _train(
    model: str, widths: Sequence[int], steps: tuple[int, int], plan: Plan, monitor: Monitor, l1: Tensor | None = None
) -> tuple[VectorField, recipes.Trajectories]:
    """Train random members of these widths by the recipe of a plan; return them with their data."""
    given = {"unit": model, "members": len(widths), "adam_steps": steps[0], "lbfgs_steps": steps[1]}
    settings = settings_for(plan.preset, seed=plan.seed, device=plan.device, **given)
    series, how = fsir_series(), recipes.RECIPES[plan.preset]
    data = recipes.Trajectories.of(series, series.trajectories[0].values[:1], how.solver)
    field = recipes.random_members(model, series.n_states, widths, plan.seed)
    return recipes.train(field, data, how, settings, monitor, l1), data


def best(trained: Sequence[Trained], model: str, most: int | None = None) -> Trained:
    """The member of a model with the smallest error, of those with at most `most` parameters if there are any."""
    own = [t for t in trained if t.point.model == model]
    small = [t for t in own if most is None or t.point.parameters <= most]
    return min(small or own, key=lambda t: t.point.mse)


def pareto_figure(
    found: Discovery,
    trained: Sequence[Trained],
    how: str = "as-run",
    alone: Sequence[Point] = (),
    kept: Sequence[Point] = (),
) -> Figure:
    """Draw Fig. 4: fronts of the Julia runs (pale), of `trained` and of `found`; data and curves."""
    whole = [t.point for t in trained if np.isfinite(t.point.mse)]
    clouds = _clouds(julia_points(), "Julia, {} runs", pale=True) + _clouds(kept, "{} kept runs")
    clouds += _clouds(whole, how + ", {} members", **({"marker": "X", "front": False} if kept else {}))
    for cloud in _clouds([p for p in alone if np.isfinite(p.mse)], "trained and pruned alone, {} members"):
        clouds.append(replace(cloud, colour=OUR_COLOURS[cloud.label.split(",")[0]], marker="v", front=False))
    sizes = np.array([row.complexity for row in found.front], float)
    errors = np.array([max(row.mse, ERRORS[0]) for row in found.front])
    star = next(i for i, row in enumerate(found.front) if row.selected)
    clouds.append(Cloud(source_of(found), "#D55E00", "D", sizes, errors, star=star))
    times = found.series.trajectories[0].time
    dense = np.linspace(times[0], times[-1], POINTS)
    curves = {source_of(found): (dense, found.simulate(times=dense))}
    if trained and not kept:
        nearest = min(trained, key=lambda t: t.point.mse)
        curves[f"best {nearest.point.model}, {how}"] = times, nearest.solution
    with rc_context(STYLE):
        return fronts_figure(clouds, found.series, curves, ERRORS, CLOSER)


def source_of(found: Discovery) -> str:
    """Label with the stage and the recipe that found a law."""
    stage = f"found by {found.found_by}, " if found.found_by else ""
    return f"{stage}recipe {found.settings.recipe}"


def _clouds(points: Sequence[Point], label: str, **look: Any) -> list[Cloud]:
    """Clouds of the points of each model, with their number in the label."""
    clouds = []
    for model in MODELS:
        own = [p for p in points if p.model == model]
        if own:
            sizes, errors = np.array([(p.parameters, p.mse) for p in own], float).T
            shown = {"colour": COLOURS[model], "marker": MARKERS[model], **look}
            clouds.append(Cloud(f"{model}, {label.format(len(own))}", parameters=sizes, errors=errors, **shown))
    return clouds


def kept_network() -> Network:
    """A sparse RealNPU -> NAU that the as-run recipe trained, in the units of the data."""
    layers = json.loads(_data("fsir_network.json"))["layers"]
    return _chain((each["unit"], {name: np.array(value) for name, value in each["arrays"].items()}) for each in layers)


def _chain(layers: Iterable[tuple[str, dict[str, Array]]]) -> Network:
    """Build a network, in the units of the data, from names and arrays of its layers."""
    made = []
    for unit, arrays in layers:
        outputs, inputs = arrays["real" if "real" in arrays else "weight"].shape
        made.append(Layer(unit, outputs, inputs, arrays))
    return Network(tuple(made), UNSCALED)


def heat_figures(found: Discovery, trained: Sequence[Trained] | None = None) -> tuple[Figure, Figure]:
    """Draw Fig. 5 in the units of the data: the chain of a law, and a readable RealNPU."""
    states, time = found.equations.states, found.series.time_name
    law = found.equations.power_sum
    chain = None if law is None else network_of(law, UNSCALED)
    ours = weights_figure(found) if chain is None else network_figure(chain, states, time, describe_chain(found))
    if trained is None:
        return ours, network_figure(kept_network(), states, time, "A kept RealNPU of recipe as-run")
    small = best(trained, "RealNPU", READABLE)
    told = f"RealNPU of {small.point.parameters} parameters, mean squared error {small.point.mse:.2g}"
    return ours, network_figure(small.network, states, time, told)


def comparison(
    answers: Sequence[Discovery], trained: Sequence[Trained] = (), how: str = "as-run", kept: Sequence[Point] = ()
) -> str:
    """Write laws of `discover`, the best runs of each model and the paper's exponents as a Markdown table."""
    rows: list[tuple[str, ...]] = [("truth", "13", "0", "0.5", "0.5", "1")]
    for found in answers:
        law = found.equations.power_sum
        exponents = [f"{w:.6f}" for w in _exponents(law)] if law else NO_EXPONENTS
        size = next(row.complexity for row in found.front if row.selected)
        rows.append((f"**`discover`**: {source_of(found)}", str(size), f"{found.mse:.2g}", *exponents))
    again = {t.point: t for t in trained if np.isfinite(t.point.mse)}
    sources = {"Julia": julia_points(), "kept runs of this package": kept, f"{how} in this package": [*again]}
    for model, (source, points) in product(reversed(MODELS), sources.items()):
        for what, p in _notable(points, model):
            beside, exponents = "", NO_EXPONENTS
            if source == "Julia" and (model, p.parameters) == ("RealNPU", 17):
                beside, exponents = " (Fig. 5 of the paper)", ("0.57", "0.62", "0.64")  # as printed
            elif points == [*again]:
                beside, exponents = _read(again[p])
            rows.append((f"{model}, {source}, {what}{beside}", str(p.parameters), f"{p.mse:.4f}", *exponents))
    head = ("model", "parameters", "MSE", "kappa (S)", "gamma (I)", "R")
    return markdown([dict(zip(head, row, strict=True)) for row in rows])


def _notable(points: Sequence[Point], model: str) -> list[tuple[str, Point]]:
    """The run of a model with the smallest error, and the sparsest one with an error below 1."""
    own = [p for p in points if p.model == model]
    found = {"best": min(own, key=lambda p: p.mse, default=None)}
    sparse = min((p for p in own if p.mse < 1.0), key=lambda p: (p.parameters, p.mse), default=None)
    if sparse != found["best"]:
        found["sparsest below MSE 1"] = sparse
    return [(what, p) for what, p in found.items() if p]


def _exponents(law: PowerSum) -> list[float]:
    """Exponents of S and I in the transmission rate, and of R where it stands alone."""
    weight = np.abs(law.coefficients).max(axis=0)
    infected = (law.exponents[:, :2] != 0).all(axis=1)
    alone = (law.exponents[:, 2] != 0) & (law.exponents[:, :2] == 0).all(axis=1)
    unknown = np.full(law.exponents.shape[1], np.nan)
    rate = law.exponents[np.argmax(weight * infected)] if infected.any() else unknown
    back = law.exponents[np.argmax(weight * alone)] if alone.any() else unknown
    return [float(rate[0]), float(rate[1]), float(back[2])]


def _read(member: Trained) -> tuple[str, tuple[str, ...]]:
    """Gates, if they mix inputs with 1, and exponents of a sparse RealNPU, empty for other members; exponents are read
    without the gates, as in the paper."""
    if member.point.model != "RealNPU" or member.point.parameters > READABLE:
        return "", NO_EXPONENTS
    power, total = member.network.layers
    gates = f" (gates {', '.join(f'{gate:.2f}' for gate in power.arrays['gate'])})" * bool(mixed_inputs(power))
    law = PowerSum(total.arrays["weight"], power.arrays["real"]).merged()
    return gates, tuple(f"{w:.2f}" if np.isfinite(w) else "" for w in _exponents(law))


class FractionalSIR(Experiment):
    """Figs. 4 and 5: 300 runs, as the code ran or the paper prints, compared with our training.

    Batches: the hundred members of each model by the published recipe; a hundred random RealNPU and NPU members by our
    training and pruning (each alone, no regression); single members trained alone, whose pace shows how long 300 runs
    would take one after the other. Two laws of `discover` are drawn, by its defaults and by recipe `neural`. In quick
    mode a few members are trained for a few steps, and the 300 kept runs show the results of full training.
    """

    name = "fsir"
    title = "Fractional SIR model (Figs. 4 and 5)"
    full, quick = FULL, replace(QUICK, gradient_steps=20, lbfgs_steps=5)

    def batches(self, plan: Plan) -> list[dict[str, str]]:
        theirs = [{"recipe": plan.preset, "model": model} for model in reversed(MODELS)]
        # In quick mode one model of each kind is enough.
        alone = [{"recipe": ALONE, "model": model} for model in reversed(MODELS)]
        ours = [{"recipe": DEFAULT, "model": model} for model in ("RealNPU", "NPU")]
        return [*theirs, *alone, *ours] if plan.full else [*theirs, alone[0], ours[0]]

    def run(self, job: Job) -> tuple[list[Row], Arrays]:
        recipe, model, grid = job.batch["recipe"], job.batch["model"], self.how(job.plan)
        plan, monitor = job.plan, job.monitor
        if recipe == ALONE:
            return [_timed(model, grid, job)], {}
        if recipe == DEFAULT:
            monitor.stage(job.name, 1)
            say = lambda line: monitor.stage(f"{job.name}: {line}", 1)  # noqa: E731
            how: dict[str, Any] = {"unit": model, "sizes": grid.our_widths, "adam_steps": grid.adam_steps}
            exact = success_rate(grid.each, plan.seed, say, **how, monitor=monitor, device=plan.device)
            job.check()
            return exact, {}
        trained = train_grid(model, grid, plan, monitor)
        job.check()
        steps: Row = {"gradient steps": grid.gradient_steps, "lbfgs steps": grid.lbfgs_steps}
        rows: list[Row] = [
            {"hidden": t.width, "l1": t.l1, "parameters": t.point.parameters, "mse": t.point.mse, **steps}
            for t in trained
        ]
        return rows, _weights(trained)

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        ours = having(ran, recipe=DEFAULT)
        sizes = sorted({int(row["hidden"]) for r in ours for row in r.rows})
        exact = (_exact_line(r, sizes) for r in ours)
        return "\n".join(map(markdown, (_distributions(plan, ran), exact, _times(self.how(plan), plan, ran))))

    def draw(self, plan: Plan, ran: Sequence[Ran]) -> Figure:
        """Draw Fig. 4: published runs, runs of this package by the same recipe, and the law that `discover` grows."""
        return self._fronts(plan, ran, "default")

    def more_figures(self, plan: Plan, ran: Sequence[Ran]) -> dict[str, Figure]:
        """Fig. 4 with a trained network's law; Fig. 5: this network and a readable RealNPU (kept if quick)."""
        trained = [t for t in _trained(plan, ran) if t.point.model == "RealNPU"]
        ours, theirs = heat_figures(_answer(plan, "neural"), trained if plan.full and trained else None)
        return {
            "fsir-neural": self._fronts(plan, ran, "neural"),
            "fsir-network-neural": ours,
            f"fsir-network-{plan.preset}": theirs,
        }

    def _fronts(self, plan: Plan, ran: Sequence[Ran], recipe: str) -> Figure:
        alone = [
            Point(r.model, int(row["parameters"]), max(float(row["mse"]), ERRORS[0]))
            for r in having(ran, recipe=DEFAULT)
            for row in r.rows
        ]
        kept = [] if plan.full else kept_points(plan.preset)
        return pareto_figure(_answer(plan, recipe), _trained(plan, ran), _how(plan), alone, kept)


@functools.cache
def _answer(plan: Plan, recipe: str) -> Discovery:
    """Run `discover`, which takes some seconds and always gives the same result."""
    return discover(fsir_series(), settings_for(recipe, seed=plan.seed, device=plan.device))


def _how(plan: Plan) -> str:
    """Name of the published recipe, in quick mode with its number of steps."""
    return plan.preset if plan.full else f"{plan.preset}, {FractionalSIR.quick.gradient_steps} steps"


def _timed(model: str, grid: Grid, job: Job) -> Row:
    """Extrapolate the seconds of one run alone from a few of its steps."""
    steps, seconds = grid.timed_steps, 0.0
    fsir_series()  # cached before the timing
    for width in WIDTHS:
        began = time.perf_counter()
        lbfgs = max(steps * FULL.lbfgs_steps // FULL.gradient_steps, 1)
        _train(model, [width], (steps, lbfgs), job.plan, job.monitor)
        seconds += (time.perf_counter() - began) / len(WIDTHS)
        job.check()
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
    """Restore the trained members from finished batches; most of them have no layers."""
    again = []
    for r in having(ran, recipe=plan.preset):
        for k, row in enumerate(r.rows):
            layers: dict[tuple[str, str], dict[str, Array]] = {}
            for key, value in r.arrays.items():
                whose, *names = key.split("/")
                if whose == str(k):
                    layers.setdefault((names[0], names[1]), {})[names[2]] = value
            network = _chain((unit, arrays) for (_, unit), arrays in sorted(layers.items()))
            point = Point(r.model, int(row["parameters"]), float(row["mse"]))
            again.append(Trained(point, int(row["hidden"]), float(row["l1"]), network, r.arrays["solutions"][k]))
    return again


def _distributions(plan: Plan, ran: Sequence[Ran]) -> Iterator[dict[str, str]]:
    """Lines of a table that compares the errors of our runs with those of the 300 published ones."""
    for model in reversed(MODELS):
        sources = {"Julia": julia_points()} | ({} if plan.full else {"kept runs": kept_points(plan.preset)})
        compared = {name: np.array([p.mse for p in points if p.model == model]) for name, points in sources.items()}
        for r in having(ran, recipe=plan.preset, model=model):
            compared[_how(plan)] = np.nan_to_num(r.column("mse"), nan=np.inf)
        for name, mse in compared.items():
            test = ks_2samp(*(np.log10(of.clip(*COMPARED)) for of in (mse, compared["Julia"])))
            yield {
                "model": f"{model}, {name}",
                "runs": str(len(mse)),
                f"MSE < {NEAR}": f"{(mse < NEAR).mean():.0%}",
                "MSE < 1": f"{(mse < 1).mean():.0%}",
                "median MSE": number(np.median(mse), digits=3),
                "best MSE": number(np.min(mse), digits=3),
                "Kolmogorov-Smirnov distance to Julia's": "" if name == "Julia" else number(test.statistic),
                "p": "" if name == "Julia" else number(test.pvalue),
            }


def _exact_line(r: Ran, sizes: Sequence[int]) -> dict[str, str]:
    exact, widths = r.column("exact"), r.column("hidden")
    return {
        "random members, each pruned alone": f"{r.model}, ours",
        "members": str(len(exact)),
        "exactly the true monomials": f"{exact.mean():.0%}",
        **{f"h = {h}": f"{exact[widths == h].sum():.0f} of {(widths == h).sum()}" for h in sizes},
    }


def _times(grid: Grid, plan: Plan, ran: Sequence[Ran]) -> Iterator[dict[str, str]]:
    """Lines of a table of the time of a batch and of its members one after the other."""
    for model in reversed(MODELS):
        batch, alone = (find(ran, recipe=recipe, model=model) for recipe in (plan.preset, ALONE))
        if batch is not None and alone is not None:
            single = alone.column("seconds a run")[0] * grid.gradient_steps / FULL.gradient_steps * len(batch.rows)
            yield {
                "model": model,
                "one batch": f"{batch.seconds:.0f} s",
                "one after the other, extrapolated": f"{single:.0f} s",
                "ratio": number(single / batch.seconds),
            }
