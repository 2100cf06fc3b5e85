"""A result shows itself: text, tables, rows of the front, notebooks, pictures."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from faces import awkward, discovery

from odediscovery import Discovery, InputError
from odediscovery.command.cli import main
from odediscovery.judge.notes.note import Note, Weight
from odediscovery.laws.equations import Equations
from odediscovery.report.words import outcome


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
