"""Fits of simulated series of textbook laws with the faults of measured ones.

    counts      n ~ Poisson(x), or noise of 4 % where states change their sign
    rounded     noise of 1 %, two digits
    drift       noise of 2 % and a slow wave of 2 % that no law of the states explains
    outliers    noise of 3 %, and one sample in fifty off by ten times as much
    gaps        noise of 3 %, a quarter of the samples missing, and a sixth of the time in one piece

in shares of each state's standard deviation. Draw d is law d mod 12 with the faults floor(d / 12) mod 5, so that
120 draws contain every law ten times. The verdict is that of measured series (see `series`), relative to the true
law with its constants fitted to the same samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from odediscovery.bench.draws import Coverage, Draws, FsirGaps, FsirNoise, Lawless, contained, draw_table
from odediscovery.bench.rows import Row
from odediscovery.bench.scores import same_terms
from odediscovery.bench.series import counts_of_verdicts, fitted_numbers, scored, verdict
from odediscovery.bench.summary import Cell, by, grouped, size, text_of
from odediscovery.data.series import TimeSeries
from odediscovery.laws.equations import Equations, Form
from odediscovery.problem.problem import prepare
from odediscovery.result.discovery import Discovery
from odediscovery.runtime.arrays import Array
from odediscovery.settings import Settings, settings_for
from odediscovery.textbook.fit import Fitter
from odediscovery.textbook.registry import find

# Each fault with the noise beside it, in shares of each state's standard deviation; counts have their own noise
# unless the state changes its sign.
FAULTS = {"counts": 0.04, "rounded": 0.01, "drift": 0.02, "outliers": 0.03, "gaps": 0.03}


@dataclass(frozen=True)
class Truth:
    """A textbook law with constants, starts and times."""

    law: str
    constants: tuple[float, ...]
    start: tuple[float, ...]
    until: float
    samples: int = 25

    @property
    def states(self) -> tuple[str, ...]:
        """Names of its states."""
        return ("x", "y", "z")[: len(self.start)]

    @property
    def values(self) -> dict[str, float]:
        """The constants by name."""
        return dict(zip(find(self.law).constants, self.constants, strict=True))

    @property
    def form(self) -> Form:
        """The law with open constants, in an order of its own."""
        return find(self.law).form(self.states)[0]

    @property
    def equations(self) -> Equations:
        """The law with its constants."""
        return self.form.with_constants([self.values[name] for name in self.form.names])


TRUTHS = (
    Truth("exponential", (-0.3,), (100.0,), 10.0),
    Truth("linear", (0.15, 20.0), (90.0,), 25.0),
    Truth("logistic", (0.5, 600.0), (12.0,), 20.0),
    Truth("gompertz", (0.25, 500.0), (8.0,), 24.0),
    Truth("outflow", (0.4, 4.0), (30.0,), 20.0),
    Truth("michaelis-menten", (5.0, 8.0), (40.0,), 16.0),
    Truth("lotka-volterra", (0.6, 0.02, 0.012, 0.5), (60.0, 15.0), 24.0, 40),
    Truth("competition", (0.6, 0.004, 0.002, 0.5, 0.0015, 0.005), (10.0, 15.0), 25.0, 30),
    Truth("epidemic", (0.0008, 0.25), (1000.0, 5.0, 0.0), 30.0, 31),
    Truth("damped-oscillator", (2.0, 0.3), (10.0, 0.0), 12.0, 40),
    Truth("chain", (0.5, 0.5, 0.15), (100.0, 1.0), 16.0, 30),
    Truth("rosenzweig-macarthur", (0.8, 200.0, 0.02, 0.01, 0.008, 0.4), (60.0, 20.0), 30.0, 40),
)


def made(truth: Truth, fault: str, generator: np.random.Generator) -> TimeSeries:
    """Simulate samples of a law with one fault."""
    t = np.linspace(0.0, truth.until, truth.samples)
    if fault == "gaps":
        at = generator.uniform(0.15, 0.65) * truth.until
        kept = (generator.random(len(t)) > 0.25) & ((t < at) | (t > at + truth.until / 6.0))
        kept[[0, -1]] = True
        t = t[kept]
    x = truth.equations.simulate(np.array(truth.start), t)
    spread = x.std(axis=0)
    values = x + FAULTS[fault] * (spread * generator.standard_normal(x.shape))
    if fault == "counts" and (x >= 0.0).all():
        values = generator.poisson(x).astype(np.float64)
    elif fault == "rounded":
        step = 10.0 ** (np.floor(np.log10(np.abs(x).max(axis=0))) - 1.0)
        values = np.round(values / step) * step
    elif fault == "drift":
        phase = generator.uniform(0.0, 2.0 * np.pi, x.shape[1])
        values += 0.02 * spread * np.sin(2.0 * np.pi * (t / truth.until)[:, None] + phase)
    elif fault == "outliers":
        far = generator.random(x.shape) < 0.02
        far.ravel()[generator.integers(far.size)] = True
        values += np.where(far, 0.3 * spread * generator.choice([-1.0, 1.0], x.shape), 0.0)
    return TimeSeries.from_arrays([t], [values], truth.states, labels=[truth.law])


@dataclass(frozen=True, kw_only=True)
class TextbookDraws(Draws):
    """Draws of textbook laws with realistic faults; fits have their default time."""

    measure = "textbook"
    own = "law", "fault", "verdict", "within", "constants", "r2", "notes"
    told: ClassVar = {key: text_of(key) for key in ("law", "fault", "verdict")}

    def settings(self, draw: int) -> Settings:
        return settings_for(seed=draw)

    def case(self, draw: int) -> tuple[Truth, str]:
        """The law and the fault of a draw."""
        return TRUTHS[draw % len(TRUTHS)], list(FAULTS)[draw // len(TRUTHS) % len(FAULTS)]

    def known(self, draw: int) -> Row:
        truth, fault = self.case(draw)
        return {"law": truth.law, "fault": fault, "verdict": "failed", "notes": []}

    def data(self, draw: int) -> TimeSeries:
        truth, fault = self.case(draw)
        return made(truth, fault, np.random.default_rng([draw, 21]))

    def describe(self, found: Discovery, series: TimeSeries) -> Row:
        truth = next(t for t in TRUTHS if t.law == series.trajectories[0].label)
        constants = fitted_numbers(found)
        ours = _scored(series, found.equations, found.initial_values[0], constants, found.outcome)
        told = verdict(ours, _true_law(truth, series), _is_right(found, truth))
        within = _within(found, truth) if told == "right" else None
        row = {"verdict": told, "within": within, "constants": constants}
        return row | {"r2": found.r2, "notes": list(found.messages)}

    def in_a_word(self, row: Row) -> str:
        return f"{row['law']}, {row['fault']}: {row['verdict']}"

    def markdown(self, rows: Sequence[Row]) -> str:
        columns: dict[str, Cell] = {"draws": size, **counts_of_verdicts()}
        columns |= {"constants in their 95 % interval, of right laws": _inside}
        # In the order of laws and faults for any set of draws.
        known = {key: by(rows, key) for key in ("law", "fault")}
        laws = {t.law: known["law"].get(t.law, []) for t in TRUTHS}
        faults = {fault: known["fault"].get(fault, []) for fault in FAULTS}
        counted = grouped("law or fault", {**laws, **faults, "all": rows}, columns)
        seconds = [row["seconds"] for row in rows]
        each = draw_table([row for row in rows if row["verdict"] != "right"], self.told)
        took = f"Seconds of a fit: median {np.median(seconds):.1f}, most {max(seconds):.1f}."
        return f"# {self.measure}\n\n{counted}\n\n{took}\n\n{each}\n"


def _inside(rows: Sequence[Row]) -> str:
    """Count the constants of right laws within their intervals, and all of them."""
    pairs = [row["within"] for row in rows if row["within"]]
    inside, of = sum(w[0] for w in pairs), sum(w[1] for w in pairs)
    return f"{inside} of {of} ({inside / of:.0%})" if of else "-"


def _is_right(found: Discovery, truth: Truth) -> bool:
    """Whether the equations have the true terms, or the true name if these are not powers."""
    true = truth.equations.power_sum
    if true is None or found.equations.power_sum is None:
        return found.name == find(truth.law).says
    return same_terms(found.equations.power_sum, true)


def _scored(series: TimeSeries, law: Equations, start: Array, constants: int | None, outcome: str) -> Row:
    scores = scored((series, None), lambda _, times: law.simulate(start, times))
    return scores | {"constants": constants, "outcome": outcome, "failed": None}


def _true_law(truth: Truth, series: TimeSeries) -> Row:
    """Score the true law with fitted constants, or with the true ones if the fit fails."""
    form = truth.form
    begin = np.array([truth.values[name] for name in form.names])
    fitted = Fitter.of(prepare(series)).fit(form, begin, find(truth.law).says)
    law, start = (truth.equations, np.array(truth.start)) if fitted is None else (fitted.equations, fitted.starts[0])
    return _scored(series, law, start, len(form.names), "fitted")


def _within(found: Discovery, truth: Truth) -> tuple[int, int] | None:
    """Count the true constants within their 95 % intervals, and all of them."""
    true = truth.equations
    if found.named is None and true.power_sum is not None:
        told = contained(found, true)
        fitted = [one["contained"] for name, one in told.items() if name.partition(": ")[2].startswith("coefficient")]
        return sum(fitted), len(fitted)
    named = found.named or found.textbook
    if named is None:
        return None
    values = truth.values
    rows = [row for row in named.rows(found.degrees_of_freedom) if row["name"] in values and row["low"] is not None]
    inside = [row["low"] <= values[row["name"]] <= row["high"] for row in rows]
    return sum(inside), len(values)


MEASURES: Mapping[str, type[Draws]] = {
    one.measure: one for one in (FsirNoise, FsirGaps, Coverage, Lawless, TextbookDraws)
}
