"""What a fit found, as one frozen value.

`Discovery` holds the equations in the user's units, how well they fit, why the search ended and
the weights they were read from, as plain arrays: no live network. `save` and `load` keep it in a
folder (see `folder`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from odediscovery.data.controls import interpolation_by_control
from odediscovery.data.frames import Frame, records_frame
from odediscovery.data.samples import measured
from odediscovery.data.series import TimeSeries, group_column, sigma_columns
from odediscovery.data.signals import Signal
from odediscovery.errors import InputError
from odediscovery.laws.equations import Equations
from odediscovery.laws.estimates import Estimates
from odediscovery.laws.expressions import identifiers
from odediscovery.laws.records import LEVEL, exponents, extended, plain, start_intervals, terms
from odediscovery.networks.translate import Network
from odediscovery.result.asked import asked_times, start_values
from odediscovery.result.folder import FORMAT, VERSION, log_lines, read_folder, write_folder
from odediscovery.result.front import FrontRow, by_state, starts_record
from odediscovery.result.named import NamedConstants
from odediscovery.result.population import Population
from odediscovery.result.profiled import Profile
from odediscovery.result.shown import Shown, doubts_of
from odediscovery.result.survival import Survival
from odediscovery.result.units import constant_records, named_record
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.versions import versions
from odediscovery.settings import Settings
from odediscovery.stages.values import FoundBy


@dataclass(frozen=True, eq=False, repr=False)
class Discovery(Shown):
    """Everything that a fit found; `print(found)` shows the equations, a notebook the mathematics.

    Args:
        series: the data that were fitted.
        equations: the chosen equations, in the data's units.
        initial_values: fitted values at the first time of each trajectory
            [trajectories, states], in the data's units.
        front: the Pareto front, sorted by complexity.
        mse: of `equations`, as in `FrontRow`.
        r2: of `equations`, as in `FrontRow`.
        r2_heldout: r2 on data that the fit did not see, or None.
        noise: estimated standard deviation of the noise of each state [states].
        outcome: "converged", "stopped" (Ctrl-C or time limit) or "poor-fit".
        messages: what the reader should know, one sentence each.
        settings: the options of the fit.
        seconds: wall-clock time of the fit.
        network: the law as a chain of units, what is left of a network where one was trained; None if it is none.
        log: what the stages noted, in order.
        degrees_of_freedom: observed values - fitted numbers, of Student's t for the intervals
            of the constants; None where their standard errors are unknown.
        initial_value_errors: standard errors of `initial_values` in the same places, nan where
            the data do not tell; None where nothing is known of them.
        estimates: fitted constants and start values with their covariance, dimensionless, for
            bands and prediction intervals; None where it is not known.
        survival: how often each term came back in bootstrap fits, if they were asked for.
        profiles: intervals of constants by profile likelihood, if they were asked for.
        named: the constants of a form that was written down, if one was fitted.
        textbook: where the chosen equations are a law with a name, its constants as textbooks write them.
        found_by: the stage that proposed `equations`: growing, training or regression; "" if none did, or
            nothing is known of it.
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
    def rows(self) -> Frame:
        """The front as a table: complexity, mse, r2, difference of the criterion to the chosen row, name, equations.

        >>> from odediscovery import discover, settings_for, simulate_system
        >>> found = discover(simulate_system("logistic"), settings_for(members=0))
        >>> found.rows.columns.tolist()
        ['complexity', 'mse', 'r2', 'difference', 'selected', 'name', 'equations']
        """
        chosen = next(row.criterion for row in self.front if row.selected)
        told = [
            {
                **{key: getattr(row, key) for key in ("complexity", "mse", "r2", "selected", "name")},
                "difference": row.criterion - chosen,
                "equations": row.plain(),
            }
            for row in self.front
        ]
        return records_frame(told, ["complexity", "mse", "r2", "difference", "selected", "name", "equations"])

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
        return replace(
            self,
            equations=replace(row.equations, units=self.series.units),
            initial_values=row.initial_values,
            front=tuple(replace(one, selected=one is row) for one in self.front),
            mse=row.mse,
            r2=row.r2,
            r2_heldout=None,
            messages=(*self.series.messages, said),
            network=None,
            degrees_of_freedom=None,
            initial_value_errors=None,
            estimates=None,
            survival=None,
            named=None,
            found_by="",
            population=None,
            profiles=(),
        )

    def of_group(self, label: str) -> Discovery:
        """The result as it is for one group: its data, its constants, its start.

        Args:
            label: value of the group column.

        Raises:
            InputError: no group of this name, or no population was fitted.
        """
        if self.population is None or self.equations.power_sum is None:
            raise InputError("these equations have the same constants for all groups: expected a fit with --vary")
        return self.of_trajectory(self.population.place(label))

    def of_trajectory(self, k: int) -> Discovery:
        """The result as it is for trajectory k alone: its data, its constants, its start."""
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
        own, states = self.population.law_of(k, law), self.equations.states
        return Equations.from_power_sum(
            states,
            own,
            time_name=self.equations.time_name,
            units=self.equations.units,
            controls=self.equations.controls,
        )

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
                trajectory. Rows after a solution that blows up are nan.
            controls: what acts on the states; default: the controls of the first trajectory. After
                their last time they keep their last values.

        Raises:
            InputError: other start values, times that do not increase, or that lie before the fitted
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
        if times[0] < start:
            raise InputError(
                f"times should not lie before the first sample at {start:g}, "
                f"got {times[0]:g}; give initial values to start there"
            )
        if times[0] == start:
            return solve(self.initial_values[0], times)
        return solve(self.initial_values[0], np.append(start, times))[1:]

    def as_dict(self) -> dict[str, Any]:
        """The content of `result.json`: plain values, None for what is unknown."""
        equations = self.equations
        heldout = None if self.r2_heldout is None else plain(self.r2_heldout)
        return {
            "format": FORMAT,
            "version": VERSION,
            "outcome": self.outcome,
            "found_by": self.found_by or None,
            "messages": list(self.messages),
            **({"doubts": doubts} if (doubts := doubts_of(self.messages)) else {}),
            **_names_record(self.series, equations),
            "equations": equations.texts(),
            **({"spare_digits": equations.spare} if equations.spare else {}),
            "latex": equations.latex(),
            "terms": terms(equations, None if self.survival is None else self.survival.shares),
            "bootstrap": None if self.survival is None else self.survival.record(),
            **({"profiles": [one.record() for one in self.profiles]} if self.profiles else {}),
            "exponents": exponents(equations),
            "constants": constant_records(equations, self.degrees_of_freedom, self.series.units),
            **({} if self.named is None else {"named_constants": named_record(self.named, self.series)}),
            **({"name": self.name} if self.name else {}),
            **({} if self.textbook is None else {"textbook": named_record(self.textbook, self.series)}),
            **({} if self.population is None else {"population": self.population.record(terms(equations))}),
            "intervals": {"level": LEVEL, "distribution": "Student t", "degrees_of_freedom": self.degrees_of_freedom},
            "law": extended(equations),
            "initial_values": starts_record(equations.states, self.initial_values),
            **start_intervals(
                equations.states, self.initial_values, self.initial_value_errors, self.degrees_of_freedom
            ),
            "scores": {"mse": plain(self.mse), "r2": plain(self.r2), "r2_heldout": heldout, **_by_state(self)},
            "noise": by_state(equations.states, self.noise),
            "pareto": [row.record() for row in self.front],
            "settings": self.settings.as_dict(),
            "seed": self.settings.seed,
            "seconds": plain(self.seconds),
            "versions": versions(),
        }

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

        They appear together or not at all, in the place of an earlier result. Other files of the
        folder stay.

        Raises:
            InputError: the folder cannot be made or written, or another fit is writing it.
        """
        write_folder(Path(folder), self.series, self.files(), self.as_dict())

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Discovery:
        """Read a folder that `save` wrote; nothing in it is evaluated.

        Raises:
            InputError: no such folder, or a file that is missing, damaged or of another format.
        """
        return cls(**read_folder(Path(folder)))


def _names_record(series: TimeSeries, equations: Equations) -> dict[str, Any]:
    """What `result.json` says of the table: which columns are what, and which names differ from them."""
    names = identifiers(equations.variables)
    observed = zip(equations.states, measured(series), strict=True)
    return {
        "time": series.time_name,
        "group": group_column(series),
        "states": list(equations.states),
        "inputs": interpolation_by_control(series),
        "sigma_columns": sigma_columns(series),
        "unmeasured": [name for name, seen in observed if not seen],
        "units": dict(series.units),
        **({"since": series.since} if series.since else {}),
        "symbols": {safe: name for name, safe in names.items() if safe != name},
    }


def _by_state(found: Discovery) -> dict[str, Any]:
    """R2 of every state for `result.json`, where it is known."""
    row = next(row for row in found.front if row.selected)
    return {} if row.state_r2 is None else {"r2_by_state": by_state(found.series.states, row.state_r2)}
