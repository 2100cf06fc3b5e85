"""What size costs: time, peak memory and the share of each stage, measured in separate processes.

Fits: clean fSIR sampled ever more finely, the same with 1 % noise, sparse networks of ever more
states (`networks`). Trainings: gradient steps of ever more members, and of ever wider ones. Losses
and gradients of very many members, on the processor and on a GPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from odediscovery.bench.rows import Row
from odediscovery.bench.speed.networks import network, network_series
from odediscovery.bench.speed.task import MEMBERS, ROUNDING_DIFFERENCE, Measurement, rows_of
from odediscovery.bench.speed.timing import alternate, peak_megabytes
from odediscovery.bench.suites.scores import CLEAN_TOLERANCE, NOISY_TOLERANCE
from odediscovery.bench.suites.scoring import same_equations
from odediscovery.data.series import TimeSeries
from odediscovery.discovery.discover import discover
from odediscovery.errors import FitError
from odediscovery.fitting.optimise import FirstOrder, loss_and_gradient
from odediscovery.fitting.training import TrainingWindows
from odediscovery.fitting.windows import short_windows
from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import PowerSum
from odediscovery.laws.systems import get_system, simulate_system
from odediscovery.neural.members import random_members
from odediscovery.neural.train import penalised_loss
from odediscovery.problem.prepare import prepare
from odediscovery.runtime.device import device_of, moved, use_threads
from odediscovery.runtime.monitor import Monitor
from odediscovery.runtime.resources import keep_freed_memory
from odediscovery.settings import Settings, settings_for

NOISE = 0.01
# Gradient steps that are timed.
STEPS = 20
# Rows of throughput and their devices.
METHODS = {"ours": "cpu", "ours, GPU": "cuda"}


def _fsir(size: int, _seed: int) -> tuple[TimeSeries, Equations]:
    return simulate_system("fsir", samples=size), get_system("fsir").equations()


def _noisy_fsir(size: int, seed: int) -> tuple[TimeSeries, Equations]:
    series = simulate_system("fsir", samples=size, noise=NOISE, seed=seed)
    return series, get_system("fsir").equations()


def _network(size: int, seed: int) -> tuple[TimeSeries, Equations]:
    law = network(size, seed)
    series = network_series(law, seed=seed)
    return series, Equations.from_power_sum(series.states, law)


# How the data of a size are made; the truth with them.
DATA: Mapping[str, Callable[[int, int], tuple[TimeSeries, Equations]]] = {
    "samples": _fsir,
    "noisy samples": _noisy_fsir,
    "states": _network,
}


def states_of(what: str, size: int) -> int:
    """How many states, and so equations, the data of a size have.

    Args:
        what: a name of `DATA`.
        size: samples, or states.
    """
    return size if what == "states" else len(get_system("fsir").states)


class StageClock(Monitor):
    """Adds up what each stage took; the time before the first one is that of preparing."""

    def __init__(self, max_seconds: float | None = None) -> None:
        super().__init__(max_seconds)
        self._name, self._since = "prepare", 0.0
        self._spent: dict[str, float] = {}

    def stage(self, name: str, steps: int) -> None:
        now = self.seconds()
        self._spent[self._name] = self._spent.get(self._name, 0.0) + now - self._since
        self._name, self._since = name, now

    def spent(self) -> dict[str, float]:
        """Seconds of each stage so far."""
        self.stage(self._name, 0)
        return dict(self._spent)


def measure_fit(what: str, size: int, seed: int, max_seconds: float) -> Row:
    """One default fit: seconds, of what stage, megabytes, and how many equations are exact.

    Args:
        what: one of `DATA`.
        size: samples, or states.
        max_seconds: limit of the fit.
    """
    series, truth = DATA[what](size, seed)
    clock, cpu = StageClock(max_seconds), time.process_time()
    found = discover(series, settings_for(seed=seed, max_seconds=max_seconds), clock)
    seconds, cpu = clock.seconds(), time.process_time() - cpu
    law = found.equations.power_sum
    tolerance = NOISY_TOLERANCE if what.startswith("noisy") else CLEAN_TOLERANCE
    exact = sum(same_equations(law, _law(truth), tolerance)) if law is not None else 0
    return {
        "method": "ours",
        "seconds": seconds,
        "processor_seconds": cpu,
        "megabytes": peak_megabytes(),
        "stages": clock.spent(),
        "exact_equations": int(exact),
        "equations": found.equations.texts(),
        "outcome": found.outcome,
        "messages": list(found.messages),
    }


def _law(truth: Equations) -> PowerSum:
    assert truth.power_sum is not None  # a sum of powers by definition
    return truth.power_sum


def measure_training(what: str, size: int, seed: int) -> Row:
    """Seconds of one gradient step of training on one-interval windows of fSIR.

    Args:
        what: "members" of the usual hidden size, or "hidden", the size of 100 members.
        size: how many.
    """
    keep_freed_memory()
    use_threads(None)
    p, usual = prepare(simulate_system("fsir")), Settings()
    members, hidden = (size, usual.hidden) if what == "members" else (MEMBERS, size)
    field = random_members(p, [hidden] * members, seed)
    loss = penalised_loss(field, TrainingWindows.of(short_windows(p)), usual.l1)

    def steps() -> None:
        FirstOrder(STEPS, usual.learning_rate).run(loss, field.theta, field.free, Monitor())

    # The first-order run ends with one more gradient.
    timing = alternate({"steps": steps}, seconds=0.0)["steps"].row(1.0 / (STEPS + 1))
    return {"method": "ours", **timing, "megabytes": peak_megabytes()}


def measure_throughput(members: int, seed: int, seconds: float = 2.0) -> list[Row]:
    """Seconds of loss and gradient of so many members on one-interval windows of fSIR.

    Args:
        seconds: that each device may take, about.

    Returns:
        A row for the processor, and one for the GPU where there is one.

    Raises:
        FitError: the GPU computes something else.
    """
    keep_freed_memory()
    use_threads(None)
    p, usual = prepare(simulate_system("fsir")), Settings()
    field, windows = random_members(p, [usual.hidden] * members, seed), TrainingWindows.of(short_windows(p))

    def on(name: str) -> Callable[[], Tensor]:
        device = device_of(name)
        there = moved(field, device)
        loss = penalised_loss(there, moved(windows, device), usual.l1)
        # A gradient that has come back is done; a GPU answers before it is.
        return lambda: loss_and_gradient(loss, there.theta, 1.0)[1].cpu()

    ways = {method: on(name) for method, name in METHODS.items() if name == "cpu" or torch.cuda.is_available()}
    first, *others = (way() for way in ways.values())
    for other in others:
        off = ((other - first).abs().amax(dim=1) / first.abs().amax(dim=1)).nanmedian()
        if not off <= ROUNDING_DIFFERENCE:
            raise FitError(f"the GPU computes another gradient: {off:.1g} apart")
    timings, megabytes = alternate(ways, seconds), peak_megabytes()
    return [
        {
            "method": method,
            **timing.row(),
            "members": members,
            "megabytes": torch.cuda.max_memory_allocated() / 2**20 if METHODS[method] != "cpu" else megabytes,
        }
        for method, timing in timings.items()
    ]


def measured_size(task: Measurement) -> list[Row]:
    """The row of one fit or training of a size; nothing that is imported for it is a peer's."""
    if task.part in DATA:
        return rows_of(task, lambda t: [measure_fit(t.part, t.size, t.seed, t.max_seconds)])
    if task.part == "throughput":
        return rows_of(task, lambda t: measure_throughput(t.size, t.seed))
    return rows_of(task, lambda t: [measure_training(t.part, t.size, t.seed)])
