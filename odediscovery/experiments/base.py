"""Experiments of the papers: batches of runs, a table beside the published one, a figure.

An experiment names its batches (one model on one task, say) and runs one of them at a time; the runs of a batch are
members, trained together. `study.py` saves finished batches, so that tables and figures are made from rows only.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any, ClassVar

import numpy as np
import torch
from matplotlib import rc_context
from matplotlib.figure import Figure
from numpy.typing import NDArray

from odediscovery.experiments.figures import STYLE, Panel, panels_figure
from odediscovery.experiments.tables import markdown, median_deviation, spread
from odediscovery.runtime.monitor import Monitor

Row = dict[str, str | int | float | bool]
Arrays = dict[str, NDArray[np.float64]]

# Suffix of a model with this package's own training.
OURS = ", ours"


class Stopped(Exception):
    """A request to stop before the end of a batch, whose results are discarded."""


@dataclass(frozen=True)
class Plan:
    """Options of a reproduction: as the paper prints it or as its code ran, quickly or in full."""

    preset: str = "as-run"  # "paper" or "as-run"
    full: bool = False  # True: the sizes of the paper; False: a quick run of seconds
    seed: int = 0  # of all random numbers
    device: str = "cpu"  # where networks are trained, "cpu" or "cuda"

    def generator(self, batch: dict[str, str], purpose: str = "") -> torch.Generator:
        """A separate random source of a batch, independent of other batches."""
        name = repr((sorted(batch.items()), purpose)).encode()
        return torch.Generator().manual_seed(self.seed * 2**32 + zlib.crc32(name))


class OfBatch:
    """Base class of data of one batch."""

    batch: dict[str, str]

    @property
    def name(self) -> str:
        """Name of the batch in one line."""
        return " ".join(self.batch.values())

    @property
    def model(self) -> str:
        """Name of the model, without the suffix of our training."""
        return self.batch["model"].removesuffix(OURS)

    @property
    def ours(self) -> bool:
        """Whether the model has our training."""
        return self.batch["model"].endswith(OURS)


@dataclass(frozen=True, eq=False)
class Ran(OfBatch):
    """A finished batch: a row for each run, and further arrays for the figure."""

    batch: dict[str, str]
    rows: list[Row]
    arrays: Arrays = field(default_factory=dict)
    seconds: float = 0.0

    def column(self, name: str) -> NDArray[np.float64]:
        """Values of one column for all runs; nan if missing."""
        return np.array([float(row.get(name, np.nan)) for row in self.rows])

    def median(self, name: str) -> float:
        """Median of one column over the runs."""
        return float(np.median(self.column(name)))

    def spread(self, name: str) -> str:
        """Median and median absolute deviation of one column as text."""
        return spread(*median_deviation(self.column(name)))


@dataclass(frozen=True, eq=False)
class Job(OfBatch):
    """One running batch: its plan, its monitor, and its own random source."""

    plan: Plan
    batch: dict[str, str]
    monitor: Monitor = field(default_factory=Monitor)

    @cached_property
    def source(self) -> torch.Generator:
        """The random source of the batch."""
        return self.plan.generator(self.batch)

    def test_source(self) -> torch.Generator:
        """Begin another source, for test samples, which must not depend on earlier draws."""
        return self.plan.generator(self.batch, "test")

    def check(self) -> None:
        """Raise `Stopped` if the monitor requests to stop."""
        if self.monitor.stopping():
            raise Stopped


class Experiment(ABC):
    """One experiment of the papers."""

    name: str  # as in `odediscovery reproduce NAME`
    title: str  # one line above the table
    trains = True  # whether it trains networks, and so can use `Plan.device`
    full: Any = None  # settings with the sizes of the paper
    quick: Any = None  # settings for a quick run
    # Values that distinguish batches, if there is a batch for every combination.
    axes: ClassVar[Mapping[str, Iterable[str]]] = {}
    across = 1  # panels of the figure side by side
    layout: ClassVar[Mapping[str, Any]] = {}  # options of all panels

    def how(self, plan: Plan) -> Any:
        """The settings of a plan."""
        return self.full if plan.full else self.quick

    def batches(self, plan: Plan) -> list[dict[str, str]]:
        """The batches in the order in which they run."""
        return [dict(zip(self.axes, values, strict=True)) for values in product(*self.axes.values())]

    @abstractmethod
    def run(self, job: Job) -> tuple[list[Row], Arrays]:
        """Do all runs of one batch; raise `Stopped` if the monitor requests to stop."""

    def line(self, r: Ran) -> dict[str, str]:
        """The line of a batch in the table, a cell by the name of its column."""
        raise NotImplementedError

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        """Write our results beside the published ones, in Markdown."""
        return markdown(map(self.line, ran))

    def panels(self, ran: Sequence[Ran]) -> Iterable[Panel]:
        """The panels of the paper's figure of the finished batches."""
        raise NotImplementedError

    def draw(self, plan: Plan, ran: Sequence[Ran]) -> Figure:
        """Draw the paper's figure of the finished batches."""
        return panels_figure([*self.panels(ran)], self.across, **self.layout)

    def more_figures(self, plan: Plan, ran: Sequence[Ran]) -> dict[str, Figure]:
        """Further figures by name."""
        return {}

    def figures(self, plan: Plan, ran: Sequence[Ran]) -> dict[str, Figure]:
        """All figures by name, in the common style."""
        with rc_context(STYLE):
            return {self.name: self.draw(plan, ran)} | self.more_figures(plan, ran)


def having(ran: Sequence[Ran], **batch: str) -> list[Ran]:
    """The finished batches of these settings."""
    return [r for r in ran if batch.items() <= r.batch.items()]


def find(ran: Sequence[Ran], **batch: str) -> Ran | None:
    """The first finished batch of these settings, or None."""
    return next(iter(having(ran, **batch)), None)


def columns(ran: Sequence[Ran], name: str, *axes: str, **batch: str) -> dict[tuple[str, ...], NDArray[np.float64]]:
    """Values of one column for all runs of the batches of these settings, by their values along some axes."""
    return {tuple(r.batch[axis] for axis in axes): r.column(name) for r in having(ran, **batch)}
