"""What the golden file replays: every kind of data that the engine was measured on, by name.

A case is one call of `discover`, by its name `part/variant/id`. The clock of its limit is the processor's,
and the limit is far above what a fit takes, so that neighbours on the machine change no result. The seeds
of random laws are used ones: nothing is judged here, what was found before is found again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from odediscovery.bench.chaos import attractor, measured
from odediscovery.bench.draws import KINDS, Lawless
from odediscovery.bench.populations import DESIGNS, read_designs, simulate
from odediscovery.bench.random_laws import FAMILIES, random_system
from odediscovery.bench.series_cases import CASES as ALL
from odediscovery.bench.systems import Protocol, SuiteSystem, load_suite, training_data
from odediscovery.bench.textbook import TextbookDraws
from odediscovery.data.series import TimeSeries

DATA = Path(__file__).resolve().parents[2] / "data"
# Far above what a fit takes, in seconds of the processor.
LIMIT = 30.0
RANDOM_SEEDS, RANDOM_EACH = (53001, 53002), 3
# Every level of noise by its name, one or two trajectories as the suites were measured.
SUITES = {
    "fractional": {"clean": Protocol(), "noise-0.02": Protocol(0.02)},
    "odebench": {"clean": Protocol(), "noise-0.05": Protocol(0.05)},
    "classics": {"clean": Protocol(), "noise-0.02": Protocol(0.02)},
}
RANDOM = {
    "clean": Protocol(trajectories=2),
    "digits-4": Protocol(trajectories=2, digits=4),
    "noise-0.01": Protocol(0.01, trajectories=2),
    "noise-0.05": Protocol(0.05, trajectories=2),
}
CHAOS = ("Lorenz", "Halvorsen", "SprottA", "Aizawa", "Rucklidge", "RabinovichFabrikant")
TEXTBOOK_DRAWS, LAWLESS_DRAWS = range(0, 60, 3), range(2)


@dataclass(frozen=True)
class Case:
    """One fit.

    Args:
        name: part/variant/id.
        data: makes the series.
        options: of the fit, beside the seed and the limit.
    """

    name: str
    data: Callable[[], TimeSeries]
    options: Callable[[], dict[str, Any]] = dict


def all_cases() -> dict[str, Case]:
    """Every case by its name, part by part."""
    parts = (_suites, _random, _series, _textbook, _chaos, _lawless, _populations, _inputs)
    return {case.name: case for part in parts for case in part()}


def _suites() -> Iterator[Case]:
    for suite, variants in SUITES.items():
        for variant, protocol in variants.items():
            for id in load_suite(suite):
                yield Case(f"{suite}/{variant}/{id}", lambda s=suite, i=id, p=protocol: _sampled(load_suite(s)[i], p))


def _random() -> Iterator[Case]:
    for seed in RANDOM_SEEDS:
        for variant, protocol in RANDOM.items():
            for family in FAMILIES:
                for i in range(RANDOM_EACH):
                    name = f"random-{seed}/{variant}/{family}-{i}"
                    yield Case(name, lambda s=seed, f=family, i=i, p=protocol: _sampled(random_system(s, f, i), p))


def _sampled(system: SuiteSystem, protocol: Protocol) -> TimeSeries:
    return training_data(system, protocol)


def _series() -> Iterator[Case]:
    for id, case in ALL.items():
        yield Case(f"series/measured/{id}", lambda c=case: c.load(DATA))


def _textbook() -> Iterator[Case]:
    draws = TextbookDraws()
    for draw in TEXTBOOK_DRAWS:
        truth, fault = draws.case(draw)
        yield Case(f"textbook/{fault}/{truth.law}-{draw}", lambda d=draw: draws.data(d))


def _chaos() -> Iterator[Case]:
    for sigma in (0.0, 0.01):
        for id in CHAOS:
            yield Case(f"chaos/noise-{sigma:g}/{id}", lambda i=id, s=sigma: measured(attractor(i), s, 0)[0])


def _lawless() -> Iterator[Case]:
    for kind in KINDS:
        for draw in LAWLESS_DRAWS:
            yield Case(f"lawless/{kind}/{draw}", lambda k=kind, d=draw: Lawless(kind=k).data(d))


def _populations() -> Iterator[Case]:
    for design in read_designs(DESIGNS):
        exact = tuple(f"{s} = measured" for s in design["states"] if "values" in design["initial"][s])
        yield Case(
            f"populations/draw-0/{design['id']}",
            lambda d=design: simulate(d, 0)[0],
            lambda e=exact: {"vary": "auto", "starts": e},
        )


def _inputs() -> Iterator[Case]:
    """What the suites do not have: an input, a hidden state, what the user knows, the recipes of the paper."""
    t = np.linspace(0.0, 10.0, 60)

    def one(values: Any, names: list[str]) -> TimeSeries:
        return TimeSeries.from_arrays(t, np.asarray(values), names)

    law = load_suite("classics")
    fsir, herd = law["fsir"], law["lotka-volterra"]
    yield Case("told/known/lotka-volterra", lambda: _sampled(herd, Protocol(0.02)), lambda: {"integer_exponents": True})
    yield Case("told/neural/fsir", lambda: _sampled(fsir, Protocol()), lambda: {"recipe": "neural"})
    yield Case("told/untrained/fsir", lambda: _sampled(fsir, Protocol(0.02)), lambda: {"members": 0})
    yield Case("told/constant/x", lambda: one(np.full((60, 1), 3.0), ["x"]))
    hidden = np.exp(-0.3 * t)[:, None]
    yield Case("told/hidden/decay", lambda: one(5.0 * t[:, None] * hidden, ["y"]), lambda: {"hidden_states": ("z",)})
