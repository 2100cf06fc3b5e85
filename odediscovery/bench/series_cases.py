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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from scipy.optimize import least_squares

from odediscovery.data.series import TimeSeries, load_csv
from odediscovery.ivp.solvers import solve_whole
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

# (constants, states [states]) -> dx/dt [states].
Rates: TypeAlias = Callable[[Array, Array], Sequence[float]]
# From the folder of the tables to a series.
Load: TypeAlias = Callable[[Path], TimeSeries]
# Least and greatest start.
Range: TypeAlias = tuple[float, float]


@dataclass(frozen=True)
class NamedLaw:
    """A named law whose constants are all positive: its text for people, and its right-hand side."""

    text: str
    ranges: Mapping[str, Range]  # of each constant, by its name in the text
    rates: Rates
    # Unmeasured states, after the others, with their ranges.
    hidden: Mapping[str, Range] = field(default_factory=dict)

    def simulate(self, constants: Array, start: Array, times: Array) -> Array:
        """Integrate from `start` at the first of `times`, [times, states]; nan after a failure."""
        found = solve_whole(lambda t, x: self.rates(constants, x), start, times, TOLERANCE, TOLERANCE, np.inf)
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
    runs = series.trajectories
    size = float(np.sqrt(np.nanmean(np.concatenate([t.values for t in runs]) ** 2)))
    first = np.array([[column[np.isfinite(column)][0] for column in t.values.T] for t in runs])
    present = np.stack([np.nanmax(np.abs(t.values), axis=0) > 0 for t in runs])
    signed = np.min([np.nanmin(t.values, axis=0) for t in runs], axis=0) < 0
    spread = np.nanmax([np.nanmax(np.abs(t.values), axis=0) for t in runs], axis=0)
    seen, hidden = first.shape[1], np.log(np.array(list(model.hidden.values())).reshape(-1, 2))
    first = np.hstack([first, np.tile(np.exp(hidden.mean(axis=1)), (len(runs), 1))])
    present = np.hstack([present, np.ones((len(runs), len(hidden)), dtype=bool)])
    linear = np.tile(np.append(np.where(signed, spread, 0.0), np.zeros(len(hidden))), (len(runs), 1))[present]
    least = np.append(np.minimum(1.0, 0.01 * spread), np.zeros(len(hidden)))
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
        # A first value of 0 is replaced by a small positive one.
        positive = np.log(np.maximum(first, least)[present])
        begins = np.where(linear > 0.0, first[present] / np.where(linear > 0.0, linear, 1.0), positive)
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
# Least and greatest start of K of logistic growth, in units of the final value of a series.
_MOST_TIMES = (0.3, 3.0)
_PUPILS = 763
_COMPETITION = NamedLaw(
    "aurelia' = r*aurelia*(1 - (aurelia + a*caudatum)/K), caudatum' = s*caudatum*(1 - (caudatum + b*aurelia)/M)",
    dict.fromkeys("rs", (0.3, 2.0)) | {"K": (100.0, 1000.0), "M": (50.0, 500.0)} | dict.fromkeys("ab", (0.1, 5.0)),
    lambda c, x: (c[0] * x[0] * (1 - (x[0] + c[4] * x[1]) / c[2]), c[1] * x[1] * (1 - (x[1] + c[5] * x[0]) / c[3])),
)
_FALL = NamedLaw(
    "height' = velocity, velocity' = c*velocity^2 - g",
    {"c": (1e-4, 1e-1), "g": (3.0, 30.0)},
    lambda c, x: (x[1], c[0] * x[1] * x[1] - c[1]),
)
_ORAL_DOSE = NamedLaw(
    "conc' = k*gut - e*conc, gut' = -k*gut",
    {"k": (0.2, 5.0), "e": (0.01, 0.5)},
    lambda c, x: (c[0] * x[1] - c[1] * x[0], -(c[0] * x[1])),
    hidden={"gut": (3.0, 30.0)},
)
_SCHOOL = NamedLaw(
    f"in_bed' = b*S*in_bed/{_PUPILS} - g*in_bed, S' = -b*S*in_bed/{_PUPILS}",
    {"b": (0.5, 5.0), "g": (0.1, 2.0)},
    lambda c, x: (c[0] * x[1] * x[0] / _PUPILS - c[1] * x[0], -(c[0] * x[1] * x[0] / _PUPILS)),
    hidden={"S": (600.0, 800.0)},
)
_PREDATION = NamedLaw(
    "hare' = a*hare - b*hare*lynx, lynx' = c*hare*lynx - d*lynx",
    {"a": (0.1, 2.0), "b": (0.005, 0.1), "c": (0.005, 0.1), "d": (0.1, 2.0)},
    lambda c, x: (c[0] * x[0] - c[1] * x[0] * x[1], c[2] * x[0] * x[1] - c[3] * x[1]),
)


def _growth(load: Load, state: str, rate: Range, most: float) -> Case:
    """Make a case of logistic growth to K."""
    text, ranges = (
        f"{state}' = r*{state}*(1 - {state}/K)",
        {"r": rate, "K": (_MOST_TIMES[0] * most, _MOST_TIMES[1] * most)},
    )
    law = NamedLaw(text, ranges, lambda c, x: (c[0] * x[0] * (1 - x[0] / c[1]),))
    return Case(load, {"logistic": law}, informed=GROWTH)


def _grown(table: str, group: str, labels: Sequence[str], state: str, rate: Range, most: float) -> dict[str, Case]:
    """Make cases of logistic growth from several trajectories of a table."""
    name = table.partition("_")[0]
    return {f"{name}-{label}": _growth(trajectory(table, group, label, [state]), state, rate, most) for label in labels}


def _wave(country: str, population: int) -> Case:
    rate = (0.02, 1.0)

    def model(text: str, infected: Callable[[Array, Array], float], **ranges: Range) -> NamedLaw:
        def rates(c: Array, x: Array) -> Sequence[float]:
            new = infected(c, np.maximum(x, 0.0))
            return -new, new - c[1] * x[1], c[1] * x[1]

        return NamedLaw(f"S' = -{text}, I' = {text} - g*I, R' = g*I", ranges, rates)

    def part(c: Array, x: Array) -> float:
        return float(c[0] * max(c[2] - x[1] - x[2], 0.0) * x[1] / c[2])

    return Case(
        covid(country, population),
        {
            "SIR": model(f"b*S*I/{population}", lambda c, x: c[0] * x[0] * x[1] / population, b=rate, g=rate),
            "SIR, part K exposed": model("b*(K - I - R)*I/K", part, b=rate, g=rate, K=(1e5, 1e6)),
            "fractional SIR": model("b*S^0.5*I^0.5", lambda c, x: c[0] * np.sqrt(x[0] * x[1]), b=(1e-5, 1e-1), g=rate),
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
