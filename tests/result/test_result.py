"""A result can be kept in a folder and read again, and a folder from a stranger runs nothing."""

import dataclasses
import json
import shutil
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from faces import AWKWARD, awkward, discovery

from odediscovery import Equations, TimeSeries, discover, fit_constants, settings_for, simulate_system
from odediscovery.errors import InputError
from odediscovery.result import folder as folder_room
from odediscovery.result.discovery import Discovery
from odediscovery.result.folder import log_lines
from odediscovery.result.survival import Survival

FILES = {"result.json", "equations.tex", "model.npz", "covariance.npz", "data.csv", "log.jsonl"}
# Written by `odediscovery fit tank.csv --members 0`, on 30 samples of `simulate torricelli --noise 0.01`,
# of version 0.1.0 before its modules moved into rooms; without the pictures and the report.
OLD = Path(__file__).parents[1] / "files" / "torricelli_0.1.0"


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept") / "found"
    discovery(hidden=6).save(folder)
    return folder


@pytest.fixture
def copy(kept, tmp_path):
    return Path(shutil.copytree(kept, tmp_path / "copy"))


def edit(folder, change):
    path = folder / "result.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document)
    path.write_text(json.dumps(document), encoding="utf-8")


def test_load_gives_back_what_was_saved(kept, tmp_path):
    before, after = discovery(hidden=6), Discovery.load(kept)
    assert after.equations_text() == before.equations_text() and after.equations.complexity == 13
    np.testing.assert_array_equal(after.series.trajectories[0].values, before.series.trajectories[0].values)
    np.testing.assert_array_equal(after.initial_values, before.initial_values)
    np.testing.assert_array_equal(after.noise, before.noise)
    for name in ("mse", "r2", "r2_heldout", "outcome", "messages", "settings", "seconds", "log"):
        assert getattr(after, name) == getattr(before, name), name
    # Saved again it is the same to the byte, in just these files.
    after.save(tmp_path / "again")
    assert {path.name for path in (tmp_path / "again").iterdir()} == FILES
    for name in FILES - {"model.npz", "covariance.npz"}:
        assert (tmp_path / "again" / name).read_bytes() == (kept / name).read_bytes(), name


def test_the_json_says_what_the_contract_says():
    document = discovery().as_dict()
    assert document["states"] == ["S", "I", "R"] and document["symbols"] == {}
    assert document["seed"] == document["settings"]["seed"] == 3
    first = next(t for t in document["terms"] if t["state"] == "S" and t["coefficient"] < 0)
    assert first["powers"] == {"S": 0.5, "I": 0.5}
    assert (first["coefficient"], first["standard_error"]) == (-0.06, 1e-4)
    # One entry an exponent: S^0.5 I^0.5 stands in two equations but has two exponents.
    assert [(e["state"], e["value"], e["snapped"]) for e in document["exponents"]] == [
        ("S", 0.5, False),
        ("I", 0.5, False),
        ("I", 1.0, True),
        ("R", 1.0, True),
    ]
    assert document["initial_values"] == [{"S": 100.0, "I": 0.01, "R": 0.0}]


def test_awkward_column_names_go_round(tmp_path):
    before = awkward()
    before.save(tmp_path / "found")
    with pytest.raises(InputError, match="cannot write"):
        before.save(tmp_path / "found" / "data.csv" / "below")
    after = Discovery.load(tmp_path / "found")
    assert after.equations.states == after.series.states == AWKWARD
    assert after.equations.texts() == before.equations.texts()
    symbols = json.loads((tmp_path / "found/result.json").read_text("utf-8"))["symbols"]
    assert {"lambda", "x y"} <= set(symbols.values())
    np.testing.assert_allclose(after.simulate(), before.simulate(), rtol=1e-6, atol=1e-9)


def test_simulate_starts_where_it_is_told():
    found = discovery()
    late = found.simulate(times=np.array([100.0, 200.0]))
    np.testing.assert_allclose(late[1], found.simulate()[-1], rtol=1e-5)
    np.testing.assert_allclose(found.simulate(np.array([50.0, 1.0, 0.0]), np.array([7.0, 8.0]))[0], [50.0, 1.0, 0.0])
    with pytest.raises(InputError, match="before the first sample at 0"):
        found.simulate(times=np.array([-1.0, 1.0]))


CODE = "__import__('os').system('touch pwned')"
HOSTILE = {
    "code": lambda d: d["equations"].update(S=CODE),
    "code in the front": lambda d: d["pareto"][0]["equations"].update(I=CODE),
    "attribute": lambda d: d["equations"].update(S="S.__class__"),
    "no text": lambda d: d["equations"].update(S=["S"]),
    "unknown symbol": lambda d: d["equations"].update(S="S*Z"),
    "huge power": lambda d: d["equations"].update(S="9**9**9**9"),
    "equation missing": lambda d: d["equations"].pop("S"),
    "states of no kind": lambda d: d.update(states=3),
    "state not in the data": lambda d: d.update(states=["S", "I", "Z"]),
    "settings unknown": lambda d: d["settings"].update(evil=1),
    "settings of wrong kind": lambda d: d["settings"].update(members="many"),
    "outcome": lambda d: d.update(outcome="perfect"),
    "scores": lambda d: d.update(scores=[]),
    "initial values": lambda d: d["initial_values"].append({"S": 1.0}),
    "other format": lambda d: d.update(format="pickle"),
    "other version": lambda d: d.update(version=99),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_tampered_result_is_refused_in_one_line(copy, name, monkeypatch):
    monkeypatch.chdir(copy)
    edit(copy, HOSTILE[name])
    with pytest.raises(InputError, match=r"result\.json|data\.csv") as caught:
        Discovery.load(copy)
    assert "\n" not in str(caught.value)
    assert not list(copy.rglob("pwned"))


def test_a_result_that_is_no_json_object_and_a_missing_file_are_named(copy):
    for content in (b"", b"\x00\xff", b"[1, 2]", b"{" * 50_000, b'"text"'):
        (copy / "result.json").write_bytes(content)
        with pytest.raises(InputError, match=r"result\.json"):
            Discovery.load(copy)
    discovery().save(copy)
    for name in ("model.npz", "data.csv", "result.json"):
        (copy / name).unlink()
        with pytest.raises(InputError, match=name):
            Discovery.load(copy)
        discovery().save(copy)


def test_files_of_another_fit_are_refused(copy):
    for name in ("data.csv", "model.npz", "covariance.npz", "log.jsonl"):
        content = (copy / name).read_bytes()
        (copy / name).write_bytes(content + b"\n")
        with pytest.raises(InputError, match=rf"{name} is damaged \(not the file that was written with result\.json\)"):
            Discovery.load(copy)
        (copy / name).write_bytes(content)


def test_a_result_without_hashes_opens_as_one_of_an_earlier_version(copy):
    edit(copy, lambda d: d.pop("files"))
    (copy / "covariance.npz").unlink()
    (copy / "log.jsonl").unlink()
    found = Discovery.load(copy)
    assert found.estimates is None and found.log == ()


def test_a_folder_that_is_replaced_while_it_is_read_is_read_again(kept, copy, monkeypatch):
    real, asked = folder_room.read_bytes, list()

    def replaced_once(path):
        asked.append(path.name)
        if asked.count("data.csv") == 1 and path.name == "data.csv":
            discovery(noise=0.03).save(copy)
        return real(path)

    monkeypatch.setattr(folder_room, "read_bytes", replaced_once)
    np.testing.assert_array_equal(Discovery.load(copy).noise, discovery(noise=0.03).noise)
    assert asked.count("result.json") == 3


jsonschema = pytest.importorskip("jsonschema")
SCHEMA = json.loads((resources.files("odediscovery.result") / "schema.json").read_text(encoding="utf-8"))


def follows(document):
    plain = json.loads(json.dumps(document, allow_nan=False))
    jsonschema.Draft202012Validator(SCHEMA).validate(plain)
    unknown = set(plain) - set(SCHEMA["properties"])
    assert not unknown, f"keys that the schema does not name: {unknown}"


def test_the_schema_is_one_and_results_follow_it(tmp_path):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert set(SCHEMA["required"]) <= set(SCHEMA["properties"])
    found = discovery(runs=2)
    follows(found.as_dict())
    follows(awkward().as_dict())
    survival = Survival("residuals", 9, np.ones((3, 3)), 0.5, (("S", "S^2", 0.1),))
    follows(dataclasses.replace(found, survival=survival).as_dict())
    found.save(tmp_path)
    for folder in (tmp_path, OLD):
        follows(json.loads((folder / "result.json").read_text(encoding="utf-8")))


def test_fits_follow_it():
    series = simulate_system("logistic")
    follows(discover(series, settings_for(members=0)).as_dict())
    follows(fit_constants(series, "N' = r*N*(1 - N/K)").as_dict())
    follows(fit_constants(series, Equations.parse(["N"], {"N": "0.4*N - 0.004*N**2"})).as_dict())
    dated = TimeSeries.from_arrays(np.arange(30) * np.timedelta64(1, "h"), np.exp(-0.1 * np.arange(30)), ["x"])
    follows(fit_constants(dated, "x' = -k*x").as_dict())


@pytest.mark.parametrize(
    ("key", "value"), [("outcome", "good"), ("states", []), ("version", 2), ("equations", {"S": 1}), ("pareto", [])]
)
def test_other_documents_do_not(key, value):
    with pytest.raises(jsonschema.ValidationError):
        follows({**discovery().as_dict(), key: value})


def test_an_old_one_loads_and_saved_again_it_says_the_same(tmp_path):
    found = Discovery.load(OLD)
    assert found.equations_text() == "h' = 0.00311(16)*h^2 - 0.11181(90)*h"
    assert found.starts_text() == "at t = 0: h = 9.0096(98)"
    np.testing.assert_allclose(found.simulate(times=[0.0, 5.0])[:, 0], [9.0096175, 5.7713051], rtol=1e-7)
    found.save(tmp_path)
    before, after = (json.loads((folder / "result.json").read_text()) for folder in (OLD, tmp_path))
    # Keys and options that it had not yet.
    assert before.pop("versions") and after.pop("versions") and set(after.pop("files")) == FILES - {"result.json"}
    assert after.pop("found_by") is None and after.pop("probability") is None
    after["settings"] = {name: after["settings"][name] for name in before["settings"]}
    assert after == before
    for name in ("data.csv", "equations.tex", "log.jsonl"):
        assert (tmp_path / name).read_bytes() == (OLD / name).read_bytes(), name


def test_a_log_is_plain_lines():
    lines = log_lines([{"n": np.int64(1), "x": np.nan, "rows": np.array([True])}, {"place": Path("a")}])
    assert lines == b'{"n": 1, "x": null, "rows": [true]}\n{"place": "a"}\n'
