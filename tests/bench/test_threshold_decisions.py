"""Numbers with three values, and the study of which thresholds decide."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from odediscovery.bench.thresholds import perturb, study
from odediscovery.bench.thresholds.decisions import (
    DECIDES,
    NOT_FOLLOWED,
    ONE_WAY,
    WITHOUT_EFFECT,
    markdown,
    run_decisions,
    tallied,
    verdict,
    watched_decisions,
)
from odediscovery.bench.thresholds.study import Battery, fitted_within
from odediscovery.bench.thresholds.tally import Tally
from odediscovery.bench.thresholds.threefold import Threefold
from odediscovery.command.cli import main
from odediscovery.errors import InputError
from odediscovery.runtime.thresholds import Thresholds, threshold


@dataclass(frozen=True)
class SieveThresholds(Thresholds):
    """What `sieved` reads."""

    least: float = threshold(4.0, "values below are dropped")
    most: float = threshold(100.0, "values above are dropped")
    steps: int = threshold(3, "rounds")
    shares: tuple[float, ...] = threshold((0.1, 0.9), "a number of several")
    unread: float = threshold(1.0, "nobody asks")
    word: str = threshold("a", "no number")


SIEVE = SieveThresholds()


def tallied_of(function: Callable[[], Any]) -> tuple[Any, dict[str, tuple[int, ...]]]:
    """What a function gives, and the tallies of the sieve by field."""
    with watched_decisions() as tallies:
        found = function()
    named = {name.partition(".")[2]: astuple(t) for name, t in tallies.items() if name.startswith("Sieve")}
    return found, named


def test_comparisons_come_out_as_they_do_and_tell_what_else_they_could() -> None:
    values = [1.0, 3.0, 5.0, 7.0, 9.0]
    found, tallies = tallied_of(lambda: [v for v in values if SIEVE.least <= v and v < SIEVE.most])
    assert found == [5.0, 7.0, 9.0]
    # At half of 4 the value 3 would be kept, at 8 those of 5 and 7 would not; 50 and 200 are as good as 100.
    assert tallies == {"least": (5, 5, 3, 2, 1, 2, 0), "most": (3, 3, 3, 0, 0, 0, 0)}
    assert verdict(Tally(*tallies["least"])) == DECIDES
    assert verdict(Tally(*tallies["most"])) == WITHOUT_EFFECT


def test_arithmetic_is_followed_and_each_threshold_with_the_other_as_it_is() -> None:
    def compared() -> list[bool]:
        product = 2 * SIEVE.least * SIEVE.most - 100.0  # 700; half of either 300, twice 1500
        return [product > 299.0, bool(product < 301.0), abs(-product) > 1000, round(product / 7) == 100]

    found, tallies = tallied_of(compared)
    assert found == [True, False, False, True]
    assert tallies == dict.fromkeys(("least", "most"), (1, 4, 2, 2, 2, 2, 0))


@pytest.mark.parametrize(
    ("use", "decided"),
    [
        (lambda x: x > SIEVE.least, (1, 1, 1, 1, 1)),
        (lambda x: 10.0 * SIEVE.most < x, (1, 0, 1, 0, 0)),
        (lambda x: x * SIEVE.least > 11.0, (1, 1, 1, 1, 0)),
        (lambda x: np.abs(x[:, None] - SIEVE.least)[0] > 2.5, (1, 1, 0, 1, 0)),
        (lambda x: np.maximum(x, SIEVE.least), (1, 1, 1, 1, 1)),
        (lambda x: np.maximum(x, SIEVE.least, out=x), (1, 1, 1, 1, 1)),
        (lambda x: np.minimum(SIEVE.most, x), (1, 0, 1, 0, 0)),
        (lambda x: x.clip(0.0, SIEVE.most), (1, 0, 1, 0, 0)),
        (lambda x: np.clip(x, SIEVE.least, None), (1, 1, 1, 1, 1)),
        (lambda x: np.where(x > 3.0, SIEVE.least, x) > 8.5, (1, 0, 1, 0, 0)),
        (lambda x: [v > SIEVE.least for v in SIEVE.least * np.ones(1)], (1, 0, 1, 0, 0)),
        (lambda x: np.float64(3.0) ** SIEVE.least > 100.0, (1, 0, 1, 0, 1)),
    ],
)
def test_arrays_are_compared_element_by_element(use: Callable[[Any], Any], decided: tuple[int, ...]) -> None:
    x = np.array([1.0, 3.0, 5.0])
    plain, (found, tallies) = use(x.copy()), tallied_of(lambda: use(x.copy()))
    assert type(found) is type(plain) and np.array_equal(found, plain)
    (tally,) = tallies.values()
    assert tally[1:] == (*decided, 0)


@pytest.mark.parametrize(
    ("use", "lost"),
    [
        (lambda: math.log(SIEVE.least), True),
        (lambda: list(range(SIEVE.steps)), True),
        (lambda: [1, 2, 3, 4][: SIEVE.steps], True),
        (lambda: f"{SIEVE.least:g}", True),
        (lambda: {SIEVE.steps: "three"}[3], True),
        (lambda: np.full(2, SIEVE.least).tolist(), True),
        (lambda: np.array([1.0, SIEVE.least]).tolist(), True),
        (lambda: np.arange(5.0)[SIEVE.steps], True),
        (lambda: np.linalg.norm(SIEVE.least * np.ones(4)), True),
        (lambda: (SIEVE.least * np.ones(2)).sum(), True),
        (lambda: (SIEVE.least * np.ones((2, 3))).shape, False),
        (lambda: [0] * SIEVE.steps, True),
        (lambda: copy.deepcopy(SIEVE.least), True),
        (lambda: int(SIEVE.least / 1000.0), False),
        (lambda: [share > 0.3 for share in SIEVE.shares], False),
        (lambda: SIEVE.word + str(isinstance(SIEVE.least, float) and isinstance(SIEVE.steps, int)), False),
    ],
)
def test_what_cannot_be_followed_is_counted_and_is_what_it_was(use: Callable[[], Any], lost: bool) -> None:
    plain, (found, tallies) = use(), tallied_of(use)
    assert found == plain and type(found) is type(plain)
    assert any(tally[-1] > 0 for tally in tallies.values()) == lost


def test_what_is_written_into_a_followed_array_stands_in_it() -> None:
    def written() -> list[float]:
        scaled = SIEVE.least * np.arange(3.0)
        same = scaled
        scaled[0] = 7.0
        scaled += SIEVE.least
        return [float(value) for value in same]

    assert tallied_of(written)[0] == written() == [11.0, 8.0, 12.0]
    found, tallies = tallied_of(lambda: np.add(np.ones(2), SIEVE.least, out=np.zeros(2)).tolist())
    assert found == [5.0, 5.0] and tallies["least"][-1] == 1


def test_what_fails_at_half_or_twice_only_is_lost() -> None:
    found, tallies = tallied_of(lambda: 1 / (SIEVE.least - 8.0) < 0)
    assert found and tallies["least"] == (1, 0, 0, 0, 0, 0, 1)


def test_torch_takes_such_numbers() -> None:
    torch = pytest.importorskip("torch")
    x = torch.linspace(0.0, 8.0, 3, dtype=torch.float64)
    found, tallies = tallied_of(lambda: (x * SIEVE.least + torch.clamp(x, max=SIEVE.least)).tolist())
    assert found == [0.0, 20.0, 36.0] and tallies["least"][-1] > 0


def test_after_the_block_a_threshold_is_a_number_again() -> None:
    with pytest.raises(ZeroDivisionError), watched_decisions():
        assert isinstance(SIEVE.least, Threefold) and isinstance(SIEVE.least, float)
        raise ZeroDivisionError
    assert type(SIEVE.least) is float


def test_the_four_kinds() -> None:
    assert verdict(Tally(reads=2)) == WITHOUT_EFFECT
    assert verdict(Tally(2, 2, 2, 0, 0, 0, lost=1)) == NOT_FOLLOWED
    assert verdict(Tally(2, 2, 0, 2, 1, 0)) == ONE_WAY
    assert verdict(Tally(2, 2, 0, 2, 1, 0, lost=1)) == verdict(Tally(2, 2, 1, 1, 0, 1)) == DECIDES


class Here:
    """A backend that runs tasks in this process."""

    def results(self, function: Any, tasks: Sequence[Any], _limit: float, _stopping: object) -> Any:
        yield from ((number, function(task)) for number, task in enumerate(tasks))


HERE: Any = Here()
BATTERY = Battery(sigma=0.05, ids=("fractional/torricelli_inflow", "classics/logistic"))


@pytest.fixture
def sieve(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A fit that only compares, in place of `discover`; what it fitted."""
    fitted: list[str] = []

    def stub(series: Any, _settings: Any) -> Any:
        fitted.append(series.states[0])
        if SIEVE.steps > 1 and series.states[0] != "h":
            raise ZeroDivisionError("no tank")
        raise ValueError("nothing fits" if math.log(SIEVE.most) > SIEVE.least else "something fits")

    monkeypatch.setattr(study, "discover", stub)
    monkeypatch.setattr(perturb, "SIEVE", SIEVE, raising=False)
    return fitted


@pytest.mark.slow
def test_a_row_for_each_fit_and_a_line_for_each_threshold(sieve: list[str], tmp_path: Path) -> None:
    rows = run_decisions(BATTERY, tmp_path / "rows", backend=HERE, say=lambda _: None)
    assert [(row["id"], row["method"]) for row in rows] == [
        (id, sigma) for id in BATTERY.ids for sigma in ("0", "0.05")
    ]
    assert rows[0]["failed"] == "ValueError: nothing fits" and rows[2]["failed"] == "ZeroDivisionError: no tank"
    own = {name: tally for name, tally in tallied(rows).items() if name.startswith("Sieve")}
    # log 100 > 4, and > 2 but not > 8; 3 > 1, and so is half of it, which is 2.
    assert own == {
        "SieveThresholds.least": Tally(2, 2, 2, 0, 0, 2, 0),
        "SieveThresholds.most": Tally(2, 0, 0, 0, 0, 0, 2),
        "SieveThresholds.steps": Tally(4, 4, 4, 0, 0, 0, 0),
    }
    text = markdown(BATTERY, rows)
    assert "| SieveThresholds.least | 2 | 2 | 0 % | 100 % | always |  |" in text
    assert "| SieveThresholds.most | 2 | 0 | - | - | - | 2 |" in text
    assert "4 fits of 2 systems" in text and "0 exact, 4 failed" in text
    # The same command goes on and has nothing left to do.
    count = len(sieve)
    again = run_decisions(BATTERY, tmp_path / "rows", backend=HERE, say=lambda _: None)
    assert len(sieve) == count == 4 and again == rows
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows
    with pytest.raises(InputError, match="holds another study"):
        run_decisions(Battery(ids=BATTERY.ids), tmp_path / "rows")


@pytest.mark.slow
def test_the_watch_changes_nothing() -> None:
    """The equations of a random law, to the last digit."""
    battery = Battery(sigma=0.01, seed=947, ids=("random/lotka-volterra-0",))
    watch = watched_decisions()
    told, tallies = fitted_within(battery, "random/lotka-volterra-0 0", watch)
    plain, _ = fitted_within(battery, "random/lotka-volterra-0 0", perturb.watched_reads())
    assert told["exact"] and told["equations"] == plain["equations"]
    assert len(tallies) > 100 and sum(tally.decisions for tally in tallies.values()) > 1000


def test_fields_are_not_chosen_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "thresholds", "--decisions", "--fields", "SieveThresholds"]) == 2
    assert "leave --fields out" in capsys.readouterr().err
