"""What a fit found, as one frozen value that can be kept in a folder and read again.

`Discovery` holds the equations in the user's units, how well they fit, why the search ended and
the weights they were read from, as plain arrays: no live network. `save` writes the folder file
by file, each whole or not at all; `load` trusts nothing in it: equations come back through the
whitelist of `expressions`, arrays without pickle, and whatever is damaged ends in an `InputError`
that names the file.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odediscovery.data.controls import interpolation_by_control, with_interpolations
from odediscovery.data.samples import measured, with_columns
from odediscovery.data.series import TimeSeries, group_column, load_csv, sigma_columns, write_csv
from odediscovery.data.signals import Signal
from odediscovery.errors import InputError
from odediscovery.laws.equations import Equations
from odediscovery.laws.estimates import Estimates
from odediscovery.laws.expressions import identifiers
from odediscovery.laws.records import (
    LEVEL,
    constants,
    exponents,
    extended,
    monomial_names,
    number,
    plain,
    start_intervals,
    starts_text,
    terms,
    with_errors,
    with_law,
)
from odediscovery.networks.layers import Layer, Network
from odediscovery.result.survival import Survival
from odediscovery.runtime.files import write_whole
from odediscovery.runtime.renamed import with_old_names
from odediscovery.runtime.versions import versions
from odediscovery.settings import Settings

__all__ = ["Discovery", "FrontRow", "Layer", "Network", "read_document", "versions"]

Array = NDArray[np.float64]

FORMAT, VERSION = "odediscovery-result", 1
OUTCOMES = ("converged", "stopped", "poor-fit")

_DAMAGED = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError)


@dataclass(frozen=True, eq=False)
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

    >>> FrontRow(Equations.parse(["x"], {"x": "-x"}), 3, 0.1, 0.98, -70.0, True).complexity
    3
    """

    equations: Equations
    complexity: int
    mse: float
    r2: float
    criterion: float
    selected: bool
    initial_values: Array | None = None


@dataclass(frozen=True, eq=False)
class Discovery:
    """Everything that a fit found.

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
        network: the pruned network that the equations were read from, or None.
        log: what the stages noted, in order.
        degrees_of_freedom: observed values - fitted numbers, of Student's t for the intervals
            of the constants; None where their standard errors are unknown.
        initial_value_errors: standard errors of `initial_values` in the same places, nan where
            the data do not tell; None where nothing is known of them.
        estimates: fitted constants and start values with their covariance, dimensionless, for
            bands and prediction intervals; None where it is not known.
        survival: how often each term came back in bootstrap fits, if they were asked for.

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

    def equations_text(self, digits: int = 4) -> str:
        """The equations as lines of text with error bars, other constants to `digits` digits."""
        return self.equations.pretty(digits)

    def starts_text(self) -> str:
        """The fitted start values with their error bars, a line for each of a few trajectories."""
        return starts_text(self.series, self.initial_values, self.initial_value_errors)

    def stability_text(self) -> str:
        """How often each term came back in bootstrap fits; nothing where none were done."""
        if self.survival is None:
            return ""
        return self.survival.text(self.equations.states, monomial_names(self.equations))

    def latex(self) -> str:
        """The equations as a LaTeX `align` environment."""
        rows = [text.replace("=", "&=", 1) for text in self.equations.latex().values()]
        return "\\begin{align}\n  " + " \\\\\n  ".join(rows) + "\n\\end{align}\n"

    @with_old_names(inputs="controls")
    def simulate(
        self, initial: Array | None = None, times: Array | None = None, controls: Signal | None = None
    ) -> Array:
        """The chosen equations integrated, [times, states] in the data's units.

        Args:
            initial: values [states] at the first of `times`; default: the fitted values of the
                first trajectory, which hold at its own first time.
            times: increasing times [n]; default: those of the first trajectory. Rows after a
                solution that blows up are nan.
            controls: what acts on the states; default: the controls of the first trajectory. After
                their last time they keep their last values.

        Raises:
            InputError: times that do not increase, or lie before the fitted start or the controls.
        """
        start = float(self.series.trajectories[0].time[0])
        times = self.series.trajectories[0].time if times is None else np.asarray(times, float)
        if times.ndim != 1 or not times.size or not np.all(np.isfinite(times)):
            raise InputError("times should be a list of finite numbers, at least one")
        if np.any(np.diff(times) <= 0):
            raise InputError("times should increase from one to the next")
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
            return solve(np.asarray(initial, float), times)
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
        names = identifiers(equations.variables)
        heldout = None if self.r2_heldout is None else plain(self.r2_heldout)
        return {
            "format": FORMAT,
            "version": VERSION,
            "outcome": self.outcome,
            "messages": list(self.messages),
            "time": self.series.time_name,
            "group": group_column(self.series),
            "states": list(equations.states),
            "inputs": interpolation_by_control(self.series),
            "sigma_columns": sigma_columns(self.series),
            "unmeasured": [
                name for name, seen in zip(equations.states, measured(self.series), strict=True) if not seen
            ],
            "units": dict(self.series.units),
            "symbols": {safe: name for name, safe in names.items() if safe != name},
            "equations": equations.texts(),
            "latex": equations.latex(),
            "terms": terms(equations, None if self.survival is None else self.survival.shares),
            "bootstrap": None if self.survival is None else self.survival.record(),
            "exponents": exponents(equations),
            "constants": constants(equations, self.degrees_of_freedom),
            "intervals": {"level": LEVEL, "distribution": "Student t", "degrees_of_freedom": self.degrees_of_freedom},
            "law": extended(equations),
            "initial_values": [_by_state(equations.states, row) for row in self.initial_values],
            **start_intervals(
                equations.states, self.initial_values, self.initial_value_errors, self.degrees_of_freedom
            ),
            "scores": {"mse": plain(self.mse), "r2": plain(self.r2), "r2_heldout": heldout},
            "noise": _by_state(equations.states, self.noise),
            "pareto": [
                {
                    "complexity": row.complexity,
                    "mse": plain(row.mse),
                    "r2": plain(row.r2),
                    "criterion": plain(row.criterion),
                    "selected": row.selected,
                    "equations": row.equations.texts(),
                    "initial_values": None
                    if row.initial_values is None
                    else [_by_state(equations.states, x) for x in row.initial_values],
                }
                for row in self.front
            ],
            "settings": self.settings.as_dict(),
            "seed": self.settings.seed,
            "seconds": plain(self.seconds),
            "versions": versions(),
        }

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write result.json, equations.tex, model.npz, covariance.npz, data.csv and log.jsonl.

        `result.json` is written last: a folder that has one is complete.

        Raises:
            InputError: the folder cannot be made or written.
        """
        path = Path(folder)
        log = "".join(json.dumps(_jsonable(line)) + "\n" for line in self.log)
        text = json.dumps(self.as_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        try:
            path.mkdir(parents=True, exist_ok=True)
            write_csv(self.series, path / "data.csv")
            write_whole(path / "model.npz", Network.to_bytes(self.network))
            write_whole(path / "covariance.npz", Estimates.to_bytes(self.estimates))
            write_whole(path / "equations.tex", self.latex().encode())
            write_whole(path / "log.jsonl", log.encode())
            write_whole(path / "result.json", text.encode())
        except OSError as error:
            raise InputError(f"cannot write to {path}: {error.strerror or error}") from error

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Discovery:
        """Read a folder that `save` wrote; nothing in it is evaluated.

        Raises:
            InputError: no such folder, or a file that is missing, damaged or of another format.
        """
        path = Path(folder) / "result.json"
        document = read_document(path)
        try:
            return _from_document(document, Path(folder))
        except InputError as error:
            named = str(folder) in str(error)
            raise error if named else InputError(f"{path}: {error}") from error
        except _DAMAGED as error:
            raise InputError(f"{path} is damaged ({type(error).__name__}: {error}); fit the data again") from error


def read_document(path: Path) -> dict[str, Any]:
    """The JSON of a result, checked to be of our format and version.

    Raises:
        InputError: missing, unreadable, no JSON, or another format or version.
    """
    if not path.parent.is_dir():
        raise InputError(f"{path.parent}: no such folder; give the folder that `fit` wrote")
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path.parent} holds no result.json: not written by `fit`") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is no JSON file ({error}); fit the data again") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InputError(f"{path} is no result of odediscovery: its format is not {FORMAT!r}")
    if document.get("version") != VERSION:
        raise InputError(
            f"{path} has version {document.get('version')!r}, this program reads {VERSION}; fit the data again"
        )
    return document


def _series(document: Mapping[str, Any], path: Path) -> TimeSeries:
    """What was fitted, controls included."""
    states, time_name = _names(document["states"]), str(document["time"])
    # Results of earlier versions have no controls, and samples of all states.
    ways = {str(name): str(way) for name, way in document.get("inputs", {}).items()}
    blank = {str(name) for name in document.get("unmeasured", ())}
    columns = [name for name in states if name not in blank]
    columns += [name for name in ways if name != time_name]
    sigma = document.get("sigma_columns")
    series = load_csv(path, time_name, columns, document["group"], sigma=sigma)
    units = {str(name): str(unit) for name, unit in document["units"].items()}
    series = with_columns(with_interpolations(series, ways), states)
    return dataclasses.replace(series, units=units)


def _from_document(document: Mapping[str, Any], folder: Path) -> Discovery:
    series = _series(document, folder / "data.csv")
    states = series.states
    parsed = dataclasses.replace(_equations(document["equations"], series), units=series.units)
    scores, heldout = document["scores"], document["scores"]["r2_heldout"]
    # Results of earlier versions have no intervals and no law of this kind.
    freedom = document.get("intervals", {}).get("degrees_of_freedom")
    if document["outcome"] not in OUTCOMES:
        raise InputError(f"outcome should be one of {', '.join(OUTCOMES)}")
    front = tuple(
        FrontRow(
            _equations(row["equations"], series),
            int(row["complexity"]),
            number(row["mse"]),
            number(row["r2"]),
            number(row["criterion"]),
            bool(row["selected"]),
            _known_starts(row.get("initial_values"), series),
        )
        for row in document["pareto"]
    )
    return Discovery(
        series=series,
        equations=with_law(with_errors(parsed, document["terms"], document["exponents"]), document.get("law")),
        initial_values=_starts(document["initial_values"], series),
        front=front,
        mse=number(scores["mse"]),
        r2=number(scores["r2"]),
        r2_heldout=None if heldout is None else float(heldout),
        noise=np.array([number(document["noise"][state]) for state in states]),
        outcome=document["outcome"],
        messages=tuple(str(text) for text in document["messages"]),
        settings=Settings(**document["settings"]).checked(),
        seconds=number(document["seconds"]),
        network=Network.from_file(folder / "model.npz"),
        log=_read_log(folder / "log.jsonl"),
        initial_value_errors=_known_starts(document.get("initial_value_errors"), series),
        estimates=Estimates.from_file(folder / "covariance.npz"),
        survival=Survival.from_record(document.get("bootstrap")),
        degrees_of_freedom=None if freedom is None else int(freedom),
    )


def _equations(texts: Mapping[str, Any], series: TimeSeries) -> Equations:
    states = series.states
    for state in states:
        if not isinstance(texts[state], str):
            raise InputError(f"the equation of {state!r} should be text")
    return Equations.parse(
        states, {state: texts[state] for state in states}, time_name=series.time_name, controls=series.controls
    )


def _starts(rows: Any, series: TimeSeries) -> Array:
    values = np.array([[number(row[state]) for state in series.states] for row in rows])
    return values.reshape(len(series.trajectories), series.n_states)


def _known_starts(rows: Any, series: TimeSeries) -> Array | None:
    return None if rows is None else _starts(rows, series)


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(s, str) for s in value):
        raise InputError("'states' should be a list of column names")
    return tuple(value)


def _read_log(path: Path) -> tuple[Mapping[str, Any], ...]:
    if not path.is_file():
        return ()
    return tuple(json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())


def _by_state(states: Sequence[str], values: Array) -> dict[str, float | None]:
    return {state: plain(value) for state, value in zip(states, values, strict=True)}


def _jsonable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _jsonable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_jsonable(item) for item in value]
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return plain(float(value))
    return None if value is None else str(value)
