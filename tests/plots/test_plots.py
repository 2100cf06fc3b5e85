"""The pictures show what the result holds, for any number of states, runs and layers."""

import dataclasses
import warnings
from functools import cache

import matplotlib.pyplot as plt
import numpy as np
import pytest
from faces import cascade, discovery, network
from matplotlib.figure import Figure
from matplotlib.text import Text

from odediscovery import Equations, TimeSeries, discover, fit_constants, settings_for
from odediscovery.command.cli import main
from odediscovery.errors import InputError
from odediscovery.laws.power_sum import PowerSum
from odediscovery.laws.records import Covariance
from odediscovery.networks.chain import Layer, Network
from odediscovery.plots.axes import frame, frame_residuals, power_of_ten, set_times
from odediscovery.plots.checks import autocorrelation, correlations, draw_normal, group_fits, solution_of, terms_along
from odediscovery.plots.figures import (
    checks_figure,
    fit_figure,
    groups_figure,
    pareto_figure,
    save_figures,
    weights_figure,
)
from odediscovery.plots.portraits import resting_points
from odediscovery.plots.show import plot_fit, plot_laws
from odediscovery.report import report_html
from odediscovery.result.discovery import describe_chain


def chain(n):
    return cascade(("Foxes", "Rabbits", "Grass", "Water", "Soil")[:n], 3.0, hidden=8)


def words(figure):
    return [t.get_text() for t in figure.findobj(Text) if t.get_text() and t.get_visible()]


def drawn(figure):
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


def overlaps(figure):
    """Pairs of texts whose boxes overlap by more than a hair once the figure is drawn."""
    seen = [(t.get_text(), t.get_window_extent().shrunk(0.9, 0.8)) for t in drawn(figure)]
    return [(a, b) for i, (a, one) in enumerate(seen) for b, two in seen[i + 1 :] if one.overlaps(two)]


@pytest.mark.parametrize("n", [1, 2, *(pytest.param(n, marks=pytest.mark.long) for n in (3, 4, 5))])
def test_no_two_labels_overlap(n):
    found = chain(n)
    for draw in (fit_figure, pareto_figure, weights_figure):
        assert overlaps(draw(found)) == [], draw.__name__


def test_fit_shows_every_state_with_residuals_and_all_runs():
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


def test_pareto_says_where_its_axis_is_cut_and_labels_no_tick_below():
    found = discovery()
    first, chosen = found.front
    failed = dataclasses.replace(first, mse=float("nan"))
    simple = dataclasses.replace(first, mse=12.0, name="exponential growth")
    rows = (simple, failed, dataclasses.replace(chosen, mse=1e-9))
    figure = pareto_figure(dataclasses.replace(found, front=rows))
    figure.canvas.draw()
    axes = figure.axes[0]
    assert {"below: not to scale", "1e-09", "exponential growth"} <= set(words(figure))
    low, high = axes.get_ylim()
    shown = [tick for tick in axes.get_yticks() if low <= tick <= high]
    assert len(shown) > 2 and min(shown) >= 1.2 and len(axes.get_yticks(minor=True)) == 0


def test_weights_show_every_weight_and_read_the_rows():
    found = discovery(hidden=6)
    shown = words(weights_figure(found))
    assert {"RealNPU", "NAU", "S", "I", "R", "dS/dt", "dI/dt", "dR/dt", "gate"} <= set(shown)
    assert shown.count("unused") == 3
    assert "h1 = S^0.5*I^0.5" in shown
    weight = found.network.layers[1].arrays["weight"]
    for value in weight[weight != 0]:
        assert f"{value:.3g}".replace("-", "\N{MINUS SIGN}") in shown


@pytest.mark.parametrize("source", ["regression", "training", ""])
def test_only_what_was_trained_is_called_a_network(source):
    found = dataclasses.replace(chain(1), found_by=source)
    figure = weights_figure(found)
    shown, title = " ".join(words(figure)), describe_chain(found)
    assert title in shown and ("network" in title.replace("not by a network", "")) is (source == "training")
    assert (f"found by {source}, not by a network" in shown) is (source not in ("training", ""))
    assert overlaps(figure) == []
    assert all(t.get_window_extent().x1 < figure.bbox.x1 for t in drawn(figure))


@pytest.mark.parametrize(("gate", "mixes"), [(0.18, True), (1.0, False), (1.3, False)])
def test_rows_under_a_gate_between_0_and_1_are_said_to_be_no_products(gate, mixes):
    found = discovery()
    power, total = found.network.layers
    gated = dataclasses.replace(power, arrays={**power.arrays, "gate": np.array([gate, 1.0, 1.0])})
    figure = weights_figure(
        dataclasses.replace(found, network=dataclasses.replace(found.network, layers=(gated, total)))
    )
    shown = words(figure)
    assert any("rows are no products of powers" in word and "0.18 S + 0.82" in word for word in shown) is mixes
    assert any(word.startswith("h1 = ") for word in shown) is not mixes
    assert overlaps(figure) == []


def test_weights_of_other_units_and_wide_layers():
    found = discovery()
    random = np.random.default_rng(0)
    shapes = ((12, 3), (3, 12))
    layers = (Layer("Dense", *n, {"weight": random.normal(size=n), "bias": np.ones(n[0])}) for n in shapes)
    dense = Network(tuple(layers), found.network.scale)
    figure = weights_figure(dataclasses.replace(found, network=dense))
    assert "h12" in words(figure) and overlaps(figure) == []
    # Of twenty hidden products three are used, and only those are drawn.
    wide = network(found.equations.power_sum or PowerSum(np.ones((3, 0)), np.ones((0, 3))), found.series, hidden=20)
    shown = words(weights_figure(dataclasses.replace(found, network=wide)))
    assert {"h1", "h2", "h3"} <= set(shown) and "h4" not in shown


def test_three_pictures_are_saved_whole_and_names_are_never_mathematics(tmp_path):
    n = 2
    found = discovery(PowerSum(-np.eye(n), np.eye(n)), ("$a_1$", "b_{"), until=5.0, initial=(1.0, 2.0))
    assert "$a_1$" in words(fit_figure(found))
    save_figures(found, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fit.png", "pareto.png", "weights.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in tmp_path.iterdir())
    with pytest.raises(InputError, match=r"cannot write .*fit\.png"):
        save_figures(found, tmp_path / "missing")


def fitted(law, start, times):
    """A law fitted to a noisy course of itself."""
    truth = Equations.parse([*law], law)
    values = truth.simulate(np.array(start), times)
    noisy = values + 0.01 * values.std(axis=0) * np.random.default_rng(0).standard_normal(values.shape)
    series = TimeSeries.from_arrays(times, noisy, [*law], units={"x": "g/L", "t": "h"})
    return fit_constants(series, truth, exponents=False)


@cache
def lotka():
    law = {"x": "0.8*x - 0.04*x*y", "y": "0.02*x*y - 0.5*y"}
    return fitted(law, [30.0, 10.0], np.linspace(0, 20, 80))


def test_the_terms_of_an_equation_add_up_to_its_rate():
    found = lotka()
    times, curve = solution_of(found, 0)
    names, values = terms_along(found, 0, curve)
    assert {name.lstrip("-").partition("*")[2] for name in names} == {"x", "x*y"}
    np.testing.assert_allclose(curve, found.simulate(times=times), rtol=1e-9)
    np.testing.assert_allclose(values.sum(axis=1), found.equations.rhs(curve)[:, 0], rtol=1e-9)


def test_resting_points_of_predator_and_prey_a_damped_swing_and_competitors():
    origin, inner = resting_points(lotka())
    assert origin.point == (0.0, 0.0) and origin.kind == "saddle"
    assert inner.point == pytest.approx((25.0, 20.0), rel=0.01) and inner.kind == "centre, to first order"
    swing = fitted({"x": "y", "y": "-x - 0.3*y"}, [1.0, 0.0], np.linspace(0, 12, 60))
    assert [one.kind for one in resting_points(swing)] == ["stable focus"]
    rivals = fitted({"x": "x - x**2 - 2*x*y", "y": "y - y**2 - 2*x*y"}, [0.1, 0.08], np.arange(0, 15, 0.2))
    kinds = {tuple(np.round(one.point, 1)): one.kind for one in resting_points(rivals)}
    assert kinds[(0.0, 0.0)] == "unstable node" and kinds[(1.0, 0.0)] == "stable node"
    assert kinds[(0.3, 0.3)] == "saddle"


def test_data_beyond_the_range_of_numbers_have_no_resting_points():
    found = lotka()
    (run,) = found.series.trajectories
    values = run.values.copy()
    values[:2, 0] = -1.7e308, 1.7e308
    series = dataclasses.replace(found.series, trajectories=(dataclasses.replace(run, values=values),))
    assert resting_points(dataclasses.replace(found, series=series)) == []


def test_constants_that_make_up_for_each_other_are_correlated():
    known = correlations(lotka())
    names, r = known
    assert len(names) == 4 and np.allclose(np.diag(r), 1.0) and np.allclose(r, r.T)
    assert abs(r[names.index("x: x"), names.index("x: x*y")]) > 0.5


def test_constants_of_more_flows_than_states_have_the_names_of_what_they_leave_and_enter():
    found = lotka()
    plain, known = found.equations.power_sum, found.estimates
    assert plain is not None and known is not None
    # Birth of x, what passes from x to y, death of y: each a row, whatever monomial it has.
    rows = [[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]
    flows = zip((0.8, 0.04, 0.5), rows, strict=True)
    a = np.array([[size * (w == row) for w in plain.exponents.tolist()] for size, row in flows])
    law = PowerSum(a, plain.exponents, None, np.array([[1.0, -1.0, 0.0], [0.0, 0.5, -1.0]]))
    law = law.rescaled(known.scale.state, known.scale.time)
    spread = Covariance(1e-6 * (np.eye(5) + 0.5), np.zeros((0, 5)))
    held = tuple(np.zeros(one.shape, bool) for one in law.constants[1:])
    estimates = dataclasses.replace(known, law=law, free=(a != 0, *held), covariance=spread)
    found = dataclasses.replace(found, estimates=estimates)
    drawn = correlations(found)
    assert drawn is not None and drawn[0] == ["x: x", "x, y: x*y", "y: y"]
    assert any("x, y: x*y" in text.get_text() for axes in checks_figure(found).axes for text in axes.texts)
    assert "x, y: x*y" in report_html(found)


def test_noise_has_no_memory_and_a_drift_has():
    noise = np.random.default_rng(1).standard_normal(400)
    assert np.abs(autocorrelation([noise])[0]).max() < 0.2
    assert autocorrelation([np.cumsum(noise)])[0][0] > 0.9
    axes = Figure().add_subplot()
    assert draw_normal(axes, [noise]) and not draw_normal(axes, [noise[:3]])


def test_dates_stand_at_the_axis_of_times():
    days = np.arange(np.datetime64("2024-01-01"), np.datetime64("2024-12-01"), np.timedelta64(1, "D"))
    series = TimeSeries.from_arrays(days, np.linspace(1, 2, len(days)), ["x"])
    axes = Figure().add_subplot()
    axes.plot(series.trajectories[0].time, series.trajectories[0].values)
    set_times(axes, series)
    axes.figure.canvas.draw()
    texts = [label.get_text() for label in axes.get_xticklabels()]
    assert "Jul" in texts or "May" in texts
    assert axes.get_xlabel() in ("t", "t 2024")


def test_bands_end_at_0_where_the_state_does():
    times = np.linspace(0, 12, 40)
    noise = 0.03 * np.random.default_rng(3).standard_normal(40)
    series = TimeSeries.from_arrays(times, np.abs(np.exp(-times) + noise), ["x"])
    figure = fit_figure(fit_constants(series, Equations.parse(["x"], {"x": "-x"}), exponents=False))
    bands = [path for one in figure.axes[0].collections for path in one.get_paths()]
    assert len(bands) == 2 and min(path.vertices[:, 1].min() for path in bands) >= 0.0


@cache
def grouped():
    """Six groups that decay at rates of their own, and three that jump: too many to be left out."""
    rng, times = np.random.default_rng(2), np.linspace(0, 6, 25)
    rates = [0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
    values = [10 * np.exp(-k * times) + 0.05 * rng.standard_normal(25) for k in rates]
    values += [2.0 + 3.0 * np.sign(np.sin(k * times)) for k in (3.0, 4.0, 5.0)]
    series = TimeSeries.from_arrays([times] * 9, values, ["x"], labels=[*"abcdef", "odd 1", "odd 2", "odd 3"])
    return discover(series, settings_for(vary="all", members=0))


@pytest.mark.long
def test_a_group_that_does_not_follow_the_law_is_named_and_drawn(tmp_path):
    fits = group_fits(grouped())
    assert [one.label for one in fits if not one.follows] == ["odd 1", "odd 2", "odd 3"]
    page = report_html(grouped())
    assert "3 of 9 groups" in page and "not follow the law" in page and "<b>odd 1</b>" in page
    assert page.count('aria-label="data and curve of') == 9 and "of every group" in page
    groups_figure(grouped()).savefig(tmp_path / "groups.png")
    assert (tmp_path / "groups.png").stat().st_size > 10_000


@pytest.mark.long
def test_a_fit_writes_pictures_of_other_kinds(tmp_path, capsys):
    table = tmp_path / "x.csv"
    table.write_text("t,x\n" + "".join(f"{k},{2.0 * 0.9**k:.4f}\n" for k in range(12)))
    out = tmp_path / "out"
    assert main(["fit", str(table), "--figures", "pdf,svg", "--out", str(out), "--quiet", "--members", "0"]) == 0
    kinds = {(path.stem, path.suffix) for path in out.iterdir() if path.suffix in (".png", ".pdf", ".svg")}
    assert {("fit", ".pdf"), ("pareto", ".svg"), ("checks", ".png"), ("checks", ".pdf")} <= kinds
    assert main(["fit", str(table), "--figures", "gif"]) == 2
    assert "unknown kind of picture 'gif'" in capsys.readouterr().err


def test_axes_of_rates_say_their_units_and_cells_of_correlations_are_square():
    figure = checks_figure(lotka())
    figure.canvas.draw()
    labels = [axes.get_ylabel() for axes in figure.axes]
    # The unit of y is not known, and so is none of its rate.
    assert labels.count("rate of x [g/(L h)]") == 2 and labels.count("rate of y") == 2
    cells = next(axes for axes in figure.axes if axes.get_title("left") == "correlations of the constants")
    box, (left, right), (low, high) = cells.get_window_extent(), cells.get_xlim(), cells.get_ylim()
    assert box.width / abs(right - left) == pytest.approx(box.height / abs(high - low), rel=0.01)


def test_limits_follow_the_data_and_curves_only_so_far():
    axes = Figure().add_subplot()
    frame(axes, [np.array([-100.0, 1.0, np.nan])], np.array([0.0, 1.0, np.nan]))
    assert axes.get_ylim() == pytest.approx((-0.36, 1.06))
    frame(axes, [np.array([3.0, 5.0])], np.zeros(0))
    assert axes.get_ylim() == pytest.approx((2.88, 5.12))
    frame_residuals(axes, [np.array([0.5, -2.0, np.nan])])
    assert axes.get_ylim() == pytest.approx((-2.6, 2.6))
    frame_residuals(axes, [np.full(2, np.nan)])
    assert axes.get_ylim()[1] > 1.0


def test_numbers_of_an_axis_are_plain_where_they_are_short():
    written = [power_of_ten(value) for value in (1e-4, 5e-4, 1e-3, 0.2, 5000.0, 1e4, 3e4)]
    assert written == ["10⁻⁴", "5·10⁻⁴", "0.001", "0.2", "5000", "10⁴", "3·10⁴"]


PAIR = PowerSum(np.array([[-0.3, 0.0], [0.3, -0.1]]), np.eye(2))
FOUND = discovery(PAIR, ("Rabbits", "Grass"), until=10.0, initial=(3.0, 1.0))


def test_given_axes_are_drawn_in_and_get_no_legend_below_their_figure():
    figure, axes = plt.subplots(1, 2)
    own = plot_fit(FOUND, axes)
    assert own[0] is axes[0] and own[1] is axes[1]
    assert [ax.get_title(loc="left") for ax in axes] == ["Rabbits", "Grass"]
    assert figure.legends == []
    with pytest.raises(InputError, match="axes: expected 2, one a state, got 1"):
        plot_fit(FOUND, axes[0])
    plt.close(figure)


def test_every_law_has_a_curve_and_a_place_in_the_legend():
    axes = plot_laws([FOUND, FOUND], ["mine", "yours"])
    (legend,) = axes[0].figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["data", "mine", "yours"]
    assert [len(ax.lines) for ax in axes] == [3, 3]
    plt.close(axes[0].figure)


nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

GROWN = """
from odediscovery import compare, fit_constants, simulate_system
found = fit_constants(simulate_system("logistic"), "N' = r*N - b*N^2")
"""
OWN = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nNone"


def pictures_of(cells):
    """How many pictures each cell shows, run in a kernel of its own."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the ways of the kernel's messages
        nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    return [sum("image/png" in output.get("data", {}) for output in cell.outputs) for cell in notebook.cells]


@pytest.mark.long
@pytest.mark.parametrize("first", [[], [OWN], ["import matplotlib.pyplot"]])
def test_every_plot_shows_and_so_do_figures_of_ones_own(first):
    cells = [GROWN, "found.plot();\nfound.plot();", "compare(found, found).plot();", OWN, f"found.plot()\n{OWN}"]
    shown = pictures_of([*first, *cells, "plt.subplots()\nNone"])
    assert shown[len(first) :] == [0, 2, 1, 1, 1, 1]
    assert shown[: len(first)] == [cell.count("plt.plot") for cell in first]
