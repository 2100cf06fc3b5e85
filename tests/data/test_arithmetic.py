"""Columns computed from columns: read, computed, and every mistake in one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from odediscovery.data.recorded.arithmetic import Arithmetic, split_name
from odediscovery.data.series import load_csv
from odediscovery.errors import InputError

COLUMNS = {"a": np.array([1.0, 2.0, np.nan]), "b c": np.array([4.0, 0.0, 1.0]), "a-b": np.array([7.0, 7.0, 7.0])}


def value(text: str) -> list[float]:
    return Arithmetic(text, list(COLUMNS), COLUMNS.__getitem__).value().tolist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a-b", [7.0, 7.0, 7.0]),  # the longest name first
        ("2*(a - 1) + b c/4", [1.0, 2.0, np.nan]),
        ("-b c - -1e1", [6.0, 10.0, 9.0]),
        ("8/b c/2", [1.0, np.inf, 4.0]),
    ],
)
def test_sums_are_computed_row_by_row(text: str, expected: list[float]) -> None:
    np.testing.assert_array_equal(value(text), expected)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a + ", "expected a column or a number"),
        ("(a", "expected )"),
        ("a b", "expected +, -, * or /"),
        ("a ** 2", "expected a column or a number"),
        ("__import__('os')", "unknown column"),
        ("d", "unknown column 'd'"),
        ("1 + 2", "names no column"),
        ("(" * 100 + "a", "within each other"),
        ("a" * 2000, "at most 1000 characters"),
    ],
)
def test_mistakes_are_told_in_one_line(text: str, reason: str) -> None:
    with pytest.raises(InputError, match=r"--column") as caught:
        value(text)
    assert reason in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(InputError, match="NAME=SUM"):
        split_name("a + b")


def test_a_computed_column_is_a_state_and_its_parts_are_none(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text("t,I,recovered,deaths\n0,9,0,0\n1,7,1,1\n2,5,2,\n3,3,4,2\n4,2,5,2\n")
    series = load_csv(path, columns="R=recovered+deaths")
    assert series.states == ("I", "R")
    np.testing.assert_array_equal(series.trajectories[0].values[:, 1], [0.0, 2.0, np.nan, 6.0, 7.0])
    assert load_csv(path, columns=["R=recovered+deaths"], states=["R", "deaths"]).states == ("R", "deaths")
    with pytest.raises(InputError, match="line 2: --column 'x=I/deaths' divides by 0"):
        load_csv(path, columns="x=I/deaths")
