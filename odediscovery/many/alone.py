"""Selected series of a large table, each fitted by the full search instead of simple laws."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from odediscovery.data.series import TimeSeries, series_text
from odediscovery.discovery.discover import discover
from odediscovery.errors import InputError, OdeDiscoveryError, unknown_name
from odediscovery.many.run import Table, label_places
from odediscovery.result.discovery import Discovery
from odediscovery.result.folder import read_document
from odediscovery.runtime.monitor import Monitor
from odediscovery.runtime.workers import Backend, Failure, results_of_tasks
from odediscovery.settings import Settings


@dataclass(frozen=True, eq=False)
class Alone:
    """A task: one series and the folder for its result."""

    label: str
    series: TimeSeries
    settings: Settings
    folder: Path
    source: Mapping[str, str]  # entry of `result.json` on the table

    @property
    def is_done(self) -> bool:
        """Whether the folder already has a result of the same series and settings that was not stopped early."""
        try:
            kept = read_document(self.folder / "result.json")
        except InputError:
            return False
        settings = json.loads(json.dumps(self.settings.as_dict()))  # as they come back from a file
        same = kept.get("source") == dict(self.source) and kept.get("settings") == settings
        return same and kept.get("outcome") != "stopped"


def chosen_alone(table: Table, labels: Sequence[str], settings: Settings, source: Mapping[str, str]) -> list[Alone]:
    """The series with some labels, read from their blocks; the time limit applies to all fits together, not to each."""
    places = label_places(table.folder)
    for label in labels:
        if label not in places:
            raise unknown_name("series for --folders", label, list(places))
    own = replace(settings, max_seconds=None)
    found: dict[str, Alone] = {}
    for number in sorted({places[label] for label in labels}):
        block = table.blocks[number]
        for label, (t, x) in zip(*block.read(), strict=True):
            if label in labels:
                try:
                    series = TimeSeries.from_arrays(t, x, [table.state], time_name=block.columns[1])
                except InputError as error:
                    raise InputError(f"series {label!r} cannot be fitted alone: {error}") from None
                folder = table.folder / f"{folder_name(label)}.odediscovery"
                content = hashlib.sha256(series_text(series).encode()).hexdigest()
                found[label] = Alone(label, series, own, folder, {**source, "series": label, "content": content})
    return [found[label] for label in dict.fromkeys(labels)]


def fit_alone(chosen: Sequence[Alone], backend: Backend, monitor: Monitor) -> Iterator[tuple[Alone, Discovery | str]]:
    """Yield the result of every series as it finishes, or the reason why there is none."""
    monitor.stage("series alone", len(chosen))
    results = results_of_tasks(backend, _fitted, chosen, stopping=monitor.stopping)
    for done, (number, found) in enumerate(results, start=1):
        yield chosen[number], found.reason if isinstance(found, Failure) else found
        monitor.step(done)


def folder_name(label: str) -> str:
    """A label as the name of a folder, with characters unsafe in file systems escaped, such as %2F.

    >>> folder_name("A1"), folder_name("plate 3/B 7")
    ('A1', 'plate 3%2FB 7')
    """
    name = re.sub(r"^\.|[^\w+=(), .-]", lambda c: "".join(f"%{byte:02X}" for byte in c[0].encode()), label)
    if len(name) <= 80 and name == name.strip() and name:
        return name
    # Names that are long or have blanks at the ends, which some systems remove.
    return f"{name[:80].strip()}-{hashlib.sha256(label.encode()).hexdigest()[:8]}"


def _fitted(alone: Alone) -> Discovery | str:
    try:
        return discover(alone.series, alone.settings)
    except OdeDiscoveryError as error:
        return str(error)
