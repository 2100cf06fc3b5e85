"""A reproduction on disk: finished batches are saved, and the same command continues from them.

DIR/study.json            options, and times
DIR/batches/*.json, *.npz one finished batch each
DIR/runs.csv              a row for each run: batch, seed, settings, all results
DIR/table.md, DIR/NAME.png
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from odediscovery.bench.rows import claim_folder, provenance
from odediscovery.errors import FitError
from odediscovery.experiments.base import Experiment, Job, Plan, Ran, Stopped
from odediscovery.plots.figures import save_figure
from odediscovery.runtime.archives import DAMAGED
from odediscovery.runtime.files import write_whole
from odediscovery.runtime.monitor import Monitor, keep_freed_memory
from odediscovery.runtime.workers import Backend, Failure


def reproduce(
    experiment: Experiment, plan: Plan, folder: Path, monitor: Monitor, backend: Backend | None = None
) -> list[Ran]:
    """Run the batches that are not yet in `folder`, then write the rows, the table and the figure."""
    asked = {"experiment": experiment.name, **asdict(plan)}
    claim_folder(folder, asked)
    (folder / "batches").mkdir(exist_ok=True)
    batches = experiment.batches(plan)
    kept = [_read(folder, batch) for batch in batches]
    missing = [i for i, ran in enumerate(kept) if ran is None]
    failed: list[str] = []

    def one_by_one() -> Iterator[tuple[int, Any]]:
        """Run the batches in this process, each with its own progress."""
        for number, i in enumerate(missing):
            # After a request to stop, no further batch is run.
            if monitor.stopping():
                return
            monitor.stage(f"{i + 1} of {len(batches)}: {' '.join(batches[i].values())}", 1)
            with suppress(Stopped):
                yield number, run_batch((experiment, plan, batches[i]), monitor)

    if backend is None:
        ended = one_by_one()
    else:
        tasks = [(experiment, plan, batches[i]) for i in missing]
        monitor.stage(f"{len(missing)} of {len(batches)} batches", len(missing))
        ended = backend.results(run_batch, tasks, math.inf, monitor.stopping)
    for done, (number, result) in enumerate(ended, start=1):
        i = missing[number]
        if isinstance(result, Failure):
            failed.append(f"{' '.join(batches[i].values())}: {result.reason}")
            continue
        kept[i] = result
        _keep(folder, result)
        if backend is not None:
            monitor.step(done)
    whole = [ran for ran in kept if ran is not None]
    if whole:
        _report(experiment, plan, folder, whole, len(batches))
    if failed:
        raise FitError(
            f"{len(failed)} of {len(batches)} batches could not be done; the others are "
            f"kept in {folder} ({', '.join(failed)})"
        )
    return whole


def run_batch(task: tuple[Experiment, Plan, dict[str, str]], monitor: Monitor | None = None) -> Ran:
    """Run one batch; raise `Stopped` if the monitor requests to stop."""
    keep_freed_memory()
    experiment, plan, batch = task
    began = time.monotonic()
    rows, arrays = experiment.run(Job(plan, batch, monitor or Monitor()))
    return Ran(batch, rows, arrays, round(time.monotonic() - began, 2))


def _report(experiment: Experiment, plan: Plan, folder: Path, ran: Sequence[Ran], total: int) -> None:
    seconds, mode = sum(r.seconds for r in ran), "full" if plan.full else "quick"
    done = "" if len(ran) == total else f" {len(ran)} of {total} batches are done."
    command = f"odediscovery reproduce {experiment.name} --preset {plan.preset} --{mode} --seed {plan.seed}"
    count = f"{sum(len(r.rows) for r in ran)} runs in {len(ran)} batches"
    head = f"# {experiment.title}\n\n`{command}`: {count}, {seconds:.0f} s.{done}\n\n"
    # The columns are the union over all rows.
    rows = [
        {**r.batch, "seed": plan.seed, "run": i, **row, "batch_seconds": r.seconds}
        for r in ran
        for i, row in enumerate(r.rows)
    ]
    stream = io.StringIO()
    runs = csv.DictWriter(stream, list(dict.fromkeys(key for row in rows for key in row)), "", lineterminator="\n")
    runs.writeheader()
    runs.writerows(rows)
    write_whole(folder / "runs.csv", stream.getvalue().encode())
    write_whole(folder / "table.md", (head + experiment.table(plan, ran)).encode())
    for name, figure in experiment.figures(plan, ran).items():
        save_figure(figure, folder / f"{name}.png")
    document = {"experiment": experiment.name, **asdict(plan), "command": command, "batches": len(ran)}
    document |= {"of": total, "seconds": round(seconds, 1), **provenance()}
    write_whole(folder / "study.json", (json.dumps(document, indent=1) + "\n").encode())


def _place(folder: Path, batch: dict[str, str], kind: str) -> Path:
    name = re.sub(r"[^\w.-]", lambda m: f"%{ord(m[0]):x}", "_".join(batch.values()))
    return folder / "batches" / f"{name}.{kind}"


def _keep(folder: Path, ran: Ran) -> None:
    if ran.arrays:
        stream = io.BytesIO()
        np.savez_compressed(stream, allow_pickle=False, **ran.arrays)
        write_whole(_place(folder, ran.batch, "npz"), stream.getvalue())
    document = {"batch": ran.batch, "rows": ran.rows, "seconds": ran.seconds, "arrays": sorted(ran.arrays)}
    write_whole(_place(folder, ran.batch, "json"), (json.dumps(document) + "\n").encode())


def _read(folder: Path, batch: dict[str, str]) -> Ran | None:
    """Read a finished batch; None if it cannot be read, so that it is run again."""
    try:
        document = json.loads(_place(folder, batch, "json").read_text(encoding="utf-8"))
        rows, arrays, packed = document["rows"], dict[str, Any](), _place(folder, batch, "npz")
        if packed.is_file():
            with np.load(io.BytesIO(packed.read_bytes()), allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        whole = isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows)
        # Batches of earlier versions do not list their arrays.
        if not whole or document["batch"] != batch or set(document.get("arrays", arrays)) != set(arrays):
            return None
        return Ran(batch, rows, arrays, float(document["seconds"]))
    except (*DAMAGED, OSError, EOFError, zipfile.BadZipFile, NotImplementedError):
        return None
