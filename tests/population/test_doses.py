"""Groups with doses at known times: amounts and times of each group's own, in the model, the law and predictions."""

import csv
import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from odediscovery import TimeSeries, discover, fit_constants, load_with_controls, settings_for, with_controls
from odediscovery.command.cli import main
from odediscovery.discovery.resume import resume
from odediscovery.errors import InputError
from odediscovery.population.groups import KNOWN, SCALED, Entry, GroupModel, Measured, Start, Structure, padded
from odediscovery.population.pose import pose_groups
from odediscovery.result.discovery import Discovery
from odediscovery.runtime.monitor import Monitor

SAMPLES = np.unique([d + s for d in (0.0, 12.0, 24.0) for s in (0.5, 1.0, 2.0, 4.0, 8.0, 11.5)] + [36.0, 42.0, 48.0])
TRUTH = {"ka": 1.5, "ke": 0.1, "f": 1.0 / 30.0}
SPREADS = {"ka": 0.4, "ke": 0.25, "f": 0.2}
ORAL = {"hidden_states": ["gut"], "starts": ["conc = 0"], "doses": ["gut = amount"], "vary": "auto"}


def subjects(seed, own, groups=12):
    """One compartment, three doses or, where they are of each subject's own, two to four at any hours; noise 0.1.

    The constants have the spreads asked for, exactly.
    """
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((3, groups))
    z = (z - z.mean(axis=1, keepdims=True)) / z.std(axis=1, keepdims=True)
    truth = {name: TRUTH[name] * np.exp(SPREADS[name] * row) for name, row in zip(TRUTH, z, strict=True)}
    rows = []
    for g in range(groups):
        times, amounts = np.array([0.0, 12.0, 24.0]), np.full(3, 100.0)
        if own:
            times = np.sort(np.append(0.0, rng.choice(np.arange(6.0, 36.0), rng.integers(1, 4), replace=False)))
            amounts = rng.choice([50.0, 100.0, 150.0, 200.0], len(times))
        ka, ke, f = (truth[name][g] for name in ("ka", "ke", "f"))
        since = np.maximum(SAMPLES[:, None] - times, 0.0)
        rise = ka / (ka - ke) * (np.exp(-ke * since) - np.exp(-ka * since))
        level = (f * amounts * rise * (SAMPLES[:, None] > times)).sum(axis=1)
        measured = dict(zip(SAMPLES, level + 0.1 * rng.standard_normal(len(level)), strict=True))
        given = dict(zip(times, amounts, strict=True))
        rows += [(f"s{g + 1}", t, measured.get(t), given.get(t)) for t in np.union1d(SAMPLES, times).tolist()]
    return pd.DataFrame(rows, columns=["subject", "t", "conc", "amount"]), truth


def series_of(table):
    return with_controls(TimeSeries.from_frame(table, time="t", group="subject"), impulses=["amount"])


def constants(found):
    return {one.name: one for one in found.population.constants}


def check_population(found, truth, names):
    """Means within 5 %, spreads within a quarter, and every group's own constants."""
    by_name = constants(found)
    for name, own in names.items():
        one = by_name[own]
        assert one.varies
        assert one.mean == pytest.approx(TRUTH[name], rel=0.05)
        assert one.sd_log == pytest.approx(SPREADS[name], rel=0.25)
        assert np.corrcoef(np.log(one.values), np.log(truth[name]))[0, 1] > 0.95


def two_groups(scaled):
    """gut' = -ka gut, conc' = ka gut - ke conc at five times, with doses of each group's own."""
    t = np.array([0.0, 1.0, 2.0, 4.0, 6.0])
    runs = [(t, np.ones((5, 2))), (0.5 * t[:4], np.ones((4, 2)))]
    doses = [np.zeros((5, 2)), np.zeros((4, 2))]
    doses[0][[0, 2], 0], doses[1][1, 0] = (3.0, 2.0), 5.0
    gut = Start(SCALED, np.array([0.0, 1.0])) if scaled else Start(KNOWN, np.zeros(2))
    starts = (gut, Start(KNOWN, np.zeros(2)))
    return Measured(*padded(runs, doses), starts, np.zeros(2, bool), ("a", "b"), dosed=((0, "amount"),))


FLOWS = Structure(np.eye(2), (Entry(0, 0, 0, -1), Entry(1, 0, 0, 1), Entry(1, 1, 1, -1)))


def test_curves_jump_right_after_the_sample_of_a_dose():
    measured = two_groups(scaled=False)
    model = GroupModel(FLOWS, measured.refined().refined())
    curve = model.fitted(np.log([[0.7, 0.7], [0.2, 0.2]]))
    t = measured.times[:, 0]
    np.testing.assert_allclose(
        curve[:, 0, 0], 3 * np.exp(-0.7 * t) * (t > 0) + 2 * np.exp(-0.7 * (t - 2)) * (t > 2), 1e-5
    )
    t = measured.times[:4, 1]
    np.testing.assert_allclose(curve[:4, 0, 1], 5.0 * np.exp(-0.7 * (t - 0.5)) * (t > 0.5), 1e-5)
    np.testing.assert_array_equal(measured.given()[:, 0, 0], [0.0, 3.0, 3.0, 5.0, 5.0])


def test_slopes_of_doses_in_an_unknown_unit_are_those_of_differences():
    model = GroupModel(FLOWS, two_groups(scaled=True))
    at = np.array([[-0.3, -0.5], [-1.5, -1.2], [0.4, -0.6]])
    _, slopes = model.curves(at)
    for p in range(3):
        step = np.zeros((3, 1))
        step[p] = 1e-5
        change = (model.fitted(at + step) - model.fitted(at - step)) / 2e-5
        np.testing.assert_allclose(slopes[:4, :, p], change[:4], atol=1e-8)
    # Twice the factor is twice every dose.
    np.testing.assert_allclose(model.fitted(at + np.log([[1.0], [1.0], [2.0]])), 2.0 * model.fitted(at))


def test_amounts_are_read_from_their_columns_and_moments_are_no_samples():
    table, _ = subjects(1, own=True)
    own, measured = pose_groups(series_of(table), settings_for(**ORAL))
    assert own.states == ("conc", "gut") and measured.dosed == ((1, "amount"),)
    for g, label in enumerate(measured.labels):
        rows = table[table.subject == label]
        n = len(rows)
        np.testing.assert_array_equal(measured.times[:n, g], rows.t)
        np.testing.assert_allclose(measured.doses[:n, 1, g], rows.amount.fillna(0.0))
        np.testing.assert_array_equal(measured.values[:n, 0, g], rows.conc.astype(float))
    gut = measured.starts[1]
    assert gut.kind == SCALED and not gut.value.any()


@pytest.mark.long
def test_the_law_and_the_spreads_of_many_oral_doses_are_found(tmp_path):
    table, truth = subjects(1, own=True)
    found = discover(series_of(table), settings_for(**ORAL))
    lines = found.equations_text().splitlines()
    assert lines[:2] == ["conc' = -k1*conc + k2*gut", "gut' = -k2*gut + f*amount"]
    check_population(found, truth, {"ke": "k1", "ka": "k2", "f": "f"})
    assert any("is given 0.033" in message and "times every dose" in message for message in found.messages)
    # Nothing in these curves tells a slow absorption from a slow loss.
    assert any(message.startswith("the rates of gut") and "may be exchanged" in message for message in found.messages)
    # A group alone, after a round through its folder, follows its own doses.
    found.save(tmp_path / "found")
    kept = Discovery.load(tmp_path / "found")
    assert kept.as_dict() == found.as_dict()
    one = kept.of_group("s3")
    run = one.series.trajectories[0]
    left = run.values[:, 0] - one.simulate(times=run.time)[:, 0]
    assert np.sqrt(np.nanmean(left**2)) < 0.15
    assert resume(kept, Monitor()).equations_text() == found.equations_text()


@pytest.mark.long
def test_the_commands_hear_of_doses(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    table, truth = subjects(1, own=True)
    table.assign(weight=70.0).to_csv("doses.csv", index=False)
    Path("law.txt").write_text("gut' = -ka*gut\nconc' = ka*gut - ke*conc\n", encoding="utf-8")
    call = ["fit-constants", "doses.csv", "--group", "subject", "--states", "conc", "--hidden-states", "gut"]
    call += ["--doses", "gut = F*amount", "--starts", "conc = 0", "--law", "law.txt", "--start", "ka=1"]
    assert main([*call, "--start", "ke=0.1"]) == 2 and "they need --vary" in capsys.readouterr().err
    assert main([*call, "--start", "ke=0.1", "--vary", "auto", "--out", "found"]) == 0
    assert "gut' = -ka*gut + F*amount" in capsys.readouterr().out
    found = Discovery.load("found")
    check_population(found, truth, {"ke": "ke", "ka": "ka", "f": "F"})

    def predicted(*options):
        assert main(["predict", "found", "--until", "48", *options]) == 0
        return [*csv.DictReader(io.StringIO(capsys.readouterr().out))]

    mine = predicted("--subject", "s3")
    rows = table[table.subject == "s3"]
    # Its own samples and doses as those of a new subject: the curve is nearly its own.
    rows.drop(columns="subject").to_csv("new.csv", index=False)
    new = predicted("--new-subject", "new.csv", "--initial", "conc=0")
    assert float(new[-1]["conc"]) == pytest.approx(float(mine[-1]["conc"]), rel=0.1)
    Path("plan.csv").write_text("t,amount\n0,100\n24,0\n", encoding="utf-8")
    ka, ke, f = (constants(found)[name].values[2] for name in ("ka", "ke", "F"))
    expected = 100.0 * f * ka / (ka - ke) * (np.exp(-48.0 * ke) - np.exp(-48.0 * ka))
    planned = predicted("--subject", "s3", "--doses", "plan.csv")
    assert float(planned[-1]["conc"]) == pytest.approx(expected, rel=1e-3)
    assert main(["report", "found"]) == 0 and (tmp_path / "found" / "report.html").stat().st_size > 10_000


def test_what_cannot_be_meant_is_said():
    table, _ = subjects(0, own=False, groups=2)
    series = series_of(table)
    table.loc[table.t == 0.0, "conc"] = 0.5
    begun = series_of(table)
    with pytest.raises(InputError, match="say so with --starts"):
        pose_groups(begun, settings_for(vary="auto", doses=["conc = f*amount"]))
    for changed, message in (
        ({"doses": ["gut = dose"]}, "unknown column of doses 'dose'"),
        ({"doses": ["belly = amount"]}, "unknown state with doses 'belly'"),
        ({"doses": ["gut = 2*amount"]}, "or with a factor that is fitted"),
        ({"doses": []}, 'or --doses "gut = dose" with a column of amounts'),
    ):
        with pytest.raises(InputError, match=message):
            pose_groups(series, settings_for(**{**ORAL, **changed}))
    with pytest.raises(InputError, match="no group has an amount before its last sample"):
        pose_groups(series_of(table.assign(amount=np.where(table.t == 48.0, 9.0, 0.0))), settings_for(**ORAL))
    with pytest.raises(InputError, match="a factor that is fitted belongs to groups"):
        discover(series, settings_for(doses=["conc = f*amount"], members=0))
    with pytest.raises(InputError, match="laws with inputs are not yet possible"):
        fit_constants(series, "conc' = amount - ke*conc", settings_for(vary="auto", doses=["conc = amount"]))


def test_empty_cells_of_doses_are_no_lack(tmp_path):
    subjects(0, own=False, groups=2)[0].to_csv(tmp_path / "doses.csv", index=False)
    series = load_with_controls(tmp_path / "doses.csv", states=["conc"], group="subject", impulses=["amount"])
    assert [message for message in series.messages if "amount" in message] == []
    assert [message for message in series.messages if "conc" in message] == ["Column 'conc' lacks 6 of 48 values."]
