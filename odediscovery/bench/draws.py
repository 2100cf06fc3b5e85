"""Repeated draws of noise: how often a fit is right, or honest.

A measurement is a `Draws`: it makes the data of a draw and describes the result. Its `Study` holds
one row for each draw.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.interpolate import AAA, CubicSpline
from scipy.optimize import linear_sum_assignment

from odediscovery.bench.rows import Row, Study, Task, fit_into
from odediscovery.bench.scores import NOISY_TOLERANCE, ConstantErrors, same_law
from odediscovery.bench.summary import Cell, Told, grouped, hits, middle, number, printed, table, text_of, yes_if
from odediscovery.bench.systems import check, check_names, check_sigma
from odediscovery.data.series import TimeSeries, pooled
from odediscovery.errors import InputError
from odediscovery.laws.equations import Equations
from odediscovery.laws.records import constants
from odediscovery.laws.systems import get_system, simulate_system
from odediscovery.result.discovery import Discovery
from odediscovery.runtime.arrays import Array
from odediscovery.settings import Settings, settings_for


@dataclass(frozen=True, kw_only=True)
class Draws(ABC):
    """A measurement over repeated draws, stored in one folder; an option out of range is an `InputError`."""

    measure: ClassVar[str]
    # The columns that `describe` fills, and those of the summary over all draws.
    own: ClassVar[tuple[str, ...]]
    counted: ClassVar[Mapping[str, Cell]]
    # The columns of the table of single draws with equations.
    told: ClassVar[Mapping[str, Told]]

    seed: int = 0  # number of the first draw; the others follow
    max_seconds: float = 180.0  # limit of a fit, in processor seconds

    @abstractmethod
    def data(self, draw: int) -> TimeSeries:
        """The measured series of one draw."""

    @abstractmethod
    def describe(self, found: Discovery, series: TimeSeries) -> Row:
        """Describe a result by the columns named in `own`."""

    def markdown(self, rows: Sequence[Row]) -> str:
        """Write the summary over all draws, then a table with a line for each."""
        options = {name: value for name, value in asdict(self).items() if name not in ("seed", "max_seconds")}
        about = tuple(v if isinstance(v, str) else f"{v:g}" for v in options.values())
        counted = grouped(tuple(options), {about: rows}, {**self.counted, "median s": middle("seconds")})
        return f"# {self.measure}\n\n{counted}\n\n{draw_table(rows, self.told)}\n"

    def settings(self, draw: int) -> Settings:
        """The options of the fit of one draw."""
        return settings_for(seed=draw, max_seconds=self.max_seconds)

    def in_a_word(self, row: Row) -> str:
        """Summarise a finished draw in a word."""
        return "hit" if row["hit"] else "miss"

    def known(self, _draw: int) -> Row:
        """Columns of a draw that are known even without equations."""
        return {}

    def fill(self, row: Row) -> None:
        """Fit a draw, and describe the result in its row."""
        draw = int(row["id"])
        series = self.data(draw)
        row |= self.describe(fit_into(row, series, self.settings(draw)), series)

    def study(self, count: int) -> Study:
        """The study of `count` draws from the seed on, or an `InputError`."""
        check("draws", count, count >= 1, "at least 1")
        shared = {"measure": self.measure, **asdict(self)}
        tasks = [Task(str(k), "ours", self.fill, self.known(k)) for k in range(self.seed, self.seed + count)]
        columns = ("id", "method", "failed", "outcome", "seconds", "equations", *self.own)
        return Study(self.measure, shared, columns, tasks, self.max_seconds, self.in_a_word)


def draw_table(rows: Sequence[Row], told: Mapping[str, Told]) -> str:
    """Write a table with a line for each draw: number, the columns `told`, and the equations or the failure."""
    own = told if any(not row["failed"] for row in rows) else {}
    lines = [
        (row["id"], *("-" if row["failed"] else cell(row) for cell in own.values()), printed(row, digits=3))
        for row in rows
    ]
    return table(("draw", *own, "equations"), lines)


def errors_of(found: Equations, system: str, series: TimeSeries) -> ConstantErrors | None:
    """Errors of the constants of a law with the terms of a known system, with their signs, and no others; else None."""
    return same_law(found, get_system(system).equations(), pooled(series))


# fSIR in noise, and from runs with gaps

FSIR = "fsir"
# Susceptible, infected and recovered at the start of each trajectory; the first one is usual.
STARTS = ((100.0, 0.01, 0.0), (80.0, 5.0, 15.0), (60.0, 30.0, 10.0), (40.0, 10.0, 50.0), (90.0, 1.0, 9.0))


@dataclass(frozen=True, kw_only=True)
class FsirNoise(Draws):
    """Recovery of the fractional SIR model in noise.

        y = x + sigma * std(x) * e,    e ~ N(0, 1)        40 points, one trajectory or up to five

    A draw is a hit if every found equation has exactly the true monomials (`terms`), and the exponent of
    the returning R is 1: snapped, or within three standard errors. `returning` holds the exponents of
    monomials of R alone, with their standard errors (0 if snapped).
    """

    measure = "fsir-noise"
    own = "hit", "terms", "returning"
    counted: ClassVar = {"hits": hits("hit"), "true terms": number("terms")}
    told: ClassVar = {
        "hit": yes_if("hit"),
        "true terms": yes_if("terms"),
        "exponent of R": lambda row: (
            "; ".join(f"{w:.3g} ({e:.2g})" if e else f"{w:g}" for w, e in row["returning"]) or "-"
        ),
    }

    sigma: float = 0.05  # noise as a share of each state's standard deviation over its trajectory
    trajectories: int = 1  # how many of `STARTS` are measured

    def __post_init__(self) -> None:
        check_sigma(self.sigma)
        most = len(STARTS)
        check("trajectories", self.trajectories, 1 <= self.trajectories <= most, f"at least 1 and at most {most}")

    def data(self, draw: int) -> TimeSeries:
        names = get_system(FSIR).states
        begins = [dict(zip(names, start, strict=True)) for start in STARTS[: self.trajectories]]
        runs = [simulate_system(FSIR, x0, noise=self.sigma, seed=1000 * k + draw) for k, x0 in enumerate(begins)]
        return TimeSeries(names, tuple(run.trajectories[0] for run in runs))

    def describe(self, found: Discovery, series: TimeSeries) -> Row:
        terms = errors_of(found.equations, FSIR, series) is not None
        returning = exponents_alone(found.equations, "R")
        one = bool(returning) and all(abs(w - 1.0) <= 3.0 * error for w, error in returning)
        return {"hit": terms and one, "terms": terms, "returning": returning}


def exponents_alone(found: Equations, state: str) -> list[tuple[float, float]]:
    """Exponent and standard error of every monomial that is a power of this state alone."""
    law, errors = found.power_sum, found.standard_errors
    if law is None:
        return []
    k, w = found.states.index(state), law.exponents
    alone = (w[:, k] != 0) & ((w != 0).sum(axis=1) == 1) & (law.coefficients != 0).any(axis=0)
    return [(float(w[j, k]), 0.0 if errors is None else float(errors.exponents[j, k])) for j in np.flatnonzero(alone)]


@dataclass(frozen=True, kw_only=True)
class FsirGaps(Draws):
    """Recovery of the fractional SIR model from short, irregular runs with gaps.

        y = x + 0.02 * std(x) * e,    e ~ N(0, 1)        a fifth of all values missing

    Eight trajectories from random starts, of 8 to 40 samples at random times. A draw is a hit if
    every found equation has exactly the true monomials, with exponents within 0.1.
    """

    measure = "fsir-gaps"
    own = "hit", "samples", "off"
    counted: ClassVar = {"hits": hits("hit")}
    told: ClassVar = {
        "hit": yes_if("hit"),
        "samples": text_of("samples"),
        "worst exponent off by": lambda row: "-" if row["off"] is None else f"{row['off']:.3f}",
    }

    sigma: float = 0.02  # noise as a share of each state's standard deviation over its trajectory
    missing: float = 0.2  # share of the values that are missing
    trajectories: int = 8  # number of runs

    def __post_init__(self) -> None:
        check_sigma(self.sigma)
        check("missing", self.missing, 0 <= self.missing <= 0.8, "at least 0 and at most 0.8")
        check("trajectories", self.trajectories, self.trajectories >= 1, "at least 1")

    def data(self, draw: int) -> TimeSeries:
        random, truth = np.random.default_rng(draw), get_system(FSIR).equations()
        times, values = [], []
        for _ in range(self.trajectories):
            n = int(random.integers(8, 40, endpoint=True))
            t = np.concatenate([[0.0], np.sort(random.uniform(0.0, 200.0, n - 1))])
            x = truth.simulate(random.uniform((50.0, 0.01, 0.0), (100.0, 10.0, 30.0)), t)
            x = x + self.sigma * x.std(axis=0) * random.standard_normal(x.shape)
            times.append(t)
            values.append(np.where(random.random(x.shape) < self.missing, np.nan, x))
        return TimeSeries.from_arrays(times, values, truth.states)

    def describe(self, found: Discovery, series: TimeSeries) -> Row:
        same = errors_of(found.equations, FSIR, series)
        off = None if same is None else same.inner
        return {"hit": off is not None and off <= NOISY_TOLERANCE, "samples": series.n_samples, "off": off}


@dataclass(frozen=True, kw_only=True)
class Coverage(Draws):
    """Coverage of the true constants of a known system by 95 % intervals.

        y = x + sigma * std(x) * e,    e ~ N(0, 1)        with the standard deviation given to the fit

    The column `constants` states for every true constant whether its interval contains it, and whether it was
    held at a round number: then it has no interval, and counts as contained if that number is the true one.
    A law with wrong terms contains no constant.
    """

    measure = "coverage"
    own = "terms", "constants"
    counted: ClassVar = {"true terms": hits("terms")}
    told: ClassVar = {"true terms": yes_if("terms")}

    system: str = FSIR  # its name
    sigma: float = 0.02  # noise as a share of each state's standard deviation

    def __post_init__(self) -> None:
        if get_system(self.system).equations().power_sum is None:
            raise InputError(f"{self.system} is no sum of products of powers; choose another one")
        check("sigma", self.sigma, 0.0 < self.sigma < np.inf, "positive and finite")

    def data(self, draw: int) -> TimeSeries:
        clean, noisy = (simulate_system(self.system, noise=sigma, seed=draw) for sigma in (0.0, self.sigma))
        deviations = self.sigma * clean.trajectories[0].values.std(axis=0)
        run, known = noisy.trajectories[0], zip(noisy.states, deviations, strict=True)
        return TimeSeries.from_arrays(run.time, run.values, noisy.states, noise={name: float(s) for name, s in known})

    def describe(self, found: Discovery, series: TimeSeries) -> Row:
        terms = errors_of(found.equations, self.system, series) is not None
        return {"terms": terms, "constants": contained(found, get_system(self.system).equations()) if terms else None}

    def in_a_word(self, row: Row) -> str:
        if not row["terms"]:
            return "other terms"
        told = row["constants"].values()
        return f"{sum(c['contained'] for c in told)} of {len(told)} contained"

    def markdown(self, rows: Sequence[Row]) -> str:
        draws, told = len(rows), [row["constants"] for row in rows if row["constants"]]
        lines = []
        for name in told[0] if told else ():
            within, held = (sum(one[name][key] for one in told) for key in ("contained", "held"))
            lines.append((name, f"{within} of {draws}", f"{within / draws:.1%}", str(held)))
        each = table(("true constant", "in its 95 % interval", "share", "held at a round number"), lines)
        return f"{super().markdown(rows)}\n{each}\n"


def contained(found: Discovery, truth: Equations) -> dict[str, dict[str, bool]]:
    """Whether each true constant, by name, is in its interval, and whether it was held, for laws with equal terms."""
    true, law = truth.power_sum, found.equations.power_sum
    assert true is not None and law is not None
    # Match every true monomial to the found one with the nearest exponents in the same equations.
    apart = np.linalg.norm(true.exponents[:, None] - law.exponents[None], axis=2)
    there = (true.coefficients != 0).T[:, None] & (law.coefficients == 0).T[None]
    of_true, of_found = linear_sum_assignment(apart + 1e6 * there.sum(axis=2))
    pairs = dict(zip(of_true.tolist(), of_found.tolist(), strict=True))
    records = constants(found.equations, found.degrees_of_freedom)
    told: dict[str, dict[str, bool]] = {}
    for i, j in zip(*np.nonzero(true.coefficients), strict=True):
        name = f"{truth.states[i]}': coefficient {true.coefficients[i, j]:g}"
        value = float(true.coefficients[i, j])
        told[name] = _contained(records[truth.states[i]], value, kind="coefficient", monomial=pairs[int(j)])
    for j, k in zip(*np.nonzero(true.exponents), strict=True):
        i = int(np.flatnonzero(true.coefficients[:, j])[0])
        of, value = truth.states[k], float(true.exponents[j, k])
        factors = zip(truth.states, true.exponents[j], strict=True)
        monomial = "*".join(s if w == 1 else f"{s}^{w:g}" for s, w in factors if w)
        name = f"exponent {value:g} of {of} in {monomial}"
        told[name] = _contained(records[truth.states[i]], value, kind="exponent", monomial=pairs[int(j)], of=of)
    return told


def _contained(records: Sequence[dict[str, Any]], value: float, **asked: Any) -> dict[str, bool]:
    record = next((r for r in records if all(r.get(k) == v for k, v in asked.items())), None)
    if record is None:
        return {"contained": False, "held": False}
    ends = record["interval"]
    if ends is None:
        right = abs(record["value"] - value) <= 1e-9 * abs(value)
        return {"contained": record["snapped"] and right, "held": record["snapped"]}
    return {"contained": ends[0] <= value <= ends[1], "held": False}


KINDS = ("white-noise", "random-walk", "splines", "rationals")


@dataclass(frozen=True, kw_only=True)
class Lawless(Draws):
    """Frequency of laws claimed for data that no differential equation explains.

        white noise  x_k = 5 + e_k          random walk  x_k = x_{k-1} + e_k,    e_k ~ N(0, 1)
        splines      cubic through knots 5 + e_k                    rationals    p(t)/q(t) near such a spline

    Data have one state, or three for smooth curves, and 60 samples. A fit that ends as `converged` is an error.
    """

    measure = "lawless"
    own = "claimed", "r2", "messages"
    counted: ClassVar = {"claimed as converged": hits("claimed")}
    told: ClassVar = {"outcome": text_of("outcome"), "R²": lambda row: f"{row['r2']:.3f}"}

    kind: str = KINDS[0]  # one of `KINDS`

    def __post_init__(self) -> None:
        check_names("kind", [self.kind], KINDS)

    def data(self, draw: int) -> TimeSeries:
        random, t = np.random.default_rng(draw), np.arange(60.0)
        if self.kind in KINDS[:2]:
            noise = random.standard_normal((len(t), 1))
            x = np.cumsum(noise, axis=0) if self.kind == "random-walk" else 5.0 + noise
            return TimeSeries.from_arrays(t, x, ["x"])
        knots = 5.0 + random.standard_normal((8, 3))
        curves = CubicSpline(np.linspace(0.0, t[-1], len(knots)), knots)(t)
        if self.kind == "rationals":
            curves = np.stack([rational_near(t, curve) for curve in curves.T], axis=1)
        return TimeSeries.from_arrays(t, curves, ["x", "y", "z"])

    def describe(self, found: Discovery, series: TimeSeries) -> Row:
        return {"claimed": found.outcome == "converged", "r2": found.r2, "messages": list(found.messages)}

    def in_a_word(self, row: Row) -> str:
        return "claimed" if row["claimed"] else row["outcome"]


def rational_near(t: Array, x: Array) -> Array:
    """A rational function near values x(t) without poles between the samples, by AAA (Nakatsukasa et al. 2018), or x
    itself."""
    for terms in range(6, 1, -1):
        with warnings.catch_warnings():
            # With few terms AAA is expected to end before the tolerance is reached.
            warnings.simplefilter("ignore")
            found = AAA(t, x, max_terms=terms)
        poles = found.poles()
        real = poles[np.abs(poles.imag) < 1e-9].real
        if not ((real > t[0]) & (real < t[-1])).any():
            return np.asarray(found(t), float)
    return x
