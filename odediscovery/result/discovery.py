"""The result of a fit as one frozen value with plain arrays, its outliers, and its resting point."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import odediscovery
from odediscovery.data.dates import time_of_date
from odediscovery.data.frames import Frame, records_frame
from odediscovery.data.noise import NORMAL_MEDIAN
from odediscovery.data.series import TimeSeries, group_column, interpolation_by_control, measured, pooled, sigma_columns
from odediscovery.data.signals import Signal
from odediscovery.errors import InputError, unknown_name
from odediscovery.judge.criterion import NO_EVIDENCE
from odediscovery.judge.notes import Note, Weight, listed
from odediscovery.judge.remarks import resting_note, resting_point
from odediscovery.laws.equations import MAX_LINE, Equations, Form
from odediscovery.laws.expressions import identifiers
from odediscovery.laws.power_sum import count, filled, picked
from odediscovery.laws.records import (
    LEVEL,
    Estimates,
    FoundBy,
    exponents,
    extended,
    monomial_names,
    plain,
    start_intervals,
    starts_text,
    terms,
)
from odediscovery.networks.chain import Network
from odediscovery.problem.problem import Problem
from odediscovery.result.folder import FORMAT, VERSION, log_lines, read_folder, write_folder
from odediscovery.result.front import FrontRow, by_state, jsonable
from odediscovery.result.named import NamedConstants, constant_records, named_record, named_rows, units_text
from odediscovery.result.population import Population
from odediscovery.result.profiled import Profile, profiles_text
from odediscovery.result.survival import Survival
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.files import as_path
from odediscovery.runtime.versions import versions
from odediscovery.settings import Settings


@dataclass(frozen=True, eq=False, repr=False)
class Discovery:
    """The result of a fit; `print(found)` shows the equations, a notebook typesets them.

    Args:
        series: the data that were fitted.
        equations: the chosen equations, in the data's units.
        initial_values: fitted values at the first time of each trajectory
            [trajectories, states], in the data's units.
        front: the Pareto front, sorted by complexity.
        mse: of `equations`, as in `FrontRow`.
        r2: of `equations`, as in `FrontRow`.
        r2_heldout: r2 on data that the fit did not see, or None.
        noise: standard deviation of the residuals of each state [states].
        outcome: "converged", "stopped" (Ctrl-C or time limit) or "poor-fit".
        messages: what the reader should know, one sentence each.
        settings: the options of the fit.
        seconds: wall-clock time of the fit.
        network: the law as a chain of units, whichever stage found it; None if it is not a chain.
        log: records of the stages, in order.
        degrees_of_freedom: observed values - fitted numbers, of Student's t for the intervals
            of the constants; None where their standard errors are unknown.
        initial_value_errors: standard errors of `initial_values` in the same places, nan where
            the data do not determine them; None if unknown.
        estimates: fitted constants and start values with their covariance, dimensionless, for
            bands and prediction intervals; None if the covariance is unknown.
        survival: how often each term recurred in bootstrap fits, if requested.
        profiles: intervals of constants by profile likelihood, if requested.
        named: the constants of a form, as the user or a textbook writes it, if one was fitted.
        textbook: the constants of a law with a name as textbooks write them, if the chosen equations are one.
        found_by: the stage that proposed `equations`: training, regression or textbook; "" if none did or
            the stage is unknown.
        population: what groups share and how they differ, if their constants may.

    >>> from odediscovery import discover, settings_for, simulate_system
    >>> found = discover(simulate_system("logistic"), settings_for(members=0))
    >>> found.outcome, found.simulate(times=[0.0, 25.0]).round(3).tolist()
    ('converged', [[2.0], [99.778]])
    """

    series: TimeSeries
    equations: Equations
    initial_values: Array
    front: tuple[FrontRow, ...]
    mse: float
    r2: float
    r2_heldout: float | None
    noise: Array
    outcome: str
    messages: tuple[str, ...]
    settings: Settings
    seconds: float
    network: Network | None = None
    log: tuple[Mapping[str, Any], ...] = ()
    degrees_of_freedom: int | None = None
    initial_value_errors: Array | None = None
    estimates: Estimates | None = None
    survival: Survival | None = None
    named: NamedConstants | None = None
    textbook: NamedConstants | None = None
    found_by: FoundBy = ""
    population: Population | None = None
    profiles: tuple[Profile, ...] = ()

    @property
    def probability(self) -> float | None:
        """The probability that the terms of `equations` are the true ones: the share of right laws among random ones
        with such evidence; None where it is not known, as for groups, flows, and laws known in part.
        """
        return chosen_row(self).probability

    @property
    def rows(self) -> Frame:
        """The front as a table: complexity, mse, r2, criterion minus that of the chosen row, name, equations.

        >>> from odediscovery import discover, settings_for, simulate_system
        >>> found = discover(simulate_system("logistic"), settings_for(members=0))
        >>> found.rows.columns.tolist()
        ['complexity', 'mse', 'r2', 'difference', 'selected', 'name', 'equations']
        """
        columns, chosen = ["complexity", "mse", "r2", "difference", "selected", "name", "equations"], chosen_row(self)
        told = [
            vars(row) | {"difference": row.criterion - chosen.criterion, "equations": row.equations.short()}
            for row in self.front
        ]
        return records_frame(told, columns)

    def select(self, complexity: int) -> Discovery:
        """The result with another row of the front as its answer.

        The equations and start values are those of the row. Bands, intervals and the network belong to the
        row that the search chose and are left out; `fit_constants(found.series, found.equations)` gives
        them for another one.

        Args:
            complexity: of the row.

        Raises:
            InputError: no row of this complexity, or one whose start values were not kept.

        >>> from odediscovery import discover, settings_for, simulate_system
        >>> found = discover(simulate_system("logistic"), settings_for(members=0))
        >>> found.select(found.front[0].complexity).front[0].selected
        True
        """
        row = next((row for row in self.front if row.complexity == complexity), None)
        if row is None:
            known = ", ".join(str(row.complexity) for row in self.front)
            raise InputError(f"no row of complexity {complexity} on the front; there are {known}")
        if row.selected:
            return self
        if row.initial_values is None:
            raise InputError(f"the row of complexity {complexity} was kept without start values; fit the data again")
        said = f"the row of complexity {complexity} was chosen by hand: it has no bands and no intervals"
        # What has a default is known of the row that the search chose alone, except its log.
        unknown = {f.name: f.default for f in fields(self) if f.default is not MISSING and f.name != "log"}
        return replace(
            self,
            **unknown,
            equations=replace(row.equations, units=self.series.units),
            initial_values=row.initial_values,
            front=tuple(replace(one, selected=one is row) for one in self.front),
            mse=row.mse,
            r2=row.r2,
            r2_heldout=None,
            messages=(*self.series.messages, said),
        )

    def of_group(self, label: str) -> Discovery:
        """The result for one group: its data, constants and start.

        Args:
            label: value of the group column.

        Raises:
            InputError: no group of this name, or no population was fitted.
        """
        if self.population is None or self.equations.power_sum is None:
            raise InputError("these equations have the same constants for all groups: expected a fit with --vary")
        return self.of_trajectory(self.population.place(label))

    def of_trajectory(self, k: int) -> Discovery:
        """The result for trajectory k alone: its data, constants and start."""
        return replace(
            self,
            series=replace(self.series, trajectories=(self.series.trajectories[k],)),
            equations=self.equations_of(k),
            initial_values=self.initial_values[[k]],
            initial_value_errors=None,
            estimates=None,
            population=None,
        )

    def equations_of(self, k: int) -> Equations:
        """The equations of trajectory k, with the constants of its group where these differ."""
        law = self.equations.power_sum
        if self.population is None or law is None:
            return self.equations
        told = {name: getattr(self.equations, name) for name in ("time_name", "units", "controls")}
        return Equations.from_power_sum(self.equations.states, self.population.law_of(k, law), **told)

    def simulate(
        self,
        initial: ArrayLike | Mapping[str, float] | None = None,
        times: ArrayLike | None = None,
        controls: Signal | None = None,
    ) -> Array:
        """The chosen equations integrated, [times, states] in the data's units.

        Args:
            initial: values [states] at the first of `times`, or by name, {"S": 100}, the others as
                fitted; default: the fitted values of the first trajectory, which hold at its own first time.
            times: increasing times [n], or dates where the data had dates; default: those of the first
                trajectory. Rows after a solution blows up are nan.
            controls: the inputs; default: those of the first trajectory. After
                their last time they keep their last values.

        Raises:
            InputError: unusable start values, times that do not increase, or that lie before the fitted
                start or the controls.
        """
        start = float(self.series.trajectories[0].time[0])
        times = asked_times(times, self.series)
        if controls is None and self.series.controls != (self.series.time_name,):
            controls = self.series.trajectories[0].controls
        first = float(times[0]) if initial is not None else start
        if controls is not None and first < controls.times[0]:
            raise InputError(
                f"the inputs are known from {controls.times[0]:g} on, the solution begins at {first:g}; "
                "give earlier ones"
            )
        solve = partial(self.equations.simulate, controls=controls)
        if initial is not None:
            return solve(start_values(initial, self.initial_values[0], self.equations.states), times)
        return solve(self.initial_values[0], from_start(times, start))[-len(times) :]

    def equations_text(self, digits: int = 4) -> str:
        """The equations as lines of text with error bars, other constants to `digits` digits."""
        if self.population is not None:
            return self.population.equations_text(self.equations, digits)
        return self.equations.pretty(digits) if self.named is None else self.named.text(digits)

    @property
    def name(self) -> str:
        """Name of the chosen law, such as "logistic growth"; empty if it has none."""
        return chosen_row(self).name

    def name_text(self, digits: int = 4) -> str:
        """Name of the chosen law, if it has one, and its constants as textbooks write them, to `digits` digits."""
        if not self.name or self.textbook is None:
            return self.name
        return f"{self.name}: {self.textbook.one_line(digits)}"

    def starts_text(self) -> str:
        """The fitted start values with error bars, one line for each of a few trajectories."""
        return starts_text(self.series, self.initial_values, self.initial_value_errors)

    def source_text(self) -> str:
        """The stage that found the equations, in a phrase; empty if unknown."""
        return f"found by: {self.found_by} ({_STAGES[self.found_by]})" if self.found_by else ""

    def stability_text(self) -> str:
        """How often each term recurred in bootstrap fits; empty if there were none."""
        if self.survival is None:
            return ""
        return self.survival.text(self.equations.states, monomial_names(self.equations))

    def latex(self) -> str:
        """The equations as a LaTeX `align` environment."""
        rows = [text.replace("=", "&=", 1) for text in self.equations.latex().values()]
        return "\\begin{align}\n  " + " \\\\\n  ".join(rows) + "\n\\end{align}\n"

    def summary(self) -> str:
        """Equations, start values, notes and the Pareto front, as text.

        >>> from odediscovery import discover, settings_for, simulate_system
        >>> print(discover(simulate_system("logistic"), settings_for(members=0)).summary())
        ... # doctest: +ELLIPSIS
        N' = ...
        """
        told = [self.equations_text(), *facts(self), headline(self)]
        told += [f"note: {message}" for message in shown_notes(self.messages)]
        told.append("Pareto front (* chosen):")
        for row in self.front:
            scores = f"complexity {row.complexity:3d}  MSE {row.mse:.3g}  R2 {row.r2:z.6f}"
            name = f"  [{row.name}]" if row.name else ""
            told.append(
                f"{'*' if row.selected else ' '} {scores}  {cut(row.equations.short().replace(chr(10), '; '))}{name}"
            )
        return "\n".join(told)

    @property
    def terms(self) -> Frame:
        """One row per term: state, term, coefficient, standard_error, and stability if requested."""
        names = monomial_names(self.equations)
        found = terms(self.equations, None if self.survival is None else self.survival.shares)
        columns = ["state", "term", "coefficient", "standard_error"] + ["stability"] * (self.survival is not None)
        return records_frame([{**row, "term": names[row["monomial"]]} for row in found], columns)

    @property
    def constants(self) -> Frame:
        """One row per constant: state, kind, term, of, value, standard_error, low and high (95 %), snapped.

        For a form with named constants: name, value, standard_error, low and high. Where columns
        have units, `unit` comes last.
        """
        more = ["unit"] if self.series.units else []
        if self.named is not None:
            own = named_rows(self.named, self.series, self.degrees_of_freedom)
            return records_frame(own, ["name", "value", "standard_error", "low", "high", *more])
        names = monomial_names(self.equations)
        rows = []
        for state, found in constant_records(self.equations, self.degrees_of_freedom, self.series.units).items():
            for row in found:
                low, high = row["interval"] or (None, None)
                inner = row["kind"].startswith("inner")
                term = None if inner else names[row["monomial"]]
                rows.append({**row, "state": state, "term": term, "low": low, "high": high})
        columns = ["state", "kind", "term", "of", "value", "standard_error", "low", "high", "snapped"]
        return records_frame(rows, columns + more)

    @property
    def residuals(self) -> Frame:
        """Data - curve at every sample, with the time (and the trajectory), nan where nothing was measured."""
        runs = [
            replace(run, values=run.values - curve_of(self, k), sigma=None, controls=None)
            for k, run in enumerate(self.series.trajectories)
        ]
        return replace(self.series, trajectories=tuple(runs), controls=()).to_frame()

    def plot(self, axes: Any = None) -> Any:
        """Data, curves and 95 % bands, one panel per state.

        Args:
            axes: matplotlib axes to draw in, one per state; None: a new figure.

        Returns:
            The axes [states]; `axes[0].figure` is the figure.
        """
        return odediscovery.plot_fit(self, axes)

    def __repr__(self) -> str:
        r2 = f"R2 = {self.r2:z.6f}" if np.isfinite(self.r2) else "R2 unknown"
        rows = f"{len(self.front)} row{'s'[: len(self.front) != 1]} on the front"
        return "\n".join([*map(cut, self.equations_text().splitlines()), f"({self.outcome}, {r2}, {rows})"])

    def _repr_html_(self) -> str:
        return odediscovery.notebook_html(self)

    def _repr_latex_(self) -> str:
        aligned = self.latex().replace("{align}", "{aligned}").strip()
        return f"$\\displaystyle {aligned}$"

    def as_dict(self) -> dict[str, Any]:
        """The content of `result.json`: plain values, None for unknown ones."""
        equations, states, freedom = self.equations, self.equations.states, self.degrees_of_freedom
        survival, starts, errors = self.survival, self.initial_values, self.initial_value_errors
        each = chosen_row(self).state_r2
        scores = {name: jsonable(getattr(self, name)) for name in ("mse", "r2", "r2_heldout")}
        observed = zip(states, measured(self.series), strict=True)
        document = {
            "format": FORMAT,
            "version": VERSION,
            "outcome": self.outcome,
            "found_by": self.found_by or None,
            "messages": list(self.messages),
            "doubts": doubts_of(self.messages),
            "probability": chosen_row(self).probability,
            "time": self.series.time_name,
            "group": group_column(self.series),
            "states": list(states),
            "inputs": interpolation_by_control(self.series),
            "sigma_columns": sigma_columns(self.series),
            "unmeasured": [name for name, seen in observed if not seen],
            "units": dict(self.series.units),
            "since": self.series.since,
            "symbols": {safe: name for name, safe in identifiers(equations.variables).items() if safe != name},
            "equations": equations.texts(),
            "spare_digits": equations.spare,
            "latex": equations.latex(),
            "terms": terms(equations, None if survival is None else survival.shares),
            "bootstrap": None if survival is None else survival.record(),
            "profiles": [one.record() for one in self.profiles],
            "exponents": exponents(equations),
            "constants": constant_records(equations, freedom, self.series.units),
            "named_constants": self.named and named_record(self.named, self.series),
            "name": self.name,
            "textbook": self.textbook and named_record(self.textbook, self.series),
            "population": self.population and self.population.record(terms(equations)),
            "intervals": {"level": LEVEL, "distribution": "Student t", "degrees_of_freedom": freedom},
            "law": extended(equations),
            "initial_values": [by_state(states, row) for row in starts],
            **start_intervals(states, starts, errors, freedom),
            "scores": scores | ({} if each is None else {"r2_by_state": by_state(self.series.states, each)}),
            "noise": by_state(states, self.noise),
            "pareto": [row.record() for row in self.front],
            "settings": self.settings.as_dict(),
            "seed": self.settings.seed,
            "seconds": plain(self.seconds),
            "versions": versions(),
        }
        return {key: value for key, value in document.items() if value or key not in _IF_ANY}

    def files(self) -> dict[str, bytes]:
        """The content of the files beside `result.json` and `data.csv`, by name."""
        return {
            "model.npz": Network.to_bytes(self.network),
            "covariance.npz": Estimates.to_bytes(self.estimates),
            "equations.tex": self.latex().encode(),
            "log.jsonl": log_lines(self.log),
        }

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write result.json, equations.tex, model.npz, covariance.npz, data.csv and log.jsonl.

        They appear together or not at all and replace an earlier result. Other files in the
        folder stay.

        Raises:
            InputError: the folder cannot be made or written, or another fit is writing it.
        """
        write_folder(Path(folder), self.series, self.files(), self.as_dict())

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Discovery:
        """Read a folder written by `save`, without executing anything in it.

        Raises:
            InputError: no such folder, or a file that is missing, damaged or of another format.
        """
        return cls(**read_folder(as_path(folder)))


def curve_of(found: Discovery, k: int, times: Array | None = None) -> Array:
    """The equations through trajectory k from its fitted start, at its own times or others, [times, states]."""
    run = found.series.trajectories[k]
    own = found.equations_of(k)
    return own.simulate(found.initial_values[k], run.time if times is None else times, controls=run.controls)


def from_start(times: Array, start: float) -> Array:
    """The times, preceded by the start if they begin later."""
    if times[0] < start:
        raise InputError(
            f"times should not lie before the first sample at {start:g}, got {times[0]:g}; give initial values to "
            "start there"
        )
    return times if times[0] == start else np.append(start, times)


def start_values(initial: Any, fitted: Array, states: Sequence[str]) -> Array:
    """Start values [states], given in order or by name; those that a mapping omits are as fitted."""
    if isinstance(initial, Mapping):
        for name in initial:
            if name not in states:
                raise unknown_name("state", str(name), states)
        initial = [initial.get(name, value) for name, value in zip(states, fitted.tolist(), strict=True)]
    try:
        values = np.asarray(initial, float)
    except (TypeError, ValueError):
        values = np.full(len(states), np.nan)
    if values.shape != (len(states),) or not np.all(np.isfinite(values)):
        raise InputError(
            f"initial: expected {len(states)} finite numbers, of {', '.join(states)}, or these by name, got {initial!r}"
        )
    return values


def asked_times(times: Any, series: TimeSeries) -> Array:
    """Times [n] as numbers: by default those of the first trajectory; dates count from the origin of the data."""
    if times is None:
        return np.asarray(series.trajectories[0].time)
    own = list(times) if np.ndim(times) == 1 else []
    if series.since and own and not all(isinstance(one, int | float | np.number) for one in own):
        unit = series.units[series.time_name]
        own = [time_of_date(str(one).replace("T", " "), series.since, unit) for one in own]
    try:
        values = np.asarray(own, float)
    except (TypeError, ValueError):
        values = np.zeros(0)
    if not values.size or not np.all(np.isfinite(values)):
        dates = f" or dates such as {series.since}" if series.since else ""
        raise InputError(f"times should be a list of finite numbers{dates}, at least one, got {times!r}")
    if np.any(np.diff(values) <= 0):
        raise InputError("times should increase from one to the next")
    return values


# Keys of `result.json` that are left out when empty.
_IF_ANY = {"doubts", "since", "spare_digits", "profiles", "named_constants", "name", "textbook", "population"}
_STAGES = {
    "training": "networks trained from random starts, then pruned",
    "regression": "least squares over a vocabulary of terms",
    "textbook": "a law with a name, fitted to whole trajectories",
}


# Probability below which equations are not called a law: two in three such laws are wrong.
UNLIKELY = 1.0 / 3.0
# Notes that are shown; result.json has all of them.
MOST_NOTES = 5


def facts(found: Discovery) -> list[str]:
    """Texts that accompany the equations: name, groups, starts, units, stability and profiles."""
    texts = (
        found.name_text(),
        "" if found.population is None else found.population.table_text(),
        found.starts_text(),
        units_text(found.equations, found.series, found.named, found.textbook),
        found.stability_text(),
        profiles_text(found.profiles, monomial_names(found.equations)),
    )
    return [text for text in texts if text]


def chosen_row(found: Discovery) -> FrontRow:
    """The row of the front that was chosen."""
    return next(row for row in found.front if row.selected)


def doubts_of(messages: Sequence[str]) -> list[str]:
    """The messages that cast doubt on the law."""
    return [str(text) for text in messages if getattr(text, "weight", Weight.DATA) <= Weight.DOUBT]


def rows_about_as_good(found: Discovery) -> list[FrontRow]:
    """Other rows of the front that the data reject with little evidence; empty if no law is claimed."""
    if found.outcome == "poor-fit":
        return []
    chosen = chosen_row(found)
    most = chosen.criterion + NO_EVIDENCE
    close = [row for row in found.front if not row.selected and row.criterion < most]
    # The same law with another number of fitted constants is not a rival.
    own = chosen.equations.short() if close else ""
    return [row for row in close if row.equations.short() != own]


def verdict(found: Discovery) -> str:
    """The outcome; for a claimed law "doubted" if a note doubts it, "contested" if another row is about as good."""
    if found.outcome != "converged":
        return found.outcome
    return "doubted" if doubts_of(found.messages) else "contested" if rows_about_as_good(found) else found.outcome


def state_scores(found: Discovery) -> dict[str, float]:
    """R2 of every state that varies, by name; empty if unknown."""
    scores = chosen_row(found).state_r2
    each = [] if scores is None else scores.tolist()
    return {state: r2 for state, r2 in zip(found.series.states, each, strict=False) if r2 == r2}


def is_of_a_form(found: Discovery) -> bool:
    """Whether the user wrote the equations down; False for a textbook law that the search found."""
    return found.named is not None and found.found_by != "textbook"


def head(found: Discovery) -> str:
    """How the fit ended, in a few words."""
    heads = {"converged": "law found", "stopped": "stopped early", "poor-fit": "no law found"}
    if is_of_a_form(found) or (found.population is not None and found.population.written):
        # A form that the user wrote down did not have to be found.
        heads |= {"converged": "constants fitted", "poor-fit": "the form does not fit"}
    chance = chosen_row(found).probability
    if found.outcome == "converged" and chance is not None and chance < UNLIKELY:
        return "a curve through the data, perhaps no law"
    remarks = {"doubted": ", with doubts", "contested": ", others about as good"}
    return heads[found.outcome] + remarks.get(verdict(found), "")


def headline(found: Discovery) -> str:
    """How the fit ended, with R2 of all states and of each, on one line."""
    whole = f"{found.r2:z.6f}" if np.isfinite(found.r2) else "unknown"
    scores, chance = state_scores(found), chosen_row(found).probability
    each = ", ".join(f"{state} {r2:z.4f}" for state, r2 in scores.items())
    odds = "" if chance is None or found.outcome == "poor-fit" else f"; {in_ten(chance)} such laws are right"
    return f"{head(found)}: R2 = {whole}" + f" ({each})" * (len(scores) > 1) + odds


def in_ten(chance: float) -> str:
    """A probability in words.

    >>> in_ten(0.93), in_ten(0.02), in_ten(0.98)
    ('9 in 10', 'less than 1 in 20', 'more than 19 in 20')
    """
    if chance < 0.05:
        return "less than 1 in 20"
    return "more than 19 in 20" if chance > 0.95 else f"{min(max(round(10 * chance), 1), 9)} in 10"


def describe_chain(found: Discovery) -> str:
    """Caption for a drawing of `network`: a network only where one was trained."""
    if found.found_by == "training":
        return "What pruning left of the trained network"
    source = f": found by {found.found_by}, not by a network" if found.found_by else ""
    return f"The law as a chain of units{source}"


def cut(line: str, most: int = MAX_LINE) -> str:
    """A line shortened to at most `most` characters."""
    return line if len(line) <= most else f"{line[: most - 3]}..."


def row_lines(row: FrontRow, most: int = MAX_LINE) -> list[str]:
    """The equations of a row of the front in lines of at most `most` characters, and its name."""
    return [cut(line, most) for line in row.equations.short().splitlines()] + [f"[{row.name}]"] * bool(row.name)


def shown_notes(messages: Sequence[str]) -> list[str]:
    """The most important notes, and the number of others."""
    more = len(messages) - MOST_NOTES
    if more <= 0:
        return list(messages)
    rest = f'{more} more note{"s"[: more > 1]} stand{"s"[more > 1 :]} in result.json under "messages"'
    return [*messages[:MOST_NOTES], rest]


def far_off(residuals: Array, least: Array) -> dict[int, float]:
    """Residuals with |r_k| > 6 s_k and at least twice their neighbours: sample -> |r_k| / s_k.

    s_k is the largest of `least`, the median |r| / 0.674 of all samples and that of the 21 samples around k.
    """
    seen = np.flatnonzero(np.isfinite(residuals))
    size = np.abs(residuals[seen])
    if len(seen) < 20:  # too few to estimate the spread
        return {}
    wide = np.pad(size, 10, constant_values=np.nan)
    local = np.nanmedian(np.lib.stride_tricks.sliding_window_view(wide, 21), axis=1)
    usual = np.maximum(np.maximum(local, np.median(size)) / NORMAL_MEDIAN, least[seen])
    neighbours = np.maximum(np.append(size[1:], 0.0), np.append(0.0, size[:-1]))
    far = (usual > 0.0) & (size > 6.0 * usual) & (neighbours < 0.5 * size)
    # Deviations in more than one sample in twenty are not slips.
    if np.count_nonzero(far) > max(0.05 * len(seen), 1.0):
        return {}
    return {int(k): float(r) for k, r in zip(seen[far], size[far] / usual[far], strict=True)}


def outliers(found: Discovery, p: Problem) -> list[Note]:
    """A note on samples far off the claimed equations, if there are any."""
    series, named = found.series, list[tuple[float, str]]()
    if any(run.recorded is not None for run in series.trajectories):
        return []
    floor = p.floor * np.abs(p.scale.state)
    for k, (run, relative) in enumerate(zip(series.trajectories, p.relative_sigma, strict=True)):
        curve = curve_of(found, k)
        where = f" of trajectory {run.label!r}" if len(series.trajectories) > 1 else ""
        for i in np.flatnonzero(~p.constant[: series.n_states]):
            values, sigma = run.values[:, i], relative[:, i]
            # Values may be counts, where a count n has the standard deviation sqrt(n).
            counts = not np.any((values < 0.0) | (values != np.round(values)), where=np.isfinite(values))
            least = np.maximum(floor[i], np.sqrt(np.maximum(curve[:, i], 1.0)) if counts else 0.0)
            for j, far in far_off((values - curve[:, i]) / sigma, least / sigma).items():
                named.append((far, f"{series.states[i]} at {series.time_name} = {run.time[j]:.6g}{where} ({far:.0f})"))
    if not named:
        return []
    worst = listed([text for _, text in sorted(named, reverse=True)], 3)
    told = (
        f"far off these equations, in standard deviations: {worst}; if that was a slip, empty the cell and fit again: "
        "all constants are pulled by it"
    )
    return [Note(told, Weight.CONSTANTS)]


def rest(found: Discovery, form: Form | None = None, covariance: Array | None = None) -> list[Note]:
    """A note on where the first trajectory comes to rest, from estimates or constants of a form."""
    if found.series.controls or found.equations.states != found.series.states:
        return []
    start, estimates = found.initial_values[0], found.estimates
    if form is not None and covariance is not None and found.named is not None:
        constants = np.array(found.named.values)

        def equations(c: Array) -> Equations:
            return form.with_constants(c.tolist())

    elif estimates is not None:
        k, law = count(estimates.free), estimates.law
        constants, covariance = picked(law, estimates.free), estimates.covariance.matrix[:k, :k]

        def equations(c: Array) -> Equations:
            moved = law.with_constants(*filled(law.constants, estimates.free, c))
            scaled = moved.unscaled(estimates.scale.state, estimates.scale.time)
            return Equations.from_power_sum(found.series.states, scaled, time_name=found.series.time_name)

    else:
        return []

    values, time = pooled(found.series), found.series.trajectories[0].time
    at = resting_point(
        # A simple law needs fewer evaluations than this.
        lambda c, times: equations(c).simulate(start, times, 1e-8, most_evaluations=20_000),
        lambda c, x: equations(c).rhs(x),
        constants,
        covariance,
        (float(time[0]), float(time[-1])),
        np.nanmin(values, axis=0),
        np.nanmax(values, axis=0),
    )
    return [] if at is None else [resting_note(found.series.states, *at)]
