"""A result shows itself: text, tables, rows, notebooks; what is asked of it, compared and told."""

import dataclasses
import json
import re
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from faces import awkward, discovery

from odediscovery import Discovery, Equations, InputError, TimeSeries, discover, fit_constants, settings_for
from odediscovery.command.cli import main
from odediscovery.judge.notes import Note, Weight
from odediscovery.laws.power_sum import PowerSum
from odediscovery.report.words import outcome
from odediscovery.result.compare import compare, criterion
from odediscovery.result.discovery import asked_times, facts, far_off, rest, start_values
from odediscovery.result.named import NamedConstants, constant_records, units_text
from odediscovery.runtime.monitor import Monitor


def with_rival():
    """A result whose simpler row has start values of its own, I' = -0.05 I and the like."""
    found = discovery(runs=2)
    rival = Equations.parse(["S", "I", "R"], {"S": "-0.01*S", "I": "0.05*I", "R": "0"})
    row = dataclasses.replace(found.front[0], equations=rival, complexity=4, initial_values=2 * found.initial_values)
    return dataclasses.replace(
        found, front=(row, dataclasses.replace(found.front[1], initial_values=found.initial_values))
    )


def test_a_result_prints_its_equations():
    found = discovery()
    assert repr(found).splitlines()[:3] == found.equations_text().splitlines()
    assert repr(found).splitlines()[3] == "(converged, R2 = 0.999900, 2 rows on the front)"
    long = Equations.parse(["x"], {"x": " + ".join(f"{k}.5*x**{k}" for k in range(2, 60))})
    cut = dataclasses.replace(found, equations=long)
    assert all(len(line) <= 160 for line in repr(cut).splitlines())
    assert repr(cut).splitlines()[0].endswith("...")


def test_a_summary_holds_notes_and_the_front():
    lines = discovery().summary().splitlines()
    assert "note: made by hand" in lines
    front = lines[lines.index("Pareto front (* chosen):") + 1 :]
    assert [line[0] for line in front] == [" ", "*"]
    assert "complexity  13" in front[1] and "(" not in front[1].partition("S' =")[2]


def test_terms_and_constants_are_tables():
    found = discovery()
    terms = found.terms
    assert list(terms.columns) == ["state", "term", "coefficient", "standard_error"]
    assert terms["state"].tolist() == ["S", "S", "I", "I", "R", "R"]
    infection = terms[terms["term"] == "S^0.5*I^0.5"].set_index("state")
    assert infection["coefficient"].to_dict() == {"S": -0.06, "I": 0.06}
    assert set(terms["standard_error"]) == {1e-4}
    constants = dataclasses.replace(found, degrees_of_freedom=100).constants
    row = constants[(constants["state"] == "S") & (constants["value"] == -0.06)].iloc[0]
    assert (row["kind"], row["term"]) == ("coefficient", "S^0.5*I^0.5")
    assert row["low"] == pytest.approx(-0.06 - 1.984e-4, abs=1e-7) and row["high"] > row["value"]
    assert constants["snapped"].sum() == 4
    assert found.constants["low"].isna().all()


def test_residuals_are_data_minus_curve():
    found = discovery(runs=2)
    table = found.residuals
    assert list(table.columns) == ["trajectory", "t", "S", "I", "R"]
    run = found.series.trajectories[1]
    curve = found.equations.simulate(found.initial_values[1], run.time)
    second = table[table["trajectory"] == "run 2"]
    np.testing.assert_allclose(second[["S", "I", "R"]], run.values - curve, rtol=1e-12)


def test_another_row_of_the_front_is_a_result_and_comes_back(tmp_path):
    found = with_rival()
    rival = found.select(4)
    assert rival.equations_text().startswith("S' = -0.01*S")
    assert [row.selected for row in rival.front] == [True, False]
    assert [row.selected for row in found.front] == [False, True]
    assert (rival.mse, rival.r2, rival.network) == (80.0, 0.3, None)
    np.testing.assert_allclose(rival.simulate(times=np.array([0.0, 10.0]))[1, 0], 200 * np.exp(-0.1), rtol=1e-6)
    assert "of complexity 4 was chosen by hand" in rival.messages[-1] and "made by hand" not in rival.messages
    assert found.select(13) is found
    rival.save(tmp_path)
    back = Discovery.load(tmp_path)
    assert back.front[0].selected and back.select(13).equations.texts() == found.equations.texts()
    with pytest.raises(InputError, match="without start values"):
        discovery().select(discovery().front[0].complexity)


@pytest.mark.long
def test_commands_take_another_row(tmp_path, capsys):
    folder = tmp_path / "found.odediscovery"
    with_rival().save(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert main(["show", str(folder), "--row", "4"]) == 0
    assert capsys.readouterr().out.startswith("S' = -0.01*S\nI' = 0.05*I")
    assert main(["show", str(folder), "--row", "4", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["equations"]["I"] == "0.05*I"
    assert main(["predict", str(folder), "--row", "4", "--until", "10"]) == 0
    assert float(capsys.readouterr().out.splitlines()[1].split(",")[2]) == 200.0
    assert main(["report", str(folder), "--row", "4"]) == 0
    assert main(["plot", str(folder), "--row", "4"]) == 0
    assert main(["plot", str(folder), "--out", str(tmp_path / "fit.svg")]) == 0
    made = {path.name for path in tmp_path.iterdir()} - {folder.name}
    assert made == {"found-4.html", "found-4.png", "fit.svg"}
    ElementTree.parse(tmp_path / "fit.svg")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    capsys.readouterr()
    assert main(["show", str(folder), "--row", "5"]) == 2
    assert capsys.readouterr().err == "error: no row of complexity 5 on the front; there are 4, 13\n"
    assert main(["plot", str(folder), "--out", str(tmp_path / "fit.bmp")]) == 2
    assert "expected a picture that ends in .png, .svg, .pdf" in capsys.readouterr().err


def test_a_notebook_shows_mathematics():
    found = dataclasses.replace(discovery(), messages=("a < b & c",))
    html = found._repr_html_()
    ElementTree.fromstring(html)
    # A term is never broken, which Firefox would do within a formula.
    assert html.count('<span style="display:inline-block"><math>') == 6
    assert html.count("<mfrac>") == 3 and "<script" not in html and "http" not in html
    assert "<li>a &lt; b &amp; c</li>" in html and html.count("<tr>") == 3
    assert found._repr_latex_().startswith("$\\displaystyle \\begin{aligned}") and "align}" not in found._repr_latex_()
    assert "&lt;" not in re.sub("<li>.*</li>", "", html)
    ElementTree.fromstring(awkward()._repr_html_())
    many = dataclasses.replace(found, messages=tuple("abcdefg"))._repr_html_()
    ElementTree.fromstring(many)
    assert "<summary>2 more notes</summary><ul><li>f</li><li>g</li></ul>" in many and "result.json" not in many


def test_no_law_is_headed_as_found_where_another_row_is_about_as_good():
    found = discovery()
    assert "law found: R2" in found.summary() and outcome(found).kind == "good"
    close = dataclasses.replace(found.front[0], criterion=found.front[1].criterion + 1.0)
    contested = dataclasses.replace(found, front=(close, found.front[1]))
    assert "law found, others about as good: R2" in contested.summary()
    assert outcome(contested).kind == "stopped" and "before you believe one" in outcome(contested).meaning
    twin = dataclasses.replace(found, front=(dataclasses.replace(close, equations=found.equations), found.front[1]))
    assert "law found: R2" in twin.summary()
    doubted = dataclasses.replace(contested, messages=(Note("it drifts", Weight.DOUBT),))
    assert "law found, with doubts: R2" in doubted.summary()


FITTED = np.array([36.0, 4.0])
PLAIN = TimeSeries.from_arrays(np.arange(4.0), np.ones((4, 2)), ["hare", "lynx"])


def test_starts_are_those_that_were_given_and_else_the_fitted_ones():
    states = ["hare", "lynx"]
    for given, expected in (({}, [36.0, 4.0]), ({"hare": 1}, [1.0, 4.0]), ((2, 3), [2.0, 3.0])):
        assert start_values(given, FITTED, states).tolist() == expected
    with pytest.raises(InputError, match="hare"):
        start_values({"har": 1.0}, FITTED, states)
    for wrong in ([1.0], [1.0, np.nan], {"hare": np.inf}, "many", [[1.0, 2.0]], {"hare": "few"}):
        with pytest.raises(InputError, match="expected 2 finite numbers, of hare, lynx"):
            start_values(wrong, FITTED, states)


def test_times_increase_and_are_those_of_the_data_by_default():
    assert asked_times(None, PLAIN).tolist() == [0.0, 1.0, 2.0, 3.0]
    for wrong in ([], [np.nan], 3.0, ["2024-05-01"], [[0.0, 1.0]]):
        with pytest.raises(InputError, match="a list of finite numbers"):
            asked_times(wrong, PLAIN)
    for wrong in ([1.0, 1.0], [2.0, 1.0]):
        with pytest.raises(InputError, match="increase"):
            asked_times(wrong, PLAIN)
    # Dates count as those of the data did.
    dated = TimeSeries.from_arrays(list(pd.date_range("2024-05-01", periods=4)), np.ones((4, 1)), ["x"])
    assert asked_times(["2024-05-02", "2024-05-03T12:00"], dated).tolist() == [1.0, 2.5]
    assert asked_times([0.0, 7.0], dated).tolist() == [0.0, 7.0]


def test_named_constants_are_kept_and_read_back():
    named = NamedConstants(("x' = -k*x + c",), ("k", "c"), (0.5, 2.0), (0.01, float("nan")))
    again = NamedConstants.from_record(named.record())
    assert again is not None and again.text() == named.text() == "x' = -k*x + c\nk = 0.500(10), c = 2"
    assert named.record()["standard_errors"] == [0.01, None]
    # With 10 degrees of freedom a 95 % interval is 2.228 standard errors on each side.
    (k, c) = named.rows(10)
    assert (k["high"] - k["low"]) / 2.0 == pytest.approx(2.228 * 0.01, rel=1e-3)
    assert c["low"] is None and c["high"] is None
    with pytest.raises(ValueError, match="different numbers"):
        NamedConstants.from_record(named.record() | {"values": [0.5]})


T = np.linspace(0.0, 8.0, 30)
NOISY = 5.0 * np.exp(-0.4 * T) + 0.05 * np.random.default_rng(2).standard_normal(len(T))


@pytest.fixture(scope="module")
def decay():
    return fit_constants(TimeSeries.from_arrays(T, NOISY, ["x"]), "x' = -k*x")


def test_the_criterion_is_that_of_schwarz(decay):
    value, count = criterion(decay)
    curve = decay.simulate()[:, 0]
    assert count == 2  # the rate and the start
    assert value == pytest.approx(30 * np.log(np.mean((NOISY - curve) ** 2)) + 2 * np.log(30), abs=1e-6)
    # A curve that has ended explains nothing.
    lost = dataclasses.replace(decay, equations=Equations.parse(["x"], {"x": "5.0*x**2"}))
    assert criterion(lost)[0] == np.inf


def test_weights_are_those_of_the_differences_between_results_of_the_same_samples(decay):
    richer = fit_constants(decay.series, "x' = -k*x + c*x^2")
    table = compare(decay, richer, names=["decay", "richer"]).table
    gap = abs(criterion(richer)[0] - criterion(decay)[0])
    assert table["difference"].tolist() == pytest.approx([0.0, gap])
    assert table["weight"].sum() == pytest.approx(1.0)
    assert table["weight"][0] / table["weight"][1] == pytest.approx(np.exp(gap / 2.0))
    other = fit_constants(TimeSeries.from_arrays(T, NOISY + 1e-3, ["x"]), "x' = -k*x")
    with pytest.raises(InputError, match="other data"):
        compare(decay, other)
    with pytest.raises(InputError, match="at least two"):
        compare(decay)
    with pytest.raises(InputError, match="expected 2 names"):
        compare(decay, decay, names=["one"])


FILLING = np.linspace(0.0, 12.0, 40)


@pytest.fixture(scope="module")
def resting():
    """x' = 2 - 0.5 x from 0, which comes to rest at 4."""
    values = 4.0 * (1.0 - np.exp(-0.5 * FILLING)) + 0.02 * np.random.default_rng(1).standard_normal(len(FILLING))
    filled = TimeSeries.from_arrays(FILLING, values, ["x"])
    return fit_constants(filled, Equations.parse(["x"], {"x": "2.0 - 0.5*x"}), exponents=False)


def test_the_point_has_the_error_of_its_constants(resting):
    (note,) = rest(resting)
    value, error = map(float, re.findall(r"x = ([\d.]+)\((\d+)\)", note)[0])
    assert value == pytest.approx(4.0, abs=0.05)
    # Where a + c x = 0 with c < 0: dx / da = -1 / c, dx / dc = a / c^2, in the units of the fit.
    law, covariance = resting.estimates.law, resting.estimates.covariance.matrix[:2, :2]
    constant = int(law.exponents[0, 0] != 0.0)
    a, c = law.coefficients[0, [constant, 1 - constant]]
    gradient = np.array([-1.0 / c, a / c**2])[[constant, 1 - constant]] * resting.estimates.scale.state[0]
    expected = float(np.sqrt(gradient @ covariance @ gradient))
    digits = len(note.split("x = ")[1].split("(")[0].partition(".")[2])
    assert error * 10.0**-digits == pytest.approx(expected, rel=0.05)


def test_what_grows_or_is_driven_comes_to_no_rest(resting):
    growing = TimeSeries.from_arrays(FILLING, np.exp(0.1 * FILLING), ["x"])
    assert rest(fit_constants(growing, Equations.parse(["x"], {"x": "0.1*x"}))) == []
    driven = dataclasses.replace(resting, series=dataclasses.replace(resting.series, controls=("u",)))
    assert rest(driven) == []


def test_a_slip_is_told_with_its_time():
    t = np.linspace(0.0, 20.0, 40)
    x = 10.0 / (1.0 + 32.0 * np.exp(-0.5 * t)) + 0.08 * np.random.default_rng(1).standard_normal(40)
    x[17] += 2.0
    found = discover(TimeSeries.from_arrays(t, x, ["N"]), settings_for(library=["textbook"]), Monitor())
    (told,) = [text for text in found.messages if text.startswith("far off")]
    assert f"N at t = {t[17]:.6g}" in told
    assert "empty the cell" in told
    # The constants of a name belong to its row alone.
    other = found.select(next(row.complexity for row in found.front if not row.selected))
    assert found.name_text() not in facts(other) and other.textbook is None


def test_only_lonely_residuals_are_far_off():
    usual, neighbours, many = np.random.default_rng(0).standard_normal(200), [10, 11, 12], [2, 6, 10, 14, 18, 22]
    for places, expected in (([0], [0]), ([10, 30], [10, 30]), (neighbours, []), (many, [])):
        residuals = usual[:60].copy()
        residuals[places] = 20.0
        assert list(far_off(residuals, np.zeros(60))) == expected
    # Of few samples the spread is not known, and for a while all may be large.
    assert not far_off(np.array([1.0, -1.0, 1.0, 50.0, -1.0]), np.zeros(5))
    assert not far_off(usual * np.where(np.arange(200) < 30, 40.0, 1.0), np.zeros(200))


UNITS = {"S": "g/L", "t": "h"}
UNKNOWN, KNOWN = (TimeSeries.from_arrays(np.arange(5.0), np.ones((5, 1)), ["S"], units=own) for own in (None, UNITS))
LAW = Equations.parse(["S"], {"S": "0.5*S - 0.01*S**2"})
LOGISTIC = NamedConstants(("S' = r*S*(1 - S/K)",), ("r", "K"), (0.5, 50.0), (0.01, float("nan")))


def test_every_constant_has_the_unit_of_its_term():
    records = constant_records(LAW, None, UNITS)["S"]
    coefficients = {row["value"]: row["unit"] for row in records if row["kind"] == "coefficient"}
    assert coefficients == {0.5: "1/h", -0.01: "L/(g h)"}
    assert all("unit" not in row for row in constant_records(LAW, None, {})["S"])


def test_constants_are_printed_with_their_units_and_errors():
    assert units_text(LAW, KNOWN, LOGISTIC) == "with units: r = 0.500(10) 1/h, K = 50 g/L"
    assert units_text(LAW, KNOWN, None, LOGISTIC) == "r in 1/h, K in g/L"
    errors = PowerSum(np.array([[0.02, 0.001]]), np.zeros((2, 1)))
    printed = units_text(dataclasses.replace(LAW, standard_errors=errors), KNOWN)
    assert printed == "units in S': 0.500(20) 1/h, -0.0100(10) L/(g h)"
    assert units_text(LAW, UNKNOWN) == ""
