"""How cost grows: time and peak memory against members, hidden size, states and samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, LogLocator, NullFormatter, NullLocator

from odediscovery.bench.rows import Row
from odediscovery.bench.speed.pace import run_tasks, time_in_words
from odediscovery.bench.speed.sizes import states_of
from odediscovery.bench.speed.task import Measurement
from odediscovery.bench.summary import table
from odediscovery.errors import unknown_name
from odediscovery.plots.figures import COLOURS, MUTED, STYLE, empty_figure
from odediscovery.runtime.monitor import Monitor

# What grows, through which sizes, and through which in a quick look.
AXES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "members": ((1, 10, 100, 300, 1000, 2000), (1, 10, 30)),
    "hidden": ((2, 4, 8, 16, 32, 64), (2, 4, 8)),
    "states": ((1, 2, 3, 5, 10, 15, 20), (1, 2, 3)),
    "samples": ((40, 400, 4_000, 40_000, 100_000), (40, 80)),
    "noisy samples": ((40, 400, 4_000, 40_000, 100_000), (40, 80)),
}
_BRIEFLY = {
    "members": "gradient step",
    "hidden": "gradient step, 100 members",
    "states": "fit, clean",
    "samples": "fit, clean",
    "noisy samples": "fit, 1 % noise",
}
# Share of an axis below which the labels of two sizes would touch.
NARROW = 0.14
_ABOUT = {
    "members": "a gradient step on one-interval windows of fSIR",
    "hidden": "a gradient step of 100 members of this hidden size",
    "states": "fit of a sparse network, 5 trajectories of 60 samples",
    "samples": "fit of clean fSIR",
    "noisy samples": "fit of fSIR with 1 % noise",
}


def run_growth(
    axes: Sequence[str],
    folder: Path,
    *,
    seed: int = 0,
    max_seconds: float = 600.0,
    quick: bool = False,
    monitor: Monitor | None = None,
    say: Callable[[str], None] = print,
) -> list[Row]:
    """The rows of some axes, small sizes first; see `pace.run_tasks`.

    Raises:
        InputError: an unknown axis.
    """
    for axis in axes:
        if axis not in AXES:
            raise unknown_name("axis", axis, AXES)
    wanted = [(axis, size) for axis in AXES if axis in axes for size in AXES[axis][quick]]
    tasks = [Measurement(axis, "", size, seed, max_seconds, quick) for axis, size in wanted]
    study = {"measure": "growth", "seed": seed, "max_seconds": max_seconds, "quick": quick}
    return run_tasks(study, tasks, folder, monitor=monitor, say=say)


def _points(rows: Sequence[Row], axis: str) -> list[tuple[int, Row]]:
    """(size, row) of one axis."""
    found = []
    for row in rows:
        name, _, size = row["id"].rpartition(" ")
        if name == axis:
            found.append((int(size), row))
    return sorted(found, key=lambda point: point[0])


def exponent(before: tuple[int, float], after: tuple[int, float]) -> float:
    """p of cost = c size^p between two sizes.

    >>> exponent((10, 1.0), (100, 10.0))
    1.0
    """
    return math.log(after[1] / before[1]) / math.log(after[0] / before[0])


def markdown(rows: Sequence[Row], command: str) -> str:
    """A table an axis; the power of size is from the size before, of processor seconds."""
    parts = [f"# growth\n\n`{command}`"]
    for axis, about in _ABOUT.items():
        points = _points(rows, axis)
        if not points:
            continue
        body = []
        for k, (size, row) in enumerate(points):
            figures, power = row["figures"], "-"
            processor = figures.get("processor_seconds")
            before = points[k - 1][1]["figures"].get("processor_seconds") if k else None
            if processor and before:
                power = f"{exponent((points[k - 1][0], before), (size, processor)):.2f}"
            exact = figures.get("exact_equations")
            body.append(
                (
                    f"{size:,}".replace(",", " "),
                    row["failed"] or time_in_words(row["seconds"]),
                    time_in_words(processor) if processor else "-",
                    power,
                    f"{figures['megabytes']:.0f}" if "megabytes" in figures else "-",
                    "-" if exact is None else f"{exact} of {states_of(axis, size)}",
                )
            )
        header = (axis, "seconds", "processor", "power of size", "peak MB", "exact equations")
        title = f"## {axis}\n\n{about[0].upper()}{about[1:]}.\n\n"
        parts.append(title + table(header, body))
    parts.append(
        "Each size in a process of its own, on one thread; `processor` are its seconds "
        "without what else the machine did, and the power is that of them. Peak memory "
        "includes what a process imports."
    )
    return "\n\n".join(parts) + "\n"


def growth_figure(rows: Sequence[Row]) -> Figure:
    """Time above, peak memory below, a column an axis; dotted lines are proportional to size."""
    axes = [axis for axis in AXES if any(row["failed"] is None for _, row in _points(rows, axis))]
    with rc_context(STYLE):
        figure = empty_figure(2.9 * max(len(axes), 1) + 0.6, 5.6)
        grid = figure.subplots(2, max(len(axes), 1), squeeze=False)
        for column, axis in enumerate(axes):
            points = [(n, row) for n, row in _points(rows, axis) if row["failed"] is None]
            sizes = [n for n, _ in points]
            seconds = [row["figures"].get("processor_seconds", row["seconds"]) for _, row in points]
            memory = [row["figures"]["megabytes"] for _, row in points]
            above, below = grid[0][column], grid[1][column]
            _draw(above, sizes, seconds, COLOURS[0])
            _draw(below, sizes, memory, COLOURS[1])
            # From where it is in sight.
            low = max(sizes[0], 0.5 * min(seconds) / seconds[-1] * sizes[-1])
            above.plot(
                [low, sizes[-1]],
                [seconds[-1] * low / sizes[-1], seconds[-1]],
                ":",
                color=MUTED,
                lw=1.2,
                zorder=1,
                label="proportional to size",
            )
            above.set_title(_BRIEFLY[axis])
            below.set_xlabel(axis)
            below.set_ylim(0.0, 1.1 * max(memory))
            if column == 0:
                above.legend(loc="upper left")
                above.set_ylabel("processor seconds")
                below.set_ylabel("peak memory [MB]")
    return figure


def _draw(axes: Axes, sizes: Sequence[int], values: Sequence[float], colour: str) -> None:
    axes.plot(sizes, values, "o-", color=colour, lw=1.6, ms=5.0)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(_apart(sizes)))
    axes.xaxis.set_major_formatter(lambda size, _: _short(size))
    axes.xaxis.set_minor_locator(NullLocator())
    if colour == COLOURS[0]:
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(NullFormatter())
        if max(values) < 10.0 * min(values):
            # Perhaps no power of ten is in sight.
            axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axes.yaxis.set_major_formatter("{x:g}")


def _apart(sizes: Sequence[int]) -> list[int]:
    """The last size and those before it whose labels do not touch one another."""
    kept = [sizes[-1]]
    whole = math.log(sizes[-1] / sizes[0]) or 1.0
    for size in reversed(sizes[:-1]):
        if math.log(kept[-1] / size) >= NARROW * whole:
            kept.append(size)
    return kept


def _short(size: float) -> str:
    return f"{size / 1000:g}k" if size >= 1000 else f"{size:g}"
