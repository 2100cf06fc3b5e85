"""How long does a fit take, and what does a layer cost?

    units    the forward pass of each unit, ours and one written by hand (see `units`)
    fits     default fits of fSIR, of ever more samples, clean and with 1 % noise

Each measurement has a process of its own, whose peak memory includes what it imports; nothing runs beside it.
"""

from __future__ import annotations

import math
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from odediscovery.bench.rows import Row, Study, Task, timed
from odediscovery.bench.speed.units import cases, measure_unit
from odediscovery.bench.suites.scores import CLEAN_TOLERANCE, NOISY_TOLERANCE
from odediscovery.bench.suites.scoring import same_terms
from odediscovery.bench.summary import table
from odediscovery.discovery.discover import discover
from odediscovery.errors import unknown_name
from odediscovery.laws.systems import get_system, simulate_system
from odediscovery.runtime.workers import IN_TURN
from odediscovery.settings import settings_for

PARTS = ("units", "fits")
# Samples and noise of the fits; those of a quick look.
FITS = ((40, 0.0), (4_000, 0.0), (100_000, 0.0), (400, 0.01), (100_000, 0.01))
QUICK_FITS = ((40, 0.0),)
# Seconds that each of two forward passes may take.
FORWARD_SECONDS, QUICK_SECONDS = 2.0, 0.2
# Of a forward pass ours takes at most so many times one by hand.
FORWARD = 1.1
# `seconds` of a unit are those of the clock, of a fit the processor's, whose `clock` has the others.
COLUMNS = ("id", "method", "failed", "seconds", "by_hand", "clock", "megabytes", "exact", "outcome", "equations")


@dataclass(frozen=True)
class Forward(Task):
    """The forward pass of a unit."""

    seed: int
    max_seconds: float

    def fill(self, row: Row) -> None:
        found = measure_unit(self.id, self.seed, self.max_seconds)
        row |= {"seconds": found["ours"], "by_hand": found["by hand"]}


@dataclass(frozen=True)
class TimedFit(Task):
    """A default fit of fSIR."""

    samples: int
    noise: float
    seed: int
    max_seconds: float

    def fill(self, row: Row) -> None:
        series = simulate_system("fsir", samples=self.samples, noise=self.noise, seed=self.seed)
        began = time.perf_counter()
        with timed(row):
            found = discover(series, settings_for(seed=self.seed, max_seconds=self.max_seconds))
        row |= {"clock": round(time.perf_counter() - began, 3), "megabytes": round(peak_megabytes())}
        law, truth = found.equations.power_sum, get_system("fsir").equations().power_sum
        tolerance = NOISY_TOLERANCE if self.noise else CLEAN_TOLERANCE
        row["exact"] = law is not None and truth is not None and same_terms(law, truth, tolerance)
        row |= {"outcome": found.outcome, "equations": found.equations.texts()}


class EachInItsOwn:
    """A backend with a new process for each task, one after the other."""

    def results(
        self,
        function: Callable[[Any], Any],
        tasks: Sequence[Any],
        limit: float = math.inf,
        stopping: Callable[[], object] = lambda: None,
    ) -> Iterator[tuple[int, Any]]:
        """See `workers.Backend`."""
        for number, task in enumerate(tasks):
            for _, result in IN_TURN.results(function, [task], limit, stopping):
                yield number, result
            if stopping() is not None:
                return


def run_speed(
    folder: Path, parts: Sequence[str], *, seed: int = 0, max_seconds: float = 600.0, quick: bool = False, **where: Any
) -> list[Row]:
    """The rows of all measurements of some parts, cheap ones first.

    Args:
        folder: to begin, or to go on with.
        parts: some of `PARTS`.
        seed: of noise, layers and fits.
        max_seconds: limit of a fit.
        quick: a few rounds and one fit, for a first look.
        where: `monitor` and `say` of `Study.run`.

    Raises:
        InputError: an option is out of range, or the folder holds something else.
        FitError: no process can be started.
    """
    for part in parts:
        if part not in PARTS:
            raise unknown_name("part", part, PARTS)
    settings_for(seed=seed, max_seconds=max_seconds)
    tasks: list[Task] = []
    if "units" in parts:
        tasks += [Forward(case, "ours", seed, QUICK_SECONDS if quick else FORWARD_SECONDS) for case in cases()]
    if "fits" in parts:
        tasks += [
            TimedFit(f"{samples} samples, {noise:.0%} noise", "ours", samples, noise, seed, max_seconds)
            for samples, noise in (QUICK_FITS if quick else FITS)
        ]
    shared = {"measure": "speed", "seed": seed, "max_seconds": max_seconds, "quick": quick}
    study = Study("speed", shared, COLUMNS, tasks, max_seconds, _in_words)
    return study.run(folder, backend=EachInItsOwn(), **where)


def _in_words(row: Row) -> str:
    return f"{row['seconds'] / row['by_hand']:.2f} of by hand" if row["by_hand"] else f"{row['megabytes']} MB"


def markdown(rows: Sequence[Row], command: str) -> str:
    """Forward passes beside those by hand, then fits."""
    parts = [f"# speed\n\n`{command}`"]
    done = [row for row in rows if row["failed"] is None]
    if units := [row for row in done if row["by_hand"]]:
        header = ("forward pass", "ours", "by hand", "ratio", f"at most {FORWARD:g}")
        parts.append(table(header, [_unit(row) for row in units]))
    if fits := [row for row in done if row["clock"] is not None]:
        columns = ("fit of fSIR", "s of the processor", "of the clock", "MB", "exact", "ended")
        parts.append(table(columns, list(map(_fit, fits))))
    parts += [f"{row['id']}: {row['failed']}" for row in rows if row["failed"]]
    return "\n\n".join(parts) + "\n"


def _unit(row: Row) -> tuple[str, ...]:
    ratio = row["seconds"] / row["by_hand"]
    times = (f"{1e6 * row[key]:.3g} us" for key in ("seconds", "by_hand"))
    return (row["id"], *times, f"{ratio:.2f}", "yes" if ratio <= FORWARD else "no")


def _fit(row: Row) -> tuple[str, ...]:
    exact = "yes" if row["exact"] else "no"
    return (row["id"], f"{row['seconds']:.1f}", f"{row['clock']:.1f}", str(row["megabytes"]), exact, row["outcome"])


def peak_megabytes() -> float:
    """Largest resident memory of this process so far."""
    status = Path("/proc/self/status")
    if status.is_file():
        # On Linux getrusage never reports less than what the parent process had.
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)
