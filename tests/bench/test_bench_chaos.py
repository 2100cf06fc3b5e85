"""Chaotic systems: what they are, what is measured of them, and how found equations are scored."""

import math
from pathlib import Path

import numpy as np
import pytest

from odediscovery import Equations, InputError
from odediscovery.bench import chaos as of
from odediscovery.bench import peers
from odediscovery.bench.chaos import (
    attractor,
    coefficient_error,
    entries,
    markdown,
    measured,
    median_error,
    run_chaos,
    scored,
    study,
)
from odediscovery.bench.rows import filled
from odediscovery.cli import main
from odediscovery.laws.power_sum import PowerSum

FUNCTIONS = {"JerkCircuit", "SaltonSea", "ThomasLabyrinth", "WindmiReduced"}


@pytest.fixture
def short(monkeypatch):
    """Trajectories of 60 points."""
    monkeypatch.setattr(of, "SAMPLES", 60)
    monkeypatch.setattr(of, "PERIODS", 12)
    attractor.cache_clear()
    yield
    attractor.cache_clear()


def test_all_systems_are_read_and_told_apart_by_what_writes_them():
    known = {id: attractor(id) for id in entries()}
    assert len(known) == 46 and {id for id, one in known.items() if one.representation != of.POLYNOMIAL} == FUNCTIONS
    for id, one in known.items():
        start = np.array(entries()[id]["start"])
        rates = one.equations.rhs(start)
        assert start.shape == rates.shape and np.isfinite(rates).all() and one.times[-1] > 0
        assert one.starts.shape == (2 * of.TRAINED, len(start)) and len(np.unique(one.starts, axis=0)) == 10
    lorenz = known["Lorenz"].equations
    np.testing.assert_allclose(lorenz.rhs([1.0, 2.0, 3.0]), [10.0, 28.0 - 3.0 - 2.0, 2.0 - 3 * 2.667])
    with pytest.raises(InputError, match=r"unknown chaotic system 'Lorentz'.*Lorenz"):
        run_chaos(Path("nowhere"), ["ours"], ids=["Lorentz"])


def test_errors_of_coefficients_are_spectral_norms_over_all_monomials():
    truth = PowerSum(np.array([[1.0, 0.0], [0.0, 2.0]]), np.eye(2))
    assert coefficient_error(truth, truth) == 0.0
    # A wrong number, a term too many, and one too few: each in units of the largest singular value, 2.
    assert coefficient_error(PowerSum(np.array([[1.5, 0.0], [0.0, 2.0]]), np.eye(2)), truth) == pytest.approx(0.25)
    more = PowerSum(np.array([[1.0, 0.0, 0.5], [0.0, 2.0, 0.0]]), np.array([[1.0, 0], [0, 1], [1, 1]]))
    assert coefficient_error(more, truth) == pytest.approx(0.25)
    assert coefficient_error(PowerSum(np.array([[1.0], [0.0]]), np.eye(2)[:1]), truth) == pytest.approx(1.0)
    # An exponent that is a little off is still that monomial.
    near = PowerSum(np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([[1.02, 0.0], [0.0, 0.98]]))
    assert coefficient_error(near, truth) == 0.0


def test_scores_ask_for_the_true_terms(short):
    lorenz = attractor("Lorenz")
    train, _ = measured(lorenz, 0.0, 0)
    assert scored(lorenz.equations, lorenz.equations, train, 0.0) == {"exact": True, "coef": True, "error": 0.0}
    texts = lorenz.equations.texts()
    bent = Equations.parse(lorenz.equations.states, texts | {"z": texts["z"] + " + 1e-6*x**2"})
    found = scored(bent, lorenz.equations, train, 0.0)
    assert not found["exact"] and 0 < found["error"] < 1e-6
    other = Equations.parse(lorenz.equations.states, texts | {"z": texts["z"] + " + sin(x)"})
    assert scored(other, lorenz.equations, train, 0.0)["error"] is None


def test_a_median_counts_what_is_no_polynomial_as_infinite():
    def rows(*errors):
        return [{"kind": of.POLYNOMIAL, "error": error} for error in errors]

    assert median_error(rows(0.1, 0.2, None)) == 0.2 and median_error(rows(0.1, None, None)) == math.inf
    assert math.isnan(median_error([{"kind": of.OTHER, "error": None}]))


def broken(series, _test, _seconds, _seed):
    raise ZeroDivisionError("nothing")


def test_rows_are_kept_by_level_of_noise_and_failures_too(short, tmp_path, monkeypatch):
    monkeypatch.setattr(peers, "weak_stlsq", broken)
    (task,) = study(0.0, [of.WEAK], [attractor("Lorenz")], 0, 60.0).tasks
    row = filled(task, of.COLUMNS)
    assert row["failed"] == "ZeroDivisionError: nothing" and not row["exact"] and tuple(row) == of.COLUMNS
    rows = {0.0: [row]}
    assert "| 0 % | weak-stlsq | 0 of 1 | 0% | 0 | inf | 1 |" in markdown(rows, "odediscovery bench chaos")
    with pytest.raises(InputError, match="--sigma must be at least 0"):
        run_chaos(tmp_path, ["ours"], noise=[-1.0])


@pytest.mark.long
def test_a_peer_finds_what_a_polynomial_library_holds(tmp_path):
    pytest.importorskip("pysindy")
    rows, again = (run_chaos(tmp_path, [of.WEAK], noise=[0.0], ids=["SprottE"], max_seconds=30.0) for _ in range(2))
    assert again == rows and (tmp_path / "noise-0" / "rows.jsonl").is_file()
    (row,) = rows[0.0]
    assert row["failed"] is None and row["error"] < 0.1 and row["seconds"] < 30.0 and row["exact"]


def test_what_is_missing_is_told(monkeypatch, capsys):
    assert main(["bench", "chaos", "--method", "sindy"]) == 2
    assert "unknown method 'sindy'" in capsys.readouterr().err
    assert main(["bench", "chaos", "--noise", "one"]) == 2
    assert "--noise expects numbers with commas between" in capsys.readouterr().err
    monkeypatch.setattr(peers, "pysindy", None)
    assert of.methods_named(None) == ["ours"]
    assert main(["bench", "chaos", "--method", "weak-stlsq"]) == 2
    assert "needs the package pysindy" in capsys.readouterr().err
