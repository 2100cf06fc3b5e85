"""The folder of a result: written as a whole, and read back without trusting its content.

`result.json` holds the hash of every file beside it. Equations pass the whitelist of `expressions`, arrays are read
without pickle, and damage raises an `InputError` that names the file. Earlier versions wrote no hashes.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, get_args

from odediscovery.data.series import TimeSeries, series_of, series_text, with_columns, with_interpolations
from odediscovery.data.sheets import exact_table
from odediscovery.data.table import check_names
from odediscovery.errors import InputError
from odediscovery.judge.notes import Note, Weight
from odediscovery.laws.equations import Equations
from odediscovery.laws.records import Estimates, FoundBy, number, with_errors, with_law
from odediscovery.networks.chain import Network
from odediscovery.result.front import FrontRow, checked_text, jsonable, numbers, parsed_equations, starts_from_record
from odediscovery.result.named import NamedConstants
from odediscovery.result.population import Population
from odediscovery.result.profiled import Profile
from odediscovery.result.survival import Survival
from odediscovery.runtime.archives import DAMAGED, read_bytes, read_json
from odediscovery.runtime.files import Claim, claimed
from odediscovery.runtime.texts import check_letters
from odediscovery.settings import Settings

FORMAT, VERSION = "odediscovery-result", 1
OUTCOMES = ("converged", "stopped", "poor-fit")
# All files of a folder, `result.json` last. Other files there belong to the user and stay.
OWN = (
    "data.csv",
    "model.npz",
    "covariance.npz",
    "equations.tex",
    "log.jsonl",
    *(f"{name}.{kind}" for name in ("fit", "pareto", "weights", "checks", "groups") for kind in ("png", "pdf", "svg")),
    "report.html",
    "result.json",
)


def write_folder(
    folder: Path,
    series: TimeSeries,
    files: Mapping[str, bytes],
    document: Mapping[str, Any],
    *,
    claim: Claim | None = None,
    add: Callable[[Path], None] | None = None,
) -> None:
    """Replace the folder at once by a new one with the data, `files`, what `add` writes and `result.json`."""

    def fill(new: Path) -> None:
        for name, content in {"data.csv": series_text(series).encode(), **files}.items():
            (new / name).write_bytes(content)
        if add is not None:
            add(new)
        hashes = {path.name: _hash(path.read_bytes()) for path in sorted(new.iterdir()) if path.name in OWN}
        whole = json.dumps({**document, "files": hashes}, indent=1, ensure_ascii=False, allow_nan=False)
        (new / "result.json").write_bytes(f"{whole}\n".encode())

    try:
        with ExitStack() as held:
            (claim or held.enter_context(claimed(folder))).replace(fill, OWN)
    except OSError as error:
        raise InputError(f"cannot write to {folder}: {error.strerror or error}") from error


def log_lines(log: Iterable[Mapping[str, Any]]) -> bytes:
    """The content of `log.jsonl`: one JSON object per line."""
    return "".join(json.dumps(jsonable(line)) + "\n" for line in log).encode()


def source_of(table: Path) -> dict[str, str]:
    """The record of a table: its name, and a hash of its path that distinguishes it from others of that name."""
    return {"table": table.name, "path": hashlib.sha256(os.fsencode(table.resolve())).hexdigest()}


def read_folder(folder: Path) -> dict[str, Any]:
    """The arguments of the `Discovery` stored in a folder."""
    path = folder / "result.json"
    for _ in range(4):
        content = _content(path)
        try:
            return _read(content, folder)
        except InputError:
            # If the folder was replaced between two reads, another attempt reads the new result.
            if _content(path) == content:
                raise
    return _read(_content(path), folder)


def read_document(path: Path, content: bytes | None = None) -> dict[str, Any]:
    """The JSON of a result, checked for format and version."""
    try:
        document = read_json(_content(path) if content is None else content)
    except ValueError as error:
        raise InputError(f"{path} is no JSON file ({error}); fit the data again") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InputError(f"{path} is no result of odediscovery: its format is not {FORMAT!r}")
    version = document.get("version")
    if version != VERSION or isinstance(version, bool):
        raise InputError(f"{path} has version {version!r}, this program reads {VERSION}; fit the data again")
    return document


def _content(path: Path) -> bytes:
    if not path.parent.is_dir():
        raise InputError(f"{path.parent}: no such folder; give the folder that `fit` wrote")
    if not path.exists():
        raise InputError(f"{path.parent} holds no result.json: not written by `fit`")
    return read_bytes(path)


def _read(content: bytes, folder: Path) -> dict[str, Any]:
    path = folder / "result.json"
    document = read_document(path, content)
    try:
        return _arguments(document, folder)
    except InputError as error:
        named = str(folder) in str(error)
        raise error if named else InputError(f"{path}: {error}") from error
    except DAMAGED as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{path} is damaged ({type(error).__name__}: {reason}); fit the data again") from error


def _companion(document: Mapping[str, Any], folder: Path, name: str, optional: bool = False) -> bytes | None:
    """The content of a file beside `result.json`; None if an earlier version did not write it."""
    # Results of earlier versions have no hashes.
    hashes = document.get("files")
    if optional and hashes is None and not (folder / name).exists():
        return None
    content = read_bytes(folder / name)
    if hashes is not None and hashes.get(name) != _hash(content):
        raise InputError(f"{folder / name} is damaged (not the file that was written with result.json); fit again")
    return content


def _hash(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _series(document: Mapping[str, Any], folder: Path) -> TimeSeries:
    """The fitted data, controls included."""
    states, time_name = _texts(document["states"], "states"), document["time"]
    # Results of earlier versions have no controls and no unmeasured states.
    ways, blank = document.get("inputs", {}), _texts(document.get("unmeasured", []), "unmeasured")
    acting = [name for name in ways if name != time_name]
    sigma, group, units = document.get("sigma_columns", {}), document["group"], document["units"]
    check_names([time_name, *states, *acting])
    texts = [*sigma, *sigma.values(), *units, *units.values(), *([] if group is None else [group])]
    for name in _texts(texts, "units"):
        check_letters(name)
    if not set(blank) < set(states):
        raise InputError("'unmeasured' should be some of the states")
    path = folder / "data.csv"
    table = exact_table(_companion(document, folder, path.name) or b"", path)
    columns = [name for name in states if name not in blank] + acting
    series = series_of(table, path, time_name, columns, group, sigma, None)
    series = with_columns(with_interpolations(series, ways), states)
    return dataclasses.replace(series, units=dict(units), since=checked_text(document.get("since", "")))


def _arguments(document: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    def if_any(key: str, read: Callable[[Any], Any]) -> Any:
        record = document.get(key)
        return None if record is None else read(record)

    series = _series(document, folder)
    scores, heldout = document["scores"], document["scores"]["r2_heldout"]
    if document["outcome"] not in OUTCOMES:
        raise InputError(f"outcome should be one of {', '.join(OUTCOMES)}")
    # Results of earlier versions have no intervals, no errors of start values, and do not record the stage that found
    # the law or the messages that doubt it.
    freedom, found_by = document.get("intervals", {}).get("degrees_of_freedom"), document.get("found_by")
    if found_by is not None and found_by not in get_args(FoundBy):
        raise InputError("'found_by' should be training, regression, textbook or null")
    texts, doubts = _texts(document["messages"], "messages"), _texts(document.get("doubts", []), "doubts")
    model = _companion(document, folder, "model.npz") or b""
    covariance = _companion(document, folder, "covariance.npz", optional=True)
    equations = _equations(document, series)
    population = if_any("population", Population.from_record)
    return {
        "series": series,
        "equations": equations,
        "initial_values": starts_from_record(document["initial_values"], series),
        "front": tuple(FrontRow.from_record(row, series) for row in document["pareto"]),
        "mse": number(scores["mse"]),
        "r2": number(scores["r2"]),
        "r2_heldout": None if heldout is None else float(heldout),
        "noise": numbers([document["noise"][state] for state in series.states]),
        "outcome": document["outcome"],
        "messages": tuple(Note(text, Weight.DOUBT) if text in doubts else text for text in texts),
        "settings": Settings(**document["settings"]).checked(),
        "seconds": number(document["seconds"]),
        "network": Network.from_bytes(model, folder / "model.npz"),
        "log": _read_log(_companion(document, folder, "log.jsonl", optional=True), folder / "log.jsonl"),
        "degrees_of_freedom": None if freedom is None else int(freedom),
        "initial_value_errors": if_any("initial_value_errors", partial(starts_from_record, series=series)),
        "estimates": None if covariance is None else Estimates.from_bytes(covariance, folder / "covariance.npz"),
        "survival": if_any("bootstrap", Survival.from_record),
        "named": if_any("named_constants", NamedConstants.from_record),
        "textbook": if_any("textbook", NamedConstants.from_record),
        "found_by": found_by or "",
        "profiles": tuple(Profile.from_record(one, equations) for one in document.get("profiles", ())),
        "population": population and population.checked(equations.power_sum, len(series.trajectories)),
    }


def _equations(document: Mapping[str, Any], series: TimeSeries) -> Equations:
    """The equations with units, errors and the law in numbers."""
    parsed = dataclasses.replace(parsed_equations(document["equations"], series), units=series.units)
    law = with_law(with_errors(parsed, document["terms"], document["exponents"]), document.get("law"))
    spare = document.get("spare_digits", 0)
    if not isinstance(spare, int) or not 0 <= spare <= 12:
        raise InputError("'spare_digits' should be a whole number from 0 to 12")
    return dataclasses.replace(law, spare=spare)


def _texts(value: Any, key: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(s, str) for s in value):
        raise InputError(f"{key!r} should be a list of texts")
    return tuple(value)


def _read_log(content: bytes | None, path: Path) -> tuple[Mapping[str, Any], ...]:
    lines = []
    for k, line in enumerate((content or b"").split(b"\n"), start=1):
        try:
            value = read_json(line) if line.strip() else {}
        except ValueError as error:
            raise InputError(f"{path} is damaged (line {k}: {error}); fit the data again") from error
        if not isinstance(value, dict):
            raise InputError(f"{path} is damaged (line {k} is no object); fit the data again")
        lines += [value] * bool(line.strip())
    return tuple(lines)
