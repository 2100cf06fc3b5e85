"""Tables with damage, and small ones that are whole but odd."""

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


def damaged_table(seed):
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


def fitted_damage(seed):
    """A damaged table ends in a line or in equations."""
    Path("damaged.csv").write_text(damaged_table(seed), encoding="utf-8")
    check(["fit", "damaged.csv", "--max-seconds", "0.3", "--members", "2", "--quiet"])


def odd_table(pick):
    """A small table that is whole: states of zeros and constants, four samples, groups of two, far times."""
    shapes = {
        "zero": lambda k: 0.0,
        "constant": lambda k: 3.7,
        "decay": lambda k: 5.0 * 0.8**k,
        "growth": lambda k: 2.0**k,
        "late": lambda k: float(k > 3),
        "once": lambda k: float(k == 2),
        "alternating": lambda k: (-1.0) ** k,
        "tiny": lambda k: 1e-300 * 0.9**k,
        "huge": lambda k: 1e300 * 0.9**k,
        "wide": lambda k: 10.0 ** (60 * k - 150) if k < 6 else 1.0,
        "negative": lambda k: -1.0 - k,
        "line": lambda k: 1.0 + 2.0 * k,
        "whole": lambda k: float(round(10 * 0.7**k)),
        "noise": lambda k: pick.gauss(0.0, 1.0),
        "copy": lambda k: 5.0 * 0.8**k,
        "negative zero": lambda k: -0.0,
    }
    names = pick.sample(sorted(shapes), pick.choice((1, 1, 2, 2, 3)))
    groups, samples = pick.choice(((1, 4), (1, 4), (1, 5), (1, 12), (2, 2), (8, 2), (30, 2), (3, 4), (2, 7)))
    start, step = pick.choice(((0.0, 1.0), (0.0, 1.0), (1e15, 1.0), (-5.0, 1e-9), (0.0, 1e300), (1e-300, 1e-300)))
    dates = pick.random() < 0.08
    rows = [["group", "t", *names]]
    for group in range(groups):
        for k in range(samples):
            time = f"{pick.choice((1, 1970, 9999))}-01-{k + 1:02d}T00:00+14:00" if dates else repr(start + step * k)
            rows.append([f"g{group}", time, *(repr(shapes[name](k + group)) for name in names)])
    for row in rows[1:]:
        for k in range(2, len(row)):
            if pick.random() < 0.02:
                row[k] = ""
    return rows


def fitted_oddity(seed):
    """A small odd table ends in equations or in a line, by the command and by the estimator."""
    pick = random.Random(seed)
    rows = odd_table(pick)
    Path("odd.csv").write_text("\n".join(",".join(row) for row in rows) + "\n", encoding="utf-8")
    options = pick.choice(([], ["--members", "0"], ["--members", "1"], ["--holdout", "0.2"], ["--states", rows[0][2]]))
    code, _ = check(["fit", "odd.csv", "--group", "group", "--max-seconds", "1", "--members", "2", "--quiet", *options])
    if code == 0:
        check(["predict", "odd.odediscovery"])
