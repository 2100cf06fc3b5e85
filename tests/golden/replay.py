"""Replay every kind of fit and compare with what is kept: the same laws, notes and printed pages.

    make golden                        all of it, twenty minutes on two processors
    make golden ONLY=random EVERY=8    every eighth case of the parts that begin so
    make golden RECORD=1               keep what was found as what is right, after a look at the differences

Rows are kept in golden/, by the state of the code, as soon as they are known: an interrupted run goes on.
Exit code 1: something differs. Seconds, those of the processor, are compared part by part, in the same
table; on a busy machine they say little.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from golden.cases import LIMIT, all_cases
from golden.commands import SCRIPTS, transcript
from golden.compare import Row, differences
from odediscovery import discover, settings_for
from odediscovery.data.series import TimeSeries
from odediscovery.runtime.monitor import on_processor_time
from odediscovery.runtime.workers import Failure, Processes

ROOT = Path(__file__).resolve().parents[2]
RECORD = Path(__file__).parent / "record.jsonl"
COMMANDS = "command"
# Share of its limit after which a search ends, or nearly.
SEARCHED = 0.55
# Wall-clock seconds, by much more than a fit takes, after which it is killed.
KILL = 900.0


def names() -> list[str]:
    """All cases, in the order of their parts."""
    return [*all_cases(), *(f"{COMMANDS}/{name}" for name in SCRIPTS)]


def replay(name: str) -> Row:
    """The row of a case: what is found, or the reason why there is nothing."""
    began = _processor_seconds()
    try:
        found = transcript(name.partition("/")[2]) if name.startswith(COMMANDS) else _fitted(name)
    except Exception as error:
        found = {"failed": f"{type(error).__name__}: {error}"}
    return {"name": name, **found, "seconds": round(_processor_seconds() - began, 3)}


def _processor_seconds() -> float:
    """Of this process and of the commands that it ran."""
    return sum(os.times()[:4])


def _fitted(name: str) -> Row:
    case = all_cases()[name]
    series = case.data()
    row, began = dict[str, Any](input=checksum(series)), time.process_time()
    try:
        with on_processor_time():
            found = discover(series, settings_for(**{"seed": 0, "max_seconds": LIMIT, **case.options()}))
    except Exception as error:
        return row | {"failed": f"{type(error).__name__}: {error}"}
    return row | {
        "outcome": found.outcome,
        "found_by": found.found_by,
        "equations": found.equations.texts(),
        "r2": round(found.r2, 6),
        "messages": list(found.messages),
        "limited": time.process_time() - began > SEARCHED * LIMIT,
    }


def checksum(series: TimeSeries) -> int:
    """Of all times and values to six digits: another generator is another case, not another result."""
    parts = [array for run in series.trajectories for array in (run.time, run.values)]
    return zlib.crc32("".join(np.array2string(p.ravel(), precision=6, threshold=10**9) for p in parts).encode())


def state_of_the_code() -> str:
    """Of all modules of the package."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "odediscovery").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def read(path: Path) -> dict[str, Row]:
    """Rows of a file by name; a line that was cut short is none."""
    rows = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        rows[row["name"]] = row
    return rows


def table(was: Mapping[str, Row], now: Mapping[str, Row]) -> tuple[str, int]:
    """Part by part how many rows are equal and how long they took; then every difference. And their number."""
    parts: dict[str, list[str]] = defaultdict(list)
    for name in now:
        parts["/".join(name.split("/")[:-1])].append(name)
    changed = {name: differences(was[name], now[name]) for name in now if name in was}
    lines = ["| part | cases | equal | seconds before | now | ratio |", "| --- | --: | --: | --: | --: | --: |"]
    for part, own in {**parts, "all": list(now)}.items():
        known = [name for name in own if name in was]
        before, after = (sum(rows[name]["seconds"] for name in known) for rows in (was, now))
        equal = sum(not changed[name] for name in known)
        ratio = after / before if before else float("nan")
        lines.append(f"| {part} | {len(own)} | {equal} | {before:.1f} | {after:.1f} | {ratio:.2f} |")
    for name, found in changed.items():
        if found:
            lines += [
                f"\n{name} (R2 {was[name].get('r2')} -> {now[name].get('r2')})",
                *(f"    {line}" for line in found),
            ]
    new = [name for name in now if name not in was]
    lines += [f"\nnot kept yet: {len(new)} cases"] * bool(new)
    return "\n".join(lines), sum(map(bool, changed.values())) + len(new)


def chosen(only: str, every: int) -> list[str]:
    """Names that begin with one of the words, and of these one of so many."""
    words = tuple(word for word in only.split(",") if word)
    return [name for name in names() if not words or name.startswith(words)][::every]


def run(wanted: Iterable[str], folder: Path, jobs: int) -> dict[str, Row]:
    """Rows of the wanted cases; those that the folder does not hold for this code are made."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{state_of_the_code()}.jsonl"
    rows, wanted = read(path), list(wanted)
    left = [name for name in wanted if name not in rows]
    for done, (number, row) in enumerate(Processes(jobs).results(replay, left, KILL), start=1):
        if isinstance(row, Failure):
            row = {"name": left[number], "failed": row.reason, "seconds": row.seconds}
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        rows[row["name"]] = row
        print(f"{done} of {len(left)}  {row['name']}  {row['seconds']:.1f} s", file=sys.stderr, flush=True)
    return {name: rows[name] for name in wanted}


def main(arguments: list[str] | None = None) -> int:
    """The command of `make golden`."""
    options: Any = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default="", help="beginnings of names, with commas")
    options.add_argument("--every", type=int, default=1, help="one of so many cases")
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--record", action="store_true", help="keep what was found as what is right")
    told = options.parse_args(arguments)
    was, now = read(RECORD), run(chosen(told.only, told.every), ROOT / "golden", told.jobs)
    text, count = table(was, now)
    print(text)
    if told.record:
        order = {name: place for place, name in enumerate(names())}
        kept = sorted((was | now).values(), key=lambda row: order.get(row["name"], len(order)))
        RECORD.write_text("".join(json.dumps(row) + "\n" for row in kept if row["name"] in order), encoding="utf-8")
        return 0
    return int(count > 0)
