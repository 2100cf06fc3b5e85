"""Tables with damage, and small ones that are whole but odd."""

from __future__ import annotations

import random
from pathlib import Path

from promise import check

DATA = Path(__file__).parents[2] / "data"
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


def damaged_table(seed: int) -> str:
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


def fitted_damage(seed: int) -> None:
    """A damaged table ends in a line or in equations."""
    Path("damaged.csv").write_text(damaged_table(seed), encoding="utf-8")
    check(["fit", "damaged.csv", "--max-seconds", "0.3", "--members", "2", "--quiet"])
