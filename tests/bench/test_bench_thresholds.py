"""Thresholds halved and doubled: what is changed, what is fitted again, what a row tells."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from odediscovery.bench.random_laws.positive import POWER_SUMS
from odediscovery.bench.random_laws.saturating import HARVEST
from odediscovery.bench.random_laws.signed import PENDULUM
from odediscovery.bench.suites.problems import load_suite
from odediscovery.bench.thresholds import perturb, study
from odediscovery.bench.thresholds.left_out import left_out, rungs, watched_rungs
from odediscovery.bench.thresholds.perturb import changed, instances, scaled, values, watched_reads
from odediscovery.bench.thresholds.study import Battery, markdown, run_changes
from odediscovery.data.series import TimeSeries
from odediscovery.errors import InputError
from odediscovery.laws.equations import Equations
from odediscovery.runtime.thresholds import Thresholds, threshold
from odediscovery.search import strategies
from odediscovery.settings import Settings


@dataclass(frozen=True)
class TankThresholds(Thresholds):
    """What the stub of a fit below reads."""

    outflow: float = threshold(0.35, "coefficient that the stub finds", unit="1/h", origin="the truth")
    doubt: float = threshold(1.0, "noise above which it fails", origin="chosen")
    unread: int = threshold(3, "nobody asks", origin="chosen")
    word: str = threshold("a", "no number", origin="chosen")


ROOT = Path(__file__).resolve().parents[2]
TANK = TankThresholds()
START = load_suite("fractional")["torricelli_inflow"].starts[0, 0]


def _pages() -> ModuleType:
    """What writes the pages of numbers of the documentation."""
    spec = importlib.util.spec_from_file_location("thresholds_page", ROOT / "docs" / "thresholds_page.py")
    assert spec is not None and spec.loader is not None
    page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page)
    return page


@pytest.mark.slow
def test_the_page_reads_the_thresholds_that_the_engine_holds() -> None:
    page = _pages()
    written = {f"{owner.name}.{name}" for _, owner in page.owners() for name, _, _ in page.fields(owner)}
    held = {f"{name}.{field}" for name, own in instances().items() for field in vars(own[0])}
    assert held <= written | {f"TankThresholds.{name}" for name in vars(TANK)}
    assert {"LsodaThresholds.max_evaluations", "SignalThresholds.same_line"} <= held & written
    table = "| A.b | 2 | s | 4, 0, 1.00 | 3, 1, 0.90 | chosen |"
    assert page.measured(f"6 fits of 3 systems.\n\n{table}\n") == (
        "6 fits of 3 systems.",
        {"A.b": ("4, 0, 1.00", "3, 1, 0.90")},
    )
    lines = ("A.b | 9 | 8 | 25 % | 0 % | both | ", "A.c | 9 | 0 | - | - | - | 9", "A.d | 2 | 1 | 0 % | 0 % | never | 1")
    table = "\n".join(f"| {line} |" for line in lines)
    shares = {"A.b": "25 %, 0 %", "A.c": "-", "A.d": "0 %, 0 %, in part"}
    assert page.decided(f"6 fits of 3 systems.\n\n{table}\n") == ("6 fits of 3 systems.", shares)


@pytest.mark.slow
def test_ranges_of_random_laws_have_a_page_and_are_no_thresholds() -> None:
    page = _pages()
    text = page.ranges_page()
    owners = {owner.name for owner in page.ranges()}
    for own in (PENDULUM, HARVEST, POWER_SUMS):
        assert type(own).__name__ in owners
        assert not isinstance(own, Thresholds)
    assert "| `squared` | `0.7` | n = 2 |" in text and "| `squared`" not in page.page()


def test_every_kind_of_thresholds_has_a_name_of_its_own() -> None:
    """By its name one is changed: of two that share it the second would never be."""
    names = re.findall(
        r"^class (\w+)\(Thresholds\):",
        "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "odediscovery").rglob("*.py"))),
        re.MULTILINE,
    )
    assert len(names) > 50
    assert [name for name in names if names.count(name) > 1] == []


class Here:
    """A backend that runs tasks in this process, and remembers them."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def results(self, function: Any, tasks: Sequence[Any], _limit: float, _stopping: object) -> Any:
        for number, task in enumerate(tasks):
            self.seen.append(task)
            yield number, function(task)


@pytest.fixture
def tank(monkeypatch: pytest.MonkeyPatch) -> TankThresholds:
    """The stub in place of `discover`: it reads `doubt` in noise only."""

    def stub(series: TimeSeries, _settings: Settings) -> Any:
        class Found:
            equations = Equations.parse(series.states, {"h": f"0.3 - {TANK.outflow}*h**0.5"})

        if series.trajectories[0].values[0, 0] != START and TANK.doubt > 1.5:
            raise ZeroDivisionError("too noisy")
        return Found

    monkeypatch.setattr(study, "discover", stub)
    monkeypatch.setattr(perturb, "TANK", TANK, raising=False)
    return TANK


BATTERY = Battery(ids=("fractional/torricelli_inflow",))
FIELDS = ["TankThresholds"]


@pytest.mark.parametrize(
    ("value", "half", "twice"),
    [
        (0.5, 0.25, 1.0),
        (5, 2, 10),
        (1, 0, 2),
        (0, -1, 1),
        (-1, 0, -2),
        ((2, 0.5), (1, 0.25), (4, 1.0)),
        (True, None, None),
        ("LSODA", None, None),
        (("BDF", 2), None, None),
        (float("inf"), None, None),
        (0.0, None, None),
        ((), None, None),
    ],
)
def test_numbers_are_scaled_and_whole_ones_stay_whole(value: Any, half: Any, twice: Any) -> None:
    assert (scaled(value, 0.5), scaled(value, 2.0)) == (half, twice)
    assert type(scaled(value, 2.0)) is type(twice)


def test_a_threshold_is_changed_for_a_while_even_if_the_block_fails(tank: TankThresholds) -> None:
    assert instances()["TankThresholds"] == [tank]
    assert {name for name in values() if name.startswith("Tank")} == {
        "TankThresholds.outflow",
        "TankThresholds.doubt",
        "TankThresholds.unread",
    }
    with pytest.raises(ZeroDivisionError), changed("TankThresholds.unread", 0.5) as value:
        assert tank.unread == value == 2
        raise ZeroDivisionError
    assert tank.unread == 3


def test_reads_are_noted_within_the_block_only(tank: TankThresholds) -> None:
    with watched_reads() as reads:
        assert tank.outflow == 0.35
    assert tank.unread == 3
    assert "TankThresholds.outflow" in reads and "TankThresholds.unread" not in reads


def test_a_rung_is_left_out_for_a_while_and_every_one_of_its_name() -> None:
    before, every = strategies.STRATEGIES, rungs()
    assert "closing: few products" in every
    twice = "noisy: swapped monomials"
    assert [r.name for r in before[-1].rungs].count("swapped monomials") == 2
    with left_out(twice):
        assert list(rungs()) == [name for name in every if name != twice]
    with pytest.raises(ZeroDivisionError), left_out("closing: few products"):
        assert [r.name for r in strategies.CLOSING.rungs] == ["free powers", "terms along the best law"]
        raise ZeroDivisionError
    assert strategies.STRATEGIES is before and list(rungs()) == list(every)


@pytest.mark.slow
def test_a_row_for_each_rung_fits_what_climbs_it(tmp_path: Path) -> None:
    """Logistic growth is a textbook law; without its rung another one finds it."""
    here, battery = Here(), Battery(sigma=0.01, ids=("classics/logistic",))
    rows = run_changes(battery, tmp_path / "rows", kind="rungs", backend=here, say=lambda _: None)  # type: ignore[arg-type]
    assert [row["id"] for row in rows] == ["battery", *rungs()]
    climbed = {row["id"]: list(row["fits"]) for row in rows}
    clean, noisy = battery.fits(battery.ids[0])
    base = rows[0]["fits"]
    assert base[clean]["reads"] and base[noisy]["reads"]
    for name in rungs():
        assert climbed[name] == [fit for fit in (clean, noisy) if name in base[fit]["reads"]]
    first = rows[1 + list(rungs()).index(base[noisy]["reads"][0])]
    assert first["fits"][noisy]["failed"] is None and first["fits"][noisy]["equations"]
    text = markdown(battery, rows, kind="rungs")
    assert text.startswith("# rungs") and "| closing: few products |" in text
    with pytest.raises(InputError, match="unknown rung"):
        run_changes(battery, tmp_path / "rows", kind="rungs", names=["clean: nothing"])


def test_a_rung_is_noted_once_laws_are_asked_of_it() -> None:
    with watched_rungs() as climbed:
        watched = strategies.STRATEGIES[0].rungs[1]
        assert climbed == set()
        watched.proposes.laws(None)  # type: ignore[arg-type] (a generator: nobody reads the climb yet)
        assert climbed == {"clean: exact law"}
    strategies.STRATEGIES[0].rungs[1].proposes.laws(None)  # type: ignore[arg-type]
    assert climbed == {"clean: exact law"}


@pytest.mark.slow
def test_a_row_for_each_threshold_and_factor_fits_what_reads_it(tank: TankThresholds, tmp_path: Path) -> None:
    here = Here()
    rows = run_changes(BATTERY, tmp_path / "rows", names=FIELDS, backend=here, say=lambda _: None)  # type: ignore[arg-type]
    assert [(row["id"].rpartition(".")[2], row["method"]) for row in rows] == [
        ("battery", "1"),
        ("outflow", "0.5"),
        ("outflow", "2"),
        ("doubt", "0.5"),
        ("doubt", "2"),
        ("unread", "0.5"),
        ("unread", "2"),
    ]
    clean, noisy = BATTERY.fits(BATTERY.ids[0])
    assert [list(row["fits"]) for row in rows] == [[clean, noisy]] * 3 + [[noisy]] * 2 + [[]] * 2
    assert rows[0]["fits"][clean]["exact"] and rows[0]["fits"][clean]["failed"] is None
    assert rows[2]["value"] == 0.7 and rows[2]["fits"][clean]["equations"] == {"h": "0.3 - 0.7*h**0.5"}
    assert rows[4]["fits"][noisy]["failed"] == "ZeroDivisionError: too noisy"
    # Half and twice the coefficient are the true terms still; what fails is not exact.
    text = markdown(BATTERY, rows)
    lines = {line.split(" | ")[0].removeprefix("| "): line.split(" | ")[1:-1] for line in text.splitlines()}
    assert [cell[:5] for cell in lines["TankThresholds.outflow"]] == ["0.35", "1/h", "2, 2,", "2, 2,"]
    assert [cell[:5] for cell in lines["TankThresholds.doubt"]] == ["1", "1", "2, 0,", "1, 1,"]
    assert lines["TankThresholds.unread"][2:] == ["-", "-"]
    # The same command goes on and has nothing left to do.
    count = len(here.seen)
    again = run_changes(BATTERY, tmp_path / "rows", names=FIELDS, backend=here, say=lambda _: None)  # type: ignore[arg-type]
    assert len(here.seen) == count == 7 and again == rows
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows


def test_the_rule_takes_quick_systems_of_every_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    battery = Battery(every=6)
    assert [id.partition("/")[0] for id in battery.candidates()] == ["fractional"] * 5 + ["odebench"] * 6 + [
        "classics"
    ] * 3
    slow = next(iter(battery.candidates()))

    def fitted(_battery: Battery, fit: str, _kind: study.Kind) -> dict[str, Any]:
        return {"failed": None, "exact": True, "equations": {}, "reads": [], "seconds": 9.0 if slow in fit else 1.0}

    monkeypatch.setattr(study, "fitted", fitted)
    row = study.measured(study.ChangedFits(battery, "battery", 1.0))
    assert len(row["fits"]) == 2 * 13 and not any(fit.startswith(slow) for fit in row["fits"])


@pytest.mark.slow
def test_random_laws_are_a_battery_too() -> None:
    of_each = Battery(each=1, seed=5).candidates()
    assert len(of_each) == 7 and {system.suite for system in of_each.values()} == {"random"}
    asked = ("random/compartments-1", "fractional/torricelli_inflow")
    assert tuple(Battery(ids=asked, seed=5).candidates()) == asked


@pytest.mark.parametrize(
    ("battery", "fields"),
    [
        (Battery(every=0), None),
        (Battery(quick=0.0), None),
        (Battery(sigma=-1.0), None),
        (Battery(ids=("fractional/nothing",)), None),
        (Battery(ids=("random/nothing-1",)), None),
        (Battery(each=-1), None),
        (Battery(each=1, ids=("fractional/toy",)), None),
        (BATTERY, ["TankThresholds.nothing"]),
    ],
)
def test_what_cannot_be_studied_is_said(battery: Battery, fields: list[str] | None, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        run_changes(battery, tmp_path / "rows", names=fields)
    assert not list(tmp_path.iterdir())
