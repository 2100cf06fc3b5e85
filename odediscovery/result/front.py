"""One row of the Pareto front, and start values, as they stand in `result.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from odediscovery.data.series import TimeSeries
from odediscovery.data.table import check_letters
from odediscovery.errors import InputError
from odediscovery.laws.equations import Equations
from odediscovery.laws.records import number, plain
from odediscovery.runtime.arrays import Array


@dataclass(frozen=True, eq=False, repr=False)
class FrontRow:
    """One row of the Pareto front: equations and what they cost and achieve.

    Args:
        equations: in the user's units.
        complexity: number of constants and states used (see `Equations.complexity`).
        mse: mean squared error of the integrated equations against the data, in the data's
            units squared, over all states and trajectories.
        r2: variance-weighted coefficient of determination of the same.
        criterion: information criterion, smaller is better.
        selected: True for the one row that is the answer.
        initial_values: its own fitted starts [trajectories, states]; None where not kept.
        name: what the law is called, where it has a name.
        state_r2: r2 of every state [states], nan where nothing varies or is measured; None where not kept.

    >>> FrontRow(Equations.parse(["x"], {"x": "-0.5*x"}), 3, 0.1, 0.98, -70.0, True)
    complexity 3, MSE 0.1, R2 0.980000, chosen: x' = -0.5*x
    """

    equations: Equations
    complexity: int
    mse: float
    r2: float
    criterion: float
    selected: bool
    initial_values: Array | None = None
    name: str = ""
    state_r2: Array | None = None

    def __repr__(self) -> str:
        told = f"complexity {self.complexity}, MSE {self.mse:.3g}, R2 {self.r2:z.6f}{', chosen' * self.selected}"
        return f"{told}: {self.plain().replace(chr(10), '; ')}{f'  [{self.name}]' if self.name else ''}"

    def plain(self) -> str:
        """The equations to three digits, without error bars, a line a state."""
        return replace(self.equations, standard_errors=None).pretty(3)

    def record(self) -> dict[str, Any]:
        """Plain values for `result.json`."""
        states = self.equations.states
        scores = {name: plain(getattr(self, name)) for name in ("mse", "r2", "criterion")}
        return {
            "complexity": self.complexity,
            **scores,
            **({} if self.state_r2 is None else {"r2_by_state": by_state(states, self.state_r2)}),
            "selected": self.selected,
            "equations": self.equations.texts(),
            "initial_values": None if self.initial_values is None else starts_record(states, self.initial_values),
            **({"name": self.name} if self.name else {}),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any], series: TimeSeries) -> FrontRow:
        """Inverse of `record()`, for equations of the fitted `series`."""
        mse, r2, criterion = (number(record[name]) for name in ("mse", "r2", "criterion"))
        starts = record.get("initial_values")
        return cls(
            parsed_equations(record["equations"], series),
            int(record["complexity"]),
            mse,
            r2,
            criterion,
            bool(record["selected"]),
            None if starts is None else starts_from_record(starts, series),
            _name(record),
            _state_scores(record.get("r2_by_state"), series),
        )


def _name(record: Mapping[str, Any]) -> str:
    """What the law of a row is called; results of earlier versions do not say."""
    name = str(record.get("name", ""))
    check_letters(name)
    return name


def _state_scores(record: Any, series: TimeSeries) -> Array | None:
    """R2 of every state [states]; None where an earlier version wrote the row."""
    return None if record is None else np.array([number(record[state]) for state in series.states])


def parsed_equations(texts: Mapping[str, Any], series: TimeSeries) -> Equations:
    """The equations of the data's states, written as text by state.

    Raises:
        InputError: not text, or text that cannot be read.
    """
    states = series.states
    for state in states:
        if not isinstance(texts[state], str):
            raise InputError(f"the equation of {state!r} should be text")
    own = {state: texts[state] for state in states}
    return Equations.parse(states, own, time_name=series.time_name, controls=series.controls)


def starts_record(states: Sequence[str], starts: Array) -> list[dict[str, float | None]]:
    """Start values [trajectories, states], one dictionary a trajectory."""
    return [by_state(states, row) for row in starts]


def starts_from_record(record: Any, series: TimeSeries) -> Array:
    """Inverse of `starts_record`."""
    values = np.array([[number(row[state]) for state in series.states] for row in record])
    return values.reshape(len(series.trajectories), series.n_states)


def by_state(states: Sequence[str], values: Array) -> dict[str, float | None]:
    """One number a state [states], None for what is unknown."""
    return {state: plain(value) for state, value in zip(states, values, strict=True)}
