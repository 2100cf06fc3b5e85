"""Bands and prediction intervals: right, kept with the result, drawn and written."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from pathlib import Path

import numpy as np
import pytest
from faces import discovery
from problems import LOGISTIC, PREY, solved
from scipy.special import stdtrit

from odediscovery.command.cli import main
from odediscovery.data.series import TimeSeries
from odediscovery.discovery.fit_constants import fit_constants
from odediscovery.errors import InputError
from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import PowerSum
from odediscovery.result.discovery import Discovery
from odediscovery.runtime.arrays import Array
from odediscovery.uncertainty.bands import band, residual_deviation

DECAY = PowerSum(np.array([[-0.4]]), np.array([[1.0]]))
TIMES = np.linspace(0.0, 8.0, 25)


def fitted(law: PowerSum, series: TimeSeries) -> Discovery:
    """The result of fitting the coefficients of the true law."""
    return fit_constants(series, Equations.from_power_sum(series.states, law), exponents=False)


def measured(law: PowerSum, start: Array, times: Array, sigma: float, seed: int) -> TimeSeries:
    clean = solved(law, start, times)
    noise = sigma * np.random.default_rng(seed).standard_normal(clean.shape)
    return TimeSeries.from_arrays(times, clean + noise)


@pytest.fixture(scope="module")
def decay() -> Discovery:
    return fitted(DECAY, measured(DECAY, np.array([30.0]), TIMES, 0.5, 0))


def test_the_band_of_a_decay_is_that_of_its_formula(decay: Discovery) -> None:
    assert decay.equations.power_sum is not None and decay.degrees_of_freedom == 23
    rate, x0 = -decay.equations.power_sum.coefficients[0, 0], decay.initial_values[0, 0]
    times = np.array([0.0, 1.0, 5.0, 40.0])
    # x = x0 exp(-a t), so J = (dx/da, dx/dx0) at the samples, and C = s^2 (J^T J)^-1.

    def slopes(t: Array) -> Array:
        return np.stack([-t * x0 * np.exp(-rate * t), np.exp(-rate * t)], axis=1)

    s = residual_deviation(decay)[0]
    assert s == pytest.approx(0.5, rel=0.3)
    covariance = s**2 * np.linalg.inv(slopes(TIMES).T @ slopes(TIMES))
    deviation = np.sqrt(np.einsum("tp,pq,tq->t", slopes(times), covariance, slopes(times)))
    student = float(stdtrit(23, 0.975))
    found = band(decay, times)
    np.testing.assert_allclose(found.confidence[:, 0], student * deviation, rtol=1e-3)
    np.testing.assert_allclose(found.prediction[:, 0], student * np.hypot(deviation, s), rtol=1e-3)
    np.testing.assert_allclose(found.curve[:, 0], x0 * np.exp(-rate * times), rtol=1e-6)
    # Behind the start, too, and at times that do not hold it.
    np.testing.assert_allclose(band(decay, times[2:]).confidence, found.confidence[2:], rtol=1e-6)


def test_given_starts_are_exact(decay: Discovery) -> None:
    found = band(decay, np.array([3.0, 5.0]), np.array([10.0]))
    assert found.confidence[0, 0] == 0.0
    assert decay.estimates is not None
    error = decay.estimates.covariance.deviations()[0] / decay.estimates.scale.time
    student = float(stdtrit(23, 0.975))
    assert found.confidence[1, 0] == pytest.approx(student * 2.0 * found.curve[1, 0] * error)
    with pytest.raises(InputError, match="before the first sample"):
        band(decay, np.array([-1.0, 5.0]))


@pytest.mark.slow
def test_new_measurements_are_within_as_often_as_said() -> None:
    times, start = np.linspace(0.0, 12.0, 25), np.array([1.5, 0.8])
    later = np.linspace(0.0, 18.0, 31)
    clean, inside, on_curve = solved(PREY, start, later), [], []
    for seed in range(30):
        found = band(fitted(PREY, measured(PREY, start, times, 0.05, seed)), later)
        new = clean + 0.05 * np.random.default_rng(1000 + seed).standard_normal(clean.shape)
        inside.append((found.low <= new) & (new <= found.high))
        on_curve.append(np.abs(found.curve - clean) <= found.confidence)
    assert 0.92 <= np.mean(inside) <= 0.98
    assert 0.88 <= np.mean(on_curve) <= 0.99


def predicted(capsys: pytest.CaptureFixture[str], folder: Path, *options: str) -> tuple[list[str], list[list[str]]]:
    """Header and rows that the command writes."""
    assert main(["predict", str(folder), *options]) == 0
    header, *rows = csv.reader(io.StringIO(capsys.readouterr().out))
    return header, rows


def test_predict_writes_the_intervals(decay: Discovery, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "found"
    decay.save(folder)
    header, rows = predicted(capsys, folder, "--intervals", "--until", "10")
    assert header == ["t", "x0", "x0_low", "x0_high"]
    numbers = np.array(rows, dtype=float)
    expected = band(decay, numbers[:, 0])
    np.testing.assert_allclose(numbers[:, 1:], np.hstack([expected.curve, expected.low, expected.high]), rtol=1e-9)
    exact = np.array(predicted(capsys, folder, "--intervals", "--initial", "x0=5")[1][0], dtype=float)
    noise = float(stdtrit(23, 0.975)) * residual_deviation(decay)[0]
    np.testing.assert_allclose(exact, [0.0, 5.0, 5.0 - noise, 5.0 + noise])


def test_results_without_covariance_say_so(
    decay: Discovery, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "found"
    decay.save(folder)
    (folder / "covariance.npz").unlink()
    # As earlier versions wrote it, without the hashes of its files.
    document = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    del document["files"]
    (folder / "result.json").write_text(json.dumps(document), encoding="utf-8")
    assert main(["predict", str(folder), "--intervals"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: this result has no covariance") and error.count("\n") == 1
    assert main(["predict", str(folder)]) == 0
    other = fitted(LOGISTIC, measured(LOGISTIC, np.array([0.1]), TIMES, 0.02, 0))
    mixed = dataclasses.replace(decay, estimates=other.estimates)
    with pytest.raises(InputError, match="other equations"):
        band(mixed)
    named = discovery(PowerSum(-np.eye(2), np.eye(2)), ("a", "a_low"), initial=(1.0, 1.0))
    named.save(tmp_path / "named")
    assert main(["predict", str(tmp_path / "named"), "--intervals"]) == 2
    assert "rename the column" in capsys.readouterr().err


def test_starts_are_printed_and_kept_with_their_errors(decay: Discovery, tmp_path: Path) -> None:
    assert decay.initial_value_errors is not None
    value, error = decay.initial_values[0, 0], decay.initial_value_errors[0, 0]
    assert 0.1 < error < 0.6
    assert decay.starts_text() == f"at t = 0: x0 = {value:.2f}({round(error * 100)})"
    decay.save(tmp_path / "found")
    document = Discovery.load(tmp_path / "found").as_dict()
    assert document == decay.as_dict()
    assert document["initial_value_errors"] == [{"x0": error}]
    low, high = document["initial_value_intervals"][0]["x0"]
    half = float(stdtrit(23, 0.975)) * error
    assert (low, high) == (pytest.approx(value - half), pytest.approx(value + half))
    assert discovery().starts_text() == ""
    many = dataclasses.replace(discovery(runs=6), initial_value_errors=np.full((6, 3), np.nan))
    lines = many.starts_text().splitlines()
    assert len(lines) == 5 and "2 more trajectories" in lines[-1]
    assert lines[1] == "run 2, at t = 0: S = 50, I = 0.005, R = 0"


def test_predict_writes_every_trajectory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    times = [np.arange(8.0), np.arange(2.0, 12.0)]
    values = [x0 * np.exp(-0.3 * (t - t[0])) for x0, t in zip((4.0, 9.0), times, strict=True)]
    series = TimeSeries.from_arrays(times, values, ["x"], labels=["a", "b"])  # type: ignore[arg-type]
    found = fit_constants(series, Equations.parse(["x"], {"x": "-0.2*x"}), exponents=False)
    found.save(tmp_path / "two")
    header, rows = predicted(capsys, tmp_path / "two")
    assert header == ["trajectory", "t", "x"]
    assert [row[0] for row in rows] == ["a"] * 8 + ["b"] * 10
    np.testing.assert_allclose([float(row[2]) for row in rows], np.concatenate(values), rtol=1e-6)
    header, rows = predicted(capsys, tmp_path / "two", "--intervals", "--until", "20")
    assert header == ["trajectory", "t", "x", "x_low", "x_high"] and rows[-1][:2] == ["b", "20.0"]
    header, rows = predicted(capsys, tmp_path / "two", "--initial", "x=5")
    assert (header, rows[0]) == (["t", "x"], ["0.0", "5.0"])
