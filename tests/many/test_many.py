"""Thousands of series, each with its own law; chosen ones get folders of their own."""

import csv
import dataclasses
import json
import shutil

import numpy as np
import pandas as pd
import pytest
from listening import Here

from odediscovery import Discovery, InputError, Monitor, settings_for
from odediscovery.command.cli import main
from odediscovery.many.alone import chosen_alone, fit_alone, folder_name
from odediscovery.many.run import fit_many, opened_table, told
from odediscovery.many.simple import explain
from odediscovery.many.tables import blocks_of, parquet_blocks

T = np.linspace(0.0, 6.0, 30)
NOISE = np.random.default_rng(0).standard_normal((6, 30))


@pytest.fixture(autouse=True)
def _blocks_of_two(monkeypatch):
    monkeypatch.setattr("odediscovery.many.run.BLOCK", 2)


def curves(count):
    return [1.0 / (1.0 + (20.0 + k) * np.exp(-(1.0 + 0.01 * k) * T)) + 0.005 * NOISE[k % 6] for k in range(count)]


def frame(values, labels=()):
    wells = labels or [f"w{k}" for k in range(len(values))]
    t = np.tile(T, len(values))
    return pd.DataFrame({"well": np.repeat(wells, len(T)), "t": t, "od": np.concatenate(values)})


def write(path, values):
    frame(values).to_csv(path, index=False)
    return path


def summary(folder):
    with (folder / "summary.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_simple_laws_are_told_apart_with_their_constants():
    series = {
        "exponential decay": 5e3 * np.exp(-0.7 * T),
        "logistic growth": 40.0 / (1.0 + 19.0 * np.exp(-1.5 * T)),
        "approach to a level": 3.0 - 2.0 * np.exp(-0.9 * T),
        "second order decay": 2.0 / (1.0 + 2.0 * 0.4 * T),
    }
    noisy = [x + 0.01 * x.std() * e for x, e in zip(series.values(), NOISE, strict=False)]
    rows = explain(list(series), [(T, x) for x in noisy])
    assert [row["law"] for row in rows] == list(series)
    assert {row["outcome"] for row in rows} == {"explained"}
    assert rows[0]["constants"][0] == pytest.approx(0.7, rel=0.02)
    assert rows[1]["constants"][:2] == pytest.approx([1.5, 1.5 / 40], rel=0.02)
    assert rows[3]["constants"][0] == pytest.approx(0.4, rel=0.05)


def test_what_no_simple_law_explains_is_said():
    gone = np.full(30, np.nan)
    one = np.where(np.arange(30) < 2, 1.0, np.nan)
    rows = explain(["wave", "gone", "one", "still"], [(T, np.sin(4 * T)), (T, gone), (T, one), (T, np.ones(30))])
    assert [row["outcome"] for row in rows] == [
        "no simple law",
        "no values",
        "only 2 values, at least 4 are needed",
        "never changes",
    ]


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ('\ufeff"g";"dose; mg";"t";"x";"z"', '"{g}";1.5;{t};{x};7'),
        ('\n"free\ntext", "g",t,x,z', '"one, two\nthree", {g},{t},{x},7'),
    ],
)
def test_columns_are_those_that_are_named_wherever_quotes_stand(header, row, tmp_path):
    path, curve = tmp_path / "quoted.csv", curves(1)[0]
    rows = [row.format(g=g, t=float(t), x=float(x)) for g in "abc" for t, x in zip(T, curve, strict=True)]
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    blocks, columns = blocks_of(path, "g", "t", "x", 2)
    assert columns == ("g", "t", "x") and [block.read()[0] for block in blocks] == [["a", "b"], ["c"]]
    for t, x in (run for block in blocks for run in block.read()[1]):
        np.testing.assert_array_equal((t, x), (T, curve))


def test_numbers_may_have_decimal_commas_where_these_part_no_columns(tmp_path):
    path = tmp_path / "comma.csv"
    path.write_text("g;t;x\na;0;1,5\na;0,5;-2e-3\na;1;\na;1.5;1,2,3\n")
    ((t, x),) = blocks_of(path, "g", None, None, 2)[0][0].read()[1]
    np.testing.assert_array_equal(t, [0.0, 0.5, 1.0, 1.5])
    np.testing.assert_array_equal(x, [1.5, -0.002, np.nan, np.nan])
    path.write_text('g,t,x\na,0,"1,234"\n')
    assert np.isnan(blocks_of(path, "g", None, None, 2)[0][0].read()[1][0][1]).all()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('g,t,"x, mg"\na,0,1\na,1,5,1\n', "line 3: expected 3 cells as in the header, got 4"),
        ('g,t,x\na,0,"1\na,1,2\n', "look at its quotation marks"),
        ("g,t,x,z\na,0,1,1\n", "name its column, --states, among x, z"),
        ("g,t,x\na,0,1\nb,0,1\na,1,2\n", "line 4: the rows of group 'a' do not stand together"),
    ],
)
def test_a_table_whose_columns_or_series_are_not_certain_is_refused(text, told, tmp_path):
    path = tmp_path / "odd.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=told):
        blocks_of(path, "g", "t", None, 2)


def test_a_lost_task_costs_only_its_series_and_is_made_up_for(tmp_path):
    path, folder = write(tmp_path / "plate.csv", curves(6)), tmp_path / "each"
    said, table = [], opened_table(path, "well", folder)
    first = fit_many(table, Here(lambda block: block == table.blocks[1]), Monitor(), say=said.append)
    assert (first.series, first.finished, said) == (4, False, ["block 1: its process ended"])
    # A line that a kill has cut off.
    with (folder / "rows.jsonl").open("ab") as file:
        file.write(b'{"block": 2, "ro')
    place = Here()
    second = fit_many(table, place, Monitor())
    assert (second.series, second.finished, place.ran) == (6, True, 1)
    rows = summary(folder)
    # In the order of the table, whatever came last.
    assert [row["series"] for row in rows] == [f"w{k}" for k in range(6)]
    assert {row["law"] for row in rows} == {"logistic growth"}
    assert rows[0]["equation"].startswith("od' = ")
    assert "most follow logistic growth (100%)" in told(second, "well", "plate.csv")
    with pytest.raises(InputError, match="begun with another table"):
        fit_many(opened_table(write(tmp_path / "other.csv", curves(3)), "well", folder), place, Monitor())


@pytest.mark.parametrize("kind", ["csv", "folder"])
def test_a_table_that_was_edited_is_fitted_again(kind, tmp_path):
    path, folder = tmp_path / f"plate.{kind}", tmp_path / "each"

    def lay(values):
        rows = [(f"w{k}", t, value) for k in range(3) for t, value in enumerate(values)]
        table = pd.DataFrame(rows, columns=["well", "t", "od"])
        if kind == "csv":
            table.to_csv(path, index=False)
        else:
            shutil.rmtree(path, ignore_errors=True)
            table.to_parquet(path, compression=None, partition_cols=["well"])

    def bytes_of(at):
        return sum(file.stat().st_size for file in [at, *at.rglob("*")] if file.is_file())

    def fit():
        place = Here()
        fit_many(opened_table(path, "well", folder), place, Monitor())
        return place.ran, summary(folder)[0]["equation"]

    lay(range(1, 9))
    size = bytes_of(path)
    assert fit() == (2, "od' = 1")
    assert fit() == (0, "od' = 1")
    lay(range(8, 0, -1))
    assert fit() == (2, "od' = - 1") and bytes_of(path) == size
    with pytest.raises(InputError, match="begun with another table or column"):
        opened_table(path, "well", folder, time="od", state="t")
    # A table that was moved is the same one.
    path = path.rename(tmp_path / f"moved.{kind}")
    assert fit() == (0, "od' = - 1")


def test_a_parquet_file_is_read_by_row_groups_and_the_summary_is_parquet_too(tmp_path):
    path, folder = tmp_path / "plate.parquet", tmp_path / "each"
    frame(curves(5)).to_parquet(path, row_group_size=47)  # series lie across row groups
    blocks, columns = parquet_blocks(path, "well", None, None, 2)
    assert columns == ("well", "t", "od")
    assert [block.read()[0] for block in blocks] == [["w0", "w1"], ["w2", "w3"], ["w4"]]
    t, x = blocks[1].read()[1][1]
    assert np.array_equal(t, T)
    assert np.array_equal(x, curves(5)[3])
    lost = fit_many(opened_table(path, "well", folder), Here(lambda block: block == blocks[0]), Monitor())
    found = fit_many(opened_table(path, "well", folder), Here(), Monitor())
    assert (lost.series, found.series, found.finished) == (3, 5, True)
    kept = pd.read_parquet(folder / "summary.parquet")
    assert sorted(kept["series"]) == [f"w{k}" for k in range(5)]
    assert set(kept["law"]) == {"logistic growth"}
    assert [c[0] for c in kept.sort_values("series")["constants"]] == pytest.approx(1 + 0.01 * np.arange(5), rel=0.02)


def test_parquet_that_cannot_be_read_by_group_is_refused(tmp_path):
    table = frame(curves(2))
    table.sort_values("t").to_parquet(tmp_path / "mixed.parquet")
    table.assign(od="high").to_parquet(tmp_path / "words.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and nothing else")
    (tmp_path / "empty").mkdir()
    for name, message in (
        ("mixed.parquet", "'w0' do not stand together"),
        ("words.parquet", r"column 'od' holds .*string; --each needs numbers"),
        ("broken.parquet", "cannot be read as Parquet"),
        ("empty", "expected Parquet files in this folder"),
    ):
        with pytest.raises(InputError, match=message):
            parquet_blocks(tmp_path / name, "well", None, None, 2)


ALONE = settings_for(members=0, library=["textbook"], max_seconds=60.0)
SOURCE = {"table": "plate.csv", "path": "here"}


def fitted_table(path, **columns):
    table = opened_table(path, "well", path.parent / "each", **columns)
    fit_many(table, Here(), Monitor())
    return table


def test_chosen_series_are_read_from_their_blocks_and_what_cannot_be_fitted_is_named(tmp_path):
    path = tmp_path / "plate.parquet"
    values = [*curves(2), np.full(len(T), np.nan)]
    frame(values, ["a/1", "b", "c"]).rename(columns={"t": "h"}).to_parquet(path)
    table = fitted_table(path, time="h")
    (one,) = chosen_alone(table, ["a/1"], ALONE, SOURCE)
    assert one.folder == tmp_path / "each" / "a%2F1.odediscovery" and one.series.time_name == "h"
    np.testing.assert_array_equal(one.series.trajectories[0].values[:, 0], curves(1)[0])
    with pytest.raises(InputError, match="series 'c' cannot be fitted alone: "):
        chosen_alone(table, ["b", "c"], ALONE, SOURCE)


def test_a_folder_that_is_there_is_not_made_again_and_a_lost_series_costs_no_other(tmp_path):
    table = fitted_table(write(tmp_path / "plate.csv", curves(3)))
    chosen = chosen_alone(table, ["w0", "w2"], ALONE, SOURCE)
    ended = {one.label: found for one, found in fit_alone(chosen, Here(lambda one: one.label == "w0"), Monitor())}
    found = ended["w2"]
    assert ended["w0"] == "its process ended" and isinstance(found, Discovery) and found.name == "logistic growth"
    lost, done = chosen
    found.save(done.folder)
    assert not done.is_done  # a result of some other table, as far as it says
    document = found.as_dict() | {"source": dict(done.source)}
    (done.folder / "result.json").write_text(json.dumps(document), "utf-8")
    assert done.is_done and not lost.is_done
    assert not dataclasses.replace(done, settings=settings_for(members=1)).is_done
    edited = write(tmp_path / "plate.csv", [curve[::-1] for curve in curves(3)])
    assert not chosen_alone(fitted_table(edited), ["w2"], ALONE, SOURCE)[0].is_done
    (done.folder / "result.json").write_text(json.dumps(document | {"outcome": "stopped"}), "utf-8")
    assert not done.is_done


def test_names_of_folders_hold_any_label():
    assert [folder_name(one) for one in ("A1", "B 2", "a.b", ".a", "..", "é")] == [
        *("A1", "B 2", "a.b", "%2Ea", "%2E.", "é")
    ]
    long, other = folder_name("x" * 300), folder_name("x" * 299)
    assert len(long) == 89 and long != other and folder_name(" a") != folder_name("a")


def test_the_command_makes_folders_that_show_and_predict_read(tmp_path, capsys):
    path, folder = write(tmp_path / "plate.csv", curves(2)), tmp_path / "plate.each"
    asked = ["fit", str(path), "--group", "well", "--each", "--members", "0", "--library", "textbook"]
    asked += ["--quiet", "--out", str(folder)]
    assert main([*asked, "--folders", "w1"]) == 0
    own = folder / "w1.odediscovery"
    assert [*folder.glob("*.odediscovery")] == [own]
    assert "series w1" in capsys.readouterr().out and (own / "report.html").exists() and (own / "fit.png").exists()
    document = json.loads((own / "result.json").read_text("utf-8"))
    assert (document["name"], document["source"]["series"]) == ("logistic growth", "w1")
    made = (own / "result.json").stat().st_mtime_ns
    assert main([*asked, "--folders", "w1"]) == 0 and (own / "result.json").stat().st_mtime_ns == made
    assert f"w1: kept in {own}" in capsys.readouterr().out
    assert main(["show", str(own)]) == 0 and main(["predict", str(own), "--until", "9"]) == 0
    assert capsys.readouterr().out.startswith("od' = ")
    assert main([*asked, "--folders", "w9"]) == 2 and "unknown series for --folders 'w9'" in capsys.readouterr().err
    assert main([*asked, "--folders", "w1", "--bootstrap", "9"]) == 2
    assert "fit --resume" in capsys.readouterr().err
    assert main(["fit", str(path), "--folders", "w1"]) == 2 and "it needs --each" in capsys.readouterr().err
