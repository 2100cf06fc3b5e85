"""A simple law for every series of a table: blocks are tasks, and the rows of each are saved as soon as it is done."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from odediscovery.errors import InputError
from odediscovery.many.simple import Row, explain
from odediscovery.many.tables import Block, ParquetBlock, blocks_of, hash_of, is_parquet, parquet_blocks, write_parquet
from odediscovery.result.folder import source_of
from odediscovery.runtime.files import write_whole
from odediscovery.runtime.monitor import Monitor
from odediscovery.runtime.workers import Backend, Failure, results_of_tasks

# Series per task: enough for long vectors, and little to lose in a stop.
BLOCK = 200
COLUMNS = ("series", "outcome", "law", "equation", "r2", "samples", "constants", "exponent", "start", "seconds")


@dataclass(frozen=True)
class Many:
    """Summary of the results of all series."""

    laws: Counter[str]  # number of series that each law explains
    outcomes: Counter[str]
    finished: bool  # whether all series were fitted

    @property
    def series(self) -> int:
        """Number of fitted series."""
        return self.outcomes.total()


def _explained(block: Block | ParquetBlock) -> list[Row]:
    return explain(*block.read())


@dataclass(frozen=True, eq=False)
class Table:
    """A table of many series, its blocks, and the folder of the results."""

    folder: Path
    parquet: bool
    state: str
    blocks: Sequence[Block | ParquetBlock]  # parts that are read one at a time


def opened_table(path: Path, group: str, folder: Path, *, time: str | None = None, state: str | None = None) -> Table:
    """Open a table, CSV or Parquet, in which rows of a group are contiguous, and create or continue its folder."""
    blocks: Sequence[Block | ParquetBlock]
    blocks, columns = (parquet_blocks if is_parquet(path) else blocks_of)(path, group, time, state, BLOCK)
    folder.mkdir(parents=True, exist_ok=True)
    _begin(folder, {**source_of(path), "content": hash_of(path), "columns": list(columns), "series": BLOCK})
    return Table(folder, is_parquet(path), columns[2], blocks)


def fit_many(table: Table, backend: Backend, monitor: Monitor, *, say: Callable[[str], None] = lambda _: None) -> Many:
    """Fit every series of a table and write `summary.csv` in its folder, for Parquet also `summary.parquet`.

    Blocks fitted before are skipped; `say` is called with the reason of every failure.
    """
    folder, blocks, name = table.folder, table.blocks, table.state
    kept, failed = folder / "rows.jsonl", dict[int, Failure]()
    done = set(_places(kept))
    monitor.stage("blocks of series", len(blocks))
    with kept.open("ab") as file:
        waiting = sorted(set(range(len(blocks))) - done)
        tasks = [blocks[number] for number in waiting]
        # A block takes a second or less.
        for place, rows in results_of_tasks(backend, _explained, tasks, 600.0, monitor.stopping):
            number = waiting[place]
            if isinstance(rows, Failure):
                failed[number] = rows
                continue
            file.write((json.dumps({"block": number, "rows": rows}) + "\n").encode())
            file.flush()
            done.add(number)
            monitor.step(len(done))
    for number, failure in sorted(failed.items()):
        say(f"block {number}: {failure.reason}")
    if table.parquet:
        named = ([row | {"equation": _cell(row, "equation", name)} for row in rows] for _, rows in _lines(kept))
        write_parquet(folder / "summary.parquet", named)
    return _summarised(folder, name, len(blocks))


def _begin(folder: Path, source: dict[str, Any]) -> None:
    """Create or continue the folder; rows of an earlier version of the table are deleted, other tables rejected."""
    path = folder / "source.json"
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    same = {key for key in source if source[key] == before.get(key)}
    if same >= {"content", "columns", "series"}:
        return
    if before and not same >= {"path", "columns"}:
        raise InputError(f"{folder} was begun with another table or column; name a new folder with --out")
    if not before and any(folder.iterdir()):
        raise InputError(f"{folder}: a folder that holds something else; choose a new one")
    (folder / "rows.jsonl").unlink(missing_ok=True)
    write_whole(path, json.dumps(source).encode())


def _places(path: Path) -> dict[int, int]:
    """Positions of the saved blocks in a file; truncates it before a line that is incomplete."""
    found, whole = dict[int, int](), 0
    with path.open("a+b") as file:
        file.seek(0)
        for line in file:
            try:
                found[int(json.loads(line)["block"])] = whole
            except (ValueError, KeyError, TypeError):
                file.truncate(whole)
                break
            whole += len(line)
    return found


def _lines(path: Path) -> Iterator[tuple[int, list[Row]]]:
    """Numbers and rows of the saved blocks in the order of the table, with one block in memory at a time."""
    places = _places(path)
    with path.open("rb") as file:
        for number in sorted(places):
            file.seek(places[number])
            yield number, json.loads(file.readline())["rows"]


def label_places(folder: Path) -> dict[str, int]:
    """Block numbers of the fitted series, by label."""
    return {row["series"]: number for number, rows in _lines(folder / "rows.jsonl") for row in rows}


def _summarised(folder: Path, name: str, blocks: int) -> Many:
    """Write `summary.csv` from the saved rows and count them, with one block in memory at a time."""
    laws, outcomes, count = Counter[str](), Counter[str](), 0
    part = folder / "summary.csv.part"
    with part.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        for _, rows in _lines(folder / "rows.jsonl"):
            count += 1
            outcomes.update(row["outcome"] for row in rows)
            laws.update(row["law"] for row in rows if row["outcome"] == "explained")
            table.writerows([_cell(row, column, name) for column in COLUMNS] for row in rows)
    part.replace(folder / "summary.csv")
    return Many(laws, outcomes, count == blocks)


def _cell(row: Row, column: str, name: str) -> Any:
    value = row.get(column, "")
    if column == "equation":
        return str(value).replace("x'", f"{name}'").replace("*x", f"*{name}")
    return " ".join(f"{c:.6g}" for c in value) if isinstance(value, list) else value


def told(many: Many, group: str, table: str) -> str:
    """The frequencies of laws and outcomes, and the proposed common structure, as text."""
    lines = [f"{many.series} series"]
    lines += [f"{count:8d}  {law}" for law, count in many.laws.most_common()]
    lines += [f"{count:8d}  ({one})" for one, count in many.outcomes.most_common() if one != "explained"]
    for law, count in many.laws.most_common(1):
        lines.append(
            f"most follow {law} ({count / many.series:.0%}): one law with constants of their own, "
            f"odediscovery fit {table} --group {group} --vary auto"
        )
    return "".join(f"{line}\n" for line in lines)
