"""The staircase as a picture: how often laws are found, and in what time, on every step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

from odediscovery.bench.rows import Row
from odediscovery.bench.suites.staircase import KINDS, kind_of, share_exact
from odediscovery.bench.summary import late_seconds, median_of
from odediscovery.plots.figures import COLOURS, STYLE, empty_figure

# Steps that a column is wide at least, for its title.
NARROW = 3
# Seconds below this are drawn as this.
SHORTEST = 0.01


def staircase_figure(rows: Mapping[str, Sequence[Row]]) -> Figure:
    """Share exact above, seconds below, dotted those of 95 %; a column each for noise, digits and solvers.

    Args:
        rows: of each step, in the order of the steps.
    """
    kinds = [kind for kind in KINDS if any(kind_of(step) == kind for step in rows)]
    methods = list(dict.fromkeys(row["method"] for own in rows.values() for row in own))
    steps = {kind: [step for step in rows if kind_of(step) == kind] for kind in kinds}
    with rc_context(STYLE):
        figure = empty_figure(2.0 + 0.62 * sum(max(len(steps[kind]), NARROW) for kind in kinds), 5.6)
        grid = figure.subplots(
            2, len(kinds), squeeze=False, sharey="row", width_ratios=[max(len(steps[kind]), NARROW) for kind in kinds]
        )
        for column, kind in enumerate(kinds):
            above, below = grid[0][column], grid[1][column]
            for k, method in enumerate(methods):
                _draw(above, below, {step: _of(rows[step], method) for step in steps[kind]}, method, COLOURS[k])
            above.set_title(kind)
            above.set_ylim(-3.0, 103.0)
            below.set_yscale("log")
            below.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            below.yaxis.set_major_formatter("{x:g}")
            below.yaxis.set_minor_formatter(NullFormatter())
            for axes in (above, below):
                axes.set_xticks(range(len(steps[kind])), [_short(step) for step in steps[kind]], rotation=40)
                axes.xaxis.set_minor_locator(NullLocator())
        grid[0][0].set_ylabel("exact [%]")
        grid[1][0].set_ylabel("processor seconds")
        grid[0][0].legend(loc="lower left")
    return figure


def _of(rows: Sequence[Row], method: str) -> list[Row]:
    return [row for row in rows if row["method"] == method]


def _draw(above: Axes, below: Axes, rows: Mapping[str, Sequence[Row]], method: str, colour: str) -> None:
    """One method on the steps of one kind."""
    places = [k for k, own in enumerate(rows.values()) if own]
    done = [own for own in rows.values() if own]
    above.plot(places, [100.0 * share_exact(own) for own in done], "o-", color=colour, lw=1.6, ms=4.0, label=method)
    for line, seconds in (("o-", median_of), ("o:", late_seconds)):
        below.plot(places, [max(seconds(own), SHORTEST) for own in done], line, color=colour, lw=1.4, ms=3.0)


def _short(step: str) -> str:
    """A step on the axis of its kind."""
    kind, _, size = step.partition("-")
    return size if kind in ("noise", "digits") else f"{kind} {size}"
