"""How often are chaotic systems found, and how well are their coefficients known?

    error = |Xi_found - Xi_true| / |Xi_true|      spectral norms of coefficients [states, monomials]

The error is that of the benchmark; it has a meaning for polynomials alone, and is infinite where what
was found is none. DIR/noise-SIGMA/rows.jsonl holds the rows of one level of noise.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from odediscovery.bench.chaos.attractors import POLYNOMIAL, SUITE, attractors, choose, measured
from odediscovery.bench.peers.sparse_regression import METHODS
from odediscovery.bench.rows import Row, Rows, processor_seconds, reason_of
from odediscovery.bench.suites.protocol import check_sigma
from odediscovery.bench.suites.scores import exact_and_coef, same_law
from odediscovery.bench.summary import hits_of, in_percent, in_short, late_seconds, median_seconds, table
from odediscovery.data.series import TimeSeries
from odediscovery.discovery.discover import discover
from odediscovery.errors import InputError
from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import PowerSum
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import Monitor
from odediscovery.runtime.workers import IN_TURN, Backend
from odediscovery.settings import settings_for

OURS = "ours"
NOISE = (0.0, 0.001, 0.01)
# `error` is None where it is infinite, or the truth no polynomial; `seconds` are the processor's.
COLUMNS = ("id", "method", "kind", "failed", "exact", "coef", "error", "seconds", "equations")
# Exponents that are alike within this belong to the same monomial.
SAME_EXPONENT = 0.1


@dataclass(frozen=True)
class ChaosFit:
    """One system for one method at one level of noise."""

    id: str
    method: str
    sigma: float
    seed: int
    max_seconds: float
    tolerance: float | None = None


def run_chaos(
    methods: Sequence[str],
    folder: Path,
    *,
    noise: Sequence[float] = NOISE,
    ids: Sequence[str] | None = None,
    seed: int = 0,
    max_seconds: float = 60.0,
    tolerance: float | None = None,
    backend: Backend = IN_TURN,
    monitor: Monitor | None = None,
    say: Callable[[str], None] = print,
) -> dict[float, list[Row]]:
    """Run what is not yet in `folder`; all rows of each level of noise.

    Args:
        methods: "ours" and names of `sparse_regression.METHODS`.
        folder: to begin, or to go on with.
        noise: levels, as shares of the root mean square.
        ids: of the systems, all if not given.
        seed: of starts, noise and methods.
        max_seconds: limit of a fit, in seconds of the processor.
        tolerance: of the solver that makes the trajectories; exact ones if not given.
        backend: where the fits are made.
        monitor: hears the progress and can stop the work; finished rows stay.
        say: hears one line for each fit.

    Raises:
        InputError: an option is out of range, or the folder holds something else.
        FitError: nobody can run the fits.
    """
    settings_for(seed=seed, max_seconds=max_seconds)
    if tolerance is not None and not 0.0 < tolerance < 1.0:
        raise InputError(f"--tolerance must be above 0 and below 1, got {tolerance}")
    monitor = monitor or Monitor()
    chosen, found = choose(ids), dict[float, list[Row]]()
    for sigma in noise:
        check_sigma(sigma)
        study = {"suite": SUITE, "sigma": sigma, "seed": seed, "max_seconds": max_seconds, "tolerance": tolerance}
        rows = Rows.claim(folder / f"noise-{sigma:g}", study, COLUMNS)
        say(f"noise {sigma:g}")
        pairs = [(one.id, method) for method in methods for one in chosen if not rows.has(one.id, method)]
        tasks = [ChaosFit(id, method, sigma, seed, max_seconds, tolerance) for id, method in pairs]
        run = partial(rows.run, SUITE, fitted, tasks, blank=_blank, in_words=_in_a_line)
        run(limit=max_seconds, backend=backend, monitor=monitor, say=say)
        order = {id: place for place, id in enumerate(attractors())}
        if rows.all:
            found[sigma] = sorted(rows.all, key=lambda row: (order[row["id"]], row["method"]))
    return found


def fitted(task: ChaosFit) -> Row:
    """The row of one system: scores, or the reason why there are none."""
    row = _blank(task)
    began = time.process_time()
    try:
        attractor = attractors()[task.id]
        train, test = measured(attractor, task.sigma, task.seed, task.tolerance)
        began = time.process_time()
        if task.method == OURS:
            found = discover(train, settings_for(seed=task.seed, max_seconds=task.max_seconds)).equations
        else:
            found = METHODS[task.method](train, test, task.max_seconds, task.seed)
        row |= {"seconds": processor_seconds(began), "equations": found.texts()}
        return row | scored(found, attractor.equations, train, task.sigma)
    except Exception as error:
        return row | {"failed": reason_of(error), "seconds": row["seconds"] or processor_seconds(began)}


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
    header = ("noise", "method", "EXACT", "share", "COEF", "median error", "failed", "median s", "95 % s")
    lines = []
    for sigma, own in rows.items():
        for method in dict.fromkeys(row["method"] for row in own):
            of_it = [row for row in own if row["method"] == method]
            share = sum(row["exact"] for row in of_it) / len(of_it)
            lines.append(
                (
                    in_percent(sigma),
                    method,
                    hits_of(of_it, "exact"),
                    f"{share:.0%}",
                    str(sum(row["coef"] for row in of_it)),
                    f"{median_error(of_it):.1e}",
                    str(sum(bool(row["failed"]) for row in of_it)),
                    median_seconds(of_it),
                    f"{late_seconds(of_it):.1f}",
                )
            )
    parts = [
        f"# Chaos\n\n`{command}`; seconds of the processor. The median error of the coefficients is that over the "
        "polynomial systems, infinite where no polynomial was found.",
        table(header, lines),
    ]
    if missed := [_missed(sigma, row) for sigma, own in rows.items() for row in own if _is_missed(row)]:
        parts.append("## Not exact\n\n" + table(("noise", "system", "s", "true", "found"), missed))
    return "\n\n".join(parts) + "\n"


def median_error(rows: Sequence[Row]) -> float:
    """The median error of the coefficients over the polynomial systems; nan where there are none."""
    errors = [math.inf if row["error"] is None else row["error"] for row in rows if row["kind"] == POLYNOMIAL]
    return float(np.median(errors)) if errors else math.nan


def _is_missed(row: Row) -> bool:
    return row["method"] == OURS and not row["exact"]


def _missed(sigma: float, row: Row) -> tuple[str, ...]:
    told = row["failed"]
    if not told:
        try:
            told = in_short(row["equations"])
        except InputError:
            told = "; ".join(row["equations"].values())
    true = in_short(attractors()[row["id"]].equations.texts())
    return (in_percent(sigma), row["id"], f"{row['seconds']:.1f}", true, told.replace("|", "\\|"))


def _blank(task: ChaosFit) -> Row:
    kind = attractors()[task.id].kind
    shared: dict[str, Any] = {"id": task.id, "method": task.method, "kind": kind, "exact": False, "coef": False}
    return dict.fromkeys(COLUMNS) | shared


def _in_a_line(row: Row) -> str:
    head = f"{row['method']} {row['id']}"
    if row["failed"]:
        return f"{head}: failed after {row['seconds']:.1f} s, {row['failed']}"
    error = "-" if row["error"] is None else f"{row['error']:.1e}"
    return f"{head}: {'exact' if row['exact'] else 'not exact'}, error {error}, {row['seconds']:.1f} s"
