"""Chaotic systems: how often they are found, and with what error of their coefficients.

    five trajectories of 1,000 points, 100 a period, from random points of the attractor
    y = x + sigma * rms * e,    rms = (mean over samples and states of x^2)^(1/2),    e ~ N(0, 1)
    error = |Xi_found - Xi_true| / |Xi_true|      spectral norms of coefficients [states, monomials]

The starts of seed 0 are stored in a file, since different rounding of a right-hand side would change a
path of forty periods. The values are exact, or those of Radau at a tolerance: the published benchmark
used dysts 0.1 with scipy's default of 1e-3. The peers choose their threshold by five more trajectories
without noise. Random numbers depend only on the seed and the system.

The error is that of the benchmark; it is defined for polynomials only, and infinite if the found law
is not a polynomial. DIR/noise-SIGMA/rows.jsonl holds the rows of one level of noise.

Source: Kaptanoglu, Zhang, Nicolaou, Fasel, Brunton, Benchmarking sparse system identification with
low-dimensional chaos, Nonlinear Dynamics 111 (2023); systems: Gilpin, NeurIPS Datasets 2021 (dysts).
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from odediscovery.bench.peers import METHODS, check_sparse_methods, sparse_methods
from odediscovery.bench.rows import Row, Study, Task, exact_or_not, timed
from odediscovery.bench.scores import box_of, exact_and_coef, same_law
from odediscovery.bench.summary import EXACT_AND_COEF, MEDIAN_AND_LATE, by, grouped, in_percent, missed, number
from odediscovery.bench.systems import (
    ADDITIVE,
    SuiteSystem,
    check,
    check_names,
    check_sigma,
    chosen,
    document,
    rough_trajectory,
    true_trajectory,
)
from odediscovery.data.series import TimeSeries
from odediscovery.discovery.discover import discover
from odediscovery.errors import FitError
from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import PowerSum
from odediscovery.laws.records import plain
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import Monitor
from odediscovery.settings import settings_for

SUITE = "chaos"
# Number of trajectories to train on, and of those for the peers' choice.
TRAINED = 5
SAMPLES = 1000
# Periods of the path from which starts are drawn, and its samples per period.
PERIODS, DENSITY = 40, 30
POLYNOMIAL, OTHER = "polynomial", "functions"
OURS = "ours"
NOISE = (0.0, 0.001, 0.01)
# `error` is None if it is infinite, or the truth is not a polynomial; `seconds` are processor time.
COLUMNS = ("id", "method", "kind", "failed", "exact", "coef", "error", "seconds", "equations")


@dataclass(frozen=True, eq=False)
class Attractor:
    """One chaotic system."""

    id: str  # its name in dysts
    equations: Equations  # the truth
    start: Array  # a point of the attractor [states]
    period: float  # the dominant one
    kept: Array  # starts [trajectories, states] of seed 0, half of them to train on

    @property
    def kind(self) -> str:
        """Kind of the law, as in the tables: polynomial or not."""
        law = self.equations.power_sum
        whole = law is not None and bool((law.exponents >= 0).all() and (law.exponents % 1.0 == 0).all())
        return POLYNOMIAL if whole else OTHER

    def system(self, seed: int) -> SuiteSystem:
        """The system with starts drawn from its attractor, for training and for the peers' choice."""
        last = (SAMPLES - 1) * self.period / 100
        starts = self.kept if seed == 0 else self._drawn(seed)
        return SuiteSystem(SUITE, self.id, self.id, self.equations, starts, (0.0, last), SAMPLES, ADDITIVE, self.kind)

    def _drawn(self, seed: int) -> Array:
        """Draw random points of the attractor [trajectories, states]."""
        times = np.linspace(0.0, PERIODS * self.period, PERIODS * DENSITY + 1)
        path = self.equations.simulate(self.start, times, rtol=1e-9, most_evaluations=2_000_000)
        if not np.isfinite(path).all():
            raise FitError(f"no solver follows {self.id} for {PERIODS} periods")
        random = np.random.default_rng([seed, zlib.crc32(self.id.encode())])
        places = random.choice(np.arange(10 * DENSITY, len(path)), 2 * TRAINED, replace=False)
        drawn: Array = path[places]
        return drawn


@cache
def attractors() -> dict[str, Attractor]:
    """Load all systems by name."""
    starts, found = document("chaos_starts.json")["starts"], dict[str, Attractor]()
    for entry in document("chaos_dev.json")["systems"]:
        texts = dict(zip(entry["states"], entry["equations"], strict=True))
        equations = Equations.parse(entry["states"], texts, constants=entry["parameters"])
        start, kept = np.array(entry["start"]), np.array(starts[entry["id"]])
        found[entry["id"]] = Attractor(entry["id"], equations, start, float(entry["period"]), kept)
    return found


@cache
def trajectories(attractor: Attractor, seed: int, tolerance: float | None = None) -> tuple[Array, list[Array]]:
    """Times [samples], and solutions [samples, states] from every start of a system, exact or to a tolerance."""
    system = attractor.system(seed)
    if tolerance is None:
        return system.times, [true_trajectory(system, k) for k in range(len(system.starts))]
    size = np.abs(system.starts).max(axis=0)
    return system.times, [rough_trajectory(system, start, size, tolerance) for start in system.starts]


def measured(
    attractor: Attractor, sigma: float, seed: int, tolerance: float | None = None
) -> tuple[TimeSeries, list[Array]]:
    """Make noisy trajectories for training, and those without noise [samples, states] for the peers' choice."""
    random = np.random.default_rng([seed, zlib.crc32(f"{attractor.id} noise".encode())])
    times, every = trajectories(attractor, seed, tolerance)
    noisy = []
    for clean in every[:TRAINED]:
        rms = float(np.sqrt(np.mean(clean**2)))
        noisy.append(clean + sigma * rms * random.standard_normal(clean.shape))
    return TimeSeries.from_arrays([times] * TRAINED, noisy, attractor.equations.states), every[TRAINED:]


@dataclass(frozen=True)
class Level:
    """Common properties of the rows of one level of noise."""

    sigma: float
    seed: int = 0
    max_seconds: float = 60.0
    tolerance: float | None = None

    def fill(self, row: Row) -> None:
        """Fill the row of one system for one method."""
        attractor = attractors()[row["id"]]
        train, test = measured(attractor, self.sigma, self.seed, self.tolerance)
        with timed(row):
            if row["method"] == OURS:
                found = discover(train, settings_for(seed=self.seed, max_seconds=self.max_seconds)).equations
            else:
                found = METHODS[row["method"]](train, test, self.max_seconds, self.seed)
        row["equations"] = found.texts()
        row |= scored(found, attractor.equations, train, self.sigma)

    def study(self, methods: Sequence[str], systems: Sequence[Attractor]) -> Study:
        """The study of these methods on these systems."""
        tasks = [
            Task(one.id, method, self.fill, {"kind": one.kind, "exact": False, "coef": False})
            for method in methods
            for one in systems
        ]
        shared = {"suite": SUITE, **asdict(self)}
        return Study(SUITE, shared, COLUMNS, tasks, self.max_seconds, in_words, list(attractors()))


def in_words(row: Row) -> str:
    """Summarise a row: whether the law is exact, and the error of its coefficients."""
    return f"{exact_or_not(row)}, error {'-' if row['error'] is None else format(row['error'], '.1e')}"


def methods_named(asked: Sequence[str] | None) -> list[str]:
    """Check the names of methods; by default ours and all installed peers."""
    check_names("method", asked or (), (OURS, *METHODS))
    check_sparse_methods([name for name in asked or () if name != OURS])
    return list(asked or (OURS, *sparse_methods()))


def run_chaos(
    folder: Path,
    methods: Sequence[str],
    *,
    noise: Sequence[float] = NOISE,
    ids: Sequence[str] | None = None,
    seed: int = 0,
    max_seconds: float = 60.0,
    tolerance: float | None = None,
    monitor: Monitor | None = None,
    say: Callable[[str], None] = print,
    **where: Any,
) -> dict[float, list[Row]]:
    """Run a study for each level of noise, see `Study.run`; all rows of each level that has any."""
    settings_for(seed=seed, max_seconds=max_seconds)
    check("tolerance", tolerance, tolerance is None or 0.0 < tolerance < 1.0, "above 0 and below 1")
    systems, monitor = chosen(attractors(), ids, "chaotic system"), monitor or Monitor()
    found = {}
    for sigma in noise:
        check_sigma(sigma)
        say(f"noise {sigma:g}")
        study = Level(sigma, seed, max_seconds, tolerance).study(methods, systems)
        found[sigma] = study.run(folder / f"noise-{sigma:g}", monitor=monitor, say=say, **where)
    return {sigma: rows for sigma, rows in found.items() if rows}


def scored(found: Equations, truth: Equations, train: TimeSeries, sigma: float) -> Row:
    """Score a law: whether terms and numbers are the true ones, and the error of the coefficients."""
    values = np.concatenate([t.values for t in train.trajectories])
    same = same_law(found, truth, box_of(values))
    exact, coef = exact_and_coef(same, sigma == 0)
    error = math.inf
    if found.power_sum is not None and truth.power_sum is not None:
        error = coefficient_error(found.power_sum, truth.power_sum)
    return {"exact": exact, "coef": coef, "error": plain(error)}


def coefficient_error(found: PowerSum, truth: PowerSum) -> float:
    """|Xi_found - Xi_true| / |Xi_true| over the monomials of both; nearly equal exponents are merged."""
    monomials: list[Array] = list(truth.exponents)
    difference = [-column for column in truth.coefficients.T]
    for column, w in zip(found.coefficients.T, found.exponents, strict=True):
        apart = [float(np.abs(w - known).max()) for known in monomials]
        nearest = int(np.argmin(apart))
        if apart[nearest] <= 0.1:
            difference[nearest] = difference[nearest] + column
        else:
            monomials.append(w)
            difference.append(column)
    error = np.linalg.norm(np.stack(difference, axis=1), ord=2) / np.linalg.norm(truth.coefficients, ord=2)
    return float(error)


def markdown(rows: Mapping[float, Sequence[Row]], command: str) -> str:
    """Write a table with a line for each level of noise and method, then the systems missed by ours."""
    columns = {
        **EXACT_AND_COEF,
        "median error": lambda own: f"{median_error(own):.1e}",
        "failed": number("failed"),
        **MEDIAN_AND_LATE,
    }
    leveled = [row | {"noise": in_percent(sigma)} for sigma, own in rows.items() for row in own]
    parts = [
        f"# Chaos\n\n`{command}`; seconds of the processor. The median error of the coefficients is that over the "
        "polynomial systems, infinite where no polynomial was found.",
        grouped(("noise", "method"), by(leveled, "noise", "method"), columns),
    ]
    truths = {id: attractor.equations for id, attractor in attractors().items()}
    parts += missed([row for row in leveled if row["method"] == OURS], truths, lambda row: f"{row['noise']} noise")
    return "\n\n".join(parts) + "\n"


def median_error(rows: Sequence[Row]) -> float:
    """Median error of the coefficients over the polynomial systems; nan without such systems."""
    errors = [math.inf if row["error"] is None else row["error"] for row in rows if row["kind"] == POLYNOMIAL]
    return float(np.median(errors)) if errors else math.nan
