"""Speed is measured, never asserted: that the right things are measured, and told as they are."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from odediscovery.bench import speed
from odediscovery.bench.rows import Row, Task, filled
from odediscovery.bench.speed import BY_HAND, COLUMNS, EachInItsOwn, alternate, markdown, measure_unit, timed_fit
from odediscovery.command.cli import main
from odediscovery.errors import FitError
from odediscovery.units import UNITS


def test_turns_alternate_and_the_first_call_is_none_of_them() -> None:
    called: list[str] = []
    ways = {name: lambda name=name: called.append(name) for name in "ab"}
    found = alternate(ways, seconds=0.0, least=2)
    # The second turn knows that the calls are short: it warms the caches.
    assert called == [*"ab", *"ab", *"aabb"] and [len(turns) for turns in found.values()] == [2, 2]
    assert min(found["a"]) <= sum(alternate(ways, seconds=1.0, most=5)["a"])


def test_every_unit_has_a_forward_pass_by_hand_that_computes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    assert BY_HAND.keys() <= UNITS.keys()
    for name in BY_HAND:
        assert measure_unit(f"{name} small", seconds=0.0).keys() == {"ours", "by hand"}
    monkeypatch.setitem(speed.BY_HAND, "NAU", lambda p, x: x @ p.weight.T + 1.0)
    with pytest.raises(FitError, match="NAU by hand computes something else"):
        measure_unit("NAU small")


def fit_of(samples: int) -> Row:
    return filled(Task("fSIR", "ours", partial(timed_fit, samples, 0.0, 0, 60.0)), COLUMNS)


@pytest.mark.slow
def test_a_fit_has_its_time_and_memory_and_what_goes_wrong_is_a_row() -> None:
    row = fit_of(40)
    assert row["exact"] and row["seconds"] > 0 and row["megabytes"] > 50 and row["outcome"] == "converged"
    assert json.loads(json.dumps(row, allow_nan=False)) == row
    assert fit_of(2)["failed"].startswith("InputError: --samples")


@pytest.mark.slow
def test_peak_memory_is_that_of_a_process_and_not_of_its_parent() -> None:
    # In a process of its own: here other tests may have had more than what is added.
    code = """
import numpy as np
from odediscovery.bench.speed import peak_megabytes
before = peak_megabytes()
block = np.ones(40 * 2**17)
print(before, peak_megabytes() - before)
"""
    block = np.ones(100 * 2**17)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, more = map(float, done.stdout.split())
    assert 35 < more < 80 and before < 1000 and len(block)


def process_of(_task: Any) -> int:
    """The number of the process that does a task."""
    import os  # noqa: PLC0415 (travels with the task)

    return os.getpid()


@pytest.mark.slow
def test_each_measurement_has_a_process_of_its_own() -> None:
    numbers = dict(EachInItsOwn().results(process_of, ["a", "b"]))
    assert numbers[0] != numbers[1]


def test_tables_show_ratios_fits_and_what_failed() -> None:
    row = dict.fromkeys(COLUMNS) | {"method": "ours", "seconds": 1.2e-4}
    unit = row | {"id": "NAU small", "by_hand": 1e-4}
    fit = row | {"id": "40 samples", "seconds": 1.5, "clock": 1.6, "megabytes": 377, "exact": True, "outcome": "done"}
    said = markdown([unit, fit, row | {"id": "x", "failed": "killed"}], "odediscovery bench speed")
    assert "| NAU small | 120 us | 100 us | 1.20 | no |" in said
    assert "| 40 samples | 1.5 | 1.6 | 377 | yes | done |" in said and said.endswith("x: killed\n")


@pytest.mark.slow
def test_the_command_keeps_rows_and_goes_on(
    here: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(speed, "SIZES", {"small": (4, 3, 6)})
    command = ["bench", "speed", "--parts", "units", "--quick", "--out", str(tmp_path / "speed"), "--quiet"]
    assert main(command) == 0 and "| RealNPU small |" in capsys.readouterr().out
    assert main(command) == 0 and len(here) == len(BY_HAND)
