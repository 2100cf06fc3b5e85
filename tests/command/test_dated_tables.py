"""A table with dates: what is printed, and predictions that are asked for and answered in dates."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest

from odediscovery import Discovery, TimeSeries, fit_constants
from odediscovery.cli import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Logistic growth from 2024-05-01 on, in g/L."""
    days = np.array([np.datetime64(date(2024, 5, 1) + timedelta(days=k)) for k in range(25)])
    cells = 100.0 / (1.0 + 49.0 * np.exp(-0.4 * np.arange(25)))
    series = TimeSeries.from_arrays(days, cells, ["cells"], units={"cells": "g/L"})
    found = fit_constants(series, "cells' = r*cells*(1 - cells/K)")
    place = tmp_path_factory.mktemp("dated") / "found"
    found.save(place)
    return place


def test_units_of_constants_and_the_date_of_the_start_are_printed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "at t = 0 (2024-05-01): cells = 2.000" in printed
    line = next(line for line in printed.splitlines() if line.startswith("with units: "))
    assert line.startswith("with units: r = 0.") and " 1/day, K = 100.0" in line and line.endswith(" g/L")
    assert Discovery.load(folder).constants["unit"].tolist() == ["1/day", "g/L"]


def test_a_prediction_until_a_date_has_dates(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(folder), "--until", "2024-05-04"]) == 0
    dated = [line.split(",") for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in dated[1:]] == ["2024-05-01", "2024-05-02", "2024-05-03", "2024-05-04"]
    assert main(["predict", str(folder), "--until", "3"]) == 0
    counted = [line.split(",") for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in counted[1:]] == ["0.0", "1.0", "2.0", "3.0"]
    assert [row[1] for row in counted] == [row[1] for row in dated]


def test_what_is_no_date_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(folder), "--until", "soon"]) == 2
    assert "--until expects a number or a date such as 2024-05-01, got 'soon'" in capsys.readouterr().err
    assert main(["predict", str(folder), "--until", "2023-01-01"]) == 2
    assert "later than the data's start" in capsys.readouterr().err
