"""Textbook laws beside what a search finds: names, fronts, what users ask for, and time."""

import numpy as np
import pytest

from odediscovery.data.series import TimeSeries
from odediscovery.discovery.discover import discover
from odediscovery.discovery.preference import block_misfits
from odediscovery.discovery.simple_first import _form_misfits, named_winner, seconds_for
from odediscovery.discovery.task import pose_task
from odediscovery.errors import InputError
from odediscovery.judge.criterion import judge_on
from odediscovery.judge.verdict import Verdict
from odediscovery.laws.cost import all_free
from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.report import write_report
from odediscovery.result.discovery import Discovery
from odediscovery.result.shown import headline
from odediscovery.runtime.monitor import Monitor
from odediscovery.search.refinement import refined, sigma_of
from odediscovery.settings import settings_for
from odediscovery.stages.values import Origin
from odediscovery.textbook.fit import Fitter, fit_textbook
from odediscovery.textbook.judged import as_judged
from odediscovery.textbook.registry import TEXTBOOK, find
from odediscovery.textbook.starts import Start


def made(sides, start, until, samples=40, noise=0.01):
    t = np.linspace(0.0, until, samples)
    x = Equations.parse(list(sides), sides).simulate(start, t)
    x = x + noise * np.std(x, axis=0) * np.random.default_rng(0).standard_normal(x.shape)
    return TimeSeries.from_arrays(t, x, list(sides))


def simple(**options):
    return settings_for(members=0, library=("textbook",), **options)


@pytest.fixture(scope="module")
def tank():
    return discover(made({"h": "-0.5*(h - 4)**0.5"}, [20.0], 12.0), simple())


@pytest.mark.slow
def test_a_tank_with_its_outlet_above_the_zero(tank):
    assert tank.name == "outflow through an opening above the zero (Torricelli)"
    offset, error = tank.named.values[tank.named.names.index("x0")], tank.named.errors[tank.named.names.index("x0")]
    assert abs(offset - 4.0) < 3.0 * error < 1.0
    assert any(message.startswith("comes to rest at h = ") for message in tank.messages)
    assert headline(tank).startswith("law found")
    # The criterion of a form is on the scale of the other rows.
    chosen = next(row for row in tank.front if row.selected)
    assert chosen.criterion < min(row.criterion for row in tank.front) + 4.0


def test_names_are_kept(tank, tmp_path):
    tank.save(tmp_path / "r")
    back = Discovery.load(tmp_path / "r")
    assert back.name == tank.name == back.as_dict()["name"]
    assert [row.name for row in back.front] == [row.name for row in tank.front]


@pytest.mark.slow
def test_simple_laws_alone_take_a_moment_and_fill_the_front():
    found = discover(made({"N": "0.5*N*(1 - N/80)"}, [2.0], 20.0), simple())
    assert found.name == "logistic growth" and found.textbook.names == ("r", "K")
    assert abs(found.textbook.values[1] - 80.0) < 4.0 * found.textbook.errors[1]
    named = [row.name for row in found.front]
    assert "a constant rate" in named and all(named)
    assert [row.complexity for row in found.front] == sorted({row.complexity for row in found.front})


@pytest.mark.slow
def test_a_law_that_was_tried_is_ranked_and_told():
    series = made({"N": "0.5*N*(1 - N/80)"}, [2.0], 20.0)
    found = discover(series, simple(tries=("N' = a*N*(1 - N/K)^b",), template=("gompertz",)))
    told = [message for message in found.messages if message.startswith("tried ")]
    assert len(told) == 2 and "N' = a*N*(1 - N/K)^b with a = 0.49" in " ".join(told)
    assert found.name == "logistic growth"


@pytest.mark.slow
def test_nothing_comes_from_nowhere():
    series = made({"T": "0.2*(20 - T)"}, [90.0], 15.0)
    assert discover(series, simple()).name == "approach to a resting value"
    found = discover(series, simple(sources=False))
    assert found.equations.rhs([1e-12])[0] == pytest.approx(0.0, abs=1e-6)


def test_what_cannot_be_tried():
    series = made({"T": "0.2*(20 - T)"}, [90.0], 15.0)
    with pytest.raises(InputError, match="'chain' is of 2 states"):
        discover(series, simple(template=("chain",)))
    with pytest.raises(InputError, match="equation of 'T' is missing"):
        discover(series, simple(tries=("",)))
    with pytest.raises(InputError, match="--recipe default"):
        settings_for("paper", sources=False)


@pytest.mark.slow
def test_left_out_blocks_are_predicted_alike_by_a_form_and_by_the_same_law_as_numbers():
    p = prepare(made({"N": "0.5*N*(1 - N/80)"}, [2.0], 20.0))
    fitted = next(one for one in fit_textbook(p, Monitor()) if one.says == "logistic growth")
    own, row = _form_misfits(p, fitted), as_judged(p, fitted)
    np.testing.assert_allclose(own, block_misfits(p, row), atol=0.5)
    gompertz, _ = find("gompertz").form(["N"])
    wrong = Fitter(p).fit(gompertz, Start(np.array([0.3, 82.0]), 0.0), "Gompertz growth")
    assert _form_misfits(p, wrong).sum() > own.sum() + 50.0
    verdict = Verdict(p, (row,), 0)
    assert named_winner(verdict, [wrong], Monitor()) is None


@pytest.mark.long
def test_small_angles_are_a_line():
    """In other units the same temperatures are sines of their own size, as far as anybody can tell."""
    t, random = np.linspace(0.0, 12.0, 15), np.random.default_rng(0)
    values = 1e-6 * (20.0 + 60.0 * np.exp(-0.3 * t) + 0.4 * random.standard_normal(15))
    found = discover(TimeSeries.from_arrays(86400.0 * t, values, ["T"]))
    assert "sin" not in found.equations_text() and found.textbook is not None


def test_time_is_bounded_where_nobody_sets_a_limit():
    series = made({"N": "0.5*N*(1 - N/80)"}, [2.0], 20.0)
    task = pose_task(series, settings_for(), Monitor())
    assert seconds_for(task) == 6.6
    assert seconds_for(pose_task(made({"N": "0.5*N*(1 - N/80)"}, [2.0], 20.0, 60), settings_for(), Monitor())) == 30.0
    assert seconds_for(pose_task(series, settings_for(thorough=True), Monitor())) is None
    assert seconds_for(pose_task(series, settings_for(max_seconds=5.0), Monitor())) is None
    monitor = Monitor()
    monitor.spend(-1.0)
    assert monitor.stopping() == "time spent"
    monitor.spend(None)
    assert monitor.stopping() is None


@pytest.mark.slow
def test_the_report_names_the_laws(tank, tmp_path):
    write_report(tank, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"They are {tank.name}: h&#39; = -k*(h - x0)^0.5 with k = " in page
    # The named constants have errors, and a table.
    assert "No standard errors" not in page and "no sums of products" not in page
    assert "<td><var>x0</var></td>" in page
    assert all(f", {row.name}" in page for row in tank.front if row.name)


@pytest.mark.slow
def test_noise_alone_ends_with_the_simplest_law():
    t = np.arange(40.0)
    noise = TimeSeries.from_arrays(t, 3 + np.random.default_rng(0).normal(size=(40, 1)), ["x"])
    found = discover(noise, settings_for(library=["textbook"]))
    assert found.outcome == "poor-fit"
    assert found.front[0].name == "a constant rate"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 3])
def test_a_law_with_a_name_needs_all_its_constants(seed: int) -> None:
    """A turns into B. Exchange and an enzyme that is never saturated are as near, with a constant that says nothing."""
    random, t, runs = np.random.default_rng(900 + seed), np.linspace(0.0, 4.0, 40), []
    for a, b in ((5.0, 1.5), (2.0, 3.0)):
        left = a * np.exp(-0.35 * t)
        values = np.stack([left, a + b - left], axis=1)
        runs.append(values + 0.01 * values.std(axis=0) * random.standard_normal(values.shape))
    series = TimeSeries.from_arrays([t, t], runs, ["A", "B"])
    found = discover(series, simple())
    assert found.equations_text().startswith("A' = -k*A\nB' = k*A\nk = 0.3")
    only = [law.name for law in TEXTBOOK if law.name != "conversion"]
    p = prepare(series)
    fitted = fit_textbook(p, Monitor(), [find(name) for name in only])
    law = PowerSum(np.array([[-0.35], [0.35]]), np.array([[1.0, 0.0]])).rescaled(p.scale.state, p.scale.time)
    plain = refined(p, law, (law.coefficients != 0, law.exponents < 0, *all_free(law)[2:]), p.initial, sigma_of(p))
    verdict = Verdict(p, (judge_on(p, plain, Origin(0)),), 0)
    assert fitted and named_winner(verdict, fitted, Monitor()) is None


@pytest.mark.slow
def test_a_form_that_ends_before_the_data_as_a_sum_is_not_claimed() -> None:
    # Two saturating rates; k (L - x)^b with b < 1 is near, and gets to L before the data end.
    t = np.linspace(0.0, 15.0, 50)
    rate = "0.5*(1 - x)/(1.3 - x) - 0.3*x/(0.4 + x)"
    x = Equations.parse(["x"], {"x": rate}).simulate([0.05], t)
    noise = 0.01 * x.std() * np.random.default_rng(1).standard_normal(x.shape)
    found = discover(TimeSeries.from_arrays(t, x + noise, ["x"]), settings_for(members=0))
    assert found.outcome == "converged"
    assert found.r2 > 0.999
    assert all(np.isfinite(row.mse) for row in found.front)
