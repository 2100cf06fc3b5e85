"""Chaotic systems, and trajectories on their attractors.

    five trajectories of 1,000 points, 100 a period, from random points of the attractor
    y = x + sigma * rms * e,    rms = (mean over samples and states of x^2)^(1/2),    e ~ N(0, 1)

Of seed 0 the starts are kept in a file: another rounding of a right-hand side would lead a path of
forty periods elsewhere. The values are exact, or those of Radau at a tolerance: the published benchmark
took what dysts 0.1 gives, scipy's default of 1e-3. Five more trajectories, without noise, are what the
peers choose their threshold by. Random numbers depend on the seed and the system alone.

Source: Kaptanoglu, Zhang, Nicolaou, Fasel, Brunton, Benchmarking sparse system identification with
low-dimensional chaos, Nonlinear Dynamics 111 (2023); systems: Gilpin, NeurIPS Datasets 2021 (dysts).
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np

from odediscovery.bench.suites.problems import ADDITIVE, SuiteSystem
from odediscovery.bench.suites.protocol import rough_trajectory, true_trajectory
from odediscovery.data.series import TimeSeries
from odediscovery.errors import FitError, unknown_name
from odediscovery.laws.equations import Equations
from odediscovery.runtime.arrays import Array

SUITE = "chaos"
# The seed whose starts are kept.
KEPT_SEED = 0
# Trajectories to train on, and as many for the peers' choice.
TRAINED = 5
SAMPLES, PER_PERIOD = 1000, 100
# Periods of the path from which starts are drawn, of which the first are left out, and its samples a period.
PERIODS, LEFT_OUT, DENSITY = 40, 10, 30
POLYNOMIAL, OTHER = "polynomial", "functions"
# Evaluations of the right-hand side along that path.
_MOST_EVALUATIONS = 2_000_000


@dataclass(frozen=True, eq=False)
class Attractor:
    """One chaotic system.

    Args:
        id: its name in dysts.
        equations: the truth.
        start: a point of the attractor [states].
        period: the dominant one.
        kept: starts [trajectories, states] of seed 0, half of them to train on.
    """

    id: str
    equations: Equations
    start: Array
    period: float
    kept: Array

    @property
    def kind(self) -> str:
        """Whether a polynomial library can write it."""
        law = self.equations.power_sum
        whole = law is not None and bool((law.exponents >= 0).all() and (law.exponents % 1.0 == 0).all())
        return POLYNOMIAL if whole else OTHER

    def system(self, seed: int) -> SuiteSystem:
        """The system with starts drawn from its attractor, to train on and to choose by.

        Raises:
            FitError: the system cannot be integrated.
        """
        last = (SAMPLES - 1) * self.period / PER_PERIOD
        starts = self.kept if seed == KEPT_SEED else self._drawn(seed)
        return SuiteSystem(SUITE, self.id, self.id, self.equations, starts, (0.0, last), SAMPLES, ADDITIVE, self.kind)

    def _drawn(self, seed: int) -> Array:
        """Random points of the attractor [trajectories, states]."""
        times = np.linspace(0.0, PERIODS * self.period, PERIODS * DENSITY + 1)
        path = self.equations.simulate(self.start, times, rtol=1e-9, most_evaluations=_MOST_EVALUATIONS)
        if not np.isfinite(path).all():
            raise FitError(f"no solver follows {self.id} for {PERIODS} periods")
        random = np.random.default_rng([seed, zlib.crc32(self.id.encode())])
        places = random.choice(np.arange(LEFT_OUT * DENSITY, len(path)), 2 * TRAINED, replace=False)
        drawn: Array = path[places]
        return drawn


@cache
def attractors() -> dict[str, Attractor]:
    """All systems, by their names."""
    folder, found = resources.files("odediscovery.bench") / "data", dict[str, Attractor]()
    starts = json.loads((folder / "chaos_starts.json").read_text(encoding="utf-8"))["starts"]
    for entry in json.loads((folder / "chaos_dev.json").read_text(encoding="utf-8"))["systems"]:
        texts = dict(zip(entry["states"], entry["equations"], strict=True))
        equations = Equations.parse(entry["states"], texts, constants=entry["parameters"])
        start, kept = np.array(entry["start"]), np.array(starts[entry["id"]])
        found[entry["id"]] = Attractor(entry["id"], equations, start, float(entry["period"]), kept)
    return found


def choose(ids: Sequence[str] | None = None) -> list[Attractor]:
    """Those with these names, all if none are given.

    Raises:
        InputError: there is no such system.
    """
    known = attractors()
    for id in ids or ():
        if id not in known:
            raise unknown_name("chaotic system", id, known)
    return [attractor for attractor in known.values() if not ids or attractor.id in ids]


@cache
def trajectories(attractor: Attractor, seed: int, tolerance: float | None = None) -> tuple[Array, list[Array]]:
    """Times [samples], and the states [samples, states] from every start of a system.

    Args:
        tolerance: relative one of the solver (Radau); exact states if not given.
    """
    system = attractor.system(seed)
    if tolerance is None:
        return system.times, [true_trajectory(system, k) for k in range(len(system.starts))]
    size = np.abs(system.starts).max(axis=0)
    return system.times, [rough_trajectory(system, start, size, tolerance) for start in system.starts]


def measured(
    attractor: Attractor, sigma: float, seed: int, tolerance: float | None = None
) -> tuple[TimeSeries, list[Array]]:
    """Noisy trajectories to train on, and those without noise [samples, states] that peers choose by."""
    random = np.random.default_rng([seed, zlib.crc32(f"{attractor.id} noise".encode())])
    times, every = trajectories(attractor, seed, tolerance)
    noisy = []
    for clean in every[:TRAINED]:
        rms = float(np.sqrt(np.mean(clean**2)))
        noisy.append(clean + sigma * rms * random.standard_normal(clean.shape))
    return TimeSeries.from_arrays([times] * TRAINED, noisy, attractor.equations.states), every[TRAINED:]
