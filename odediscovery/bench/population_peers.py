"""Simulated populations by others and by separate fits: pysindy on all groups, on each, simple laws of each.

The draws, the rules for an exact structure and the curves are those of `populations`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from odediscovery.bench.peers import group_law, group_library
from odediscovery.bench.populations import drawn, part, places_of_terms, simulate, terms_of
from odediscovery.bench.rows import Row, Study, Task, timed
from odediscovery.bench.summary import by, grouped, middle
from odediscovery.data.series import TimeSeries, Trajectory
from odediscovery.errors import FitError, InputError
from odediscovery.ivp.solvers import solve_until_failure
from odediscovery.laws.power_sum import PowerSum
from odediscovery.laws.records import plain
from odediscovery.many.simple import LAWS, RICHER, explain
from odediscovery.runtime.arrays import Array

TOGETHER, APART, SIMPLE = "pysindy, all groups", "pysindy, each group", "simple laws, each group"
METHODS = (TOGETHER, APART, SIMPLE)
COLUMNS = (
    *("id", "method", "failed", "design", "draw", "exact", "groups_exact", "groups"),
    *("seconds", "r2", "r2_heldout"),
)


def study(path: Path, draws: int, designs: Sequence[str] = (), seed: int = 0, max_seconds: float = 180.0) -> Study:
    """The draws of every design by every method; arguments as of `populations.study`."""
    name = "populations by peers"
    shared, all_draws = drawn(name, path, designs, range(seed, seed + draws), max_seconds)
    tasks = [PeerFit(id, method, design, draw) for id, design, draw in all_draws for method in METHODS]
    return Study(name, shared, COLUMNS, tasks, max_seconds, "{groups_exact} of {groups} groups exact".format_map)


@dataclass(frozen=True)
class PeerFit(Task):
    """One draw of one design by one method: structures that are exact, R2 of curves from the first samples."""

    design: Mapping[str, Any]
    draw: int

    def known(self) -> Row:
        design = self.design
        about = {"design": design["id"], "draw": self.draw}
        return about | {"exact": False, "groups_exact": 0, "groups": int(design["groups"])}

    def fill(self, row: Row) -> None:
        series, later, _ = simulate(self.design, self.draw)
        with timed(row):
            laws = _laws(self.design, series, self.method)
        exact = [law is not None and places_of_terms(self.design, law) is not None for law in laws]
        row |= {"exact": all(exact), "groups_exact": sum(exact), "groups": len(exact), "r2": plain(_r2(series, laws))}
        if self.method == TOGETHER:
            row["r2_heldout"] = plain(_r2(later, laws[:1] * len(later.trajectories)))


def _laws(design: Mapping[str, Any], series: TimeSeries, method: str) -> list[PowerSum | None]:
    """The law of every group, None where there is none."""
    groups = series.trajectories
    if method == SIMPLE:
        if series.n_states > 1:
            raise InputError("simple laws have one state")
        labels = [str(g) for g in range(len(groups))]
        return [_simple(row) for row in explain(labels, [(run.time, run.values[:, 0]) for run in groups])]
    exponents = group_library(series.n_states, [powers for *_, powers in terms_of(design)])
    if method == TOGETHER:
        return [group_law([(run.time, run.values) for run in groups], exponents)] * len(groups)
    found: list[PowerSum | None] = []
    for run in groups:
        try:
            found.append(group_law([(run.time, run.values)], exponents))
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
    columns = {
        "all exact": part("exact"),
        "groups exact": part("groups_exact", "groups", exact=False),
        "R2": middle("r2", ".3f", ""),
        "R2 held out": middle("r2_heldout", ".3f", ""),
        "seconds": middle("seconds", ".3f", ""),
    }
    return grouped(("design", "method"), by(rows, "design", "method"), columns) + "\n"
