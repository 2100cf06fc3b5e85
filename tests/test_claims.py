"""What README and documentation claim beside others is what the kept rows say, on the same systems."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "data" / "results" / "bench"
README = (ROOT / "README.md").read_text(encoding="utf-8")
BENCHMARKS = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
# Folder of ours, of pysindy and of pyoperon, and how the tables call the condition.
CONDITIONS = {"odebench-clean": "none, none", "odebench-noise": "5 %, none", "odebench-noise-drop": "5 %, half"}
METHODS = {"ours": "", "pysindy": "-peers", "pyoperon": "-pyoperon"}


def rows(folder: str, method: str) -> list[dict[str, Any]]:
    lines = (KEPT / folder / "rows.jsonl").read_text(encoding="utf-8").splitlines()
    return [row for row in map(json.loads, lines) if row["method"] == method]


def per_cent(hits: int, of: int) -> str:
    return f"{100 * hits / of:.0f}"


def shares(condition: str, method: str) -> tuple[str, str]:
    """Per cent of the systems that are reconstructed, and that have exactly the true terms."""
    found = rows(condition + METHODS[method], method)
    good = sum(row["recon"] is not None and row["recon"] > 0.9 for row in found)
    return per_cent(good, len(found)), per_cent(sum(row["exact"] for row in found), len(found))


def cells(text: str, start: str) -> list[str]:
    """The cells of the table row that starts so."""
    (line,) = re.findall(rf"^\| {re.escape(start)} \|(.*)\|$", text, re.MULTILINE)
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_all_methods_were_given_the_same_systems(condition: str) -> None:
    ids = [sorted(row["id"] for row in rows(condition + folder, method)) for method, folder in METHODS.items()]
    assert len(ids[0]) == 34 and ids[0] == ids[1] == ids[2]


@pytest.mark.parametrize(("condition", "name"), CONDITIONS.items())
def test_the_table_of_readme_is_that_of_the_kept_rows(condition: str, name: str) -> None:
    expected = [r" \| ".join(shares(condition, method)) for method in METHODS]
    assert cells(README, name)[:3] == expected


@pytest.mark.parametrize(("condition", "name"), CONDITIONS.items())
def test_the_published_figures_stand_beside_the_same(condition: str, name: str) -> None:
    start = {"none, none": "0, 0", "5 %, none": "5 %, 0", "5 %, half": "5 %, half"}[name]
    _, _, _, _, pysr, sindy, _ = told = cells(BENCHMARKS, start)
    assert told[:3] == [shares(condition, method)[0] for method in METHODS]
    assert cells(README, name)[3:] == [f"{float(pysr):.0f}", f"{float(sindy) + 1e-9:.0f}"]


def test_the_sentences_of_readme_are_those_of_the_kept_rows() -> None:
    exact = {
        (folder, method): sum(row["exact"] for row in rows(folder, method))
        for folder, method in (
            ("fractional-clean-2", "ours"),
            ("fractional-noise-2", "ours"),
            ("fractional-clean-2-peers", "pysindy"),
            ("fractional-noise-2-peers", "pysindy"),
            ("random-unseen-clean", "ours"),
            ("random-unseen-clean-peers", "pysindy"),
            ("random-5005-noise-1", "ours"),
        )
    }
    clean, noisy, theirs, theirs_noisy, unseen, unseen_theirs, unseen_noisy = exact.values()
    assert f"true terms of {clean} (clean) and {noisy} (2 % noise)" in README
    assert f"where pysindy finds {theirs} and {theirs_noisy}." in README
    assert f"true terms of {unseen} (pysindy of {unseen_theirs})" in README
    assert f"in 1 % noise those of {unseen_noisy} of 140 others" in README
