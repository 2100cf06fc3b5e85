"""Constants of a given form: right, with honest errors; what nobody can tell is told."""

from pathlib import Path

import numpy as np
import pytest

from odediscovery import (
    Discovery,
    Equations,
    FitError,
    InputError,
    Settings,
    TimeSeries,
    fit_constants,
    load_csv,
    settings_for,
)
from odediscovery.command.cli import main
from odediscovery.data.series import write_csv
from odediscovery.discovery.task import laws_asked_for, pose_task
from odediscovery.judge.claim import autocorrelation_inflation
from odediscovery.report import notebook_html
from odediscovery.report.words import outcome
from odediscovery.runtime.monitor import Monitor

FALL = {"h": "-v", "v": "9.81 - 0.3*v**1.4"}
KNOWN = settings_for(known=["h' = -v", "v' = 9.81 + ?"])


def falling(drag, last, noise, seed=0):
    t = np.linspace(0.0, last, 45)
    values = Equations.parse(["h", "v"], drag).simulate([50.0, 0.5], t)
    values = values + noise * np.random.default_rng(seed).standard_normal(values.shape)
    return TimeSeries.from_arrays(t, values, ["h", "v"])


def power(found):
    entries = found.as_dict()["constants"]["v"]
    return next(c for c in entries if c["kind"] == "exponent")


def test_the_constants_come_out_and_what_is_known_stays():
    start = Equations.parse(["h", "v"], {"h": "-v", "v": "9.81 - 0.1*v**1.2"})
    inside = 0
    for seed in range(10):
        found = fit_constants(falling(FALL, 3.0, 0.05, seed), start, KNOWN)
        low, high = power(found)["interval"]
        inside += low <= 1.4 <= high
        assert high - low < 0.2
        assert found.equations.texts()["h"] == "-v" and "9.81 " in found.equations.texts()["v"]
        assert not any("known only" in m for m in found.messages)
    assert inside >= 8


def test_a_drag_too_small_for_its_power_to_be_told_is_said_to_be():
    small = falling({"h": "-v", "v": "9.81 - 0.004*v**1.4"}, 3.0, 0.3)
    (note,) = (
        m
        for m in fit_constants(small, Equations.parse(["h", "v"], FALL), KNOWN).messages
        if "known only to lie between" in m
    )
    assert note.startswith("the exponent of v in the term v^") and " of v' " in note
    # A held one is fitted again to see.
    held = Equations.parse(["h", "v"], {"h": "-v", "v": "9.81 - 0.1*v**2"})
    told = settings_for(known=["h' = -v", "v' = 9.81 + ?"], integer_exponents=True)
    assert not any("known only" in m for m in fit_constants(small, held, told).messages)


def test_memory_in_the_residuals_widens_intervals():
    def remembering(r):
        steps = np.random.default_rng(1).standard_normal((4000, 1))
        for k in range(1, len(steps)):
            steps[k] += r * steps[k - 1]
        return steps

    assert autocorrelation_inflation([remembering(0.0)]) == pytest.approx(1.0, abs=0.05)
    assert autocorrelation_inflation([remembering(0.6)]) == pytest.approx(2.0, rel=0.1)
    assert autocorrelation_inflation([-np.ones((3, 1)) * [[1.0], [-1.0], [1.0]]]) == 1.0
    assert np.isfinite(autocorrelation_inflation([np.ones((10_000, 1))]))
    # Its mean varies as that says: standard error of many means against that of one draw.
    draws = remembering(0.6).reshape(100, 40)
    naive = draws.std() / np.sqrt(40)
    assert draws.mean(axis=1).std() == pytest.approx(2.0 * naive, rel=0.2)


def test_forms_that_do_not_fit_end_in_one_line():
    series = falling(FALL, 3.0, 0.05)
    with pytest.raises(InputError, match="expected equations of h, v"):
        fit_constants(series, Equations.parse(["v"], {"v": "1"}))
    with pytest.raises(InputError, match="sums of products of powers"):
        fit_constants(series, Equations.parse(["h", "v"], {"h": "-v", "v": "sin(v)"}))
    with pytest.raises(FitError, match="start from nearer ones"):
        fit_constants(series, Equations.parse(["h", "v"], {"h": "-v", "v": "v**4"}), KNOWN)


T = np.linspace(0.0, 12.0, 40)
R, K = 0.8, 50.0
LYNX = Path(__file__).parent.parent.parent / "data" / "lynx_hare_1900_1920.csv"


def grown(start, noise=0.0, seed=0):
    exact = K / (1 + (K / start - 1) * np.exp(-R * T))
    return exact + noise * np.random.default_rng(seed).standard_normal(len(T))


@pytest.fixture(scope="module")
def noisy():
    return TimeSeries.from_arrays(T, grown(2.0, 1.0), ["N"])


@pytest.fixture(scope="module")
def logistic(noisy):
    return fit_constants(noisy, "N' = r*N*(1 - N/K)")


def test_constants_lie_within_their_errors(logistic):
    table = logistic.constants.set_index("name")
    assert list(table.index) == ["r", "K"]
    for name, true in (("r", R), ("K", K)):
        row = table.loc[name]
        assert abs(row["value"] - true) < 3 * row["standard_error"]
        assert row["low"] < row["value"] < row["high"]
    assert 0.1 < table.loc["K", "standard_error"] < 1.0
    assert not any("the sign of" in message for message in logistic.messages)
    assert logistic.outcome == "converged" and logistic.noise[0] == pytest.approx(1.0, rel=0.3)
    assert logistic.equations_text().splitlines()[0] == "N' = r*N*(1 - N/K)"
    assert logistic.equations_text().splitlines()[1].startswith("r = 0.")
    # Nobody searched: no page and no line says that a law was found.
    assert "constants fitted: R2 = 0.9" in logistic.summary() and "law found" not in logistic.summary()
    assert outcome(logistic).title == "Constants fitted"
    assert "with r\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}0." in notebook_html(logistic)


def test_clean_data_give_exact_constants_from_several_runs():
    series = TimeSeries.from_arrays([T, T], [grown(2.0), grown(80.0)], ["N"])
    found = fit_constants(series, {"N": "r*N - r*N**2/K"})
    np.testing.assert_allclose(found.constants["value"], [R, K], rtol=1e-6)
    np.testing.assert_allclose(found.initial_values, [[2.0], [80.0]], rtol=1e-6)


def test_a_constant_that_is_not_told_has_no_error():
    series = TimeSeries.from_arrays(T, grown(2.0, 0.1), ["N"])
    found = fit_constants(series, "N' = a*b*N - a*b*N^2/K")
    table = found.constants.set_index("name")
    assert table["standard_error"].isna().tolist() == [True, True, False]
    assert table.loc["K", "value"] == pytest.approx(K, rel=0.01)
    assert "the data do not determine a, b: at most a combination of them is identifiable" in found.messages


def test_a_constant_whose_sign_is_not_told_is_named(noisy):
    found = fit_constants(noisy, "N' = r*N*(1 - N/K) + c", start={"r": 0.8, "K": 50.0, "c": 0.1})
    row = found.constants.set_index("name").loc["c"]
    assert row["low"] < 0 < row["high"]
    (note,) = [message for message in found.messages if "the sign of" in message]
    assert note == "the data do not determine the sign of c: a law without may fit as well"


def test_what_is_printed_is_read_again(logistic, noisy):
    again = fit_constants(noisy, "N' = 0.79(2)*N - 0.0159(4)*N^2\nat t = 0: N = 2.0(1)\nnote: as printed")
    assert again.named is not None and again.named.names == ("c1", "c2")
    assert again.mse == pytest.approx(logistic.mse, rel=1e-6)
    sums = Equations.parse(["N"], {"N": "0.7*N/(1 + 0.01*N) - 0.001*N**2"})
    assert fit_constants(noisy, sums).r2 > 0.99


def test_mistakes_are_one_line(noisy):
    with pytest.raises(InputError, match=r"fit_constants expects a TimeSeries, got a DataFrame; load_csv reads"):
        fit_constants(noisy.to_frame(), "N' = r*N")
    with pytest.raises(InputError, match="write what is known into the form"):
        fit_constants(noisy, "N' = r*N", Settings(conserve=("N",)))
    with pytest.raises(InputError, match="expected only beside a form in text"):
        fit_constants(noisy, Equations.parse(["N"], {"N": "N"}), start={"r": 1.0})
    with pytest.raises(FitError, match="could not be integrated through the data"):
        fit_constants(noisy, "N' = k*exp(N^2)")


def test_the_command_fits_a_law_in_a_file(noisy, logistic, tmp_path, capsys):
    write_csv(noisy, tmp_path / "n.csv")
    (tmp_path / "law.txt").write_text("N' = r*N*(1 - N/K)\n", encoding="utf-8")
    compare_with = tmp_path / "found"
    fit_constants(noisy, "N' = a").save(compare_with)
    call = ["fit-constants", str(tmp_path / "n.csv"), "--law", str(tmp_path / "law.txt")]
    assert main([*call, "--start", "K=40", "--beside", str(compare_with), "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[:2] == logistic.equations_text().splitlines()
    assert "law: 3 constants, criterion +0.0" in printed
    assert Discovery.load(tmp_path / "out").named is not None
    for arguments, message in (
        (call[:2], "expected a law, --law FILE"),
        ([*call[:3], str(tmp_path / "none")], "cannot be read"),
        ([*call, "--start", "q=1"], "unknown constant 'q'"),
    ):
        assert main(arguments) == 2
        error = capsys.readouterr().err
        assert error.startswith("error: ") and error.count("\n") == 1 and message in error


def test_a_stiff_law_is_fitted_as_any_other():
    t = np.linspace(0.0, 4.0, 12)
    y = np.exp(-0.8 * t)
    series = TimeSeries.from_arrays(t, np.stack([y * 4000.0 / (4000.0 - 0.8), y], axis=1), ["x", "y"])
    found = fit_constants(series, "x' = k*(y - x)\ny' = -g*y", start={"k": 3000.0})
    named = dict(zip(found.named.names, found.named.values, strict=True)) if found.named else {}
    assert named["g"] == pytest.approx(0.8, rel=1e-5) and named["k"] == pytest.approx(4000.0, rel=1e-2)


def test_a_printed_law_that_runs_away_from_the_first_sample_is_fitted_all_the_same():
    """From the first sample the printed constants run beyond all numbers; the law follows both states well."""
    printed = "hare' = 0.544*hare - 0.02685*hare*lynx\nlynx' = 6.677 + 0.03564*hare*lynx - 0.1949*hare - 1.204*lynx"
    assert fit_constants(load_csv(LYNX), printed).r2 > 0.95


def task(**asked):
    """Logistic growth at rate 0.8 to 50."""
    values = 50.0 / (1.0 + (50.0 / 2.0 - 1.0) * np.exp(-0.8 * T))
    return pose_task(TimeSeries.from_arrays(T, values, ["N"]), settings_for(**asked), Monitor())


def test_laws_by_name_and_laws_written_down_are_fitted():
    asked = task(template=["logistic"], tries=["N' = r*N*(1 - N/K)", "N' = r*N"])
    by_name, written, poor = laws_asked_for(asked, asked.p)
    assert written.says == "as it was tried" != by_name.says
    np.testing.assert_allclose(written.constants, [0.8, 50.0], rtol=1e-4)
    assert by_name.squares == pytest.approx(written.squares, abs=1e-6)
    assert poor.squares > 1e4 * written.squares
    assert laws_asked_for(task(), task().p) == []


def test_a_law_without_linear_constants_is_fitted():
    t = np.linspace(0.0, 6.0, 60)
    series = TimeSeries.from_arrays([t], [2.0 * np.exp(-0.7 * t)[:, None]], ["x"])
    found = fit_constants(series, "x' = -x**k*exp(-c)")
    np.testing.assert_allclose(found.equations.rhs(np.array([[1.0], [2.0]])), [[-0.7], [-1.4]], rtol=1e-3)


@pytest.mark.parametrize(
    "law", ["k*sign(x)", "(k*x + 1)**999", "sqrt(k)*x", "k*x**-1000", "k/x**400", "k**x**k**x", "exp(exp(k*x))"]
)
def test_a_hopeless_law_ends_in_a_result_or_one_line_within_its_time(law):
    t = np.linspace(0.0, 6.0, 60)
    series = TimeSeries.from_arrays([t], [3.0 * np.exp(-0.6 * t)[:, None]], ["x"])
    try:
        found = fit_constants(series, f"x' = {law}", settings_for(max_seconds=5.0))
    except FitError as error:
        assert "\n" not in str(error)
    else:
        assert "=" in found.equations_text()


def test_a_fit_that_is_stopped_keeps_the_best_so_far(noisy):
    monitor = Monitor()
    monitor.interrupt()
    found = fit_constants(noisy, "N' = r*N*(1 - N/K)", monitor=monitor)
    assert np.isfinite(found.mse)
