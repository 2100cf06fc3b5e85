"""Sec. 4.1 of Neural Power Units: which network finds the fractional SIR model? (Figs. 4 and 5)

    S' = -r + eta R,    I' = r - alpha I,    R' = alpha I - eta R,    r = beta I^gamma S^kappa

The paper trains 100 dense nets, 100 NPUs and 100 RealNPUs and plots size against error. Here the
same grid is trained by a published recipe (all members of a model in one batch), set beside the
300 points of the original Julia runs and the answers of `discover`, with the stage that found them.
Errors of trained members are those of the solver that they were trained with, as in the paper;
errors of an answer are those of the printed equations, integrated accurately.
"""

from __future__ import annotations

import csv
import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from odediscovery.data.scale import Scale
from odediscovery.data.series import TimeSeries
from odediscovery.experiments.base import markdown
from odediscovery.experiments.fronts import FRONT, Cloud, Curve, fronts_figure
from odediscovery.laws.power_sum import PowerSum
from odediscovery.laws.systems import simulate_system
from odediscovery.networks.layers import Layer, Network
from odediscovery.networks.translate import network_of
from odediscovery.plots.figures import weights_figure
from odediscovery.plots.heatmaps import mixed_inputs, network_figure
from odediscovery.result.discovery import Discovery
from odediscovery.result.shown import describe_chain
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import Monitor
from odediscovery.search.published.recipes import RECIPES, count_parameters, network, random_members, train
from odediscovery.search.published.trajectories import Trajectories
from odediscovery.settings import settings_for

MODELS = ("Dense", "NPU", "RealNPU")
COLOURS = {"Dense": "#E69F00", "NPU": "#56B4E9", "RealNPU": "#009E73"}
OUR_COLOURS = {"NPU": "#F0B28A", "RealNPU": "#A03C00"}
MARKERS = {"Dense": "s", "NPU": "^", "RealNPU": "o"}
ANSWER = "#D55E00"
# What is shown of the axis of errors: some runs diverge, ours end at integration error.
ERRORS = (1e-15, 1e4)
# Errors between which the paper draws its Fig. 4.
CLOSER = (1e-2, 1e2)
# A network of more parameters has no one row that could be called the transmission rate.
READABLE = 24
# What networks in the units of the data were divided by.
UNSCALED = Scale(np.ones(3), 1.0)
# The network of the paper's Fig. 5: model and parameters, and its exponents as printed.
FIGURE_5 = ("RealNPU", 17)
FIGURE_5_EXPONENTS = ("0.57", "0.62", "0.64")
NO_EXPONENTS = ("", "", "")


@dataclass(frozen=True)
class Grid:
    """What is trained: every width with every L1 weight, `runs` times each."""

    widths: tuple[int, ...]
    l1: tuple[float, ...]
    runs: int
    gradient_steps: int
    lbfgs_steps: int

    @property
    def members(self) -> list[tuple[int, float]]:
        """(width, L1 weight) of every member."""
        return [(width, l1) for width in self.widths for l1 in self.l1 for _ in range(self.runs)]


FULL = Grid((6, 9, 12, 15, 20), (0.0, 0.01, 0.1, 1.0), 5, 3000, 1000)
QUICK = Grid((6, 9), (0.01, 0.1), 1, 120, 40)


@dataclass(frozen=True)
class Point:
    """One model of Fig. 4: its name, number of parameters above 0.001 and mean squared error."""

    model: str
    parameters: int
    mse: float


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained member: its point, what it was trained with, its weights and its solution."""

    point: Point
    width: int
    l1: float
    network: Network
    solution: Array


def fsir_series() -> TimeSeries:
    """The 40 clean samples on [0, 200] of the paper."""
    return simulate_system("fsir")


def julia_points() -> list[Point]:
    """The 300 runs of the original Julia code, in the order they were stored."""
    return _points("julia_fsir_pareto.csv")


def kept_points(recipe: str = "as-run") -> list[Point]:
    """The 300 runs of the full grid in this package, kept for where there is no time to train them again."""
    return _points("kept_fsir_runs.csv", recipe)


def _points(name: str, recipe: str | None = None) -> list[Point]:
    file = resources.files("odediscovery.experiments") / "data" / name
    with file.open(encoding="utf-8") as stream:
        return [
            Point(row["model"], int(row["nonzero_parameters"]), float(row["mse"]))
            for row in csv.DictReader(stream)
            if row.get("recipe") == recipe
        ]


def train_grid(
    model: str, grid: Grid, recipe: str = "as-run", seed: int = 0, monitor: Monitor | None = None, device: str = "cpu"
) -> list[Trained]:
    """All members of a grid, trained side by side; those that diverged have an infinite error.

    Args:
        model: "Dense", "NPU" or "RealNPU".
        grid: `FULL` (about ten minutes a model) or `QUICK` (some seconds).
        recipe: "as-run" or "paper".
        device: where they are trained.
    """
    settings = settings_for(
        recipe,
        seed=seed,
        unit=model,
        members=len(grid.members),
        adam_steps=grid.gradient_steps,
        lbfgs_steps=grid.lbfgs_steps,
        device=device,
    )
    series, how = fsir_series(), RECIPES[recipe]
    data = Trajectories.of(series, series.trajectories[0].values[:1], how.solver)
    widths = [width for width, _ in grid.members]
    l1 = torch.tensor([weight for _, weight in grid.members], dtype=torch.float64)
    field = random_members(model, series.n_states, widths, seed, how)
    field = train(field, data, how, settings, monitor or Monitor(), l1)
    with torch.no_grad():
        errors = data.mse(field, field.theta).nan_to_num(torch.inf).tolist()
        solutions = data.solutions(field, field.theta)[0].numpy()
    sizes = count_parameters(field).tolist()
    return [
        Trained(Point(model, sizes[i], errors[i]), *grid.members[i], network(field, i), solutions[i])
        for i in range(field.members)
    ]


def best(trained: Sequence[Trained], model: str, most: int | None = None) -> Trained:
    """The member of a model with the smallest error, of at most so many parameters if any is."""
    own = [t for t in trained if t.point.model == model]
    small = [t for t in own if most is None or t.point.parameters <= most]
    return min(small or own, key=lambda t: t.point.mse)


# Figures


def pareto_figure(
    found: Discovery,
    trained: Sequence[Trained],
    how: str = "as-run",
    alone: Sequence[Point] = (),
    kept: Sequence[Point] = (),
) -> Figure:
    """Fig. 4: fronts of the Julia runs (pale), of `trained` and of `found`; data and curves.

    Args:
        found: what `discover` says; its star bears the stage that found it.
        trained: members by a published recipe.
        how: which recipe, and in how many steps if these are few.
        alone: random members of our training, each pruned by itself.
        kept: the full grid, where `trained` is too short to show how such networks end.
    """
    whole = [t.point for t in trained if np.isfinite(t.point.mse)]
    clouds = _clouds(julia_points(), "Julia, {} runs", pale=True) + _clouds(kept, "{} kept runs")
    clouds += _clouds(whole, how + ", {} members", **({"marker": "X", "front": False} if kept else {}))
    pruned = _clouds([p for p in alone if np.isfinite(p.mse)], "trained and pruned alone, {} members")
    clouds += [
        dataclasses.replace(cloud, colour=OUR_COLOURS[cloud.label.split(",")[0]], marker="v", front=False)
        for cloud in pruned
    ]
    rows = found.front
    clouds.append(
        Cloud(
            source_of(found),
            ANSWER,
            "D",
            np.array([row.complexity for row in rows], float),
            np.array([max(row.mse, ERRORS[0]) for row in rows]),
            star=next(i for i, row in enumerate(rows) if row.selected),
        )
    )
    times = found.series.trajectories[0].time
    dense = np.linspace(times[0], times[-1], FRONT.points)
    curves = [Curve(source_of(found), dense, found.simulate(times=dense))]
    if trained and not kept:
        nearest = min(trained, key=lambda t: t.point.mse)
        curves.append(Curve(f"best {nearest.point.model}, {how}", times, nearest.solution, "--"))
    return fronts_figure(clouds, found.series, curves, ERRORS, CLOSER)


def source_of(found: Discovery) -> str:
    """What found a law, for a label: the stage and the recipe."""
    stage = f"found by {found.found_by}, " if found.found_by else ""
    return f"{stage}recipe {found.settings.recipe}"


def _clouds(points: Sequence[Point], label: str, **look: Any) -> list[Cloud]:
    """The points of each model that there is, with their number in the label."""
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
    file = resources.files("odediscovery.experiments") / "data" / "fsir_network.json"
    layers = []
    for entry in json.loads(file.read_text(encoding="utf-8"))["layers"]:
        arrays = {name: np.array(value) for name, value in entry["arrays"].items()}
        outputs, inputs = arrays["real" if "real" in arrays else "weight"].shape
        layers.append(Layer(entry["unit"], outputs, inputs, arrays))
    return Network(tuple(layers), UNSCALED)


def heat_figures(found: Discovery, trained: Sequence[Trained] | None = None) -> tuple[Figure, Figure]:
    """Fig. 5: the chain of a law, called a network only if one was trained, and a readable RealNPU.

    Both are in the units of the data.

    Args:
        found: what `discover` says.
        trained: members of which the best readable RealNPU is shown; None for the kept one.
    """
    states, time = found.equations.states, found.series.time_name
    law = found.equations.power_sum
    chain = None if law is None else network_of(law, UNSCALED)
    ours = weights_figure(found) if chain is None else network_figure(chain, states, time, describe_chain(found))
    if trained is None:
        return ours, network_figure(kept_network(), states, time, "A kept RealNPU of recipe as-run")
    small = best(trained, "RealNPU", READABLE)
    told = f"RealNPU of {small.point.parameters} parameters, mean squared error {small.point.mse:.2g}"
    return ours, network_figure(small.network, states, time, told)


# The table


def comparison(
    answers: Sequence[Discovery], trained: Sequence[Trained] = (), how: str = "as-run", kept: Sequence[Point] = ()
) -> str:
    """Answers of `discover` beside the paper's exponents and the best runs of each model, in Markdown."""
    rows: list[tuple[str, ...]] = [("truth", "13", "0", "0.5", "0.5", "1")]
    for found in answers:
        law = found.equations.power_sum
        exponents = [f"{w:.6f}" for w in _exponents(law)] if law else NO_EXPONENTS
        size = next(row.complexity for row in found.front if row.selected)
        rows.append((f"**`discover`**: {source_of(found)}", str(size), f"{found.mse:.2g}", *exponents))
    points = julia_points()
    again = {t.point: t for t in trained if np.isfinite(t.point.mse)}
    for model in reversed(MODELS):
        for what, p in _notable(points, model):
            paper = (model, p.parameters) == FIGURE_5
            exponents = FIGURE_5_EXPONENTS if paper else NO_EXPONENTS
            name = f"{model}, Julia, {what}{' (Fig. 5 of the paper)' if paper else ''}"
            rows.append((name, str(p.parameters), f"{p.mse:.4f}", *exponents))
        for what, p in _notable(kept, model):
            name = f"{model}, kept runs of this package, {what}"
            rows.append((name, str(p.parameters), f"{p.mse:.4f}", *NO_EXPONENTS))
        for what, p in _notable(list(again), model):
            name = f"{model}, {how} in this package, {what}{_gates(again[p])}"
            rows.append((name, str(p.parameters), f"{p.mse:.4f}", *_found_exponents(again[p])))
    return markdown(("model", "parameters", "MSE", "kappa (S)", "gamma (I)", "R"), rows)


def _notable(points: Sequence[Point], model: str) -> list[tuple[str, Point]]:
    """The run of a model with the smallest error, and the sparsest of those below 1."""
    own = [p for p in points if p.model == model]
    if not own:
        return []
    least = min(own, key=lambda p: p.mse)
    sparse = min(own, key=lambda p: (p.mse >= 1.0, p.parameters, p.mse))
    if least == sparse or sparse.mse >= 1.0:
        return [("best", least)]
    return [("best", least), ("sparsest below MSE 1", sparse)]


def _exponents(law: PowerSum) -> list[float]:
    """Exponents of S and I in the transmission rate, and of R where it stands alone."""
    weight = np.abs(law.coefficients).max(axis=0)
    infected = (law.exponents[:, :2] != 0).all(axis=1)
    alone = (law.exponents[:, 2] != 0) & (law.exponents[:, :2] == 0).all(axis=1)
    unknown = np.full(law.exponents.shape[1], np.nan)
    rate = law.exponents[np.argmax(weight * infected)] if infected.any() else unknown
    back = law.exponents[np.argmax(weight * alone)] if alone.any() else unknown
    return [float(rate[0]), float(rate[1]), float(back[2])]


def _gates(member: Trained) -> str:
    """Gates of a readable RealNPU that make its exponents none of a state."""
    if not _is_readable(member) or not mixed_inputs(member.network.layers[0]):
        return ""
    return f" (gates {', '.join(f'{gate:.2f}' for gate in member.network.layers[0].arrays['gate'])})"


def _is_readable(member: Trained) -> bool:
    return member.point.model == "RealNPU" and member.point.parameters <= READABLE


def _found_exponents(member: Trained) -> Sequence[str]:
    """Those of a RealNPU sparse enough to read, as the paper read its own: gates left aside."""
    if not _is_readable(member):
        return NO_EXPONENTS
    power, total = (layer.arrays for layer in member.network.layers)
    law = PowerSum(total["weight"], power["real"]).merged()
    return [f"{w:.2f}" if np.isfinite(w) else "" for w in _exponents(law)]
