"""Pictures for a critical reader: terms, residuals, resting points, correlations, groups, dates, cut axes."""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from odediscovery import Discovery, Equations, TimeSeries, discover, fit_constants, settings_for, simulate_system
from odediscovery.command.cli import main
from odediscovery.laws.power_sum import PowerSum
from odediscovery.laws.records import Covariance
from odediscovery.plots.axes import set_times
from odediscovery.plots.checks import autocorrelation, correlations, draw_normal, group_fits, solution_of, terms_along
from odediscovery.plots.figures import checks_figure, fit_figure, groups_figure, pareto_figure
from odediscovery.plots.front import cut_axis
from odediscovery.plots.portraits import resting_points
from odediscovery.report import report_html


def fitted(law: dict[str, str], start: list[float], times: np.ndarray) -> Discovery:
    """A law fitted to a noisy course of itself."""
    truth = Equations.parse([*law], law)
    values = truth.simulate(np.array(start), times)
    noisy = values + 0.01 * values.std(axis=0) * np.random.default_rng(0).standard_normal(values.shape)
    series = TimeSeries.from_arrays(times, noisy, [*law], units={"x": "g/L", "t": "h"})
    return fit_constants(series, truth, exponents=False)


@cache
def lotka() -> Discovery:
    law = {"x": "0.8*x - 0.04*x*y", "y": "0.02*x*y - 0.5*y"}
    return fitted(law, [30.0, 10.0], np.linspace(0, 20, 80))


def test_the_terms_of_an_equation_add_up_to_its_rate() -> None:
    found = lotka()
    times, curve = solution_of(found, 0)
    names, values = terms_along(found, 0, curve)
    assert {name.lstrip("-").partition("*")[2] for name in names} == {"x", "x*y"}
    np.testing.assert_allclose(curve, found.simulate(times=times), rtol=1e-9)
    np.testing.assert_allclose(values.sum(axis=1), found.equations.rhs(curve)[:, 0], rtol=1e-9)


def test_resting_points_of_predator_and_prey() -> None:
    origin, inner = resting_points(lotka())
    assert origin.point == (0.0, 0.0) and origin.kind == "saddle"
    assert inner.point == pytest.approx((25.0, 20.0), rel=0.01) and inner.kind == "centre, to first order"


@pytest.mark.slow
def test_resting_points_of_a_damped_swing_and_of_competitors() -> None:
    swing = fitted({"x": "y", "y": "-x - 0.3*y"}, [1.0, 0.0], np.linspace(0, 12, 60))
    assert [one.kind for one in resting_points(swing)] == ["stable focus"]
    law = {"x": "x - x**2 - 2*x*y", "y": "y - y**2 - 2*x*y"}
    kinds = {
        tuple(np.round(one.point, 1)): one.kind
        for one in resting_points(fitted(law, [0.1, 0.08], np.arange(0, 15, 0.2)))
    }
    assert kinds[(0.0, 0.0)] == "unstable node" and kinds[(1.0, 0.0)] == "stable node"
    assert kinds[(0.3, 0.3)] == "saddle"


def test_data_beyond_the_range_of_numbers_have_no_resting_points() -> None:
    found = lotka()
    (run,) = found.series.trajectories
    values = run.values.copy()
    values[:2, 0] = -1.7e308, 1.7e308
    series = dataclasses.replace(found.series, trajectories=(dataclasses.replace(run, values=values),))
    assert resting_points(dataclasses.replace(found, series=series)) == []


def test_constants_that_make_up_for_each_other_are_correlated() -> None:
    known = correlations(lotka())
    assert known is not None
    names, r = known
    assert len(names) == 4 and np.allclose(np.diag(r), 1.0) and np.allclose(r, r.T)
    assert abs(r[names.index("x: x"), names.index("x: x*y")]) > 0.5


def test_constants_of_more_flows_than_states_have_the_names_of_what_they_leave_and_enter() -> None:
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


def test_noise_has_no_memory_and_a_drift_has() -> None:
    noise = np.random.default_rng(1).standard_normal(400)
    assert np.abs(autocorrelation([noise])[0]).max() < 0.2
    assert autocorrelation([np.cumsum(noise)])[0][0] > 0.9
    axes = Figure().add_subplot()
    assert draw_normal(axes, [noise]) and not draw_normal(axes, [noise[:3]])


def test_nearly_perfect_laws_stand_below_a_cut() -> None:
    drawn, floor, lower = cut_axis(np.array([300.0, 20.0, 1e-14, 0.0, np.nan]))
    assert floor == 2.0 and lower.tolist() == [False, False, True, True, False]
    assert drawn[0] == 300.0 and 0 < drawn[3] < drawn[2] < floor and np.isnan(drawn[4])  # a failed row
    kept, _, none = cut_axis(np.array([300.0, 20.0, 0.5]))
    assert kept.tolist() == [300.0, 20.0, 0.5] and not none.any()


def test_the_legend_of_the_front_names_textbook_laws() -> None:
    found = discover(simulate_system("logistic"), settings_for(members=0))
    texts = [text.get_text() for text in pareto_figure(found).legends[0].get_texts()]
    assert any("logistic growth" in text for text in texts)


def test_dates_stand_at_the_axis_of_times() -> None:
    days = np.arange(np.datetime64("2024-01-01"), np.datetime64("2024-12-01"), np.timedelta64(1, "D"))
    series = TimeSeries.from_arrays(days, np.linspace(1, 2, len(days)), ["x"])
    axes = Figure().add_subplot()
    axes.plot(series.trajectories[0].time, series.trajectories[0].values)
    set_times(axes, series)
    axes.figure.canvas.draw()
    texts = [label.get_text() for label in axes.get_xticklabels()]
    assert "Jul" in texts or "May" in texts
    assert axes.get_xlabel() in ("t", "t 2024")


def test_bands_end_at_0_where_the_state_does() -> None:
    times = np.linspace(0, 12, 40)
    noise = 0.03 * np.random.default_rng(3).standard_normal(40)
    series = TimeSeries.from_arrays(times, np.abs(np.exp(-times) + noise), ["x"])
    figure = fit_figure(fit_constants(series, Equations.parse(["x"], {"x": "-x"}), exponents=False))
    bands = [path for one in figure.axes[0].collections for path in one.get_paths()]
    assert len(bands) == 2 and min(path.vertices[:, 1].min() for path in bands) >= 0.0


@cache
def grouped() -> Discovery:
    """Six groups that decay at rates of their own, and three that jump: too many to be left out."""
    rng, times = np.random.default_rng(2), np.linspace(0, 6, 25)
    rates = [0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
    values = [10 * np.exp(-k * times) + 0.05 * rng.standard_normal(25) for k in rates]
    values += [2.0 + 3.0 * np.sign(np.sin(k * times)) for k in (3.0, 4.0, 5.0)]
    series = TimeSeries.from_arrays([times] * 9, values, ["x"], labels=[*"abcdef", "odd 1", "odd 2", "odd 3"])
    return discover(series, settings_for(vary="all", members=0))


@pytest.mark.long
def test_a_group_that_does_not_follow_the_law_is_named() -> None:
    fits = group_fits(grouped())
    assert [one.label for one in fits if not one.follows] == ["odd 1", "odd 2", "odd 3"]
    page = report_html(grouped())
    assert "3 of 9 groups" in page and "not follow the law" in page and "<b>odd 1</b>" in page
    assert page.count('aria-label="data and curve of') == 9 and "of every group" in page


@pytest.mark.slow
def test_pictures_are_drawn(tmp_path: Path) -> None:
    checks_figure(lotka()).savefig(tmp_path / "checks.png")
    groups_figure(grouped()).savefig(tmp_path / "groups.png")
    assert all((tmp_path / f"{name}.png").stat().st_size > 10_000 for name in ("checks", "groups"))


@pytest.mark.long
def test_a_fit_writes_pictures_of_other_kinds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "x.csv"
    table.write_text("t,x\n" + "".join(f"{k},{2.0 * 0.9**k:.4f}\n" for k in range(12)))
    out = tmp_path / "out"
    assert main(["fit", str(table), "--figures", "pdf,svg", "--out", str(out), "--quiet", "--members", "0"]) == 0
    kinds = {(path.stem, path.suffix) for path in out.iterdir() if path.suffix in (".png", ".pdf", ".svg")}
    assert {("fit", ".pdf"), ("pareto", ".svg"), ("checks", ".png"), ("checks", ".pdf")} <= kinds
    assert main(["fit", str(table), "--figures", "gif"]) == 2
    assert "unknown kind of picture 'gif'" in capsys.readouterr().err


@pytest.mark.slow
def test_axes_of_rates_say_their_units_and_cells_of_correlations_are_square() -> None:
    figure = checks_figure(lotka())
    figure.canvas.draw()
    labels = [axes.get_ylabel() for axes in figure.axes]
    # The unit of y is not known, and so is none of its rate.
    assert labels.count("rate of x [g/(L h)]") == 2 and labels.count("rate of y") == 2
    cells = next(axes for axes in figure.axes if axes.get_title("left") == "correlations of the constants")
    box, (left, right), (low, high) = cells.get_window_extent(), cells.get_xlim(), cells.get_ylim()
    assert box.width / abs(right - left) == pytest.approx(box.height / abs(high - low), rel=0.01)
