"""Other methods get a fair chance, and stand beside ours on one page."""

import json

import numpy as np
import pytest

from odediscovery import FitError
from odediscovery.bench import peers
from odediscovery.bench.peers import Library, group_law, group_library, libraries
from odediscovery.bench.suites import COLUMNS
from odediscovery.bench.systems import Protocol, load_suite, training_data
from odediscovery.command.cli import main
from odediscovery.data.series import Scale


def test_libraries_hold_only_functions_that_the_values_have():
    positive, mixed = np.array([[1.0, 2.0]]), np.array([[1.0, -2.0]])
    every = list(libraries(positive))
    assert [len(one.exponents) for one in every[:3]] == [3, 6, 10]
    assert max(one.waves for one in every) == 2
    wanted = np.array([0.5, -1.0])
    assert any((one.exponents == wanted).all(axis=1).any() for one in every)
    for one in libraries(mixed):
        of_second = one.exponents[:, 1]
        assert (of_second >= 0).all() and (of_second == np.round(of_second)).all()


def test_scaled_coefficients_become_equations_in_user_units():
    library = Library(np.array([[0.0, 0.0], [-0.5, 2.0]]), waves=2)
    state, time = np.array([10.0, 0.1]), 3.0
    c = np.random.default_rng(0).normal(size=(2, 10))
    found = library.equations(("a b", "c"), c, Scale(state, time))
    x = np.random.default_rng(1).uniform(0.5, 2.0, (5, 2))
    scaled = library.columns(x / state, state) @ c.T
    np.testing.assert_allclose(found.rhs(x), scaled * state / time, rtol=1e-12)


def test_sindy_says_when_nothing_can_be_simulated(monkeypatch):
    pytest.importorskip("pysindy")
    monkeypatch.setattr(peers, "THRESHOLDS", (1e9,))
    series = training_data(load_suite("fractional")["torricelli_inflow"], Protocol())
    with pytest.raises(FitError, match="no threshold"):
        peers.sindy(series, 60.0, 0)


def kept(folder, methods, systems, **changed):
    """A folder of rows, half of them exact."""
    folder.mkdir()
    study = {"suite": "fractional", "sigma": 0.0, "drop": 0.0, "trajectories": 1, "seed": 0}
    (folder / "study.json").write_text(json.dumps({**study, **changed}))
    row = dict.fromkeys(COLUMNS) | {"coef": False, "gen": -3.0, "recon_front": 0.95 if "ours" in methods else None}
    rows = [
        row
        | {"id": str(k), "method": method, "exact": k % 2 == 0, "recon": None if k == 1 else 0.95, "seconds": float(k)}
        for method in methods
        for k in range(systems)
    ]
    (folder / "rows.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    return folder


def test_kept_folders_stand_side_by_side(tmp_path, capsys):
    folders = [
        kept(tmp_path / "c", ("pysindy",), 34, suite="odebench", sigma=0.05, drop=0.5),
        kept(tmp_path / "b", ("pysindy", "pyoperon"), 25),
        kept(tmp_path / "a", ("ours",), 11, trajectories=1, seed=0, max_seconds=90.0),
    ]
    assert main(["bench", "page", *map(str, folders)]) == 0
    shown = capsys.readouterr().out
    kept(tmp_path / "other", ("ours",), 2, suite="ablation")
    assert main(["bench", "page", str(tmp_path)]) == 0 and capsys.readouterr().out == shown
    lines = shown.splitlines()
    assert lines[-1] == "All rows of ours are of commit unknown."
    assert [line for line in lines if line.startswith("#")] == [
        "## Systems that the engine was developed on",
        "## Public systems: the half of ODEBench that the engine was developed on",
    ]
    rows = [line for line in lines if line.startswith("| `")]
    assert rows == [
        "| `fractional`, clean, 1 trajectory | ours, 11 of 25 systems | 6 of 11 | 10 | 11 | 0 | 0 | 5.0 | 9.5 "
        "| 10.0 | 90 | unknown |",
        "| `fractional`, clean, 1 trajectory | pysindy | 13 of 25 | 24 | - | 0 | 0 | 12.0 | 22.8 | 24.0 | - "
        "| unknown |",
        "| `fractional`, clean, 1 trajectory | pyoperon | 13 of 25 | 24 | - | 0 | 0 | 12.0 | 22.8 | 24.0 | - "
        "| unknown |",
        "| `odebench`, 5 % noise, half of the samples, 1 trajectory | pysindy | 17 of 34 | 33 "
        "| - | 0 | 0 | 16.5 | 31.3 | 33.0 | - | unknown |",
    ]


def test_random_laws_of_seeds_that_were_developed_on_stand_apart(tmp_path, capsys):
    seen, unseen = (kept(tmp_path / str(seed), ("ours",), 5, suite="random", seed=seed) for seed in (0, 1000))
    for folder in (seen, unseen):
        lines = (folder / "rows.jsonl").read_text().replace('"recon_front": 0.95', '"recon_front": null')
        (folder / "rows.jsonl").write_text(lines)
    about = json.loads((unseen / "study.json").read_text())
    (unseen / "study.json").write_text(json.dumps({**about, "commit": "abc1234"}))
    assert main(["bench", "page", str(unseen), str(seen)]) == 0
    page = capsys.readouterr().out
    assert "best of the front" not in page
    first, second = page.split("## ")[1:]
    assert "Rows of ours are of 2 commits; study.json of each folder says" in second
    assert first.startswith("Random laws, of seeds below 1000") and "| unknown |" in first
    assert second.startswith("Random laws, of seeds that nobody developed on") and "| abc1234 |" in second


def test_a_folder_without_rows_of_a_suite_is_refused(tmp_path, capsys):
    other = kept(tmp_path / "other", ("ours",), 2, suite="ablation")
    broken = kept(tmp_path / "broken", ("ours",), 2)
    (broken / "rows.jsonl").write_text("{\n")
    for folder in (other, broken, tmp_path / "missing"):
        assert main(["bench", "page", str(folder)]) == 2
        said = capsys.readouterr().err
        assert str(folder) in said and said.count("\n") == 1 and "Error" not in said


# Groups


def decay(start):
    t = np.linspace(0.0, 4.0, 80)
    return t, start * np.exp(-0.5 * t)[:, None]


def test_the_library_has_polynomials_of_degree_two_and_the_given_powers_once():
    assert group_library(2, [[0.5, 1.0], [1.0, 1.0]]).tolist() == [
        [0.0, 0.0], [0.0, 1.0], [0.0, 2.0], [0.5, 1.0], [1.0, 0.0], [1.0, 1.0], [2.0, 0.0],
    ]  # fmt: skip


def test_runs_from_several_starts_give_one_law():
    pytest.importorskip("pysindy")
    law = group_law([decay(1.0), decay(3.0)], group_library(1, [[0.5]]))
    x = np.linspace(0.5, 2.5, 9)[:, None]
    assert law.rhs(x) == pytest.approx(-0.5 * x, rel=0.01)


def test_without_the_package_the_reason_is_said(monkeypatch):
    monkeypatch.setattr(peers, "pysindy", None)
    with pytest.raises(FitError, match=r"pip install odediscovery\[bench\]"):
        group_law([decay(1.0)], group_library(1, []))
