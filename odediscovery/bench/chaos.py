"""Chaotic systems: how often they are found, and with what error of their coefficients.

    five trajectories of 1,000 points, 100 a period, from random points of the attractor
    y = x + sigma * rms * e,    rms = (mean over samples and states of x^2)^(1/2),    e ~ N(0, 1)
    error = |Xi_found - Xi_true| / |Xi_true|      spectral norms of coefficients [states, monomials]

The starts of seed 0 are stored in a file, since different rounding of a right-hand side would change a
path of forty periods. The values are exact: the published benchmark used dysts 0.1 with scipy's default
tolerance of 1e-3. The peer chooses its threshold by five more trajectories without noise. Random numbers
depend only on the seed and the system.

The error is that of the benchmark; it is defined for polynomials only, and infinite if the found law
is not a polynomial. DIR/noise-SIGMA/rows.jsonl holds the rows of one level of noise.

Source: Kaptanoglu, Zhang, Nicolaou, Fasel, Brunton, Benchmarking sparse system identification with
low-dimensional chaos, Nonlinear Dynamics 111 (2023); systems: Gilpin, NeurIPS Datasets 2021 (dysts).
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from odediscovery.bench import peers
from odediscovery.bench.rows import Row, Study, Task, exact_or_not, timed
from odediscovery.bench.scores import exact_and_coef, same_law
from odediscovery.bench.summary import EXACT_AND_COEF, MEDIAN_AND_LATE, by, grouped, in_percent, missed, number
from odediscovery.bench.systems import SuiteSystem, check_names, check_sigma, chosen, document, true_trajectory
from odediscovery.data.series import TimeSeries, pooled
from odediscovery.discovery.discover import discover
from odediscovery.errors import FitError
from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import PowerSum
from odediscovery.laws.records import plain
from odediscovery.runtime.arrays import Array
from odediscovery.settings import settings_for

SUITE = "chaos"
# Number of trajectories to train on, and of those for the peer's choice.
TRAINED = 5
SAMPLES = 1000
# Periods of the path from which starts are drawn, and its samples per period.
PERIODS, DENSITY = 40, 30
# Kinds of laws, as in the tables.
POLYNOMIAL, OTHER = "polynomial", "functions"
OURS, WEAK = METHODS = "ours", "weak-stlsq"
NOISE = (0.0, 0.001, 0.01)
# `error` is None if it is infinite, or the truth is not a polynomial; `seconds` are processor time.
COLUMNS = ("id", "method", "kind", "failed", "exact", "coef", "error", "seconds", "equations")


@cache
def entries() -> dict[str, Any]:
    """The entries of the file of systems, by their names in dysts."""
    return {entry["id"]: entry for entry in document("chaos_dev.json")["systems"]}


@cache
def attractor(id: str, seed: int = 0) -> SuiteSystem:
    """A system with starts on its attractor, for training and for the peer's choice; its `representation` is its
    kind."""
    entry = entries()[id]
    texts = dict(zip(entry["states"], entry["equations"], strict=True))
    equations = Equations.parse(entry["states"], texts, constants=entry["parameters"])
    law, period = equations.power_sum, float(entry["period"])
    whole = law is not None and bool((law.exponents >= 0).all() and (law.exponents % 1.0 == 0).all())
    starts = document("chaos_starts.json")["starts"][id] if seed == 0 else _drawn(id, equations, period, seed)
    times = np.linspace(0.0, (SAMPLES - 1) * period / 100, SAMPLES)
    return SuiteSystem(SUITE, id, equations, np.array(starts), times, POLYNOMIAL if whole else OTHER)


def _drawn(id: str, equations: Equations, period: float, seed: int) -> Array:
    """Draw random points of the attractor [trajectories, states]."""
    times = np.linspace(0.0, PERIODS * period, PERIODS * DENSITY + 1)
    path = equations.simulate(np.array(entries()[id]["start"]), times, rtol=1e-9, most_evaluations=2_000_000)
    if not np.isfinite(path).all():
        raise FitError(f"no solver follows {id} for {PERIODS} periods")
    random = np.random.default_rng([seed, zlib.crc32(id.encode())])
    drawn: Array = path[random.choice(np.arange(10 * DENSITY, len(path)), 2 * TRAINED, replace=False)]
    return drawn


def measured(system: SuiteSystem, sigma: float, seed: int) -> tuple[TimeSeries, list[Array]]:
    """Make noisy trajectories for training, and those without noise [samples, states] for the peer's choice."""
    random = np.random.default_rng([seed, zlib.crc32(f"{system.id} noise".encode())])
    every = [true_trajectory(system, k) for k in range(len(system.starts))]
    noisy = []
    for clean in every[:TRAINED]:
        rms = float(np.sqrt(np.mean(clean**2)))
        noisy.append(clean + sigma * rms * random.standard_normal(clean.shape))
    return TimeSeries.from_arrays([system.times] * TRAINED, noisy, system.states), every[TRAINED:]


def fill(sigma: float, seed: int, max_seconds: float, row: Row) -> None:
    """Fill the row of one system for one method."""
    system = attractor(row["id"], seed)
    train, test = measured(system, sigma, seed)
    with timed(row):
        if row["method"] == OURS:
            found = discover(train, settings_for(seed=seed, max_seconds=max_seconds)).equations
        else:
            found = peers.weak_stlsq(train, test, max_seconds, seed)
    row["equations"] = found.texts()
    row |= scored(found, system.equations, train, sigma)


def study(sigma: float, methods: Sequence[str], systems: Sequence[SuiteSystem], seed: int, max_seconds: float) -> Study:
    """The study of these methods on these systems at one level of noise."""
    check_sigma(sigma)
    tasks = []
    for method, one in itertools.product(methods, systems):
        known = {"kind": one.representation, "exact": False, "coef": False}
        tasks.append(Task(one.id, method, partial(fill, sigma, seed, max_seconds), known))
    shared = {"suite": SUITE, "sigma": sigma, "seed": seed, "max_seconds": max_seconds}

    def in_words(row: Row) -> str:
        return f"{exact_or_not(row)}, error {'-' if row['error'] is None else format(row['error'], '.1e')}"

    return Study(SUITE, shared, COLUMNS, tasks, max_seconds, in_words, list(entries()))


def methods_named(asked: Sequence[str] | None) -> list[str]:
    """Check the names of methods; by default ours and the peer, if it is installed."""
    check_names("method", asked or (), METHODS)
    if WEAK in (asked or ()):
        peers.check_installed(WEAK)
    return list(asked or (METHODS if peers.is_installed(WEAK) else [OURS]))


def run_chaos(
    folder: Path,
    methods: Sequence[str],
    *,
    noise: Sequence[float] = NOISE,
    ids: Sequence[str] | None = None,
    seed: int = 0,
    max_seconds: float = 60.0,
    say: Callable[[str], None] = print,
    **where: Any,
) -> dict[float, list[Row]]:
    """Run a study for each level of noise, see `Study.run`; all rows of each level that has any."""
    systems = [attractor(entry["id"], seed) for entry in chosen(entries(), ids, "chaotic system")]
    found = {}
    for sigma in noise:
        at_level = study(sigma, methods, systems, seed, max_seconds)
        say(f"noise {sigma:g}")
        found[sigma] = at_level.run(folder / f"noise-{sigma:g}", say=say, **where)
    return {sigma: rows for sigma, rows in found.items() if rows}


def scored(found: Equations, truth: Equations, train: TimeSeries, sigma: float) -> Row:
    """Score a law: whether terms and numbers are the true ones, and the error of the coefficients."""
    exact, coef = exact_and_coef(same_law(found, truth, pooled(train)), sigma == 0)
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
    truths = {id: attractor(id).equations for id in entries()}
    parts += missed([row for row in leveled if row["method"] == OURS], truths, lambda row: f"{row['noise']} noise")
    return "\n\n".join(parts) + "\n"


def median_error(rows: Sequence[Row]) -> float:
    """Median error of the coefficients over the polynomial systems; nan without such systems."""
    errors = [math.inf if row["error"] is None else row["error"] for row in rows if row["kind"] == POLYNOMIAL]
    return float(np.median(errors)) if errors else math.nan
