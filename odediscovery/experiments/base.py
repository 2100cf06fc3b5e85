"""What an experiment of the papers is: batches of runs, a table beside the published one, a figure.

An experiment names its batches (one model on one task, say) and runs one of them at a time. The runs
of a batch are members, trained side by side. `study.py` keeps the finished batches, so an experiment
knows nothing of files, and makes its table and figure from rows alone.
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

from odediscovery.bench.summary import table
from odediscovery.experiments.figures import STYLE
from odediscovery.runtime.monitor import Monitor

Row = dict[str, str | int | float | bool]
Arrays = dict[str, NDArray[np.float64]]

# Behind a model that this package trains in its own way.
OURS = ", ours"


class Stopped(Exception):
    """The work was asked to stop before a batch was done; what the batch had is dropped."""


@dataclass(frozen=True)
class Plan:
    """What is to be reproduced: as the paper prints it or as its code ran, quickly or in full."""

    preset: str = "as-run"  # "paper" or "as-run"
    full: bool = False  # True for the sizes of the paper, False for a look that takes seconds
    seed: int = 0  # of everything random
    device: str = "cpu"  # where networks are trained, "cpu" or "cuda"

    def generator(self, batch: dict[str, str], purpose: str = "") -> torch.Generator:
        """A random source of the batch's own, whichever other batches are run or resumed."""
        name = repr((sorted(batch.items()), purpose)).encode()
        return torch.Generator().manual_seed(self.seed * 2**32 + zlib.crc32(name))


class OfBatch:
    """What belongs to one batch."""

    batch: dict[str, str]

    @property
    def name(self) -> str:
        """The batch in a line."""
        return " ".join(self.batch.values())

    @property
    def model(self) -> str:
        """What was trained, by the paper's training or by ours."""
        return self.batch["model"].removesuffix(OURS)

    @property
    def ours(self) -> bool:
        """Whether our training is meant."""
        return self.batch["model"].endswith(OURS)


@dataclass(frozen=True, eq=False)
class Ran(OfBatch):
    """A finished batch: a row for each run, and arrays for the figure where rows are not enough."""

    batch: dict[str, str]
    rows: list[Row]
    arrays: Arrays = field(default_factory=dict)
    seconds: float = 0.0

    def median(self, name: str) -> float:
        """The median of one figure over the runs."""
        return float(np.median(self.column(name)))

    def column(self, name: str) -> NDArray[np.float64]:
        """One figure of every run; nan where a run has none."""
        return np.array([float(row.get(name, np.nan)) for row in self.rows])

    def spread(self, name: str) -> str:
        """Median and median absolute deviation of one figure."""
        return spread(*median_deviation(self.column(name)))


@dataclass(frozen=True, eq=False)
class Job(OfBatch):
    """One batch as it is run: what is asked for, who listens, and a random source of the batch's own."""

    plan: Plan
    batch: dict[str, str]
    monitor: Monitor = field(default_factory=Monitor)

    @cached_property
    def source(self) -> torch.Generator:
        """What the batch is drawn from."""
        return self.plan.generator(self.batch)

    def fresh(self, purpose: str) -> torch.Generator:
        """Another source, for what shall not depend on how much was drawn before."""
        return self.plan.generator(self.batch, purpose)

    def check(self) -> None:
        """Raise `Stopped` if the monitor asked to stop."""
        if self.monitor.stopping():
            raise Stopped


class Experiment(ABC):
    """One experiment of the papers."""

    name: str  # as it is typed behind `odediscovery reproduce`
    title: str  # one line above the table
    trains = True  # whether it trains networks, and so can use `Plan.device`
    full: Any = None  # settings with the sizes of the paper
    quick: Any = None  # and for a quick look
    # Values by which batches differ, where there is a batch for every combination.
    axes: ClassVar[Mapping[str, Iterable[str]]] = {}

    def how(self, plan: Plan) -> Any:
        """The settings of a plan."""
        return self.full if plan.full else self.quick

    def batches(self, plan: Plan) -> list[dict[str, str]]:
        """The batches in the order in which they run."""
        return [dict(zip(self.axes, values, strict=True)) for values in product(*self.axes.values())]

    @abstractmethod
    def run(self, job: Job) -> tuple[list[Row], Arrays]:
        """All runs of one batch, or `Stopped` where the monitor asked to stop."""

    def line(self, r: Ran) -> dict[str, str]:
        """The line of a batch in the table, a cell by the name of its column."""
        raise NotImplementedError

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        """Ours beside the published figures, in Markdown."""
        return markdown([self.line(r) for r in ran])

    @abstractmethod
    def draw(self, plan: Plan, ran: Sequence[Ran]) -> Figure:
        """The paper's figure of what was run; called with the style of all figures in place."""

    def figure(self, plan: Plan, ran: Sequence[Ran]) -> Figure:
        """The paper's figure of what was run."""
        with rc_context(STYLE):
            return self.draw(plan, ran)

    def more_figures(self, plan: Plan, ran: Sequence[Ran]) -> dict[str, Figure]:
        """Further figures by name."""
        return {}


def find(ran: Sequence[Ran], **batch: str) -> Ran | None:
    """The finished batch of these settings, or None."""
    return next((r for r in ran if batch.items() <= r.batch.items()), None)


def columns(ran: Sequence[Ran], name: str, *axes: str, **batch: str) -> dict[tuple[str, ...], NDArray[np.float64]]:
    """One figure of every run of the batches of these settings, by their values along some axes."""
    own = [r for r in ran if batch.items() <= r.batch.items()]
    return {tuple(r.batch[axis] for axis in axes): r.column(name) for r in own}


def markdown(rows: Sequence[Mapping[str, str]]) -> str:
    """Rows (a cell by the name of its column) as a Markdown table, its first column flush left, the others right."""
    return table(list(rows[0]), [row.values() for row in rows], rule="--:") + "\n" if rows else ""


def number(value: float, digits: int = 2) -> str:
    """A figure of a table: few digits, no exponent where it can be done without."""
    if not np.isfinite(value):
        return "-" if np.isnan(value) else "inf"
    return f"{value:.{digits}g}" if 1e-3 <= abs(value) < 1e4 or value == 0 else f"{value:.1e}"


def median_deviation(values: NDArray[np.float64]) -> tuple[float, float]:
    """Median and median absolute deviation, as the paper's tables give them; inf counts."""
    values = np.where(np.isnan(values), np.inf, values)
    middle = float(np.median(values))
    if not np.isfinite(middle):
        return middle, np.inf
    return middle, float(np.median(np.abs(values - middle)))


def spread(middle: float, deviation: float) -> str:
    """A median and its deviation."""
    return f"{number(middle)} ± {number(deviation)}"


def beside(ours: float, published: float, deviation: float) -> str:
    """An error beside a published one: within two of its median deviations, or better or worse by more."""
    if abs(ours - published) <= 2.0 * deviation:
        return "within"
    return "better" if ours < published else "worse"


def counted(verdicts: Sequence[str]) -> str:
    """How many errors are within two median deviations, better and worse, in a sentence."""
    within, better, worse = (list(verdicts).count(v) for v in ("within", "better", "worse"))
    return (
        f"Of {len(verdicts)} medians {within} are within two median deviations of the published one, "
        f"{better} better by more, {worse} worse by more."
    )


def tally(won: NDArray[Any]) -> str:
    """How many runs won."""
    return f"{int(won.sum())} of {len(won)}"


def share(won: NDArray[Any]) -> str:
    """95 % interval of the share of runs that won, in whole per cents."""
    return "{:.0%} to {:.0%}".format(*wilson(int(np.sum(won)), len(won)))


def wilson(successes: int, runs: int) -> tuple[float, float]:
    """95 % interval of a success rate (Wilson's score interval, as Madsen and Johansen use)."""
    if runs == 0:
        return 0.0, 1.0
    z, rate = 1.959963984540054, successes / runs
    middle = (rate + z * z / (2 * runs)) / (1 + z * z / runs)
    spread = rate * (1 - rate) / runs + z * z / (4 * runs**2)
    half = z * float(np.sqrt(spread)) / (1 + z * z / runs)
    return max(middle - half, 0.0), min(middle + half, 1.0)
