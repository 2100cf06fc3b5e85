"""Rows as tables in Markdown: one writer of tables, and the cells that studies share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from odediscovery.bench.rows import Row
from odediscovery.errors import InputError
from odediscovery.laws.equations import Equations

# R2 above which a system counts in the literature, and above which errors are invisible.
GOOD, NEAR_PERFECT = 0.9, 0.999

# From the rows of a group to a cell.
Cell: TypeAlias = Callable[[Sequence[Row]], str]
# From one row to a cell.
Told: TypeAlias = Callable[[Row], str]
# A name in one cell, or in several.
Name: TypeAlias = str | tuple[str, ...]


def table(header: Sequence[str], rows: Iterable[Iterable[str]], rule: str = "---") -> str:
    """Write rows of text as a Markdown table; `rule` aligns all columns except the first."""
    lines = [header, ["---", *[rule] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def listed(columns: Mapping[str, Told], rows: Iterable[Row]) -> str:
    """Write a table with a line for each row."""
    return table(list(columns), ([cell(row) for cell in columns.values()] for row in rows))


def grouped(titles: Name, groups: Mapping[Any, Sequence[Row]], columns: Mapping[str, Cell]) -> str:
    """Write a table with a line for each non-empty group: its name under `titles`, then a cell per column."""

    def parts(name: Name) -> tuple[str, ...]:
        return (name,) if isinstance(name, str) else name

    lines = [(*parts(name), *(cell(rows) for cell in columns.values())) for name, rows in groups.items() if rows]
    return table((*parts(titles), *columns), lines)


def by(rows: Sequence[Row], *keys: str) -> dict[Any, list[Row]]:
    """Group rows by the values of some columns, in order."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        name = tuple(str(row[key]) for key in keys)
        groups.setdefault(name if len(name) > 1 else name[0], []).append(row)
    return groups


def count(rows: Sequence[Row], key: str, above: float | None = None) -> int:
    """Count the rows in which a column is true, or a score exists and exceeds a bound."""
    if above is None:
        return sum(bool(row[key]) for row in rows)
    return sum(row[key] is not None and row[key] > above for row in rows)


def _counting(form: str) -> Callable[..., Cell]:
    """Cells that say in how many rows a column is true, or above a bound: `n`, its `share`, and how many there are."""

    def of(key: str, above: float | None = None) -> Cell:
        def cell(rows: Sequence[Row]) -> str:
            n = count(rows, key, above)
            return form.format(n=n, of=len(rows), share=n / max(len(rows), 1))

        return cell

    return of


number, hits, share = _counting("{n}"), _counting("{n} of {of}"), _counting("{share:.0%}")
number_and_share = _counting("{n} ({share:.0%})")


def text_of(key: str) -> Told:
    """A cell with the value of a column."""
    return lambda row: str(row[key])


def yes_if(key: str) -> Told:
    """A cell with yes or no for a column."""
    return lambda row: yes_or_no(row[key])


def middle(key: str, form: str = ".1f", missing: str = "-") -> Cell:
    """A cell with the median of the values of a column."""
    return statistic(key, np.median, form, missing)


def statistic(key: str, of: Callable[[Any], Any], form: str = ".1f", missing: str = "-") -> Cell:
    """A cell with one number for the known values of a column."""

    def cell(rows: Sequence[Row]) -> str:
        known = [row[key] for row in rows if row[key] is not None]
        return format(float(of(known)), form) if known else missing

    return cell


def size(rows: Sequence[Row]) -> str:
    """A cell with the number of rows."""
    return str(len(rows))


late_seconds = statistic("seconds", partial(np.percentile, q=95))
longest, total_seconds = statistic("seconds", max), statistic("seconds", sum, ".0f")
# The last columns of most tables of fits.
MEDIAN_AND_LATE: Mapping[str, Cell] = {"median s": middle("seconds"), "95 % s": late_seconds}
EXACT_AND_COEF: Mapping[str, Cell] = {"EXACT": hits("exact"), "share": share("exact"), "COEF": number("coef")}


def options_of(study: Mapping[str, Any]) -> str:
    """Write the common properties of the rows of a study as options of the command."""
    options = {name.replace("_", "-"): value for name, value in study.items() if name != "suite" and value is not None}
    return " ".join(f"--{name} {v if isinstance(v, str) else format(v, 'g')}" for name, v in options.items())


def printed(row: Row, digits: int = 4) -> str:
    """The equations of a row, shortened for a cell, or the reason of the failure; rows.jsonl has all digits."""
    text = row["failed"] or ("-" if row["equations"] is None else in_short(row["equations"], digits))
    return (text if len(text) <= 240 else f"{text[:237]}...").replace("|", "\\|")


def missed(rows: Sequence[Row], truths: Mapping[str, Equations], detail: Callable[[Row], str]) -> list[str]:
    """The true and the found law of every row that is not exact, with a `detail`, as parts of a page."""
    laws = [
        f"**{row['id']}** {detail(row)}, {row['seconds']:.1f} s\n\n"
        f"    true:  {in_short(truths[row['id']].texts())}\n    found: {printed(row)}"
        for row in rows
        if not row["exact"]
    ]
    return ["## Not exact", *laws] if laws else []


def in_short(texts: Mapping[str, str], digits: int = 4) -> str:
    """Write equations in one line, unchanged if they cannot be parsed."""
    try:
        return "; ".join(Equations.parse(list(texts), texts).pretty(digits).splitlines())
    except InputError:
        return "; ".join(texts.values())


def in_percent(share: float) -> str:
    """Write a share in per cent with its own number of digits."""
    return f"{100 * share:g} %"


def figure(r2: float | None) -> str:
    """Write an R2 for a table; a dash without equations or if they cannot be integrated."""
    if r2 is None:
        return "-"
    return f"{r2:.4f}" if r2 > -100 else f"{r2:.1e}"


def recon_and_gen(row: Row) -> str:
    """Both R2 of a row."""
    return f"RECON {figure(row['recon'])}, GEN {figure(row['gen'])}"


def yes_or_no(value: object) -> str:
    """Write yes or no for a cell."""
    return "yes" if value else "no"
