"""Kept batches of an experiment, and rows of a suite, that were damaged: run again, never a traceback."""

import json
import random
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import folders
import numpy as np

from odediscovery.bench.rows import Rows
from odediscovery.experiments import study
from odediscovery.experiments.base import Ran

BATCH = {"task": "add", "model": "NAU"}
_ROW = {"id": "a", "method": "ours", "seconds": 1.0}


@cache
def _whole():
    above = Path(mkdtemp(prefix="hostile-"))
    (above / "batches").mkdir()
    study._keep(above, Ran(BATCH, [{"loss": 0.5}, {"loss": float("nan")}], {"w": np.ones((2, 3))}, 1.0))
    return above


def damaged_batch(seed):
    """A batch is read as it was, or not at all."""
    pick, place = random.Random(seed), Path("batches")
    place.mkdir()
    for path in (_whole() / "batches").iterdir():
        (place / path.name).write_bytes(path.read_bytes())
    whole = study._read(Path(), BATCH)
    assert whole is not None and whole.arrays["w"].shape == (2, 3)
    path = pick.choice(sorted(place.iterdir()))
    change = pick.random()
    if change < 0.15:
        path.unlink()
    elif change < 0.4 and path.suffix == ".json":
        path.write_text(json.dumps(folders.altered(json.loads(path.read_text()), pick)))
    elif change < 0.5:
        path.write_text(pick.choice(("[" * 300_000, "null", "[]", "{}", "PK", '{"rows": 3}')))
    else:
        path.write_bytes(folders.damaged(path.read_bytes(), pick))
    ran = study._read(Path(), BATCH)
    assert ran is None or (ran.batch == BATCH and ran.rows and all(isinstance(row, dict) for row in ran.rows))


def damaged_rows(seed):
    """Rows of a suite that are whole are kept, all others are done again."""
    pick, place = random.Random(seed), Path("kept")
    kept = Rows(place, {"suite": "test"}, tuple(_ROW))
    for name in "abc":
        kept.add({**_ROW, "id": name})
    path = place / "rows.jsonl"
    if pick.random() < 0.5:
        path.write_bytes(folders.damaged(path.read_bytes(), pick))
    else:
        lines = [json.dumps(folders.altered(json.loads(line), pick)) for line in path.read_text().splitlines()]
        path.write_text("\n".join(lines) + "\n")
    again = Rows(place, {"suite": "test"}, tuple(_ROW))
    for name in "abc":
        again.add({**_ROW, "id": name})
        assert again.has(name, "ours")
