"""Do 95 % intervals contain the true constants?

    y = x + sigma * std(x) * e,    e ~ N(0, 1)        with the standard deviation given to the fit

There is one row for each draw; it says of every true constant whether its interval contains it. A
constant that was held at a round number has no interval: it counts as contained if that number is the
true one. A law with other terms than the true ones contains none of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import linear_sum_assignment

from odediscovery.bench.draws.draw import YES_NO, Draws
from odediscovery.bench.draws.noise import true_terms
from odediscovery.bench.rows import Row
from odediscovery.bench.summary import Cell, hits, table
from odediscovery.data.series import TimeSeries
from odediscovery.errors import InputError
from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import PowerSum
from odediscovery.laws.records import constants
from odediscovery.laws.systems import get_system, simulate_system
from odediscovery.result.discovery import Discovery
from odediscovery.runtime.arrays import Array

# A constant is held at the true value where it differs by less, relative to it.
SAME = 1e-9


@dataclass(frozen=True, kw_only=True)
class Coverage(Draws):
    """Draws of the noise on a known system.

    The column `constants` has for each true one "contained" and "held" (at a round number).

    Args:
        system: its name.
        sigma: noise as a share of each state's standard deviation.
    """

    measure: ClassVar[str] = "coverage"
    own: ClassVar[tuple[str, ...]] = ("terms", "constants")
    counted: ClassVar[Mapping[str, Cell]] = {"true terms": hits("terms")}

    system: str = "fsir"
    sigma: float = 0.02

    def checked(self) -> Coverage:
        if get_system(self.system).equations().power_sum is None:
            raise InputError(f"{self.system} is no sum of products of powers; choose another one")
        if not (self.sigma > 0 and np.isfinite(self.sigma)):
            raise InputError(f"--sigma must be positive and finite, got {self.sigma}")
        return super().checked()

    def data(self, draw: int) -> TimeSeries:
        clean, noisy = (simulate_system(self.system, noise=sigma, seed=draw) for sigma in (0.0, self.sigma))
        deviations = self.sigma * clean.trajectories[0].values.std(axis=0)
        run, known = noisy.trajectories[0], zip(noisy.states, deviations, strict=True)
        return TimeSeries.from_arrays(run.time, run.values, noisy.states, noise={name: float(s) for name, s in known})

    def describe(self, found: Discovery, series: TimeSeries) -> Row:
        terms = true_terms(found.equations, self.system, series)
        truth = get_system(self.system).equations()
        return {"terms": terms, "constants": contained(found, truth) if terms else None}

    def in_a_word(self, row: Row) -> str:
        if not row["terms"]:
            return "other terms"
        told = row["constants"].values()
        return f"{sum(c['contained'] for c in told)} of {len(told)} contained"

    def told(self, row: Row) -> dict[str, str]:
        return {"true terms": YES_NO[row["terms"]]}

    def markdown(self, rows: Sequence[Row]) -> str:
        draws = len(rows)
        names = next((list(row["constants"]) for row in rows if row["constants"]), [])
        lines = []
        for name in names:
            told = [row["constants"][name] for row in rows if row["constants"]]
            within, held = (sum(c[key] for c in told) for key in ("contained", "held"))
            lines.append((name, f"{within} of {draws}", f"{within / draws:.1%}", str(held)))
        each = table(("true constant", "in its 95 % interval", "share", "held at a round number"), lines)
        return f"{super().markdown(rows)}\n{each}\n"


def contained(found: Discovery, truth: Equations) -> dict[str, dict[str, bool]]:
    """For every true constant, by name, whether it is in its interval, and whether it was held.

    Args:
        found: with the same terms as the truth.
    """
    true, law = truth.power_sum, found.equations.power_sum
    assert true is not None and law is not None
    pairs = _paired(law, true)
    records = constants(found.equations, found.degrees_of_freedom)
    told: dict[str, dict[str, bool]] = {}
    for i, j in zip(*np.nonzero(true.coefficients), strict=True):
        name = f"{truth.states[i]}': coefficient {true.coefficients[i, j]:g}"
        value = float(true.coefficients[i, j])
        told[name] = _contained(records[truth.states[i]], value, kind="coefficient", monomial=pairs[int(j)])
    for j, k in zip(*np.nonzero(true.exponents), strict=True):
        i = int(np.flatnonzero(true.coefficients[:, j])[0])
        of, value = truth.states[k], float(true.exponents[j, k])
        name = f"exponent {value:g} of {of} in {_monomial(truth.states, true.exponents[j])}"
        told[name] = _contained(records[truth.states[i]], value, kind="exponent", monomial=pairs[int(j)], of=of)
    return told


def _paired(law: PowerSum, true: PowerSum) -> dict[int, int]:
    """The found monomial of every true one: the nearest exponents in the same equations."""
    apart = np.linalg.norm(true.exponents[:, None] - law.exponents[None], axis=2)
    there = (true.coefficients != 0).T[:, None] & (law.coefficients == 0).T[None]
    apart = apart + 1e6 * there.sum(axis=2)
    return {int(j): int(k) for j, k in zip(*linear_sum_assignment(apart), strict=True)}


def _contained(records: Sequence[dict[str, Any]], value: float, **asked: Any) -> dict[str, bool]:
    record = next((r for r in records if all(r.get(k) == v for k, v in asked.items())), None)
    if record is None:
        return {"contained": False, "held": False}
    ends = record["interval"]
    if ends is None:
        right = abs(record["value"] - value) <= SAME * abs(value)
        return {"contained": record["snapped"] and right, "held": record["snapped"]}
    return {"contained": ends[0] <= value <= ends[1], "held": False}


def _monomial(states: Sequence[str], exponents: Array) -> str:
    return "*".join(s if w == 1 else f"{s}^{w:g}" for s, w in zip(states, exponents, strict=True) if w)
