"""Transcripts: what the commands print, with which exit code, and which keys `result.json` has.

A transcript is a script of commands in one folder of its own, so that a later one reads what an earlier
one wrote. What belongs to the machine, paths and seconds, is left out of the comparison.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from golden.cases import DATA
from golden.compare import Row, keys_of

SECONDS_OF_A_COMMAND = 120
FILES: Mapping[str, bytes] = {
    "empty.csv": b"",
    "header.csv": b"t,x\n",
    "words.csv": b"t,x\n0,1\n1,two\n2,3\n",
    "short.csv": b"t,x\n0,1\n1,2\n",
    "comma.csv": b"t;x\n0;1,5\n1;2,5\n2;3,5\n3;4,1\n4;4,6\n5;5,5\n6;6,1\n7;7,9\n",
    "ragged.csv": b"t,x\n0,1\n1,2,3\n2,3\n",
    "backward.csv": b"t,x\n0,1\n2,2\n1,3\n3,4\n4,5\n5,6\n6,7\n7,8\n",
    "nan.csv": b"t,x\n" + b"".join(b"%d,nan\n" % k for k in range(9)),
    "latin.csv": "t,größe\n0,1\n".encode("latin-1"),
    "binary.csv": bytes(range(256)),
    "huge.csv": b"t,x\n0,1e308\n1,1e309\n2,1\n",
    "law.txt": b"biomass' = r*biomass*(1 - biomass/K)\n",
}
YEAST, HARES = "DATA/yeast_carlson_1913.csv", "DATA/lynx_hare_1900_1920.csv"
SCRIPTS: Mapping[str, Sequence[str]] = {
    "yeast": (
        f"fit {YEAST} --out y --quiet",
        "show y",
        *(f"show y --format {name}" for name in ("latex", "python", "julia", "json")),
        "predict y --until 20",
        "predict y --initial biomass=-1 --until 3",
        "predict y --initial weight=5 --until 3",
        f"fit {YEAST} --out y --known nonsense",
        "report y",
        "plot y --out y.png",
    ),
    "hares": (f"fit {HARES} --out h --quiet", "show h", "predict h --until 1925"),
    "constants": (f"fit-constants {YEAST} --law law.txt --out c --quiet", f"fit-constants {YEAST}", "show c"),
    "simulate": (
        "simulate fsir --samples 4",
        "simulate lorenz --samples 3 --noise 0.01 --seed 1",
        "simulate nothing",
        "simulate fsir --set gamma=1",
        "simulate fsir --samples 0",
    ),
    "mistakes": (
        *(f"fit {name} --quiet" for name in FILES if name.endswith(".csv") and name != "comma.csv"),
        "fit missing.csv",
        f"fit {YEAST} --states nothing",
        f"fit {YEAST} --time nothing",
        f"fit {YEAST} --group nothing",
        f"fit {YEAST} --max-seconds -1",
        f"fit {YEAST} --members x",
        f"fit {YEAST} --recipe own",
        f"fit {YEAST} --nothing",
        f"fit {YEAST} --inputs biomass",
        "show nowhere",
        "predict nowhere",
        "report nowhere",
        "reproduce nothing",
        "bench nothing",
        "nothing",
        "fit",
    ),
    "comma": ("fit comma.csv --out d --quiet", "show d"),
    "help": ("--help", *(f"{name} --help" for name in ("fit", "show", "predict", "simulate", "fit-constants"))),
}


def transcript(name: str) -> Row:
    """What the commands of a script print and write."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for file, content in FILES.items():
            (folder / file).write_bytes(content)
        printed = [_run(line, folder) for line in SCRIPTS[name]]
        documents = sorted(folder.glob("*/result.json"))
        keys = set[str]().union(*(keys_of(json.loads(path.read_text())) for path in documents))
    return {
        "input": 0,
        "printed": "\n".join(printed),
        "keys": sorted(keys - {key for key in keys if "versions." in key}),
    }


def _run(line: str, folder: Path) -> str:
    command = [sys.executable, "-m", "odediscovery", *line.replace("DATA", str(DATA)).split()]
    # a narrow or a coloured terminal prints another page
    environment = os.environ | {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, timeout=SECONDS_OF_A_COMMAND, check=False
    )
    text = f"$ {line}\n{done.stdout.decode(errors='replace')}{done.stderr.decode(errors='replace')}[{done.returncode}]"
    text = text.replace(str(DATA), "DATA").replace(str(folder), ".")
    return re.sub(r"[ \t]+\n", "\n", text)
