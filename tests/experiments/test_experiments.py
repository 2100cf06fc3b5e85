"""The experiment of Figs. 4 and 5: the published numbers, the grid, the figures and the table."""

from __future__ import annotations

import numpy as np
import pytest
from faces import discovery
from matplotlib.text import Text

from odediscovery.experiments.studies import fsir
from odediscovery.experiments.studies.fsir import Grid, Trained
from odediscovery.result.discovery import Discovery

TINY = Grid((2, 4), (0.0, 0.1), 1, 4, 2)


@pytest.fixture(scope="module")
def found() -> Discovery:
    return discovery(noise=0.0)


@pytest.fixture(scope="module")
def trained() -> list[Trained]:
    return [member for model in fsir.MODELS for member in fsir.train_grid(model, TINY)]


def test_the_published_runs_are_the_300_of_the_paper() -> None:
    points = fsir.julia_points()
    good = {m: sum(p.model == m and p.mse < 0.05 for p in points) for m in fsir.MODELS}
    assert len(points) == 300 and good == {"RealNPU": 3, "NPU": 21, "Dense": 6}
    assert min(points, key=lambda p: p.parameters).parameters == 17


def test_the_full_grid_is_that_of_the_paper() -> None:
    members = fsir.FULL.members
    assert len(members) == 100 and len(set(members)) == 20
    assert fsir.FULL.gradient_steps == 3000 and fsir.FULL.lbfgs_steps == 1000


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
    assert legend[0].startswith("ours") and sum("Julia" in label for label in legend) == 3
    assert sum("as-run" in label for label in legend) == 3
    seen = sorted(len(line.get_xdata()) for line in left.lines if line.get_marker() in "os^")
    assert seen[-3:] == [100, 100, 100]
    assert any(t.get_text().startswith("13 parameters") for t in left.findobj(Text))
    # Three states, each with data, our curve and that of the best trained member.
    assert len(right.lines) == 9


@pytest.mark.slow
def test_both_networks_are_drawn(found: Discovery, trained: list[Trained]) -> None:
    ours, theirs = fsir.heat_figures(found, trained)
    texts = [{t.get_text() for t in figure.findobj(Text)} for figure in (ours, theirs)]
    assert {"RealNPU", "NAU", "dS/dt", "Weights in the units of the data"} <= texts[0] & texts[1]
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
    lines = fsir.comparison(found, trained).splitlines()
    assert len({line.count("|") for line in lines}) == 1
    ours = next(line for line in lines if "ours" in line)
    assert "| 13 |" in ours and "0.500000 | 0.500000 | 1.000000" in ours
    paper = next(line for line in lines if "Fig. 5" in line)
    assert "| 17 | 0.0284 | 0.57 | 0.62 | 0.64 |" in paper
    assert any("NPU, Julia, best | 136 | 0.0153" in line for line in lines)
    assert sum("as-run" in line for line in lines) >= 3
    assert not any("as-run" in line for line in fsir.comparison(found).splitlines())
