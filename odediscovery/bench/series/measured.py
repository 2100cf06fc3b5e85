"""Measured series, and the named models that people fit to them, by least squares.

    minimise  sum over trajectories, samples, states of (x(t; c, x0) - data)^2

Source: Gause, The Struggle for Existence (1934); Kermack and McKendrick, Proc. R. Soc. A 115
(1927); Taghvaei, Georgiou, Norton and Tannenbaum, Scientific Reports 10 (2020).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from scipy.optimize import least_squares

from odediscovery.data.series import TimeSeries, load_csv
from odediscovery.ivp.lsoda import solve_whole
from odediscovery.runtime.arrays import Array

# Starts of a least-squares fit, and the most evaluations of each.
STARTS, MAX_EVALUATIONS = 12, 200
# How far ln c and ln x0 may go from there.
MAX_LOG_SHIFT = 7.0
# What a sample is off, at most and where no solution comes to it, in units of the size of all samples.
MAX_MISFIT = 1e6
# Tolerance of the solutions, relative and absolute.
TOLERANCE = 1e-8
# Share of the time that is kept back.
HELD = 0.2

# (constants, states [states]) -> dx/dt [states].
Rates: TypeAlias = Callable[[Array, Array], Sequence[float]]


@dataclass(frozen=True)
class NamedLaw:
    """A named law whose constants are all positive.

    Args:
        text: the law, for people.
        ranges: least and greatest start of each constant, by its name in the text.
        rates: its right-hand side.
        hidden: states that nobody measured, behind the others, and least and greatest start of each.
    """

    text: str
    ranges: Mapping[str, tuple[float, float]]
    rates: Rates
    hidden: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def simulate(self, constants: Array, start: Array, times: Array) -> Array:
        """States from `start` at the first of `times`, [times, states]; nan if it is lost."""
        found = solve_whole(lambda t, x: self.rates(constants, x), start, times, TOLERANCE, TOLERANCE, np.inf)
        return np.full((len(times), len(start)), np.nan) if found is None else found


@dataclass(frozen=True)
class Case:
    """A measured series with what is done to it.

    Args:
        load: reads it from the folder of the tables.
        models: named models, by name.
        options: settings of `discover`.
        informed: more of them, which somebody gives who knows the field; None for nothing.
    """

    load: Callable[[Path], TimeSeries]
    models: Mapping[str, NamedLaw]
    options: Mapping[str, Any] = field(default_factory=dict)
    informed: Mapping[str, Any] | None = None


def gause(folder: Path) -> TimeSeries:
    """Both species in three cultures: alone, where the other one is absent (0), and mixed."""
    names = ["aurelia_mono", "caudatum_mono", "aurelia_mix", "caudatum_mix"]
    (run,) = load_csv(folder / "gause_paramecium_1934.csv", "t", names).trajectories
    counted = np.isfinite(run.values).any(axis=1)
    aurelia, caudatum, *mixed = run.values[counted].T
    values = [np.stack(pair, axis=1) for pair in ((aurelia, 0.0 * aurelia), (0.0 * caudatum, caudatum), mixed)]
    return TimeSeries.from_arrays(
        [run.time[counted]] * len(values),
        values,
        ["aurelia", "caudatum"],
        time_name="day",
        labels=["aurelia alone", "caudatum alone", "mixed"],
    )


def covid(country: str, population: int) -> Callable[[Path], TimeSeries]:
    """S never confirmed, I active, R recovered or dead: S + I + R = population."""

    def load(folder: Path) -> TimeSeries:
        path = folder / f"covid19_{country}_2020.csv"
        (run,) = load_csv(path, "t", ["never_confirmed", "active"]).trajectories
        values = np.column_stack([run.values, population - run.values.sum(axis=1)])
        return TimeSeries.from_arrays(run.time, values, ["S", "I", "R"])

    return load


def _wave(country: str, population: int) -> Case:
    rate = (0.02, 1.0)

    def model(text: str, infected: Callable[[Array, Array], float], **ranges: tuple[float, float]) -> NamedLaw:
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


def _competition(c: Array, x: Array) -> Sequence[float]:
    (r, s, k, m, a, b), (p, q) = c, x
    return r * p * (1 - (p + a * q) / k), s * q * (1 - (q + b * p) / m)


CASES: Mapping[str, Case] = {
    "gause": Case(
        gause,
        {
            "Lotka-Volterra competition": NamedLaw(
                "aurelia' = r*aurelia*(1 - (aurelia + a*caudatum)/K), "
                "caudatum' = s*caudatum*(1 - (caudatum + b*aurelia)/M)",
                {
                    "r": (0.3, 2.0),
                    "s": (0.3, 2.0),
                    "K": (100.0, 1000.0),
                    "M": (50.0, 500.0),
                    "a": (0.1, 5.0),
                    "b": (0.1, 5.0),
                },
                _competition,
            )
        },
        informed={"integer_exponents": True},
    ),
    "covid-italy": _wave("italy", 60461828),
    "covid-germany": _wave("germany", 83155031),
}


def least_squares_fit(model: NamedLaw, series: TimeSeries, seed: int) -> tuple[Array, Array, int]:
    """Constants and start values of a named model at the least sum of squares.

    Over ln c and ln x0, from starts drawn evenly in ln c and from the first samples; an absent
    state, which is 0 throughout a trajectory, stays so. The start of a state that changes its sign is
    fitted as it is, that of a hidden one from its range.

    Returns:
        constants, start values [trajectories, states, hidden ones last], and how many of `STARTS` ended there.
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
        # A count of 0 at first is less than one.
        positive = np.log(np.maximum(first, least)[present])
        begins = np.where(linear > 0.0, first[present] / np.where(linear > 0.0, linear, 1.0), positive)
        u = np.concatenate([random.uniform(low, high), begins])
        bounds = u - MAX_LOG_SHIFT, u + MAX_LOG_SHIFT
        ends.append(least_squares(residual, u, x_scale="jac", max_nfev=MAX_EVALUATIONS, bounds=bounds))
    best = min(ends, key=lambda end: float(end.cost))
    return *unpacked(best.x), sum(bool(end.cost <= 1.001 * best.cost) for end in ends)
