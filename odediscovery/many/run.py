"""Every series of a table its own law: blocks are tasks, rows are kept as they come, a stop loses nothing."""

from __future__ import annotations

import csv
import io
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

# Series that one task fits: enough for long vectors, little to lose.
BLOCK = 200
COLUMNS = ("series", "outcome", "law", "equation", "r2", "samples", "constants", "exponent", "start", "seconds")


@dataclass(frozen=True)
class Many:
    """What became of all series.

    Args:
        series: how many there are.
        laws: how often each law explains one.
        outcomes: how often each outcome.
        failed: tasks without a result, with the reason.
        finished: whether all series were fitted.
    """

    series: int
    laws: Counter[str]
    outcomes: Counter[str]
    failed: tuple[str, ...]
    finished: bool


def _explained(block: Block | ParquetBlock) -> list[Row]:
    """The laws of one block."""
    return explain(*block.read())


@dataclass(frozen=True, eq=False)
class Table:
    """A table of many series, its blocks, and the folder of what is found.

    Args:
        folder: begun before by the same table, it is continued.
        parquet: whether it is of Parquet.
        state: name of the state.
        blocks: parts that are read one at a time.
    """

    folder: Path
    parquet: bool
    state: str
    blocks: Sequence[Block | ParquetBlock]


def opened_table(path: Path, group: str, folder: Path, *, time: str | None = None, state: str | None = None) -> Table:
    """A table, and its folder begun.

    Args:
        path: CSV or Parquet file, or a folder of Parquet files; rows of one group stand together.
        group: column that tells the series apart.
        folder: begun before by the same table, or new. Where the table has changed since, it begins anew.
        time, state: columns.

    Raises:
        InputError: the table or the folder is of another kind.
    """
    parquet = is_parquet(path)
    blocks: Sequence[Block | ParquetBlock]
    blocks, columns = (parquet_blocks if parquet else blocks_of)(path, group, time, state, BLOCK)
    folder.mkdir(parents=True, exist_ok=True)
    _begin(folder, {**source_of(path), "content": hash_of(path), "columns": list(columns), "series": BLOCK})
    return Table(folder, parquet, columns[2], blocks)


def fit_many(table: Table, backend: Backend, monitor: Monitor, *, say: Callable[[str], None] = lambda _: None) -> Many:
    """The law of every series of a table, kept in `summary.csv` of a folder, of Parquet in `summary.parquet` too.

    Args:
        table: what was not fitted before is fitted.
        backend: where blocks are fitted.
        monitor: hears the progress and can stop the work.
        say: hears what failed.
    """
    folder, blocks, name = table.folder, table.blocks, table.state
    kept, failed = folder / "rows.jsonl", dict[int, Failure]()
    done = _done(kept)
    monitor.stage("blocks of series", len(blocks))
    with kept.open("ab") as file:
        waiting = [number for number in range(len(blocks)) if number not in done]
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
    reasons = [f"block {number}: {failure.reason}" for number, failure in sorted(failed.items())]
    for reason in reasons:
        say(reason)
    if table.parquet:
        named = (
            [row | {"equation": _cell(row["equation"], name, "equation")} for row in rows] for _, rows in _lines(kept)
        )
        write_parquet(folder / "summary.parquet", named)
    return _summarised(folder, name, len(blocks), tuple(reasons))


def _begin(folder: Path, source: dict[str, Any]) -> None:
    """Rows that are kept are those of this table as it is now; those of an earlier state of it are taken away.

    Raises:
        InputError: the folder is that of something else.
    """
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


def _done(path: Path) -> set[int]:
    """Blocks that are kept; a line that was cut off by a kill is taken away."""
    if not path.exists():
        return set()
    found, whole = set[int](), 0
    with path.open("rb") as file:
        for line in file:
            try:
                found.add(int(json.loads(line)["block"]))
            except (ValueError, KeyError, TypeError):
                break
            whole += len(line)
    with path.open("ab") as file:
        file.truncate(whole)
    return found


def _lines(path: Path) -> Iterator[tuple[int, list[Row]]]:
    """The blocks in the order of the table, in whatever order they came; one is in memory at a time."""
    with path.open("rb") as file:
        places, at = [], 0
        for line in file:
            places.append((int(json.loads(line)["block"]), at))
            at += len(line)
        for number, place in sorted(places):
            file.seek(place)
            yield number, json.loads(file.readline())["rows"]


def label_places(folder: Path, labels: Sequence[str] | None) -> dict[str, int]:
    """Blocks of the series that were fitted, by label; of all without labels."""
    asked = None if labels is None else set(labels)
    return {
        row["series"]: number
        for number, rows in _lines(folder / "rows.jsonl")
        for row in rows
        if asked is None or row["series"] in asked
    }


def _summarised(folder: Path, name: str, blocks: int, failed: tuple[str, ...]) -> Many:
    """`summary.csv` from the rows as they came, and the counts; one block is in memory at a time."""
    laws, outcomes, series, count = Counter[str](), Counter[str](), 0, 0
    with (folder / "summary.csv.part").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        for _, rows in _lines(folder / "rows.jsonl"):
            count += 1
            for row in rows:
                series += 1
                outcomes[row["outcome"]] += 1
                if row["outcome"] == "explained":
                    laws[row["law"]] += 1
                table.writerow([_cell(row.get(column), name, column) for column in COLUMNS])
    (folder / "summary.csv.part").replace(folder / "summary.csv")
    return Many(series, laws, outcomes, failed, count == blocks)


def _cell(value: Any, name: str, column: str) -> Any:
    if column == "equation" and value:
        return str(value).replace("x'", f"{name}'").replace("*x", f"*{name}")
    return " ".join(f"{c:.6g}" for c in value) if isinstance(value, list) else "" if value is None else value


def told(many: Many, group: str, table: str) -> str:
    """The laws that occur, and the proposed common structure, as text."""
    out = io.StringIO()
    print(f"{many.series} series", file=out)
    for law, count in many.laws.most_common():
        print(f"{count:8d}  {law}", file=out)
    for outcome, count in many.outcomes.most_common():
        if outcome != "explained":
            print(f"{count:8d}  ({outcome})", file=out)
    if many.laws:
        law, count = many.laws.most_common(1)[0]
        print(
            f"most follow {law} ({count / max(many.series, 1):.0%}): one law with constants of their own, "
            f"odediscovery fit {table} --group {group} --vary auto",
            file=out,
        )
    return out.getvalue()
