"""Measurements of time and memory, each in a fresh process, kept as rows to go on from."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from odediscovery.bench.peers import diffrax_peer, sindy_peer
from odediscovery.bench.rows import Row, Rows
from odediscovery.bench.speed.gradients import measure_gradients
from odediscovery.bench.speed.races import fsir_race, polynomial_race
from odediscovery.bench.speed.sizes import measured_size
from odediscovery.bench.speed.task import COLUMNS, Measurement, row_of, rows_of
from odediscovery.bench.speed.units import measure_unit
from odediscovery.runtime.monitor import Monitor
from odediscovery.runtime.workers import IN_TURN, Failure
from odediscovery.settings import settings_for

# A fit ends by itself at about its limit; what does not within this many seconds more is killed.
GRACE = 120.0
NEEDED = 'not installed: pip install "odediscovery[bench]"'


def measured(task: Measurement) -> list[Row]:
    """The rows of one task that has peers; one that says so where a peer is not installed."""
    rows = rows_of(task, _WAYS[task.part])
    if task.part == "units":
        return rows
    peer: Any = sindy_peer if task.part == "polynomials" else diffrax_peer
    if not peer.installed():
        rows.append(row_of(task, "pysindy" if peer is sindy_peer else "diffrax", None, NEEDED))
    return rows


_WAYS: dict[str, Callable[[Measurement], list[Row]]] = {
    "units": lambda t: measure_unit(t.case, t.seed, 0.2 if t.quick else 2.0),
    "gradients": lambda t: measure_gradients(t.case, seed=t.seed, seconds=0.5 if t.quick else 10.0),
    "fsir": lambda t: fsir_race(t.seed, *((1, 2) if t.quick else ())),
    "polynomials": lambda t: polynomial_race(t.case, t.seed, *((1,) if t.quick else ())),
}


def peers() -> dict[str, str]:
    """Versions of the peers that are installed."""
    return diffrax_peer.versions() | sindy_peer.versions()


def run_tasks(
    study: dict[str, Any],
    tasks: Sequence[Measurement],
    folder: Path,
    *,
    monitor: Monitor | None = None,
    say: Callable[[str], None] = print,
) -> list[Row]:
    """Run the tasks that are not yet in `folder`, one after the other; the rows of all.

    Args:
        study: what all rows share.
        folder: to begin, or to go on with.
        monitor: hears the progress and can stop the work; finished rows stay.
        say: hears one line for each row.

    Raises:
        InputError: an option is out of range, or the folder holds something else.
        FitError: no process can be started.
    """
    for task in tasks[:1]:
        settings_for(seed=task.seed, max_seconds=task.max_seconds)
    rows = Rows.claim(folder, study, COLUMNS)
    monitor = monitor or Monitor()
    todo = [task for task in tasks if not rows.has(task.id, "ours")]
    monitor.stage(study["measure"], len(todo))
    for done, task in enumerate(todo, start=1):
        limit = (1.0 if task.size else 3.0) * task.max_seconds + GRACE
        # A process that measures memory imports no peers.
        function, load = measured_size if task.size else measured, os.getloadavg()[0]
        for _, found in IN_TURN.results(function, [task], limit, monitor.stopping):
            if isinstance(found, Failure):
                found = [row_of(task, "ours", found.seconds, found.reason)]
            # Peers first: where ours is there, the task is done.
            for row in sorted(found, key=lambda row: row["method"] == "ours"):
                row["figures"]["load_before"] = round(load, 2)
                rows.add(row)
                say(f"{done} of {len(todo)}  {in_a_line(row)}")
        if monitor.stopping() is not None:
            break
        monitor.step(done)
    order = {task.id: place for place, task in enumerate(tasks)}
    kept = [row for row in rows.all if row["id"] in order]
    return sorted(kept, key=lambda row: (order[row["id"]], row["method"] != "ours"))


def in_a_line(row: Row) -> str:
    """What came out of one row, for a person who watches."""
    told = row["failed"] or time_in_words(row["seconds"])
    if "megabytes" in row["figures"]:
        told += f", {row['figures']['megabytes']:.0f} MB"
    return f"{row['id']}, {row['method']}: {told}"


def time_in_words(seconds: float) -> str:
    """Seconds with three digits in a unit that suits them.

    >>> time_in_words(0.00421), time_in_words(12.34), time_in_words(5000.0)
    ('4.21 ms', '12.3 s', '5000 s')
    """
    scaled, unit = (1e3 * seconds, "ms") if seconds < 1.0 else (seconds, "s")
    digits = 0 if scaled >= 100 else 1 if scaled >= 10 else 2
    return f"{scaled:.{digits}f} {unit}"
