"""The suites: systems with a known answer, their starts, and how they are sampled.

    fractional   25 sums of products of real powers, additive noise
    odebench     34 systems of ODEBench (its development half), multiplicative noise
    classics     the systems of `odediscovery simulate`, additive noise

Every system has several initial conditions. The last one is never trained on: it shows whether
the found equations hold elsewhere. Equations are read as text through the package's own reader.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from odediscovery.errors import unknown_name
from odediscovery.laws.equations import Equations
from odediscovery.laws.systems import SYSTEMS
from odediscovery.runtime.arrays import Array

ADDITIVE, MULTIPLICATIVE = "additive", "multiplicative"
# ODEBench stores 512 points, its own solving script 150; the later papers use 150.
ODEBENCH_SAMPLES = 150
# A law that one hidden layer of products of powers writes: NPU, then NAU.
POWER_SUM = "npu_nau"


@dataclass(frozen=True, eq=False)
class SuiteSystem:
    """dx/dt = f(x) with known f, and what is measured of it.

    Args:
        suite: the suite that it belongs to.
        id: its short name there.
        name: what it describes.
        equations: the truth f.
        starts: initial values [starts, states]; the last one is the unseen one.
        t_span: first and last time.
        n_samples: equally spaced samples on `t_span`, ends included.
        noise: "additive" (share of each state's standard deviation) or "multiplicative" (share
            of each value).
        representation: the smallest chain of units that can write f, as ODEBench's file names
            them ("npu_nau" for a sum of products of powers).
    """

    suite: str
    id: str
    name: str
    equations: Equations
    starts: Array
    t_span: tuple[float, float]
    n_samples: int
    noise: str
    representation: str

    @property
    def states(self) -> tuple[str, ...]:
        """Names of the states."""
        return self.equations.states

    @property
    def times(self) -> Array:
        """The sample times [n_samples]."""
        return np.linspace(*self.t_span, self.n_samples)

    @property
    def trainable(self) -> int:
        """How many of the starts may be trained on: all but the last."""
        return len(self.starts) - 1


# Starts of the classics besides their usual one: a second to train on, and the unseen one.
_CLASSIC_STARTS: Mapping[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "fsir": ((80.0, 5.0, 15.0), (50.0, 1.0, 49.0)),
    "sir": ((70.0, 5.0, 25.0), (90.0, 3.0, 7.0)),
    "lotka-volterra": ((30.0, 4.0), (15.0, 3.0)),
    "logistic": ((150.0,), (20.0,)),
    "theta-logistic": ((160.0,), (10.0,)),
    "von-bertalanffy": ((900.0,), (50.0,)),
    "torricelli": ((0.05,), (4.0,)),
    "lorenz": ((5.0, 5.0, 20.0), (-3.0, 3.0, 15.0)),
    "van-der-pol": ((0.1, 3.2), (-1.0, 2.0)),
    "toy": ((1.3, 0.2), (1.2, -0.1)),
    "damped-oscillator": ((0.5, 1.5), (-0.8, 1.0)),
    "brusselator": ((2.5, 3.0), (1.2, 4.0)),
    "fractional-drag": ((12.0,), (2.0,)),
    "s-system": ((0.5, 1.0, 3.0, 1.0), (3.0, 1.0, 0.5, 2.0)),
    "herd": ((1.5, 2.2), (8.0, 2.0)),
    "pendulum": ((0.5, 1.0), (-1.2, 2.0)),
}


def _document(name: str) -> list[dict[str, Any]]:
    file = resources.files("odediscovery.bench") / "data" / name
    systems: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["systems"]
    return systems


def _over_x(texts: Sequence[str]) -> Equations:
    """Right-hand sides written over x0, x1, ..."""
    names = [f"x{k}" for k in range(len(texts))]
    return Equations.parse(names, dict(zip(names, texts, strict=True)))


def _fractional() -> list[SuiteSystem]:
    problems = []
    for entry in _document("fractional.json"):
        law = _over_x(entry["equations"]).power_sum
        assert law is not None  # sums of powers by definition of the suite
        uses = zip(entry["initial_conditions"], entry["ic_use"], strict=True)
        starts = [start for start, _ in sorted(uses, key=lambda pair: pair[1] == "test")]
        problems.append(
            SuiteSystem(
                "fractional",
                entry["id"],
                entry["name"],
                Equations.from_power_sum(entry["states"], law),
                np.array(starts, dtype=np.float64),
                (entry["t_span"][0], entry["t_span"][1]),
                entry["n_samples"],
                ADDITIVE,
                POWER_SUM,
            )
        )
    return problems


def _odebench() -> list[SuiteSystem]:
    return [
        SuiteSystem(
            "odebench",
            str(entry["id"]),
            entry["name"],
            _over_x(entry["equations"]),
            np.array(entry["initial_conditions"], dtype=np.float64),
            (entry["t_span"][0], entry["t_span"][1]),
            ODEBENCH_SAMPLES,
            MULTIPLICATIVE,
            entry["representation"],
        )
        for entry in _document("odebench_dev.json")
    ]


def _classics() -> list[SuiteSystem]:
    problems = []
    for system in SYSTEMS.values():
        equations = system.equations()
        usual = tuple(system.initial[state] for state in system.states)
        # The one that is no sum of powers, the pendulum, needs the sine as a feature.
        representation = POWER_SUM if equations.power_sum is not None else "features_npu_nau"
        problems.append(
            SuiteSystem(
                "classics",
                system.name,
                system.title,
                equations,
                np.array([usual, *_CLASSIC_STARTS[system.name]]),
                system.t_span,
                system.n_samples,
                ADDITIVE,
                representation,
            )
        )
    return problems


SUITES: Mapping[str, Callable[[], list[SuiteSystem]]] = {
    "fractional": _fractional,
    "odebench": _odebench,
    "classics": _classics,
}


@cache
def load_suite(name: str) -> Mapping[str, SuiteSystem]:
    """All systems of a suite by their ids, in its order.

    Raises:
        InputError: there is no such suite.

    >>> len(load_suite("fractional")), len(load_suite("odebench"))
    (25, 34)
    """
    if name not in SUITES:
        raise unknown_name("suite", name, SUITES)
    return {system.id: system for system in SUITES[name]()}


def choose(name: str, ids: Sequence[str] | None = None) -> list[SuiteSystem]:
    """The systems of a suite with these ids, all if none are given, in the suite's order.

    Raises:
        InputError: there is no such suite or id, with those that exist.
    """
    problems = load_suite(name)
    for wanted in ids or ():
        if wanted not in problems:
            raise unknown_name(f"system of {name}", wanted, problems)
    return [system for system in problems.values() if not ids or system.id in ids]
