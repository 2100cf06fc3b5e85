"""The page of a result: well formed, nothing loaded, every name harmless, never too large."""

import dataclasses
import json
import re
import shlex
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from faces import discovery
from pages import HOSTILE, PAGES, driven, fitted, gaps

from odediscovery import Discovery, Settings, settings_for
from odediscovery.command.cli import main
from odediscovery.laws.power_sum import PowerSum
from odediscovery.plots.figures import fit_figure
from odediscovery.report import forecast_of, report_html
from odediscovery.report.words import command, explained

MOST_BYTES = 2_000_000
VOID = {"meta", "br"}


class Page(HTMLParser):
    """What stands in a page; complains about an element that is not closed in its place."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.open = []
        self.elements = []
        self.text = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        assert len({name for name, _ in attrs}) == len(attrs), (tag, attrs)
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append((tag, dict(attrs)))

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        if data.strip() and self.open[-1][0] not in ("style", "script"):
            self.text.append(data)

    def of_class(self, name):
        return [a for _, a in self.elements if name in (a.get("class") or "").split()]


# Each is a fit or a long drawing of its own: these are left to `make long`.
LONG = ("fsir", "wide", "awkward", "long", "runs", "dense", "functions", "driven", "gaps", "complex", "expressions")
KINDS = [pytest.param(kind, marks=pytest.mark.long if kind in LONG else ()) for kind in PAGES]


@cache
def html(kind):
    return report_html(PAGES[kind]())


@pytest.mark.parametrize("kind", KINDS)
def test_pages_are_well_formed_load_nothing_and_tell_everything_in_words(kind):
    text = html(kind)
    page = Page(text)
    tags = [tag for tag, _ in page.elements]
    assert len(text.encode()) < MOST_BYTES
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(set(ids)) == len(ids)
    referred = re.findall(r"url\(#([^)]*)\)", text)
    referred += [str(a["href"]).removeprefix("#") for _, a in page.elements if "href" in a]
    assert referred and set(referred) <= set(ids)
    # Nothing is loaded, and no script runs but its own.
    assert "://" not in text.replace("&#34;", "") and "@import" not in text
    assert not set(tags) & {"link", "img", "iframe", "base"} and tags.count("script") == 1
    assert not [name for _, a in page.elements for name in a if name == "src" or name.startswith("on")]
    (policy,) = (a["content"] for tag, a in page.elements if tag == "meta" and "default-src" in str(a.get("content")))
    assert "default-src 'none'" in str(policy) and "script-src 'sha256-" in str(policy)
    # Numbers that are none are told in words, and every term has its reading.
    for told in page.text:
        assert not re.search(r"(?<![\w])(nan|inf|None)(?![\w])", told), told
    equations = text.partition('<section id="equations">')[2].partition("</section>")[0]
    for card in equations.split('<div class="equation">')[1:]:
        formulas = card.count("<math>") - 1  # the left-hand side
        assert card.count('class="reading"') == formulas


def test_names_are_letters_and_never_marks():
    page = Page(html("hostile"))
    assert {"b", "em"} & {tag for tag, _ in page.elements} == {"b"}  # the page's own <b>
    assert [tag for tag, _ in page.elements].count("style") == 1
    shown = " ".join(page.text)
    for name in (*HOSTILE, "</svg>", "a <b>message</b>".capitalize()):
        assert name in shown
    assert "49" not in re.findall(r"\{\{|\b49\b", shown) and "{{ 7*7 }}" in shown


def shown_in(html):
    """The text of a page."""
    return " ".join(Page(html).text)


SAID = {
    # Poor fits are called so.
    "refused": ["No law found", "Do not conclude or predict from them", "x explains nothing.", "read from no network"],
    # What is left out is said.
    "long": ["Drawn are every 100th sample, 400 of 40000."],
    "wide": [
        "Drawn are the first 12 of 24 states, and 6 of 9 trajectories.",
        "Drawn are 6 of 276 pairs of states",
        "too many units to be drawn",
    ],
    # Bands, stability and units.
    "fitted": ["95 % of new measurements", "t [h]", "On 50 data sets", "96 %", "not printed", "would double it in"],
}


@pytest.mark.parametrize("kind", SAID)
def test_pages_say_what_a_reader_must_know(kind):
    shown = shown_in(html(kind))
    assert [text for text in SAID[kind] if text not in shown] == []
    assert kind != "fitted" or html(kind).count("fill-opacity: 0.15") == 1


@pytest.mark.long
def test_a_page_of_a_loaded_folder_is_the_same(tmp_path):
    for found in (fitted(), gaps()):
        found.save(tmp_path / "found")
        # The order of terms in a sum may differ, and with it the last digit of a curve.
        pages = [
            re.sub(r"<svg.*?</svg>", "", report_html(one), flags=re.DOTALL)
            for one in (found, Discovery.load(tmp_path / "found"))
        ]
        assert pages[0] == pages[1]


def test_a_forecast_is_shown_with_its_intervals():
    found = fitted()
    until = np.linspace(0.0, 40.0, 9)
    shown = shown_in(report_html(found, forecast_of(found, until)))
    assert "behind the dashed line" in shown and "±" in shown
    alone = forecast_of(found, until, {"biomass": 5.0})
    assert not alone.goes_on and alone.half is not None
    text = report_html(found, alone)
    assert "From the start" in text and "taken as exact" in text and "dashed line" not in text
    # Without an end or a covariance it says so.
    unbounded, unknown = forecast_of(PAGES["refused"](), np.array([0.0, 1.0])).notes
    assert "grows without bound" in unbounded and "no intervals" in unknown


# The commands


def test_report_and_predict_write_the_page(tmp_path, capsys):
    fitted().save(tmp_path / "found")
    folder, page = str(tmp_path / "found"), tmp_path / "found" / "report.html"
    document = json.loads((tmp_path / "found/result.json").read_text(encoding="utf-8"))
    document["versions"]["torch"] = "0.0.1-of-then"
    (tmp_path / "found/result.json").write_text(json.dumps(document), encoding="utf-8")
    assert main(["report", folder]) == 0
    assert capsys.readouterr().out == f"written to {page}\n"
    text = page.read_text(encoding="utf-8")
    assert "torch 0.0.1-of-then" in text and "Prediction" not in text
    other = tmp_path / "ahead.html"
    assert main(["predict", folder, "--until", "30", "--report", str(other)]) == 0
    assert capsys.readouterr().out.startswith("t,biomass")
    assert "<h2>Prediction</h2>" in other.read_text(encoding="utf-8")


def test_report_of_nothing(tmp_path, capsys):
    assert main(["report", str(tmp_path / "no")]) == 2
    assert "no such folder" in capsys.readouterr().err
    discovery().save(tmp_path / "found")
    lost = str(tmp_path / "no" / "page.html")
    assert main(["report", str(tmp_path / "found"), "--out", lost]) == 2
    assert capsys.readouterr().err.startswith(f"error: --out {lost}: cannot be written")


def test_a_page_that_fails_does_not_lose_the_fit(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("odediscovery.discovery.discover.discover", lambda *_: discovery())
    monkeypatch.setattr("odediscovery.plots.figures.checks_figure", fit_figure)  # which takes seconds

    def fail(*_):
        raise ZeroDivisionError("of a test")

    monkeypatch.setattr("odediscovery.report.write_report", fail)
    Path("data.csv").write_text("t,S\n0,1\n1,2\n2,3\n3,4\n", encoding="utf-8")
    assert main(["fit", "data.csv", "--quiet"]) == 0
    shown = capsys.readouterr()
    assert "report.html could not be made (ZeroDivisionError: of a test)" in shown.err
    assert "written to data.odediscovery" in shown.out
    assert Path("data.odediscovery/fit.png").is_file()


@pytest.mark.parametrize("kind", ["fsir", "runs", "driven", "gaps", "asked", "published"])
def test_the_printed_command_fits_the_same_with_the_same_settings(kind, tmp_path, monkeypatch):
    asked = {"seed": 5, "members": 0, "grow": True, "prune_long": False, "l1": 0.5}
    asked |= {"known": ["S' = -I + ?"], "forbid": ["S: R", "I: R"], "tries": ["S' = -b*S"]}
    found = {
        "asked": lambda: dataclasses.replace(discovery(time_name="day"), settings=settings_for(**asked)),
        "published": lambda: dataclasses.replace(discovery(), settings=settings_for("as-run")),
    }.get(kind, PAGES.get(kind))()
    found.save(tmp_path)
    calls = []

    def discover(series, settings, _):
        calls.append((series, settings))
        return found

    monkeypatch.setattr("odediscovery.discovery.discover.discover", discover)
    monkeypatch.setattr("odediscovery.command.fit._keep", lambda *_: None)
    monkeypatch.chdir(tmp_path)
    line = command(found)
    assert main(shlex.split(line)[1:]) == 0
    ((series, settings),) = calls
    assert settings == found.settings
    assert (series.time_name, series.controls) == (found.series.time_name, found.series.controls)
    for mine, theirs in zip(series.trajectories, found.series.trajectories, strict=True):
        own = [found.series.states.index(state) for state in series.states]
        np.testing.assert_array_equal(mine.values, theirs.values[:, own])


def test_names_with_commas_have_no_command():
    found = driven()
    series = dataclasses.replace(found.series, controls=("t", "u,v"))
    assert command(dataclasses.replace(found, series=series)) is None
    page = report_html(dataclasses.replace(found, settings=Settings(hidden_states=("a,b",))))
    assert "load data.csv in Python" in page


def test_shares_are_never_rounded_up():
    assert explained(0.999986) == "99.999 %" and explained(0.95) == "95.0 %"
    assert explained(0.999996) == "more than 99.999 %"
    assert explained(float("nan")) == "unknown"


def test_times_that_were_dates_are_told_as_dates():
    found = discovery(PowerSum(-0.1 * np.eye(1), np.eye(1)), ("x",), initial=(5.0,))
    series = dataclasses.replace(found.series, time_name="day", units={"day": "days"}, since="2024-05-01")
    shown = shown_in(report_html(dataclasses.replace(found, series=series)))
    assert "Fitted to 40 samples from 2024-05-01 to 2024-11-17" in shown
    assert "0 (2024-05-01)" in shown
