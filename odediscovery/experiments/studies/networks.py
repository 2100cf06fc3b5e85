"""Networks alone: recipe `neural` compared with the default, which uses regression if it can.

The papers train, prune and read a network. The default finds most laws of clean data by
regression; here they are found by networks alone, as RealNPU and as NPU with complex weights, and by the
lines of README's first example, unchanged except for data and unit. A run counts if exactly the true
terms are found, with exponents within the tolerance of the benchmark suites (0.02 on clean data, 0.1
in noise). Seconds are processor time.

Both presets are the same. Source: Heim, Pevny, Smidl, Neural Power Units (2020), Sec. 4.1.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import nn

from odediscovery.bench.scores import score
from odediscovery.bench.systems import Protocol, load_suite, training_data
from odediscovery.data.series import TimeSeries
from odediscovery.discovery.discover import discover
from odediscovery.experiments.base import Arrays, Experiment, Job, Plan, Ran, Row
from odediscovery.experiments.figures import PER_CENTS, Panel
from odediscovery.experiments.tables import pivot, tally
from odediscovery.laws.equations import Equations
from odediscovery.neural.equations import equations
from odediscovery.neural.prune import prune
from odediscovery.neural.train import train
from odediscovery.settings import settings_for
from odediscovery.units import NAU, NPU, AbstractUnit, RealNPU

Found = tuple[Equations, str]


def fitted(series: TimeSeries, plan: Plan, seed: int, **options: Any) -> Found:
    """Find a law by a recipe; return it with the stage that found it."""
    given: dict[str, Any] = options | ({} if plan.full else SMALL) | {"seed": seed, "device": plan.device}
    found = discover(series, settings_for(**given))
    return found.equations, found.found_by


def by_verbs(series: TimeSeries, plan: Plan, seed: int, unit: type[AbstractUnit]) -> Found:
    """Find a law as README's first example does."""
    torch.manual_seed(seed)
    n = series.n_states
    field = nn.Sequential(unit(n, 6), NAU(6, n))
    path = prune(train(field, series, device=plan.device), series)
    found = equations(path.best, series.states, snapped=True, digits=6)
    return Equations.parse(series.states, {state: str(rate) for state, rate in found.items()}), "training"


# Systems and their suites; of `fractional` every fifth one.
FULL = dict.fromkeys(("fsir", "lotka-volterra"), "classics") | dict.fromkeys(
    ("von_bertalanffy", "theta_logistic", "weir_cascade", "kepler_radial", "two_temperature_metal"), "fractional"
)
QUICK = {"fsir": "classics", "torricelli": "classics"}
SMALL = {"members": 4, "hidden": 3, "adam_steps": 300}
NOISE, EVERY = ("0", "0.02"), (*FULL, *QUICK)


class Method(NamedTuple):
    """A way to find a law, how often it is tried in full on fSIR and on others, and on which noise and systems."""

    find: Callable[[TimeSeries, Plan, int], Found]
    runs: tuple[int, int]
    noise: tuple[str, ...] = ("0",)
    systems: tuple[str, ...] = ("fsir", "torricelli")


FEW = ("fsir", "torricelli", "lotka-volterra", "von_bertalanffy", "theta_logistic")
METHODS = {
    "default": Method(fitted, (5, 1), NOISE, EVERY),
    "neural, RealNPU": Method(partial(fitted, recipe="neural"), (20, 1), NOISE, EVERY),
    "neural, NPU": Method(partial(fitted, recipe="neural", unit="NPU"), (20, 1)),
    "README, RealNPU": Method(partial(by_verbs, unit=RealNPU), (20, 20), systems=FEW),
    "README, NPU": Method(partial(by_verbs, unit=NPU), (20, 20)),
}


class Networks(Experiment):
    """Networks alone and the default on fSIR, Lotka-Volterra and five systems with real powers."""

    name = "networks"
    title = "Networks alone (recipe neural) beside the default: fSIR, Lotka-Volterra, five fractional systems"
    layout: ClassVar = {"sharex": True}

    def batches(self, plan: Plan) -> list[dict[str, str]]:
        systems = FULL if plan.full else QUICK
        return [
            {"system": name, "noise": noise, "method": method}
            for name in systems
            for noise in (NOISE if plan.full else NOISE[:1])
            for method, how in METHODS.items()
            if name in how.systems and noise in how.noise
        ]

    def run(self, job: Job) -> tuple[list[Row], Arrays]:
        name, method = job.batch["system"], METHODS[job.batch["method"]]
        system = load_suite((FULL | QUICK)[name])[name]
        runs = method.runs[name != "fsir"] if job.plan.full else 1
        job.monitor.stage(job.name, runs)
        rows: list[Row] = []
        for seed in range(job.plan.seed, job.plan.seed + runs):
            protocol = Protocol(sigma=float(job.batch["noise"]), seed=seed)
            series = training_data(system, protocol)
            began = time.process_time()
            found, stage = method.find(series, job.plan, seed)
            seconds = round(time.process_time() - began, 2)
            right = score(found, system, protocol)
            told = "; ".join(f"{state}' = {side}" for state, side in found.texts().items())
            row: Row = {"exact": right.exact, "seconds": seconds, "found by": stage}
            rows.append(row | {"reconstruction": right.recon, "equations": told})
            job.monitor.step(len(rows))
            job.check()
        return rows, {}

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        cells = {(_place(r), r.batch["method"]): _cell(r) for r in ran}
        return (
            "Runs with exactly the true terms, median and longest time of the processor, and which stage found "
            "the printed laws. The published runs of fSIR, which were not pruned, found no exact law in 300.\n\n"
            f"{pivot('system', cells)}"
        )

    def panels(self, ran: Sequence[Ran]) -> Iterable[Panel]:
        """The share of exact runs, and the time of each run, by system and method."""
        exact = {(_place(r), r.batch["method"]): 100 * r.column("exact") for r in ran}
        seconds = {(_place(r), r.batch["method"]): r.column("seconds") for r in ran}
        shown = {"ylabel": "exact runs, %", "ylim": (0.0, PER_CENTS[1])}
        times = {"ylabel": "processor time of a fit, s", "yscale": "log"}
        yield Panel("exact", exact, kind="bars", axis=shown)
        yield Panel("time", seconds, axis=times)

    def draw(self, plan: Plan, ran: Sequence[Ran]) -> Figure:
        figure = super().draw(plan, ran)
        for name in figure.axes[1].get_xticklabels():
            name.set(rotation=30.0, ha="right")
        return figure


def _place(r: Ran) -> str:
    """System and noise of a batch."""
    noise = r.batch["noise"]
    return f"{r.batch['system']}, {'clean' if noise == '0' else f'{100 * float(noise):g} % noise'}"


def _cell(r: Ran) -> str:
    seconds = r.column("seconds")
    stages = ", ".join(sorted({str(row["found by"]) for row in r.rows}))
    return f"{tally(r.column('exact'))}, {np.median(seconds):.1f} s ({seconds.max():.1f}), {stages}"
