"""How often is the fractional SIR model found in noise?

    y = x + sigma * std(x) * e,    e ~ N(0, 1)        40 points, one trajectory or up to five

One row a draw of the noise. A draw is a hit when every found equation has exactly the true
monomials, and the exponent of the returning R is 1: snapped to it, or within three of its
standard errors of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from odediscovery.bench.rows import Row, Rows
from odediscovery.bench.scores import same_law
from odediscovery.bench.summary import table
from odediscovery.bench.workers import Failure, in_processes
from odediscovery.discovery import discover
from odediscovery.equations import Equations
from odediscovery.errors import InputError
from odediscovery.monitor import Monitor
from odediscovery.prepare import pooled
from odediscovery.series import TimeSeries
from odediscovery.settings import settings_for
from odediscovery.systems import get_system, simulate_system

SYSTEM, RETURNING = "fsir", "R"
# Susceptible, infected and recovered at the start of each trajectory; the first one is usual.
STARTS = ((100.0, 0.01, 0.0), (80.0, 5.0, 15.0), (60.0, 30.0, 10.0), (40.0, 10.0, 50.0),
          (90.0, 1.0, 9.0))  # fmt: skip
# Standard errors that the exponent may be off.
ERRORS = 3.0
# What a row tells: `terms` whether all monomials are the true ones, `returning` the exponents of
# R where it stands alone, with their standard errors (0 where snapped).
COLUMNS = ("id", "method", "failed", "hit", "terms", "returning", "seconds", "equations")
# A fit ends by itself at about its limit; what does not within this many seconds more is killed.
_GRACE = 60.0


@dataclass(frozen=True)
class Draws:
    """What one folder of draws is about.

    Args:
        sigma: noise as a share of each state's standard deviation over its trajectory.
        trajectories: how many of `STARTS` are measured.
        seed: number of the first draw; the others follow.
        max_seconds: wall-clock limit of a fit.
    """

    sigma: float = 0.05
    trajectories: int = 1
    seed: int = 0
    max_seconds: float = 180.0

    def checked(self) -> Draws:
        """These draws, or an `InputError` that names the option that is out of range."""
        if not (self.sigma >= 0 and np.isfinite(self.sigma)):
            raise InputError(f"--sigma must be at least 0 and finite, got {self.sigma}")
        if not 1 <= self.trajectories <= len(STARTS):
            raise InputError(f"--trajectories must be at least 1 and at most {len(STARTS)}, "
                             f"got {self.trajectories}")  # fmt: skip
        settings_for(seed=self.seed, max_seconds=self.max_seconds)
        return self

    def data(self, draw: int) -> TimeSeries:
        """The noisy series of one draw."""
        names = get_system(SYSTEM).states
        runs = [
            simulate_system(SYSTEM, dict(zip(names, start, strict=True)), noise=self.sigma,
                            seed=1000 * k + draw).trajectories[0]
            for k, start in enumerate(STARTS[: self.trajectories])
        ]  # fmt: skip
        return TimeSeries(names, tuple(runs))


def run_draws(
    about: Draws, count: int, folder: Path, *, jobs: int = 1, monitor: Monitor | None = None,
    say: Callable[[str], None] = print,
) -> list[Row]:  # fmt: skip
    """Fit the draws that are not yet in `folder`; the rows of all.

    Args:
        count: how many draws.
        folder: to begin, or to go on with.
        jobs: draws fitted side by side, each in a process with one thread.
        monitor: hears the progress and can stop the work; finished rows stay.
        say: hears one line a draw.

    Raises:
        InputError: an option is out of range, or the folder holds something else.
        FitError: no process can be started.
    """
    for name, value in (("draws", count), ("jobs", jobs)):
        if value < 1:
            raise InputError(f"--{name} must be at least 1, got {value}")
    study = {"measure": f"{SYSTEM}-noise", **asdict(about.checked())}
    rows = Rows.claim(folder, study, COLUMNS)
    monitor = monitor or Monitor()
    wanted = range(about.seed, about.seed + count)
    tasks = [(about, draw) for draw in wanted if not rows.has(str(draw), "ours")]
    monitor.stage(f"{SYSTEM}-noise", len(tasks))
    limit = about.max_seconds + _GRACE
    for done, (number, row) in enumerate(
        in_processes(fitted, tasks, jobs, limit, monitor.stopping), start=1
    ):
        if isinstance(row, Failure):
            row = _blank(tasks[number][1]) | {"failed": row.reason, "seconds": row.seconds}
        rows.add(row)
        monitor.step(done)
        told = row["failed"] or f"{'hit' if row['hit'] else 'miss'}, {row['seconds']:.1f} s"
        say(f"{done} of {len(tasks)}  draw {row['id']}: {told}")
    return sorted((row for row in rows.all if int(row["id"]) in wanted), key=lambda r: int(r["id"]))


def fitted(task: tuple[Draws, int]) -> Row:
    """The row of one draw: whether it is a hit, or the reason why there are no equations."""
    about, draw = task
    row, began = _blank(draw), time.monotonic()
    try:
        series = about.data(draw)
        began = time.monotonic()
        found = discover(series, settings_for(seed=draw, max_seconds=about.max_seconds)).equations
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        return row | {"failed": " ".join(reason.split()),
                      "seconds": round(time.monotonic() - began, 3)}  # fmt: skip
    terms, returning = true_terms(found, series), exponents_alone(found, RETURNING)
    one = bool(returning) and all(abs(w - 1.0) <= ERRORS * error for w, error in returning)
    return row | {"hit": terms and one, "terms": terms, "returning": returning,
                  "seconds": round(time.monotonic() - began, 3),
                  "equations": found.texts()}  # fmt: skip


def true_terms(found: Equations, series: TimeSeries) -> bool:
    """Whether every equation has the true monomials, with their signs, and no others."""
    values = pooled(series)
    box = np.stack([values.min(axis=0), values.max(axis=0)], axis=1)
    return same_law(found, get_system(SYSTEM).equations(), box) is not None


def exponents_alone(found: Equations, state: str) -> list[tuple[float, float]]:
    """Exponent and standard error of every monomial that is a power of this state alone.

    >>> exponents_alone(get_system("fsir").equations(), "R")
    [(1.0, 0.0)]
    """
    law, errors = found.power_sum, found.standard_errors
    if law is None:
        return []
    k, w = found.states.index(state), law.exponents
    alone = (w[:, k] != 0) & ((w != 0).sum(axis=1) == 1) & (law.coefficients != 0).any(axis=0)
    return [(float(w[j, k]), 0.0 if errors is None else float(errors.exponents[j, k]))
            for j in np.flatnonzero(alone)]  # fmt: skip


def markdown(about: Draws, rows: Sequence[Row]) -> str:
    """The count, and a line a draw."""
    hits, terms = (sum(bool(row[k]) for row in rows) for k in ("hit", "terms"))
    seconds = float(np.median([row["seconds"] for row in rows]))
    counted = table(
        ("sigma", "trajectories", "hits", "true terms", "median s"),
        [(f"{about.sigma:g}", str(about.trajectories), f"{hits} of {len(rows)}", str(terms),
          f"{seconds:.1f}")],
    )  # fmt: skip
    each = table(("draw", "hit", "true terms", "exponent of R", "equations"),
                 [_line(row) for row in rows])  # fmt: skip
    return f"# {SYSTEM}-noise\n\n{counted}\n\n{each}\n"


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    if row["failed"]:
        return (row["id"], "failed", "no", "-", row["failed"])
    said = ["no", "yes"]
    power = "; ".join(f"{w:.3g} ({e:.2g})" if e else f"{w:g}" for w, e in row["returning"])
    text = Equations.parse(list(row["equations"]), row["equations"]).pretty(3)
    return (row["id"], said[row["hit"]], said[row["terms"]], power or "-",
            "; ".join(text.splitlines()))  # fmt: skip


def _blank(draw: int) -> Row:
    return dict.fromkeys(COLUMNS) | {"id": str(draw), "method": "ours", "hit": False,
                                     "terms": False}  # fmt: skip
