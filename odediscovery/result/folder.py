"""The folder of a result: writing it, and reading it back without trusting anything in it.

Each file is written whole or not at all, `result.json` last. On the way back equations come through
the whitelist of `expressions` and arrays without pickle, and whatever is damaged ends in an
`InputError` that names the file. Folders that earlier versions wrote lack some of the keys.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from odediscovery.data.controls import with_interpolations
from odediscovery.data.samples import with_columns
from odediscovery.data.series import TimeSeries, load_csv, write_csv
from odediscovery.errors import InputError
from odediscovery.laws.estimates import Estimates
from odediscovery.laws.records import number, plain, with_errors, with_law
from odediscovery.networks.layers import Network
from odediscovery.result.front import FrontRow, parsed_equations, starts_from_record
from odediscovery.result.survival import Survival
from odediscovery.runtime.files import write_whole
from odediscovery.settings import Settings

FORMAT, VERSION = "odediscovery-result", 1
OUTCOMES = ("converged", "stopped", "poor-fit")

_DAMAGED = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError)


def write_folder(folder: Path, series: TimeSeries, files: Mapping[str, bytes], document: Mapping[str, Any]) -> None:
    """Write the data, other files by name, and at last `result.json`.

    Raises:
        InputError: the folder cannot be made or written.
    """
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_csv(series, folder / "data.csv")
        for name, content in files.items():
            write_whole(folder / name, content)
        write_whole(folder / "result.json", text.encode())
    except OSError as error:
        raise InputError(f"cannot write to {folder}: {error.strerror or error}") from error


def log_lines(log: Iterable[Mapping[str, Any]]) -> bytes:
    """The content of `log.jsonl`: one JSON object a line."""
    return "".join(json.dumps(_jsonable(line)) + "\n" for line in log).encode()


def read_folder(folder: Path) -> dict[str, Any]:
    """The arguments of the `Discovery` that was kept in a folder.

    Raises:
        InputError: no such folder, or a file that is missing, damaged or of another format.
    """
    path = folder / "result.json"
    document = read_document(path)
    try:
        return _arguments(document, folder)
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


def _arguments(document: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    series = _series(document, folder / "data.csv")
    parsed = dataclasses.replace(parsed_equations(document["equations"], series), units=series.units)
    scores, heldout = document["scores"], document["scores"]["r2_heldout"]
    if document["outcome"] not in OUTCOMES:
        raise InputError(f"outcome should be one of {', '.join(OUTCOMES)}")
    # Results of earlier versions have no intervals and no errors of start values.
    freedom = document.get("intervals", {}).get("degrees_of_freedom")
    start_errors = document.get("initial_value_errors")
    return {
        "series": series,
        "equations": with_law(with_errors(parsed, document["terms"], document["exponents"]), document.get("law")),
        "initial_values": starts_from_record(document["initial_values"], series),
        "front": tuple(FrontRow.from_record(row, series) for row in document["pareto"]),
        "mse": number(scores["mse"]),
        "r2": number(scores["r2"]),
        "r2_heldout": None if heldout is None else float(heldout),
        "noise": np.array([number(document["noise"][state]) for state in series.states]),
        "outcome": document["outcome"],
        "messages": tuple(str(text) for text in document["messages"]),
        "settings": Settings(**document["settings"]).checked(),
        "seconds": number(document["seconds"]),
        "network": Network.from_file(folder / "model.npz"),
        "log": _read_log(folder / "log.jsonl"),
        "degrees_of_freedom": None if freedom is None else int(freedom),
        "initial_value_errors": None if start_errors is None else starts_from_record(start_errors, series),
        "estimates": Estimates.from_file(folder / "covariance.npz"),
        "survival": Survival.from_record(document.get("bootstrap")),
    }


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(s, str) for s in value):
        raise InputError("'states' should be a list of column names")
    return tuple(value)


def _read_log(path: Path) -> tuple[Mapping[str, Any], ...]:
    if not path.is_file():
        return ()
    return tuple(json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())


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
