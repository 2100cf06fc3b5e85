"""The pictures show what the result holds, for any number of states, runs and layers."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from faces import cascade, discovery, network
from matplotlib.figure import Figure
from matplotlib.text import Text

from odediscovery.errors import InputError
from odediscovery.laws.power_sum import PowerSum
from odediscovery.networks.chain import Layer, Network
from odediscovery.plots.figures import fit_figure, pareto_figure, save_figures, weights_figure
from odediscovery.result.discovery import Discovery, describe_chain


def chain(n: int) -> Discovery:
    return cascade(("Foxes", "Rabbits", "Grass", "Water", "Soil")[:n], 3.0, hidden=8)


def words(figure: Figure) -> list[str]:
    return [t.get_text() for t in figure.findobj(Text) if t.get_text() and t.get_visible()]


def drawn(figure: Figure) -> list[Text]:
    """The texts that are seen: a tick outside its axis has a label, too, but nobody sees it."""
    figure.canvas.draw()
    hidden = set()
    for axes in figure.axes:
        for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if not min(low, high) <= tick.get_loc() <= max(low, high):
                    hidden |= {tick.label1, tick.label2}
    texts = figure.findobj(Text)
    return [t for t in texts if t.get_text().strip() and t.get_visible() and t not in hidden]


def overlaps(figure: Figure) -> list[tuple[str, str]]:
    """Pairs of texts whose boxes overlap by more than a hair once the figure is drawn."""
    seen = [(t.get_text(), t.get_window_extent().shrunk(0.9, 0.8)) for t in drawn(figure)]
    return [(a, b) for i, (a, one) in enumerate(seen) for b, two in seen[i + 1 :] if one.overlaps(two)]


@pytest.mark.parametrize("n", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 3, 4, 5))])
def test_no_two_labels_overlap(n: int) -> None:
    found = chain(n)
    for draw in (fit_figure, pareto_figure, weights_figure):
        assert overlaps(draw(found)) == [], draw.__name__


@pytest.mark.slow
def test_fit_shows_every_state_with_residuals_and_all_runs() -> None:
    found = discovery(runs=3)
    figure = fit_figure(found)
    assert len(figure.axes) == 2 * 3
    top, below = figure.axes[0], figure.axes[1]
    assert top.get_title(loc="left") == "S"
    curves = [line for line in top.lines if len(line.get_xdata()) > 100]
    assert len(curves) == 3
    points = below.lines[0].get_ydata()
    fitted = found.equations.simulate(found.initial_values[0], found.series.trajectories[0].time)
    expected = found.series.trajectories[0].values[:, 0] - fitted[:, 0]
    np.testing.assert_allclose(points, expected, atol=1e-5)
    assert "run 2" in words(figure)


def test_pareto_marks_the_choice() -> None:
    figure = pareto_figure(discovery())
    axes = figure.axes[0]
    assert axes.get_yscale() == "log"
    stars = [line for line in axes.lines if line.get_marker() == "*"]
    assert [line.get_xdata()[0] for line in stars] == [13]
    assert any("chosen: complexity 13" in word for word in words(figure))


def test_pareto_says_where_its_axis_is_cut_and_labels_no_tick_below() -> None:
    found = discovery()
    first, chosen = found.front
    failed = dataclasses.replace(first, mse=float("nan"))
    rows = (dataclasses.replace(first, mse=12.0), failed, dataclasses.replace(chosen, mse=1e-9))
    figure = pareto_figure(dataclasses.replace(found, front=rows))
    figure.canvas.draw()
    axes = figure.axes[0]
    assert "below: not to scale" in words(figure) and "1e-09" in words(figure)
    low, high = axes.get_ylim()
    shown = [tick for tick in axes.get_yticks() if low <= tick <= high]
    assert len(shown) > 2 and min(shown) >= 1.2 and len(axes.get_yticks(minor=True)) == 0


def test_weights_show_every_weight_and_read_the_rows() -> None:
    found = discovery(hidden=6)
    shown = words(weights_figure(found))
    assert {"RealNPU", "NAU", "S", "I", "R", "dS/dt", "dI/dt", "dR/dt", "gate"} <= set(shown)
    assert shown.count("unused") == 3
    assert "h1 = S^0.5*I^0.5" in shown
    assert found.network is not None
    weight = found.network.layers[1].arrays["weight"]
    for value in weight[weight != 0]:
        assert f"{value:.3g}".replace("-", "\N{MINUS SIGN}") in shown


@pytest.mark.parametrize("source", ["growing", "training", ""])
def test_only_what_was_trained_is_called_a_network(source: str) -> None:
    found = dataclasses.replace(chain(1), found_by=source)
    figure = weights_figure(found)
    shown, title = " ".join(words(figure)), describe_chain(found)
    assert title in shown and ("network" in title.replace("not by a network", "")) is (source == "training")
    assert (f"found by {source}, not by a network" in shown) is (source not in ("training", ""))
    assert overlaps(figure) == []
    assert all(t.get_window_extent().x1 < figure.bbox.x1 for t in drawn(figure))


@pytest.mark.parametrize(("gate", "mixes"), [(0.18, True), (1.0, False), (1.3, False)])
def test_rows_under_a_gate_between_0_and_1_are_said_to_be_no_products(gate: float, mixes: bool) -> None:
    found = discovery()
    assert found.network is not None
    power, total = found.network.layers
    gated = dataclasses.replace(power, arrays={**power.arrays, "gate": np.array([gate, 1.0, 1.0])})
    figure = weights_figure(
        dataclasses.replace(found, network=dataclasses.replace(found.network, layers=(gated, total)))
    )
    shown = words(figure)
    assert any("rows are no products of powers" in word and "0.18 S + 0.82" in word for word in shown) is mixes
    assert any(word.startswith("h1 = ") for word in shown) is not mixes
    assert overlaps(figure) == []


@pytest.mark.slow
def test_weights_of_other_units_and_wide_layers() -> None:
    found = discovery()
    random = np.random.default_rng(0)
    assert found.network is not None
    shapes = ((12, 3), (3, 12))
    layers = (Layer("Dense", *n, {"weight": random.normal(size=n), "bias": np.ones(n[0])}) for n in shapes)
    dense = Network(tuple(layers), found.network.scale)
    figure = weights_figure(dataclasses.replace(found, network=dense))
    assert "h12" in words(figure) and overlaps(figure) == []
    # Of twenty hidden products three are used, and only those are drawn.
    wide = network(found.equations.power_sum or PowerSum(np.ones((3, 0)), np.ones((0, 3))), found.series, hidden=20)
    shown = words(weights_figure(dataclasses.replace(found, network=wide)))
    assert {"h1", "h2", "h3"} <= set(shown) and "h4" not in shown


def test_no_network_is_said() -> None:
    figure = weights_figure(dataclasses.replace(discovery(), network=None))
    assert any("no network" in word for word in words(figure))


@pytest.mark.slow
def test_three_pictures_are_saved_whole_and_names_are_never_mathematics(tmp_path: Path) -> None:
    n = 2
    found = discovery(PowerSum(-np.eye(n), np.eye(n)), ("$a_1$", "b_{"), until=5.0, initial=(1.0, 2.0))
    assert "$a_1$" in words(fit_figure(found))
    save_figures(found, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fit.png", "pareto.png", "weights.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in tmp_path.iterdir())
    with pytest.raises(InputError, match=r"cannot write .*fit\.png"):
        save_figures(found, tmp_path / "missing")
