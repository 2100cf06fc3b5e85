"""The probability that a law has the true terms."""

import dataclasses
import json

import numpy as np
import pytest

from odediscovery import Discovery, Monitor, TimeSeries, discover, settings_for, simulate_system
from odediscovery.bench.reliability import calibration_error, fit_weights, is_right, study
from odediscovery.discovery.reliability import EVIDENCE, FEATURES, probability_of
from odediscovery.result.discovery import head, headline


@pytest.fixture(scope="module")
def found():
    return discover(simulate_system("logistic"), settings_for(members=0), Monitor())


def test_a_right_law_on_exact_samples_is_likely_and_others_are_not(found):
    assert found.probability > 0.8
    assert "such laws are right" in headline(found)
    assert all(row.probability < found.probability for row in found.front if not row.selected)


@pytest.mark.long
def test_noise_is_no_law():
    t, noise = np.arange(60.0), np.random.default_rng(1).standard_normal(60)
    refused = discover(TimeSeries.from_arrays(t, 5.0 + noise), settings_for(members=0), Monitor())
    assert refused.probability < 0.2
    assert "such laws" not in headline(refused)


def test_an_unlikely_law_is_called_a_curve(found):
    front = tuple(dataclasses.replace(row, probability=0.2) for row in found.front)
    assert head(dataclasses.replace(found, front=front)) == "a curve through the data, perhaps no law"


def test_it_is_saved_and_read_again(found, tmp_path):
    found.save(tmp_path)
    document = json.loads((tmp_path / "result.json").read_text())
    assert document["probability"] == found.probability == Discovery.load(tmp_path).probability
    assert [row["probability"] for row in document["pareto"]] == [row.probability for row in found.front]
    (line,) = [line for line in found.log if line.get("event") == EVIDENCE]
    assert [round(probability_of(features), 3) for features in line[EVIDENCE]] == [
        row.probability for row in found.front
    ]


def test_what_somebody_wrote_has_none():
    series = simulate_system("logistic")
    assert discover(series, settings_for(members=0, known=["N' = 0.5*N - 0.005*N**2"]), Monitor()).probability is None


def test_weights_are_fitted_to_rows():
    random = np.random.default_rng(0)
    truth = np.where(np.arange(len(FEATURES)) == 4, 2.0, 0.0)
    f = random.standard_normal((4000, len(FEATURES)))
    right = random.random(4000) < 1.0 / (1.0 + np.exp(1.0 - f @ truth))
    rows = [
        {"rows": [{"features": x, "right": bool(y), "chosen": True}]} for x, y in zip(f.tolist(), right, strict=True)
    ]
    intercept, weights = fit_weights(rows)
    assert intercept == pytest.approx(-1.0, abs=0.2)
    np.testing.assert_allclose(weights, truth, atol=0.2)
    p = 1.0 / (1.0 + np.exp(-intercept - f @ weights))
    assert calibration_error(p, right) < 0.03


def test_a_task_of_the_study_fills_a_row(monkeypatch):
    monkeypatch.setattr("odediscovery.bench.reliability.FAMILIES", ["mass-action"])
    task = next(task for task in study(1, 901, 10.0).tasks if task.id == "mass-action-0, 0")
    row = {}
    task.fill(row)
    assert is_right(row) is any(one["right"] and one["chosen"] for one in row["rows"])
    assert all(len(one["features"]) == len(FEATURES) for one in row["rows"])
