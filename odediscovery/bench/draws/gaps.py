"""How often is the fractional SIR model found from short, irregular runs with gaps?

    y = x + 0.02 * std(x) * e,    e ~ N(0, 1)        a fifth of all values missing

Eight trajectories from random starts, of 8 to 40 samples at random times. A draw is a hit if
every found equation has exactly the true monomials, with exponents within 0.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from odediscovery.bench.draws.draw import YES_NO, Draws
from odediscovery.bench.draws.noise import true_terms
from odediscovery.bench.rows import Row
from odediscovery.bench.suites.protocol import check_sigma
from odediscovery.bench.suites.scores import NOISY_TOLERANCE
from odediscovery.bench.suites.scoring import worst_errors
from odediscovery.bench.summary import Cell, hits
from odediscovery.data.series import TimeSeries
from odediscovery.errors import InputError
from odediscovery.laws.systems import get_system
from odediscovery.result.discovery import Discovery

SYSTEM, UNTIL = "fsir", 200.0
# Lowest and highest start of susceptible, infected and recovered, and numbers of samples.
STARTS, SAMPLES = ((50.0, 0.01, 0.0), (100.0, 10.0, 30.0)), (8, 40)


@dataclass(frozen=True, kw_only=True)
class FsirGaps(Draws):
    """Draws of runs, gaps and noise.

    Args:
        sigma: noise as a share of each state's standard deviation over its trajectory.
        missing: share of the values that are missing.
        trajectories: number of runs.
    """

    measure: ClassVar[str] = "fsir-gaps"
    own: ClassVar[tuple[str, ...]] = ("hit", "samples", "off")
    counted: ClassVar[Mapping[str, Cell]] = {"hits": hits("hit")}

    sigma: float = 0.02
    missing: float = 0.2
    trajectories: int = 8

    def checked(self) -> FsirGaps:
        check_sigma(self.sigma)
        if not 0 <= self.missing <= 0.8:
            raise InputError(f"--missing must be at least 0 and at most 0.8, got {self.missing}")
        if self.trajectories < 1:
            raise InputError(f"--trajectories must be at least 1, got {self.trajectories}")
        return super().checked()

    def data(self, draw: int) -> TimeSeries:
        random, truth = np.random.default_rng(draw), get_system(SYSTEM).equations()
        times, values = [], []
        for _ in range(self.trajectories):
            n = int(random.integers(SAMPLES[0], SAMPLES[1] + 1))
            t = np.concatenate([[0.0], np.sort(random.uniform(0.0, UNTIL, n - 1))])
            x = truth.simulate(random.uniform(*STARTS), t)
            x = x + self.sigma * x.std(axis=0) * random.standard_normal(x.shape)
            times.append(t)
            values.append(np.where(random.random(x.shape) < self.missing, np.nan, x))
        return TimeSeries.from_arrays(times, values, truth.states)

    def describe(self, found: Discovery, series: TimeSeries) -> Row:
        terms, law = true_terms(found.equations, SYSTEM, series), found.equations.power_sum
        truth = get_system(SYSTEM).equations().power_sum
        off = None
        if terms and law is not None and truth is not None:
            off = worst_errors(law, truth)[0]
        return {"hit": off is not None and off <= NOISY_TOLERANCE, "samples": series.n_samples, "off": off}

    def told(self, row: Row) -> dict[str, str]:
        off = "-" if row["off"] is None else f"{row['off']:.3f}"
        return {"hit": YES_NO[row["hit"]], "samples": str(row["samples"]), "worst exponent off by": off}
