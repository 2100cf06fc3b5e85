"""Simulated populations by others and by separate fits: pysindy on all groups, on each, simple laws of each.

The draws, the rules for an exact structure and the curves are those of `populations`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from odediscovery.bench.draws.populations import chosen_designs, places_of_terms, simulate, study_of
from odediscovery.bench.peers.sindy_groups import library, sparse_law
from odediscovery.bench.rows import Row, Rows, reason_of
from odediscovery.data.series import TimeSeries, Trajectory
from odediscovery.errors import FitError, InputError
from odediscovery.ivp.lsoda import solve_until_failure
from odediscovery.laws.power_sum import PowerSum
from odediscovery.laws.records import plain
from odediscovery.many.simple import LAWS, RICHER, explain
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import Monitor
from odediscovery.runtime.workers import IN_TURN, Backend

TOGETHER, APART, SIMPLE = "pysindy, all groups", "pysindy, each group", "simple laws, each group"
METHODS = (TOGETHER, APART, SIMPLE)
COLUMNS = (
    *("id", "method", "failed", "design", "draw", "exact", "groups_exact", "groups"),
    *("seconds", "r2", "r2_heldout"),
)
Task = tuple[Mapping[str, Any], int, str]


def score_peer(task: Task) -> Row:
    """One draw of one design by one method: structures that are exact, R2 of curves from the first samples."""
    design, draw, method = task
    series, later, _ = simulate(design, draw)
    began, row = time.process_time(), blank(task)
    try:
        laws = _laws(design, series, method)
    except (FitError, InputError) as error:
        return row | {"seconds": round(time.process_time() - began, 2), "failed": reason_of(error)}
    row["seconds"] = round(time.process_time() - began, 2)
    exact = [law is not None and places_of_terms(design, law) is not None for law in laws]
    row |= {"exact": all(exact), "groups_exact": sum(exact), "groups": len(exact)}
    row["r2"] = plain(_r2(series, laws))
    if method == TOGETHER:
        row["r2_heldout"] = plain(_r2(later, laws[:1] * len(later.trajectories)))
    return row


def blank(task: Task) -> Row:
    """The row of a draw in which nothing was found."""
    design, draw, method = task
    row: Row = dict.fromkeys(COLUMNS)
    row |= {"id": f"{design['id']}-{draw}", "method": method, "design": design["id"], "draw": draw}
    return row | {"exact": False, "groups_exact": 0, "groups": int(design["groups"])}


def peers(
    path: Path,
    draws: int,
    folder: Path,
    designs: Sequence[str] = (),
    *,
    backend: Backend = IN_TURN,
    seed: int = 0,
    max_seconds: float = 180.0,
    monitor: Monitor | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> list[Row]:
    """The draws of every design by every method, kept in a folder of their own; arguments as of `populations`.

    Raises:
        InputError: the file or a name is wrong, or the folder holds something else.
    """
    chosen = chosen_designs(path, designs)
    rows = Rows.claim(folder, study_of(path, "populations by peers", max_seconds), COLUMNS)
    tasks = [(dict(one), draw, method) for draw in range(seed, seed + draws) for one in chosen for method in METHODS]
    rows.run(
        "populations by peers",
        score_peer,
        [task for task in tasks if not rows.has(blank(task)["id"], task[2])],
        blank=blank,
        in_words=lambda row: (
            f"{row['id']}, {row['method']}: "
            f"{row['failed'] or '{groups_exact} of {groups} groups exact, {seconds} s'.format(**row)}"
        ),
        limit=max_seconds,
        backend=backend,
        monitor=monitor,
        say=say,
    )
    wanted = {blank(task)["id"] for task in tasks}
    return [row for row in rows.all if row["id"] in wanted]


def _laws(design: Mapping[str, Any], series: TimeSeries, method: str) -> list[PowerSum | None]:
    """The law of every group, None where there is none."""
    groups = series.trajectories
    if method == SIMPLE:
        if series.n_states > 1:
            raise InputError("simple laws have one state")
        labels = [str(g) for g in range(len(groups))]
        return [_simple(row) for row in explain(labels, [(run.time, run.values[:, 0]) for run in groups])]
    powers = [[term["powers"].get(s, 0.0) for s in series.states] for of in design["terms"].values() for term in of]
    exponents = library(series.n_states, powers)
    if method == TOGETHER:
        return [sparse_law([(run.time, run.values) for run in groups], exponents)] * len(groups)
    found: list[PowerSum | None] = []
    for run in groups:
        try:
            found.append(sparse_law([(run.time, run.values)], exponents))
        except (FitError, ValueError, np.linalg.LinAlgError):
            found.append(None)
    return found


def _simple(row: Mapping[str, Any]) -> PowerSum | None:
    """The law of a row of `explain`."""
    if row["outcome"] != "explained":
        return None
    law = next(one for one in (*LAWS, *RICHER) if one.name == row["law"])
    powers = [power for _, power in law.terms]
    if law.free:
        powers[-1] = row["exponent"]
    signs = [sign for sign, _ in law.terms]
    return PowerSum(np.array([np.array(signs) * row["constants"]]), np.array(powers)[:, None])


def _r2(series: TimeSeries, laws: Sequence[PowerSum | None]) -> float:
    """R2 of all groups, each curve from the first sample of its group; of no law the first sample stays."""
    values = np.concatenate([run.values[1:] for run in series.trajectories])
    curves = np.concatenate([_curve(run, law)[1:] for run, law in zip(series.trajectories, laws, strict=True)])
    return float(1.0 - np.sum((values - curves) ** 2) / np.sum((values - values.mean(axis=0)) ** 2))


def _curve(run: Trajectory, law: PowerSum | None) -> Array:
    if law is None:
        return np.tile(run.values[0], (len(run.time), 1))
    most = 10.0 * np.abs(run.values).max()
    with np.errstate(all="ignore"):  # a wrong law may leave where its powers are defined
        found = solve_until_failure(lambda _, x: law.rhs(x), run.values[0], run.time, rtol=1e-7, atol=1e-9)
    return np.nan_to_num(np.clip(found, -most, most), nan=most)


def summary(rows: Sequence[Row]) -> str:
    """The table of a comparison as Markdown."""
    lines = [
        "| design | method | all exact | groups exact | R2 | R2 held out | seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, method in dict.fromkeys((row["design"], row["method"]) for row in rows):
        own = [row for row in rows if (row["design"], row["method"]) == (name, method)]
        middle = [
            f"{np.median(known):.3f}" if (known := [row[key] for row in own if row[key] is not None]) else ""
            for key in ("r2", "r2_heldout", "seconds")
        ]
        exact, groups = sum(row["groups_exact"] for row in own), sum(row["groups"] for row in own)
        lines.append(
            f"| {name} | {method} | {sum(row['exact'] for row in own)}/{len(own)} | {exact}/{groups} "
            f"| {' | '.join(middle)} |"
        )
    return "\n".join(lines) + "\n"
