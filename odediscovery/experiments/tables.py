"""Tables of experiments in Markdown, and the texts of their cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from odediscovery.bench.summary import table


def markdown(lines: Iterable[Mapping[str, str]]) -> str:
    """Write lines, cells by column name, as a Markdown table, the first column flush left, the others right."""
    rows = [*lines]
    return table(list(rows[0]), [row.values() for row in rows], rule="--:") + "\n" if rows else ""


def pivot(head: str, cells: Mapping[tuple[str, str], str]) -> str:
    """Write cells by (row, column) as a Markdown table; `head` is above the names of the rows."""
    blank, rows = dict.fromkeys((column for _, column in cells), "-"), dict[str, dict[str, str]]()
    for (row, column), cell in cells.items():
        rows.setdefault(row, {head: row} | blank)[column] = cell
    return markdown(rows.values())


def number(value: float | np.floating[Any], digits: int = 2) -> str:
    """Format a number for a table: few digits, and an exponent only if needed."""
    value = float(value)
    if not np.isfinite(value):
        return "-" if np.isnan(value) else "inf"
    return f"{value:.{digits}g}" if 1e-3 <= abs(value) < 1e4 or value == 0 else f"{value:.1e}"


def median_deviation(values: NDArray[np.float64]) -> tuple[float, float]:
    """Median and median absolute deviation, as in the paper's tables, including infinite values."""
    values = np.where(np.isnan(values), np.inf, values)
    middle = float(np.median(values))
    if not np.isfinite(middle):
        return middle, np.inf
    return middle, float(np.median(np.abs(values - middle)))


def spread(middle: float, deviation: float) -> str:
    """Format a median and its deviation."""
    return f"{number(middle)} ± {number(deviation)}"


def beside(ours: float, published: float, deviation: float) -> str:
    """Compare an error with a published one: within two of its median deviations, or better or worse by more."""
    if abs(ours - published) <= 2.0 * deviation:
        return "within"
    return "better" if ours < published else "worse"


def counted(verdicts: Sequence[str]) -> str:
    """State how many errors are within two median deviations, better and worse."""
    within, better, worse = (list(verdicts).count(v) for v in ("within", "better", "worse"))
    return (
        f"Of {len(verdicts)} medians {within} are within two median deviations of the published one, "
        f"{better} better by more, {worse} worse by more."
    )


def tally(won: NDArray[Any]) -> str:
    """Format the number of successful runs."""
    return f"{int(won.sum())} of {len(won)}"


def share(won: NDArray[Any]) -> str:
    """Format the 95 % interval of the share of successful runs, in whole per cents."""
    return "{:.0%} to {:.0%}".format(*wilson(won))


def wilson(won: NDArray[Any]) -> tuple[float, float]:
    """95 % interval of the share of successful runs (Wilson's score interval, as in Madsen and Johansen)."""
    low, high = binomtest(int(np.sum(won)), len(won)).proportion_ci(method="wilson")
    return float(low), float(high)
