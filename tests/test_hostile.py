"""Damaged files: a clear error or a result, never a traceback, and nothing is run or evaluated."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from odediscovery.command.cli import main

DATA = Path(__file__).parents[1] / "data"
FILES = ("lynx_hare_1900_1920", "yeast_carlson_1913", "gause_paramecium_1934", "flu_boarding_school_1978")
CELLS = (
    "",
    "nan",
    "inf",
    "1e308",
    "-1e308",
    "1e-320",
    "0",
    "-5",
    "abc",
    "1,5",
    "=1+1",
    "2020-01-01",
    "٣",
    "\x00",
    "__import__('os').system('touch hacked')",
    "99999999999999999999",
    "1e5",
    '"',
    "'",
)
SAMPLE, ALL = 24, 300


def damaged(seed: int) -> str:
    """A table with one to six pieces of damage."""
    pick = random.Random(seed)
    text = (DATA / f"{pick.choice(FILES)}.csv").read_text(encoding="utf-8")
    for _ in range(pick.randint(1, 6)):
        lines = text.split("\n")
        row = pick.randrange(len(lines))
        cells = lines[row].split(",")
        kind = pick.randrange(7)
        if kind == 0:
            cells[pick.randrange(len(cells))] = pick.choice(CELLS)
            lines[row] = ",".join(cells)
        elif kind == 1:
            lines.insert(pick.randrange(len(lines)), lines[row])
        elif kind == 2:
            del lines[row]
        elif kind == 3:
            column = pick.randrange(3)
            lines = [
                ",".join(
                    pick.choice(CELLS) if k == column and pick.random() < 0.4 else cell
                    for k, cell in enumerate(line.split(","))
                )
                for line in lines
            ]
        elif kind == 4:
            pick.shuffle(lines)
        text = "\n".join(lines)
        if kind == 5:
            at = pick.randrange(len(text) + 1)
            text = text[:at] + pick.choice(',;\t\n"x0-.eé\x00') + text[at + pick.randint(0, 2) :]
        elif kind == 6:
            text = text.replace(",", pick.choice((";", "\t", ", ", "|")))
    return text


def check(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], seconds: str
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "damaged.csv"
    file.write_text(damaged(seed), encoding="utf-8")
    code = main(["fit", str(file), "--max-seconds", seconds, "--members", "2", "--quiet"])
    said = capsys.readouterr().err
    assert code in (0, 1, 2)
    assert "Traceback" not in said
    if code:
        assert said.startswith("error: ") and len(said.splitlines()) == 1
    assert not (tmp_path / "hacked").exists()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SAMPLE))
def test_a_damaged_table_ends_in_a_line_or_in_equations(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check(seed, tmp_path, monkeypatch, capsys, "0.5")


@pytest.mark.accept
@pytest.mark.parametrize("seed", range(SAMPLE, ALL))
def test_every_damaged_table_ends_in_a_line_or_in_equations(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check(seed, tmp_path, monkeypatch, capsys, "5")
