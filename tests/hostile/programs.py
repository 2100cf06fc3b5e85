"""Programs of their own that are killed, stand in each other's way, or get little time, one for every seed."""

import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from promise import CONTROLS, check

from odediscovery import simulate_system, write_csv

ROOT = Path(__file__).resolve().parents[2]
LONGEST = 300.0


def started(arguments):
    """The program with some arguments, in the current folder."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "odediscovery", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def ended(program):
    """Exit code and what was said, which keeps the promise."""
    out, err = program.communicate(timeout=LONGEST)
    assert "Traceback" not in out + err and "Warning" not in err, err[-2000:]
    assert CONTROLS.search(out + err) is None
    return program.returncode, out, err


def _killed_once_begun(arguments, finished, seconds):
    """Kill a program so many seconds after its first piece of work was finished."""
    program, until = started(arguments), time.monotonic() + LONGEST
    while not list(finished.parent.glob(finished.name)) and program.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(seconds)
    program.kill()
    program.communicate()


def killed_reproduce(seed):
    """`reproduce` killed in the middle goes on and does nothing that was finished again."""
    pick = random.Random(seed)
    call = ["reproduce", "expectations", "--quick", "--quiet", "--out", "papers"]
    _killed_once_begun(call, Path("papers/batches/*.json"), pick.uniform(0.0, 1.5))
    kept = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in Path("papers/batches").glob("*.json")}
    assert kept
    code, _, _ = ended(started(call))
    assert code == 0 and Path("papers/table.md").is_file()
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in kept} == kept


def two_fits(seed):
    """Two fits into one folder end with a whole result and at most one line of complaint."""
    pick = random.Random(seed)
    write_csv(simulate_system("logistic", noise=0.01, seed=seed), "data.csv")
    call = ["fit", "data.csv", "--members", "0", "--quiet", "--out", "found"]
    first = started(call)
    time.sleep(pick.uniform(0.0, 2.0))
    second = started(call)
    codes = []
    for program in (first, second):
        code, out, err = ended(program)
        codes.append(code)
        refused = err.startswith("error: found is being written by another fit") and err.count("\n") == 1
        assert refused if code else "'" in out, err
    assert 0 in codes and set(codes) <= {0, 2}
    check(["show", "found"])
    check(["predict", "found"])
    assert not list(Path().glob(".*found*"))


def little_time(seed):
    """Whatever is asked for in next to no time ends with a result, or with a line."""
    pick = random.Random(seed)
    n, rows = pick.choice(((1, 8), (2, 20), (3, 40), (6, 12), (14, 9), (40, 6)))
    draw = np.random.default_rng(seed)
    t = np.linspace(0.0, 6.0, rows)
    groups = pick.choice((1, 1, 3))
    lines = ["g,t," + ",".join(f"s{k}" for k in range(n)) + ",feed"]
    for g in range(groups):
        x = np.exp(-np.outer(t, draw.uniform(0.1, 1.0, n))) * draw.uniform(1.0, 5.0, n)
        x += pick.choice((0.0, 0.02)) * draw.standard_normal(x.shape)
        lines += [
            f"{g},{a!r}," + ",".join(map(repr, row)) + f",{int(a > 3)}"
            for a, row in zip(t.tolist(), x.tolist(), strict=True)
        ]
    Path("hasty.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    states = ",".join(f"s{k}" for k in range(n))
    kinds = [[], ["--inputs", "feed"], ["--holdout", "0.3"], ["--library", "powers"]]
    kinds += [["--vary", "auto"], ["--hidden-states", "R", "--states", "s0"], ["--held-inputs", "feed"]]
    kinds += [["--max-memory", "0.5"]]
    asked = pick.choice(kinds)
    named = [] if "--states" in asked else ["--states", states]
    limit = pick.choice(("0.001", "0.2", "1"))
    began = time.process_time()
    code, _ = check(["fit", "hasty.csv", "--group", "g", "--max-seconds", limit, "--quiet", *named, *asked])
    # Pictures come after the limit.
    assert time.process_time() - began < 15.0
    if code == 0 and "--vary" not in asked:
        check(["predict", "hasty.odediscovery"])


def wide_tables(seed):
    """Thousands of columns end in a line that says what to do, and a few of them are fitted."""
    n = (5000, 5000, 2000, 1500)[seed % 4]
    rows = (6, 40, 15, 100)[seed % 4]
    x = np.random.default_rng(seed).uniform(1.0, 2.0, (rows, n)).round(3)
    text = "t," + ",".join(f"s{k}" for k in range(n)) + "\n"
    text += "".join(f"{k}," + ",".join(map(str, row)) + "\n" for k, row in enumerate(x.tolist()))
    Path("wide.csv").write_text(text, encoding="utf-8")
    code, _, err = ended(started(["fit", "wide.csv", "--quiet", "--max-seconds", "5"]))
    refused = re.match(r"error: \d+ states in \d+ samples need about \d+ GB", err) and err.count("\n") == 1
    assert code == 2 and refused if n == 5000 else code in (0, 2) and (code == 0 or refused), err[:300]
    check(["fit", "wide.csv", "--states", "s0", "--quiet", "--max-seconds", "1", "--members", "0"])
