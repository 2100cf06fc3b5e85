"""A result shows itself: text, tables, rows of the front, notebooks, pictures."""

from __future__ import annotations

import dataclasses
import json
import pydoc
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from faces import awkward, discovery
from problems import FSIR

from odediscovery import Discovery, InputError, discover, plot_fit
from odediscovery.command.cli import main
from odediscovery.judge.notes.note import Note, Weight
from odediscovery.laws.equations import Equations
from odediscovery.report.words import outcome
from odediscovery.result.population import GroupConstant, Population
from odediscovery.result.survival import Survival


def with_rival() -> Discovery:
    """A result whose simpler row has start values of its own, I' = -0.05 I and the like."""
    found = discovery(runs=2)
    rival = Equations.parse(["S", "I", "R"], {"S": "-0.01*S", "I": "0.05*I", "R": "0"})
    row = dataclasses.replace(found.front[0], equations=rival, complexity=4, initial_values=2 * found.initial_values)
    return dataclasses.replace(
        found, front=(row, dataclasses.replace(found.front[1], initial_values=found.initial_values))
    )


def test_a_result_prints_its_equations() -> None:
    found = discovery()
    assert repr(found).splitlines()[:3] == found.equations_text().splitlines()
    assert repr(found).splitlines()[3] == "(converged, R2 = 0.999900, 2 rows on the front)"
    long = Equations.parse(["x"], {"x": " + ".join(f"{k}.5*x**{k}" for k in range(2, 60))})
    cut = dataclasses.replace(found, equations=long)
    assert all(len(line) <= 160 for line in repr(cut).splitlines())
    assert repr(cut).splitlines()[0].endswith("...")


def test_laws_and_rows_print_no_arrays() -> None:
    found = discovery()
    assert repr(found.equations) == found.equations.pretty()
    assert "array" not in repr(found.front) and repr(found.front[1]).startswith("complexity 13, MSE ")
    assert ", chosen: S' = " in repr(found.front[1]) and ", chosen" not in repr(found.front[0])
    table = found.rows
    assert table["selected"].tolist() == [False, True] and table["difference"].tolist() == [1400.0, 0.0]
    assert table["equations"][1] == found.front[1].plain()


def test_a_summary_holds_notes_and_the_front() -> None:
    lines = discovery().summary().splitlines()
    assert "note: made by hand" in lines
    front = lines[lines.index("Pareto front (* chosen):") + 1 :]
    assert [line[0] for line in front] == [" ", "*"]
    assert "complexity  13" in front[1] and "(" not in front[1].partition("S' =")[2]


def test_terms_and_constants_are_tables() -> None:
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


def test_residuals_are_data_minus_curve() -> None:
    found = discovery(runs=2)
    table = found.residuals
    assert list(table.columns) == ["trajectory", "t", "S", "I", "R"]
    run = found.series.trajectories[1]
    curve = found.equations.simulate(found.initial_values[1], run.time)
    second = table[table["trajectory"] == "run 2"]
    np.testing.assert_allclose(second[["S", "I", "R"]], run.values - curve, rtol=1e-12)


def test_another_row_of_the_front_is_a_result() -> None:
    found = with_rival()
    rival = found.select(4)
    assert rival.equations_text().startswith("S' = -0.01*S")
    assert [row.selected for row in rival.front] == [True, False]
    assert [row.selected for row in found.front] == [False, True]
    assert (rival.mse, rival.r2, rival.network) == (80.0, 0.3, None)
    np.testing.assert_allclose(rival.simulate(times=np.array([0.0, 10.0]))[1, 0], 200 * np.exp(-0.1), rtol=1e-6)
    assert "of complexity 4 was chosen by hand" in rival.messages[-1] and "made by hand" not in rival.messages
    assert found.select(13) is found
    with pytest.raises(InputError, match=r"no row of complexity 5 on the front; there are 4, 13"):
        found.select(5)
    with pytest.raises(InputError, match="without start values"):
        discovery().select(discovery().front[0].complexity)


def test_a_chosen_row_is_kept_and_comes_back(tmp_path: Path) -> None:
    with_rival().select(4).save(tmp_path / "out")
    back = Discovery.load(tmp_path / "out")
    assert back.equations_text().startswith("S' = -0.01*S") and back.front[0].selected
    assert back.select(13).equations.texts() == discovery().equations.texts()


@pytest.mark.slow
def test_commands_take_another_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_a_notebook_shows_mathematics() -> None:
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


def test_a_plot_gives_its_axes() -> None:
    found = discovery(FSIR, runs=2)
    axes = found.plot()
    assert len(axes) == 3 and [ax.get_title(loc="left") or ax.get_title() for ax in axes] == ["S", "I", "R"]
    assert len(axes[0].lines) == 4  # dots and a curve of each trajectory
    plt.close(axes[0].figure)
    figure, own = plt.subplots(3, 1)
    assert plot_fit(found, own)[2] is own[2]
    plt.close(figure)
    with pytest.raises(InputError, match="axes: expected 3, one a state, got 1"):
        found.plot(own[:1])


def test_bootstrap_fits_name_their_terms() -> None:
    shares = np.array([[1.0, np.nan], [0.5, 0.25]])
    seen = Survival("residuals", 40, shares, 0.75, (("y", "y^2", 0.1),), ("x", "y"), ("x", "x*y"))
    assert repr(seen).splitlines() == [
        "40 bootstrap fits (residuals drawn): 75% have just these terms",
        "  x': x 100%",
        "  y': x 50%, x*y 25% (also y^2 10%)",
    ]
    assert seen.terms["share"].tolist() == [1.0, 0.5, 0.25, 0.1]
    assert seen.terms["printed"].tolist() == [True, True, True, False]
    back = Survival.from_record(seen.record())
    assert back is not None and repr(back) == repr(seen)
    nameless = Survival.from_record({k: v for k, v in seen.record().items() if k not in ("states", "monomials")})
    assert nameless is not None and repr(nameless).endswith("75% have just the printed terms")


def test_help_fits_on_a_screen() -> None:
    text = pydoc.render_doc(discover, renderer=pydoc.plaintext)
    shown = sum(1 + len(line) // 100 for line in text.splitlines())
    assert shown <= 30, shown


def test_no_law_is_headed_as_found_where_another_row_is_about_as_good() -> None:
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


def test_a_notebook_says_what_differs_between_groups_and_in_which_units() -> None:
    found = discovery(runs=2)
    rate = GroupConstant("k1", (0, 2), 0.06, 0.001, 0.3, 0.1, np.array([0.05, 0.07]), np.full(2, 0.002))
    groups = Population(("a", "b<c"), (rate,), {}, {"S": 0.1}, (), {"mixed": 3.0}, {"mixed": 3})
    units = {"S": "g", "I": "g", "R": "g", "t": "days"}
    series = dataclasses.replace(found.series, units=units)
    law = dataclasses.replace(found.equations, units=units)
    html = dataclasses.replace(found, population=groups, series=series, equations=law)._repr_html_()
    ElementTree.fromstring(html)
    assert "k1*S^0.5*I^0.5" in html and "log-normal over groups" in html
    assert "<summary>Groups</summary>" in html and "<td>b&lt;c</td><td>0.0700(20)</td>" in html
    assert "units in S" in html and "/day" in html
    assert "Groups" not in found._repr_html_()


def test_starts_have_names_and_times_may_be_dates() -> None:
    found = discovery()
    named = found.simulate({"I": 2.0}, [0.0, 10.0])
    np.testing.assert_allclose(named, found.simulate([100.0, 2.0, 0.0], [0.0, 10.0]))
    units = {"t": "days"}
    dated = dataclasses.replace(found, series=dataclasses.replace(found.series, units=units, since="2024-05-01"))
    numbers = found.simulate(times=[0.0, 2.0])
    for dates in (["2024-05-01", "2024-05-03"], pd.to_datetime(["2024-05-01", "2024-05-03"])):
        np.testing.assert_allclose(dated.simulate(times=dates), numbers)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"initial": {"J": 1.0}, "times": [0.0, 1.0]}, "unknown state 'J': "),
        ({"initial": [1.0], "times": [0.0, 1.0]}, "initial: expected 3 finite numbers, of S, I, R, or these by name"),
        ({"initial": "abc", "times": [0.0, 1.0]}, "initial: expected 3 finite numbers"),
        ({"times": ["2024-05-01", "2024-05-03"]}, "times should be a list of finite numbers, at least one, got"),
        ({"times": 3.0}, "times should be a list of finite numbers, at least one, got 3.0"),
        ({"times": [0.0, 0.0]}, "times should increase"),
    ],
)
def test_what_cannot_be_simulated_is_said_in_a_line(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        discovery().simulate(**asked)
    assert said in str(caught.value) and "\n" not in str(caught.value)
