"""More measured series with the models of experts: growth, falling balls, a drug, influenza.

Each is one table of `data/`, whose README names its source and licence. Where a table holds many
trajectories the first ones are taken, not the ones that fit best.

Source: Carlson, Biochem. Z. 57 (1913); Draper and Smith, Applied Regression Analysis (1998); Davidian and
Giltinan, Nonlinear Models for Repeated Measurement Data (1995); Ram et al., PNAS 116 (2019); de Silva et
al., Front. Artif. Intell. 3 (2020); Boeckmann, Sheiner and Beal, NONMEM Users Guide (1994); BMJ (1978).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from odediscovery.bench.series.measured import CASES, Case, NamedLaw
from odediscovery.data.series import TimeSeries, load_csv
from odediscovery.runtime.arrays import Array

GROWTH = {"integer_exponents": True}


def column(table: str, name: str, time_name: str = "t") -> Callable[[Path], TimeSeries]:
    """One column of a table, where it has values."""

    def load(folder: Path) -> TimeSeries:
        (run,) = load_csv(folder / f"{table}.csv", time_name, [name]).trajectories
        seen = np.isfinite(run.values[:, 0])
        return TimeSeries.from_arrays(run.time[seen], run.values[seen], [name], time_name=time_name)

    return load


def trajectory(table: str, group: str, label: str, states: Sequence[str]) -> Callable[[Path], TimeSeries]:
    """One trajectory of a table of many."""

    def load(folder: Path) -> TimeSeries:
        series = load_csv(folder / f"{table}.csv", "t", list(states), group=group.split("+"))
        (run,) = (run for run in series.trajectories if run.label == label)
        return dataclasses.replace(series, trajectories=(dataclasses.replace(run, label=""),))

    return load


def logistic(state: str, rate: tuple[float, float], most: tuple[float, float]) -> dict[str, NamedLaw]:
    """Logistic growth to K."""
    text = f"{state}' = r*{state}*(1 - {state}/K)"
    return {"logistic": NamedLaw(text, {"r": rate, "K": most}, lambda c, x: (c[0] * x[0] * (1 - x[0] / c[1]),))}


def _growth(load: Callable[[Path], TimeSeries], state: str, rate: tuple[float, float], most: float) -> Case:
    least, greatest = _MOST_TIMES
    return Case(load, logistic(state, rate, (least * most, greatest * most)), informed=GROWTH)


def _fall_rates(c: Array, x: Array) -> Sequence[float]:
    return x[1], c[0] * x[1] * x[1] - c[1]


def _dose_rates(c: Array, x: Array) -> Sequence[float]:
    taken = c[0] * x[1]
    return taken - c[1] * x[0], -taken


def _school_rates(c: Array, x: Array) -> Sequence[float]:
    new = c[0] * x[1] * x[0] / _PUPILS
    return new - c[1] * x[0], -new


def _predation_rates(c: Array, x: Array) -> Sequence[float]:
    return c[0] * x[0] - c[1] * x[0] * x[1], c[2] * x[0] * x[1] - c[3] * x[1]


# Least and greatest start of the K of logistic growth, in units of what a series comes to.
_MOST_TIMES = (0.3, 3.0)
_PUPILS = 763
_FALL = NamedLaw("height' = velocity, velocity' = c*velocity^2 - g", {"c": (1e-4, 1e-1), "g": (3.0, 30.0)}, _fall_rates)
_ORAL_DOSE = NamedLaw(
    "conc' = k*gut - e*conc, gut' = -k*gut",
    {"k": (0.2, 5.0), "e": (0.01, 0.5)},
    _dose_rates,
    hidden={"gut": (3.0, 30.0)},
)
_SCHOOL = NamedLaw(
    f"in_bed' = b*S*in_bed/{_PUPILS} - g*in_bed, S' = -b*S*in_bed/{_PUPILS}",
    {"b": (0.5, 5.0), "g": (0.1, 2.0)},
    _school_rates,
    hidden={"S": (600.0, 800.0)},
)
_PREDATION = NamedLaw(
    "hare' = a*hare - b*hare*lynx, lynx' = c*hare*lynx - d*lynx",
    {"a": (0.1, 2.0), "b": (0.005, 0.1), "c": (0.005, 0.1), "d": (0.1, 2.0)},
    _predation_rates,
)


def _fall(ball: str) -> Case:
    return Case(
        trajectory("ball_drops", "ball+drop", f"{ball}, 1", ["height", "velocity"]),
        {"gravity and drag": _FALL},
        informed={"known": ("height' = velocity",), "integer_exponents": True},
    )


def _oral_dose(subject: str) -> Case:
    return Case(
        trajectory("theoph", "subject", subject, ["conc"]),
        {"absorption and elimination": _ORAL_DOSE},
        informed={"hidden_states": ("gut",), "forbid": ("gut: conc",), "bounds": "exponents 0..1"},
    )


def _lynx_and_hares(folder: Path) -> TimeSeries:
    return load_csv(folder / "lynx_hare_1900_1920.csv")


def _mixed(folder: Path) -> TimeSeries:
    series = CASES["gause"].load(folder)
    run = series.trajectories[2]
    return dataclasses.replace(series, trajectories=(dataclasses.replace(run, label=""),))


_PARAMECIUM = "gause_paramecium_1934"

MORE: Mapping[str, Case] = {
    "gause-aurelia": _growth(column(_PARAMECIUM, "aurelia_mono"), "aurelia_mono", (0.3, 2.0), 500.0),
    "gause-caudatum": _growth(column(_PARAMECIUM, "caudatum_mono"), "caudatum_mono", (0.3, 2.0), 200.0),
    "gause-mixed": Case(_mixed, CASES["gause"].models, informed=GROWTH),
    "yeast": _growth(column("yeast_carlson_1913", "biomass"), "biomass", (0.1, 2.0), 600.0),
    "lynx-hare": Case(_lynx_and_hares, {"Lotka-Volterra": _PREDATION}, informed=GROWTH),
    "flu": Case(column("flu_boarding_school_1978", "in_bed"), {"SIR": _SCHOOL}, informed={"hidden_states": ("S",)}),
    **{f"theoph-{n}": _oral_dose(n) for n in ("1", "2", "3")},
    **{
        f"fall-{ball.replace('_', '-')}": _fall(ball)
        for ball in ("baseball", "bowling_ball", "golf_ball", "tennis_ball", "volleyball", "whiffle_ball_1")
    },
    **{
        f"orange-{n}": _growth(
            trajectory("orange_trees", "tree", n, ["circumference"]), "circumference", (5e-4, 1e-2), 200.0
        )
        for n in ("1", "2")
    },
    **{
        f"soybean-{plot}": _growth(
            trajectory("soybean_growth", "plot", plot, ["leaf_weight"]), "leaf_weight", (0.03, 0.5), 20.0
        )
        for plot in ("1988F1", "1988P1", "1989F1", "1989P1", "1990F1", "1990P1")
    },
    **{
        f"plate-{well}": _growth(trajectory("plate_growth", "well", well, ["od"]), "od", (0.1, 3.0), 1.0)
        for well in ("A1", "A5", "A10")
    },
}
ALL: Mapping[str, Case] = {**CASES, **MORE}
