"""How often is the fractional SIR model found in noise?

    y = x + sigma * std(x) * e,    e ~ N(0, 1)        40 points, one trajectory or up to five

There is one row for each draw of the noise. A draw is a hit if every found equation has exactly the true
monomials, and the exponent of the returning R is 1: snapped to it, or within three of its
standard errors of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from odediscovery.bench.draws.draw import YES_NO, Draws
from odediscovery.bench.rows import Row
from odediscovery.bench.suites.protocol import check_sigma
from odediscovery.bench.suites.scores import same_law
from odediscovery.bench.summary import Cell, hits, number
from odediscovery.data.samples import pooled
from odediscovery.data.series import TimeSeries
from odediscovery.errors import InputError
from odediscovery.laws.equations import Equations
from odediscovery.laws.systems import get_system, simulate_system
from odediscovery.result.discovery import Discovery

SYSTEM, RETURNING = "fsir", "R"
# Susceptible, infected and recovered at the start of each trajectory; the first one is usual.
STARTS = ((100.0, 0.01, 0.0), (80.0, 5.0, 15.0), (60.0, 30.0, 10.0), (40.0, 10.0, 50.0), (90.0, 1.0, 9.0))
# Standard errors that the exponent may be off.
ERRORS = 3.0


@dataclass(frozen=True, kw_only=True)
class FsirNoise(Draws):
    """Draws of the noise on fSIR.

    The column `terms` says whether all monomials are the true ones, `returning` holds the
    exponents of R where it stands alone, with their standard errors (0 where snapped).

    Args:
        sigma: noise as a share of each state's standard deviation over its trajectory.
        trajectories: how many of `STARTS` are measured.
    """

    measure: ClassVar[str] = "fsir-noise"
    own: ClassVar[tuple[str, ...]] = ("hit", "terms", "returning")
    counted: ClassVar[Mapping[str, Cell]] = {"hits": hits("hit"), "true terms": number("terms")}

    sigma: float = 0.05
    trajectories: int = 1

    def checked(self) -> FsirNoise:
        check_sigma(self.sigma)
        if not 1 <= self.trajectories <= len(STARTS):
            raise InputError(f"--trajectories must be at least 1 and at most {len(STARTS)}, got {self.trajectories}")
        return super().checked()

    def data(self, draw: int) -> TimeSeries:
        names = get_system(SYSTEM).states
        runs = [
            simulate_system(
                SYSTEM, dict(zip(names, start, strict=True)), noise=self.sigma, seed=1000 * k + draw
            ).trajectories[0]
            for k, start in enumerate(STARTS[: self.trajectories])
        ]
        return TimeSeries(names, tuple(runs))

    def describe(self, found: Discovery, series: TimeSeries) -> Row:
        terms = true_terms(found.equations, SYSTEM, series)
        returning = exponents_alone(found.equations, RETURNING)
        one = bool(returning) and all(abs(w - 1.0) <= ERRORS * error for w, error in returning)
        return {"hit": terms and one, "terms": terms, "returning": returning}

    def told(self, row: Row) -> dict[str, str]:
        power = "; ".join(f"{w:.3g} ({e:.2g})" if e else f"{w:g}" for w, e in row["returning"])
        return {"hit": YES_NO[row["hit"]], "true terms": YES_NO[row["terms"]], "exponent of R": power or "-"}


def true_terms(found: Equations, system: str, series: TimeSeries) -> bool:
    """Whether every equation has the true monomials, with their signs, and no others."""
    values = pooled(series)
    box = np.stack([np.nanmin(values, axis=0), np.nanmax(values, axis=0)], axis=1)
    return same_law(found, get_system(system).equations(), box) is not None


def exponents_alone(found: Equations, state: str) -> list[tuple[float, float]]:
    """Exponent and standard error of every monomial that is a power of this state alone.

    >>> exponents_alone(get_system("fsir").equations(), "R")
    [(1.0, 0.0)]
    """
    law, errors = found.power_sum, found.standard_errors
    if law is None:
        return []
    k, w = found.states.index(state), law.exponents
    alone = (w[:, k] != 0) & ((w != 0).sum(axis=1) == 1) & (law.coefficients != 0).any(axis=0)
    return [(float(w[j, k]), 0.0 if errors is None else float(errors.exponents[j, k])) for j in np.flatnonzero(alone)]
