"""Where `fit` writes: whole, one fit at a time, and never over the result of another table."""

import dataclasses
import json
from pathlib import Path

import pytest
from faces import discovery

from odediscovery import write_csv
from odediscovery.command.cli import main
from odediscovery.runtime.files import claimed


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    """Fits of known outcome, in an empty folder with two tables of the same name."""

    def found(series, settings, monitor):
        return dataclasses.replace(discovery(), series=series)

    monkeypatch.setattr("odediscovery.discovery.discover.discover", found)
    monkeypatch.chdir(tmp_path)
    for k, name in enumerate(("one", "two")):
        Path(name).mkdir()
        write_csv(discovery(noise=0.01 * (k + 1)).series, f"{name}/data.csv")


def test_another_table_does_not_replace_a_result_by_its_default_name(monkeypatch, capsys):
    monkeypatch.setattr("odediscovery.command.fit._shown_in", lambda found, kinds: {})  # pictures take seconds
    assert main(["fit", "one/data.csv", "--quiet"]) == 0
    before = Path("data.odediscovery/result.json").read_bytes()
    assert json.loads(before)["source"]["table"] == "data.csv" and str(Path.cwd()) not in before.decode()
    capsys.readouterr()
    assert main(["fit", "two/data.csv", "--quiet"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: data.odediscovery holds the result of another table") and "--out" in said
    assert Path("data.odediscovery/result.json").read_bytes() == before
    # The same table, also after it has changed, and whoever names the folder.
    write_csv(discovery(noise=0.03).series, "one/data.csv")
    assert main(["fit", "one/data.csv", "--quiet"]) == 0
    assert main(["fit", "two/data.csv", "--quiet", "--out", "data.odediscovery"]) == 0
    # A table that was moved is the same one.
    Path("two").rename("three")
    assert main(["fit", "three/data.csv", "--quiet"]) == 0


@pytest.mark.long
def test_files_of_others_stay_and_all_files_are_of_the_new_fit():
    assert main(["fit", "one/data.csv", "--quiet", "--out", "found"]) == 0
    Path("found/notes.txt").write_text("mine")
    before = {path.name: path.stat().st_ino for path in Path("found").iterdir()}
    assert main(["fit", "two/data.csv", "--quiet", "--out", "found"]) == 0
    after = {path.name: path.stat().st_ino for path in Path("found").iterdir()}
    assert after.keys() == before.keys() and Path("found/notes.txt").read_text() == "mine"
    assert [name for name in before if before[name] == after[name]] == ["notes.txt"]
    hashes = json.loads(Path("found/result.json").read_text(encoding="utf-8"))["files"]
    assert hashes.keys() == after.keys() - {"notes.txt", "result.json"}


def test_a_second_fit_into_one_folder_is_refused_before_it_begins(capsys):
    with claimed(Path("found")):
        assert main(["fit", "one/data.csv", "--quiet", "--out", "found"]) == 2
    assert "found is being written by another fit" in capsys.readouterr().err
    assert not Path("found").exists()


def test_what_was_found_is_printed_where_it_cannot_be_written(monkeypatch, capsys):
    discovery().save("found")
    before = Path("found/result.json").read_bytes()

    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    assert main(["fit", "one/data.csv", "--quiet", "--out", "found"]) == 2
    shown = capsys.readouterr()
    assert shown.err == "error: cannot write to found: No space left on device\n" and "S' = " in shown.out
    assert Path("found/result.json").read_bytes() == before


def test_a_prediction_that_cannot_be_written_leaves_no_page(capsys):
    discovery().save("found")
    for bad in ("nowhere/x.csv", "one"):
        assert main(["predict", "found", "--report", "page.html", "--out", bad]) == 2
        assert f"--out {bad}: cannot be written" in capsys.readouterr().err
        assert not Path("page.html").exists()
