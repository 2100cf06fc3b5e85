r"""Comparison of results of the same data.

    criterion  \sum_i n_i ln(RSS_i / n_i) + k ln n,    weight  exp(-difference / 2), of sum 1

over the states i with n_i values and residual sums of squares RSS_i, k fitted constants and starts
and n values in all (Schwarz, Annals of Statistics 6, 1978). It is computed in the same way for all, so
that laws from the search and laws written by the user are on one scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import odediscovery
from odediscovery.data.frames import Frame
from odediscovery.data.series import pooled
from odediscovery.errors import InputError
from odediscovery.laws.records import constants
from odediscovery.result.discovery import Discovery
from odediscovery.runtime.arrays import ABOVE_ZERO


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Results of the same data, compared by `compare`.

    Args:
        names: of the laws.
        results: in the same order.
        table: one row per law, the best first: number of fitted constants and starts, difference of the
            criterion to the best, weight, R2, R2 of held-out data, equations.

    >>> from odediscovery import fit_constants, simulate_system
    >>> series = simulate_system("logistic")
    >>> print(compare(*(fit_constants(series, f"N' = {law}") for law in ("r*N", "r*N - b*N^2"))).table["law"].tolist())
    ['law 2', 'law 1']
    """

    names: tuple[str, ...]
    results: tuple[Discovery, ...]
    table: Frame

    def plot(self, axes: Any = None) -> Any:
        """The data with the curves of all laws, one panel per state; returns the axes [states].

        Args:
            axes: matplotlib axes to draw in, one per state; None: a new figure.
        """
        return odediscovery.plot_laws(self.results, self.names, axes)

    def __repr__(self) -> str:
        lines = []
        for row in self.table.to_dict("records"):
            heldout = "" if np.isnan(row["R2_heldout"]) else f", held out {row['R2_heldout']:.4f}"
            lines.append(
                f"{row['law']}: {row['constants']} constants, criterion +{row['difference']:.1f}, "
                f"weight {row['weight']:.3f}, R2 {row['R2']:.6f}{heldout}"
            )
            lines += [f"  {line}" for line in row["equations"].splitlines()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        # Without held-out data the column is empty.
        table = self.table.dropna(axis=1, how="all")
        return str(
            table.to_html(index=False, float_format=lambda x: f"{x:.4g}", justify="left").replace("\\n", "<br/>")
        )


def compare(*results: Discovery, names: Sequence[str] | None = None) -> Comparison:
    """Compare results of the same data, in a table and as curves.

    A difference below 6 means little; a weight is the probability of a law among those compared, if
    one of them is true and none was preferred a priori.

    Args:
        results: from `discover`, `fit_constants` or `Discovery.select`, for the same samples.
        names: of the laws; by default law 1, law 2, ...

    Raises:
        InputError: fewer than two results, other data, or another number of names.

    >>> from odediscovery import discover, fit_constants, settings_for, simulate_system
    >>> series = simulate_system("logistic")
    >>> mine = fit_constants(series, "N' = r*N")
    >>> print(compare(discover(series, settings_for(members=0)), mine, names=["found", "mine"]).table["law"][0])
    found
    """
    if len(results) < 2:
        raise InputError(f"expected at least two results to compare, got {len(results)}")
    called = tuple(names or (f"law {k + 1}" for k in range(len(results))))
    if len(called) != len(results):
        raise InputError(f"expected {len(results)} names, one a result, got {len(called)}")
    first = results[0].series
    for name, found in zip(called, results, strict=True):
        same = np.array_equal(pooled(found.series), pooled(first), equal_nan=True)
        if found.series.states != first.states or not same:
            raise InputError(f"{name!r} is a result of other data than {called[0]!r}; fit both to the same series")
    scores = [criterion(found) for found in results]
    gaps = np.array([score for score, _ in scores]) - min(score for score, _ in scores)
    weights = np.exp(-gaps / 2.0) / np.exp(-gaps / 2.0).sum()
    rows = []
    for name, found, (_, count), gap, weight in zip(called, results, scores, gaps, weights, strict=True):
        heldout = np.nan if found.r2_heldout is None else found.r2_heldout
        rows.append((name, count, float(gap), float(weight), found.r2, heldout, found.equations_text()))
    rows.sort(key=lambda row: row[2])
    columns = ["law", "constants", "difference", "weight", "R2", "R2_heldout", "equations"]
    return Comparison(called, results, Frame(rows, columns=columns))


def criterion(found: Discovery) -> tuple[float, int]:
    """The criterion of a result, smaller is better, and the number of its fitted constants and starts."""
    states = list(found.series.states)
    left, values = found.residuals[states].to_numpy(float), pooled(found.series)
    counts = np.isfinite(left).sum(axis=0)
    spread = np.nanstd(np.where(np.isfinite(left), values, np.nan), axis=0)
    # A curve that ends before the samples do leaves them unexplained.
    lost = np.isfinite(values) & ~np.isfinite(left)
    squares = np.nansum(left**2, axis=0) / counts.clip(1)
    # Residuals below 1e-8 of a state's spread are solver errors.
    squares = np.where(lost.any(axis=0), np.inf, np.maximum(squares, (1e-8 * spread) ** 2 + ABOVE_ZERO))
    k = _free_constants(found) if found.named is None else len(found.named.names)
    k += int(np.isfinite(found.initial_values).sum())
    total = int(counts.sum())
    return float(counts @ np.log(squares) + k * np.log(max(total, 2))), k


def _free_constants(found: Discovery) -> int:
    """Number of fitted constants, even if rounded later; an exponent that equations share counts once."""
    free = set()
    for state, rows in constants(found.equations, None).items():
        for row in rows:
            value = 2.0 * row["value"]
            exponent = row["kind"].endswith("exponent")
            if row["snapped"] and (exponent or found.settings.known):
                continue
            # Rows read from a file do not say which exponents were fixed: a simple one is whole when doubled.
            if not exponent or abs(value - round(value)) > 1e-9:
                place = tuple(str(row.get(key)) for key in ("kind", "monomial", "sum", "of"))
                free.add((state if row["kind"] == "coefficient" else "", *place))
    return (
        len(free)
        if free or (found.equations.power_sum and found.equations.standard_errors)
        else found.equations.complexity
    )
