"""How often are chaotic systems found, and how well are their coefficients known?

    error = |Xi_found - Xi_true| / |Xi_true|      spectral norms of coefficients [states, monomials]

The error is that of the benchmark; it has a meaning for polynomials alone, and is infinite where what
was found is none. DIR/noise-SIGMA/rows.jsonl holds the rows of one level of noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from odediscovery.bench.chaos.attractors import POLYNOMIAL, SUITE, attractors, choose, measured
from odediscovery.bench.peers.sparse_regression import METHODS
from odediscovery.bench.rows import Row, Study, Task, timed
from odediscovery.bench.suites.protocol import check_sigma
from odediscovery.bench.suites.scores import exact_and_coef, same_law
from odediscovery.bench.summary import MEDIAN_AND_LATE, by, grouped, hits, in_percent, missed, number, share
from odediscovery.data.series import TimeSeries
from odediscovery.discovery.discover import discover
from odediscovery.errors import InputError
from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import PowerSum
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import Monitor
from odediscovery.settings import settings_for

OURS = "ours"
NOISE = (0.0, 0.001, 0.01)
# `error` is None where it is infinite, or the truth no polynomial; `seconds` are the processor's.
COLUMNS = ("id", "method", "kind", "failed", "exact", "coef", "error", "seconds", "equations")
# Exponents that are alike within this belong to the same monomial.
SAME_EXPONENT = 0.1


@dataclass(frozen=True)
class ChaosFit(Task):
    """One system for one method at one level of noise."""

    sigma: float
    seed: int
    max_seconds: float
    tolerance: float | None = None

    def known(self) -> Row:
        return {"kind": attractors()[self.id].kind, "exact": False, "coef": False}

    def fill(self, row: Row) -> None:
        attractor = attractors()[self.id]
        train, test = measured(attractor, self.sigma, self.seed, self.tolerance)
        with timed(row):
            if self.method == OURS:
                found = discover(train, settings_for(seed=self.seed, max_seconds=self.max_seconds)).equations
            else:
                found = METHODS[self.method](train, test, self.max_seconds, self.seed)
        row["equations"] = found.texts()
        row |= scored(found, attractor.equations, train, self.sigma)


def run_chaos(
    folder: Path,
    methods: Sequence[str],
    *,
    noise: Sequence[float] = NOISE,
    ids: Sequence[str] | None = None,
    seed: int = 0,
    max_seconds: float = 60.0,
    tolerance: float | None = None,
    monitor: Monitor | None = None,
    say: Callable[[str], None] = print,
    **where: Any,
) -> dict[float, list[Row]]:
    """A study for each level of noise, see `Study.run`; all rows of each level that has any.

    Args:
        folder: to begin, or to go on with.
        methods: "ours" and names of `sparse_regression.METHODS`.
        noise: levels, as shares of the root mean square.
        ids: of the systems, all if not given.
        seed: of starts, noise and methods.
        max_seconds: limit of a fit, in seconds of the processor.
        tolerance: of the solver that makes the trajectories; exact ones if not given.
        monitor, say, where: see `Study.run`.

    Raises:
        InputError: an option is out of range, or the folder holds something else.
        FitError: nobody can run the fits.
    """
    settings_for(seed=seed, max_seconds=max_seconds)
    if tolerance is not None and not 0.0 < tolerance < 1.0:
        raise InputError(f"--tolerance must be above 0 and below 1, got {tolerance}")
    chosen, monitor = choose(ids), monitor or Monitor()
    found = {}
    for sigma in noise:
        check_sigma(sigma)
        say(f"noise {sigma:g}")
        study = Study(
            SUITE,
            {"suite": SUITE, "sigma": sigma, "seed": seed, "max_seconds": max_seconds, "tolerance": tolerance},
            COLUMNS,
            [ChaosFit(one.id, method, sigma, seed, max_seconds, tolerance) for method in methods for one in chosen],
            max_seconds,
            _in_words,
            list(attractors()),
        )
        found[sigma] = study.run(folder / f"noise-{sigma:g}", monitor=monitor, say=say, **where)
    return {sigma: rows for sigma, rows in found.items() if rows}


def scored(found: Equations, truth: Equations, train: TimeSeries, sigma: float) -> Row:
    """Whether the terms and the numbers are the true ones, and the error of the coefficients."""
    values = np.concatenate([t.values for t in train.trajectories])
    same = same_law(found, truth, np.stack([values.min(axis=0), values.max(axis=0)], axis=1))
    exact, coef = exact_and_coef(same, sigma == 0)
    error = math.inf
    if found.power_sum is not None and truth.power_sum is not None:
        error = coefficient_error(found.power_sum, truth.power_sum)
    return {"exact": exact, "coef": coef, "error": error if math.isfinite(error) else None}


def coefficient_error(found: PowerSum, truth: PowerSum) -> float:
    """|Xi_found - Xi_true| / |Xi_true| over the monomials of both; nearly equal exponents make one.

    >>> one = PowerSum(np.array([[2.0, -1.0]]), np.array([[1.0], [2.0]]))
    >>> other = PowerSum(np.array([[2.0, -1.0, 0.1]]), np.array([[1.0], [2.01], [0.0]]))
    >>> round(coefficient_error(other, one), 4)
    0.0447
    """
    monomials: list[Array] = list(truth.exponents)
    difference = [-column for column in truth.coefficients.T]
    for column, w in zip(found.coefficients.T, found.exponents, strict=True):
        apart = [float(np.abs(w - known).max()) for known in monomials]
        nearest = int(np.argmin(apart))
        if apart[nearest] <= SAME_EXPONENT:
            difference[nearest] = difference[nearest] + column
        else:
            monomials.append(w)
            difference.append(column)
    error = np.linalg.norm(np.stack(difference, axis=1), ord=2) / np.linalg.norm(truth.coefficients, ord=2)
    return float(error)


def markdown(rows: Mapping[float, Sequence[Row]], command: str) -> str:
    """A line for each level of noise and method; then what ours missed."""
    columns = {
        "EXACT": hits("exact"),
        "share": share("exact"),
        "COEF": number("coef"),
        "median error": lambda own: f"{median_error(own):.1e}",
        "failed": number("failed"),
        **MEDIAN_AND_LATE,
    }
    leveled = [row | {"noise": in_percent(sigma)} for sigma, own in rows.items() for row in own]
    parts = [
        f"# Chaos\n\n`{command}`; seconds of the processor. The median error of the coefficients is that over the "
        "polynomial systems, infinite where no polynomial was found.",
        grouped(("noise", "method"), by(leveled, "noise", "method"), columns),
    ]
    truths = {id: attractor.equations for id, attractor in attractors().items()}
    parts += missed([row for row in leveled if row["method"] == OURS], truths, lambda row: f"{row['noise']} noise")
    return "\n\n".join(parts) + "\n"


def median_error(rows: Sequence[Row]) -> float:
    """The median error of the coefficients over the polynomial systems; nan where there are none."""
    errors = [math.inf if row["error"] is None else row["error"] for row in rows if row["kind"] == POLYNOMIAL]
    return float(np.median(errors)) if errors else math.nan


def _in_words(row: Row) -> str:
    error = "-" if row["error"] is None else f"{row['error']:.1e}"
    return f"{'exact' if row['exact'] else 'not exact'}, error {error}"
