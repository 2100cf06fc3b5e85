"""One row of the Pareto front, and conversions of values to and from `result.json`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from odediscovery.data.series import TimeSeries
from odediscovery.errors import InputError
from odediscovery.laws.equations import Equations
from odediscovery.laws.records import number, plain
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.texts import check_letters


@dataclass(frozen=True, eq=False, repr=False)
class FrontRow:
    """One row of the Pareto front: equations, their complexity and their scores.

    Args:
        equations: in the user's units.
        complexity: number of constants and states used (see `Equations.complexity`).
        mse: mean squared error of the integrated equations against the data, in the data's
            units squared, over all states and trajectories.
        r2: variance-weighted coefficient of determination of the same.
        criterion: information criterion, smaller is better.
        selected: True for the chosen row only.
        initial_values: its own fitted starts [trajectories, states]; None if not kept.
        name: name of the law, if it has one.
        state_r2: r2 of every state [states], nan where nothing varies or is measured; None if not kept.
        probability: that its terms are the true ones, see `discovery.reliability`; None if not known.

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
    probability: float | None = None

    def __repr__(self) -> str:
        told = f"complexity {self.complexity}, MSE {self.mse:.3g}, R2 {self.r2:z.6f}{', chosen' * self.selected}"
        return f"{told}: {self.equations.short().replace(chr(10), '; ')}{f'  [{self.name}]' if self.name else ''}"

    def record(self) -> dict[str, Any]:
        """Plain values for `result.json`."""
        states, starts = self.equations.states, self.initial_values
        return {
            "complexity": self.complexity,
            **{name: plain(getattr(self, name)) for name in ("mse", "r2", "criterion")},
            **({} if self.state_r2 is None else {"r2_by_state": by_state(states, self.state_r2)}),
            "selected": self.selected,
            **({} if self.probability is None else {"probability": self.probability}),
            "equations": self.equations.texts(),
            "initial_values": None if starts is None else [by_state(states, row) for row in starts],
            **({"name": self.name} if self.name else {}),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any], series: TimeSeries) -> FrontRow:
        """Inverse of `record()`, for equations of the fitted `series`; InputError for a probability beyond 0 and 1."""
        # Rows of earlier versions have no start values, scores of states, name or probability.
        starts, scores = record.get("initial_values"), record.get("r2_by_state")
        chance = record.get("probability")
        if chance is not None and not 0.0 <= (chance := number(chance)) <= 1.0:
            raise InputError(f"'probability' should be between 0 and 1, got {chance:g}")
        return cls(
            parsed_equations(record["equations"], series),
            int(record["complexity"]),
            **{name: number(record[name]) for name in ("mse", "r2", "criterion")},
            selected=bool(record["selected"]),
            initial_values=None if starts is None else starts_from_record(starts, series),
            name=checked_text(record.get("name", "")),
            state_r2=None if scores is None else numbers([scores[state] for state in series.states]),
            probability=chance,
        )


def better_than_simpler(rows: Sequence[FrontRow]) -> tuple[FrontRow, ...]:
    """Rows that fit better than every simpler one, simplest first, and the selected row, alone of its complexity."""
    kept, taken = list[FrontRow](), [row.complexity for row in rows if row.selected]
    for row in sorted(rows, key=lambda row: (row.complexity, not row.selected, row.mse)):
        better = np.isfinite(row.mse) and all(row.mse < one.mse for one in kept)
        if row.selected or (better and row.complexity not in taken):
            kept.append(row)
    return tuple(kept)


def parsed_equations(texts: Mapping[str, Any], series: TimeSeries) -> Equations:
    """The equations of the data's states from texts by state."""
    states = series.states
    for state in states:
        if not isinstance(texts[state], str):
            raise InputError(f"the equation of {state!r} should be text")
    own = {state: texts[state] for state in states}
    return Equations.parse(states, own, time_name=series.time_name, controls=series.controls)


def starts_from_record(record: Any, series: TimeSeries) -> Array:
    """Start values [trajectories, states] from a record with one dictionary per trajectory."""
    values = numbers(([row[state] for state in series.states] for row in record), 2)
    return values.reshape(len(series.trajectories), series.n_states)


def by_state(states: Sequence[str], values: Array) -> dict[str, float | None]:
    """One number per state [states], None for unknown ones."""
    return {state: plain(value) for state, value in zip(states, values, strict=True)}


def numbers(values: Iterable[Any], dimensions: int = 1) -> Array:
    """A record's list of numbers (or, for two dimensions, list of such lists) as an array; nan for None."""
    found = np.array([numbers(x) if dimensions > 1 else number(x) for x in values], dtype=np.float64)
    if found.size and found.ndim != dimensions:
        raise ValueError(f"numbers in {found.ndim} dimensions")
    return found


def checked_text(value: Any) -> str:
    """A text of a record, without control characters for terminals."""
    text = str(value)
    check_letters(text)
    return text


def jsonable(value: Any) -> Any:
    """Any value in JSON types: None for numbers that are not finite, text for other types."""
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, np.ndarray) and value.dtype == float and np.isfinite(value).all():
        return value.tolist()  # a law of a thousand states has millions of numbers
    if isinstance(value, (list, tuple, np.ndarray)):
        return [jsonable(item) for item in value]
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return plain(float(value))
    return None if value is None else str(value)
