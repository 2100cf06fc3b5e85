"""The experiment of Figs. 4 and 5: the published numbers, the grid, the figures and the table."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path

import numpy as np
import pytest
from faces import discovery
from matplotlib.text import Text

from odediscovery.experiments.studies import fsir
from odediscovery.experiments.studies.fsir import Grid, Trained
from odediscovery.result.discovery import Discovery
from odediscovery.settings import settings_for

KEPT = Path(__file__).resolve().parents[2] / "data" / "results"
TINY = Grid((2, 4), (0.0, 0.1), 1, 4, 2)


@pytest.fixture(scope="module")
def found() -> Discovery:
    return dataclasses.replace(discovery(noise=0.0), found_by="growing")


@pytest.fixture(scope="module")
def trained() -> list[Trained]:
    return [member for model in fsir.MODELS for member in fsir.train_grid(model, TINY)]


def test_the_published_runs_are_the_300_of_the_paper() -> None:
    points = fsir.julia_points()
    good = {m: sum(p.model == m and p.mse < 0.05 for p in points) for m in fsir.MODELS}
    assert len(points) == 300 and good == {"RealNPU": 3, "NPU": 21, "Dense": 6}
    assert min(points, key=lambda p: p.parameters).parameters == 17


@pytest.mark.long
def test_a_grid_is_one_batch_with_a_point_for_each_member(trained: list[Trained]) -> None:
    assert len(trained) == 3 * len(TINY.members)
    for member in trained:
        width, model = member.width, member.point.model
        most = {"RealNPU": 6 * width + 3, "NPU": 9 * width + 3, "Dense": width**2 + 8 * width + 3}[model]
        assert 0 < member.point.parameters <= most
        if np.isfinite(member.point.mse):
            values = fsir.fsir_series().trajectories[0].values
            assert member.point.mse == pytest.approx(np.mean((member.solution - values) ** 2))
    assert {(m.width, m.l1) for m in trained} == set(TINY.members)
    again = fsir.train_grid("NPU", TINY)
    assert [m.point for m in again] == [m.point for m in trained if m.point.model == "NPU"]


@pytest.mark.slow
def test_fronts_are_drawn_with_the_answer_marked(found: Discovery, trained: list[Trained]) -> None:
    figure = fsir.pareto_figure(found, trained)
    figure.canvas.draw()
    left, right = figure.axes
    (inset,) = left.child_axes
    assert inset.get_ylim() == fsir.CLOSER and inset.get_xlim() == left.get_xlim()
    assert len(inset.lines) == len(left.lines)
    assert left.get_xscale() == left.get_yscale() == "log"
    legend = [t.get_text() for t in left.get_legend().get_texts()]
    assert legend[0] == "found by growing, recipe default" and sum("Julia" in label for label in legend) == 3
    assert sum("as-run" in label for label in legend) == 3
    seen = sorted(len(line.get_xdata()) for line in left.lines if line.get_marker() in "os^")
    assert seen[-3:] == [100, 100, 100]
    assert any(t.get_text().startswith("found by growing,\nrecipe default\n13 parameters") for t in left.findobj(Text))
    # Three states, each with data, our curve and that of the best trained member.
    assert len(right.lines) == 9


@pytest.mark.parametrize("recipe", ["as-run", "paper"])
def test_kept_points_are_those_of_the_kept_results(recipe: str) -> None:
    folder = KEPT / {"as-run": "fsir", "paper": "fsir-paper"}[recipe]
    with (folder / "runs.csv").open(encoding="utf-8") as stream:
        rows = [row for row in csv.DictReader(stream) if row["recipe"] == recipe]
    points = fsir.kept_points(recipe)
    assert len(points) == 300
    assert points == [fsir.Point(row["model"], int(row["parameters"]), float(row["mse"])) for row in rows]


def test_what_was_trained_shortly_is_drawn_over_the_kept_runs_and_called_so(found: Discovery) -> None:
    run = found.series.trajectories[0].values
    short = Trained(fsir.Point("NPU", 60, 120.0), 6, 0.0, fsir.kept_network(), run)
    by = dataclasses.replace(found, found_by="training", settings=settings_for("neural"))
    figure = fsir.pareto_figure(by, [short, short], "as-run, 20 steps", kept=fsir.kept_points())
    left, right = figure.axes
    legend = [t.get_text() for t in left.get_legend().get_texts()]
    assert legend[:2] == ["found by training, recipe neural", "NPU, as-run, 20 steps, 2 members"]
    assert sum("100 kept runs" in label for label in legend) == sum("Julia" in label for label in legend) == 3
    # The curve of so short a training says nothing: three states with data and the law's curve.
    assert len(right.lines) == 6
    figure.canvas.draw()
    star = next(t for t in left.texts if t.get_text().startswith("found by training"))
    assert not star.get_window_extent().overlaps(left.get_legend().get_window_extent())


def test_a_network_is_drawn_of_a_trained_law_only_and_the_kept_one_says_what_its_gates_do(found: Discovery) -> None:
    texts = []
    for source in ("growing", "training"):
        figures = fsir.heat_figures(dataclasses.replace(found, found_by=source))
        texts.append([" ".join(t.get_text() for t in figure.findobj(Text)) for figure in figures])
    (grown, kept), (network, _) = texts
    assert "found by growing, not by a network" in grown and "trained network" not in grown
    assert "What pruning left of the trained network" in network and "gate between" not in network
    assert "0.184 S + 0.816 is raised to the exponent, not S" in kept and "h1 = " not in kept


@pytest.mark.slow
def test_both_networks_are_drawn(found: Discovery, trained: list[Trained]) -> None:
    ours, theirs = fsir.heat_figures(found, trained)
    texts = [{t.get_text() for t in figure.findobj(Text)} for figure in (ours, theirs)]
    assert {"RealNPU", "NAU", "dS/dt"} <= texts[0] & texts[1]
    assert all(any(t.startswith("Weights in the units of the data") for t in own) for own in texts)
    # -beta, alpha, eta and the r of two equations stand in the cells of ours.
    assert {"\N{MINUS SIGN}0.06", "0.06", "0.05", "\N{MINUS SIGN}0.05", "0.01", "\N{MINUS SIGN}0.01"} <= texts[0]


def test_the_kept_network_is_readable_and_near_the_data() -> None:
    power, total = fsir.kept_network().layers
    assert (power.unit, total.unit) == ("RealNPU", "NAU")
    count = sum(int((np.abs(a) > 1e-3).sum()) for layer in (power, total) for a in layer.arrays.values())
    assert count <= fsir.READABLE


@pytest.mark.slow
def test_the_best_member_is_the_nearest_or_the_nearest_of_the_small_ones(trained: list[Trained]) -> None:
    own = [t.point for t in trained if t.point.model == "RealNPU"]
    assert fsir.best(trained, "RealNPU").point.mse == min(p.mse for p in own)
    small = fsir.best(trained, "RealNPU", 15).point
    assert small.parameters <= 15 and small.mse == min(p.mse for p in own if p.parameters <= 15)
    assert fsir.best(trained, "RealNPU", 1).point == fsir.best(trained, "RealNPU").point


@pytest.mark.slow
def test_the_table_sets_ours_beside_the_paper(found: Discovery, trained: list[Trained]) -> None:
    lines = fsir.comparison([found], trained, kept=fsir.kept_points()).splitlines()
    assert len({line.count("|") for line in lines}) == 1
    ours = next(line for line in lines if "found by growing, recipe default" in line)
    assert "| 13 |" in ours and "0.500000 | 0.500000 | 1.000000" in ours
    paper = next(line for line in lines if "Fig. 5" in line)
    assert "| 17 | 0.0284 | 0.57 | 0.62 | 0.64 |" in paper
    assert any("NPU, Julia, best | 136 | 0.0153" in line for line in lines)
    assert sum("as-run" in line for line in lines) >= 3
    assert any("NPU, kept runs of this package, best | 110 | 0.0105" in line for line in lines)
    assert not any("as-run" in line or "kept" in line for line in fsir.comparison([found]).splitlines())
    member = Trained(fsir.Point("RealNPU", 17, 0.05), 6, 1.0, fsir.kept_network(), trained[0].solution)
    assert "best (gates 0.18, 0.49, 0.18) | 17 | 0.0500 | 0.60 | 0.56 |  |" in fsir.comparison([], [member])


def test_the_npu_is_sparser_and_better_than_the_dense_net_as_run_and_only_sparser_as_printed() -> None:
    near, size, median = {}, {}, {}
    for recipe in ("as-run", "paper"):
        for model in fsir.MODELS:
            own = [p for p in fsir.kept_points(recipe) if p.model == model]
            below = [p.parameters for p in own if p.mse < 0.05]
            near[recipe, model], size[recipe, model] = len(below), min(below)
            median[recipe, model] = float(np.median([p.mse for p in own]))
    assert [near["as-run", model] for model in fsir.MODELS] == [9, 24, 4]
    assert [near["paper", model] for model in fsir.MODELS] == [33, 16, 9]
    assert [size["paper", model] for model in fsir.MODELS] == [77, 19, 53]
    assert median["as-run", "NPU"] < median["as-run", "Dense"] and median["paper", "Dense"] < median["paper", "NPU"]
