"""Measured series, and named models for them, fitted by least squares.

    minimise  sum over trajectories, samples, states of (x(t; c, x0) - data)^2

Each series is one table of `data/`, whose README names its source and licence. From tables of many
trajectories the first ones are used, not those that fit best.

Source: Gause, The Struggle for Existence (1934); Kermack and McKendrick, Proc. R. Soc. A 115
(1927); Taghvaei, Georgiou, Norton and Tannenbaum, Scientific Reports 10 (2020); Carlson, Biochem. Z. 57 (1913);
Draper and Smith, Applied Regression Analysis (1998); Davidian and Giltinan, Nonlinear Models for Repeated
Measurement Data (1995); Ram et al., PNAS 116 (2019); de Silva et al., Front. Artif. Intell. 3 (2020);
Boeckmann, Sheiner and Beal, NONMEM Users Guide (1994); BMJ (1978).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import sympy
from scipy.optimize import least_squares

from odediscovery.data.series import TimeSeries, load_csv, pooled
from odediscovery.ivp.solvers import PlainRates, solve_whole
from odediscovery.laws.compiled import form_of_expressions
from odediscovery.laws.expressions import parse
from odediscovery.runtime.arrays import Array

# Number of starts of a least-squares fit, and largest number of evaluations of each.
STARTS, MAX_EVALUATIONS = 12, 200
# Largest change of ln c and ln x0 from a start.
MAX_LOG_SHIFT = 7.0
# Largest residual of a sample, also used if the solution ends before it [size of all samples].
MAX_MISFIT = 1e6
# Tolerance of the solutions, relative and absolute.
TOLERANCE = 1e-8
# Held-out share of the time.
HELD = 0.2

# From the folder of the tables to a series.
Load: TypeAlias = Callable[[Path], TimeSeries]
# Least and greatest start.
Range: TypeAlias = tuple[float, float]


@dataclass(frozen=True)
class NamedLaw:
    """A named law whose constants are all positive."""

    text: str  # its equations, with commas between
    ranges: Mapping[str, Range]  # of each constant, by its name in the text
    # Unmeasured states, after the others, with their ranges.
    hidden: Mapping[str, Range] = field(default_factory=dict)

    @property
    def sides(self) -> dict[str, str]:
        """The right-hand side of each state, as the package reads it."""
        return dict(part.split("' = ") for part in self.text.replace("^", "**").split(", "))

    @cached_property
    def rates(self) -> PlainRates:
        """The function of the constants, then the states, that returns the rates."""
        symbols = {name: sympy.Symbol(name) for name in (*self.sides, *self.ranges)}
        sides = [parse(side, symbols) for side in self.sides.values()]
        states, constants = ([symbols[name] for name in names] for names in (self.sides, self.ranges))
        return form_of_expressions(sides, states, constants).plain

    def simulate(self, constants: Array, start: Array, times: Array) -> Array:
        """Integrate from `start` at the first of `times`, [times, states]; nan after a failure."""
        found = solve_whole(lambda _, x: self.rates(*constants, *x), start, times, TOLERANCE, TOLERANCE, np.inf)
        return np.full((len(times), len(start)), np.nan) if found is None else found


@dataclass(frozen=True)
class Case:
    """A measured series with its models and options."""

    load: Load  # reads it from the folder of the tables
    models: Mapping[str, NamedLaw]  # named models, by name
    options: Mapping[str, Any] = field(default_factory=dict)  # settings of `discover`
    # Further settings from expert knowledge, or None.
    informed: Mapping[str, Any] | None = None


def least_squares_fit(model: NamedLaw, series: TimeSeries, seed: int) -> tuple[Array, Array, int]:
    """Fit constants and start values of a named model by least squares.

    The unknowns are ln c and ln x0, from starts drawn uniformly in ln c and from the first samples. A
    state that is 0 throughout a trajectory stays 0. The start of a state that changes its sign is fitted
    without the logarithm, that of a hidden one from its range.
    """
    runs, values = series.trajectories, pooled(series)
    seen, size = series.n_states, float(np.sqrt(np.nanmean(values**2)))
    spread, signed = np.nanmax(np.abs(values), axis=0), np.nanmin(values, axis=0) < 0
    # Hidden states follow the measured ones: present, and of one sign.
    middle = [math.sqrt(low * high) for low, high in model.hidden.values()]
    first = np.array([[*(x[np.isfinite(x)][0] for x in t.values.T), *middle] for t in runs])
    present = np.array([[*(np.nanmax(np.abs(t.values), axis=0) > 0), *(True for _ in middle)] for t in runs])
    # The unit of starts that are fitted without the logarithm, 0 for the others.
    linear = np.tile([*np.where(signed, spread, 0.0), *(0.0 for _ in middle)], (len(runs), 1))[present]
    least = [*np.minimum(1.0, 0.01 * spread), *(0.0 for _ in middle)]
    # A first value of 0 is replaced by a small positive one.
    positive = np.log(np.maximum(first, least)[present])
    begins = np.where(linear > 0.0, first[present] / np.where(linear > 0.0, linear, 1.0), positive)
    low, high = np.log(np.array(list(model.ranges.values()))).T
    count, random = len(low), np.random.default_rng(seed)

    def unpacked(u: Array) -> tuple[Array, Array]:
        starts = np.zeros_like(first)
        starts[present] = np.where(linear > 0.0, linear * u[count:], np.exp(np.where(linear > 0.0, 0.0, u[count:])))
        return np.exp(u[:count]), starts

    def residual(u: Array) -> Array:
        constants, starts = unpacked(u)
        left = [
            (model.simulate(constants, x0, t.time)[:, :seen] - t.values)[np.isfinite(t.values)] / size
            for x0, t in zip(starts, runs, strict=True)
        ]
        return np.clip(np.nan_to_num(np.concatenate(left), nan=MAX_MISFIT), -MAX_MISFIT, MAX_MISFIT)

    ends = []
    for _ in range(STARTS):
        u = np.concatenate([random.uniform(low, high), begins])
        bounds = u - MAX_LOG_SHIFT, u + MAX_LOG_SHIFT
        ends.append(least_squares(residual, u, x_scale="jac", max_nfev=MAX_EVALUATIONS, bounds=bounds))
    best = min(ends, key=lambda end: float(end.cost))
    return *unpacked(best.x), sum(bool(end.cost <= 1.001 * best.cost) for end in ends)


# Data


def gause(folder: Path) -> TimeSeries:
    """Read both species in three cultures: alone, with the other one absent (0), and mixed."""
    names = ["aurelia_mono", "caudatum_mono", "aurelia_mix", "caudatum_mix"]
    (run,) = load_csv(folder / "gause_paramecium_1934.csv", "t", names).trajectories
    counted = np.isfinite(run.values).any(axis=1)
    aurelia, caudatum, *mixed = run.values[counted].T
    values = [np.stack(pair, axis=1) for pair in ((aurelia, 0.0 * aurelia), (0.0 * caudatum, caudatum), mixed)]
    labels = ["aurelia alone", "caudatum alone", "mixed"]
    times = [run.time[counted]] * len(values)
    return TimeSeries.from_arrays(times, values, ["aurelia", "caudatum"], time_name="day", labels=labels)


def covid(country: str, population: int) -> Load:
    """Read S (never confirmed), I (active) and R (recovered or dead), with S + I + R = population."""

    def load(folder: Path) -> TimeSeries:
        path = folder / f"covid19_{country}_2020.csv"
        (run,) = load_csv(path, "t", ["never_confirmed", "active"]).trajectories
        values = np.column_stack([run.values, population - run.values.sum(axis=1)])
        return TimeSeries.from_arrays(run.time, values, ["S", "I", "R"])

    return load


def column(table: str, name: str) -> Load:
    """Read one column of a table without missing values."""

    def load(folder: Path) -> TimeSeries:
        (run,) = load_csv(folder / f"{table}.csv", "t", [name]).trajectories
        seen = np.isfinite(run.values[:, 0])
        return TimeSeries.from_arrays(run.time[seen], run.values[seen], [name], time_name="t")

    return load


def trajectory(table: str, group: str, label: str, states: Sequence[str]) -> Load:
    """Read one trajectory of a table of many."""
    return lambda folder: _only(load_csv(folder / f"{table}.csv", "t", list(states), group=group.split("+")), label)


def _only(series: TimeSeries, label: str) -> TimeSeries:
    """Select one of several trajectories, without its label."""
    (run,) = (run for run in series.trajectories if run.label == label)
    return replace(series, trajectories=(replace(run, label=""),))


# Named models

GROWTH = {"integer_exponents": True}
_PUPILS = 763
_COMPETITION = NamedLaw(
    "aurelia' = r*aurelia*(1 - (aurelia + a*caudatum)/K), caudatum' = s*caudatum*(1 - (caudatum + b*aurelia)/M)",
    dict.fromkeys("rs", (0.3, 2.0)) | {"K": (100.0, 1000.0), "M": (50.0, 500.0)} | dict.fromkeys("ab", (0.1, 5.0)),
)
_FALL = NamedLaw("height' = velocity, velocity' = c*velocity^2 - g", {"c": (1e-4, 1e-1), "g": (3.0, 30.0)})
_ORAL_DOSE = NamedLaw(
    "conc' = k*gut - e*conc, gut' = -k*gut", {"k": (0.2, 5.0), "e": (0.01, 0.5)}, hidden={"gut": (3.0, 30.0)}
)
_SCHOOL = NamedLaw(
    f"in_bed' = b*S*in_bed/{_PUPILS} - g*in_bed, S' = -b*S*in_bed/{_PUPILS}",
    {"b": (0.5, 5.0), "g": (0.1, 2.0)},
    hidden={"S": (600.0, 800.0)},
)
_PREDATION = NamedLaw(
    "hare' = a*hare - b*hare*lynx, lynx' = c*hare*lynx - d*lynx",
    {"a": (0.1, 2.0), "b": (0.005, 0.1), "c": (0.005, 0.1), "d": (0.1, 2.0)},
)


def _growth(load: Load, state: str, rate: Range, most: float) -> Case:
    """Make a case of logistic growth to K, which starts from 0.3 to 3 times the final value of the series."""
    law = NamedLaw(f"{state}' = r*{state}*(1 - {state}/K)", {"r": rate, "K": (0.3 * most, 3.0 * most)})
    return Case(load, {"logistic": law}, informed=GROWTH)


def _grown(table: str, group: str, labels: Sequence[str], state: str, rate: Range, most: float) -> dict[str, Case]:
    """Make cases of logistic growth from several trajectories of a table."""
    name = table.partition("_")[0]
    return {f"{name}-{label}": _growth(trajectory(table, group, label, [state]), state, rate, most) for label in labels}


def _wave(country: str, population: int) -> Case:
    """Make a case of an epidemic with three rates of infection."""
    rate = (0.02, 1.0)

    def model(infection: str, **ranges: Range) -> NamedLaw:
        return NamedLaw(f"S' = -{infection}, I' = {infection} - g*I, R' = g*I", ranges)

    return Case(
        covid(country, population),
        {
            "SIR": model(f"b*S*I/{population}", b=rate, g=rate),
            "SIR, part K exposed": model("b*(K - I - R)*I/K", b=rate, g=rate, K=(1e5, 1e6)),
            "fractional SIR": model("b*S^0.5*I^0.5", b=(1e-5, 1e-1), g=rate),
        },
        {"holdout": HELD},
        {"conserve": ("S + I + R",)},
    )


def _fall(ball: str) -> Case:
    load = trajectory("ball_drops", "ball+drop", f"{ball}, 1", ["height", "velocity"])
    informed = {"known": ("height' = velocity",), "integer_exponents": True}
    return Case(load, {"gravity and drag": _FALL}, informed=informed)


def _oral_dose(subject: str) -> Case:
    informed = {"hidden_states": ("gut",), "forbid": ("gut: conc",), "bounds": "exponents 0..1"}
    load = trajectory("theoph", "subject", subject, ["conc"])
    return Case(load, {"absorption and elimination": _ORAL_DOSE}, informed=informed)


_PARAMECIUM = "gause_paramecium_1934"
_COMPETE = {"Lotka-Volterra competition": _COMPETITION}
_BALLS = ("baseball", "bowling_ball", "golf_ball", "tennis_ball", "volleyball", "whiffle_ball_1")
_PLOTS = ("1988F1", "1988P1", "1989F1", "1989P1", "1990F1", "1990P1")

CASES: Mapping[str, Case] = {
    "gause": Case(gause, _COMPETE, informed=GROWTH),
    "covid-italy": _wave("italy", 60461828),
    "covid-germany": _wave("germany", 83155031),
    "gause-aurelia": _growth(column(_PARAMECIUM, "aurelia_mono"), "aurelia_mono", (0.3, 2.0), 500.0),
    "gause-caudatum": _growth(column(_PARAMECIUM, "caudatum_mono"), "caudatum_mono", (0.3, 2.0), 200.0),
    "gause-mixed": Case(lambda folder: _only(gause(folder), "mixed"), _COMPETE, informed=GROWTH),
    "yeast": _growth(column("yeast_carlson_1913", "biomass"), "biomass", (0.1, 2.0), 600.0),
    "lynx-hare": Case(
        lambda folder: load_csv(folder / "lynx_hare_1900_1920.csv"), {"Lotka-Volterra": _PREDATION}, informed=GROWTH
    ),
    "flu": Case(column("flu_boarding_school_1978", "in_bed"), {"SIR": _SCHOOL}, informed={"hidden_states": ("S",)}),
    **{f"theoph-{n}": _oral_dose(n) for n in ("1", "2", "3")},
    **{f"fall-{ball.replace('_', '-')}": _fall(ball) for ball in _BALLS},
    **_grown("orange_trees", "tree", ("1", "2"), "circumference", (5e-4, 1e-2), 200.0),
    **_grown("soybean_growth", "plot", _PLOTS, "leaf_weight", (0.03, 0.5), 20.0),
    **_grown("plate_growth", "well", ("A1", "A5", "A10"), "od", (0.1, 3.0), 1.0),
}
