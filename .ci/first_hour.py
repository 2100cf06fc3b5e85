"""Fifteen tasks of a new user, each done as its page says, in an empty folder.

python .ci/first_hour.py [NAME ...]        prints what was done, and a table of the tasks

A step is a command that is typed or a piece of Python that is run. Seconds are those of the wall, from a
cold start of each command, pictures and page included.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parent.parent
TABLES = ("lynx_hare_1900_1920", "yeast_carlson_1913", "orange_trees", "gause_paramecium_1934")


@dataclass(frozen=True)
class Task:
    """What somebody wants.

    Args:
        name: in a few words.
        page: of the documentation that says how.
        steps: commands, or Python where it begins with "py:".
        expected: what has to be printed or written in all, as words or names of files.
    """

    name: str
    page: str
    steps: tuple[str, ...]
    expected: tuple[str, ...]


LOGISTIC = """
import numpy as np, pandas as pd
from odediscovery import TimeSeries, discover, settings_for, InputError
t = np.arange(0, 10, 0.25); n = 5 / (1 + 9 * np.exp(-0.8 * t))
"""
INDEXES = (
    LOGISTIC
    + """
def rate(index):
    series = TimeSeries.from_frame(pd.DataFrame({"n": n}, index=index))
    return round(discover(series, settings_for(members=0)).terms.coefficient[0], 5)
print("named", rate(pd.Index(t, name="t")))
print("dates", rate(pd.date_range("2024-01-01", periods=40, freq="15min")))
print("zone", rate(pd.date_range("2024-01-01", periods=40, freq="15min", tz="Europe/Berlin")))
print("durations", rate(pd.timedelta_range("0h", periods=40, freq="15min")))
print("months", rate(pd.period_range("2001-01", periods=40, freq="M")))
for index in (pd.Index(t), pd.RangeIndex(40)):
    try:
        rate(index)
    except InputError as error:
        print("refused:", error)
"""
)
XARRAY = (
    LOGISTIC
    + """
import xarray as xr
tank = xr.Dataset({"n": ("time", n, {"units": "g"})}, {"time": ("time", t, {"units": "h"})})
found = discover(TimeSeries.from_frame(tank), settings_for(members=0))
print(found.equations_text()); print(found.constants.unit.tolist())
"""
)
SEARCH = """
import numpy as np, pandas as pd
from sklearn.model_selection import GridSearchCV
from odediscovery import ODEDiscovery
t = np.arange(0, 10, 0.25)
runs = [pd.DataFrame({"t": t, "n": 5 / (1 + k * np.exp(-0.8 * t))}) for k in (9, 2, 20)]
search = GridSearchCV(ODEDiscovery(members=0), {"integer_exponents": [True, False]}, cv=3).fit(runs)
search.best_estimator_.print(); print("score", round(search.best_score_, 4))
"""
SOLVERS = """
import numpy as np
from scipy.integrate import solve_ivp
from odediscovery import Discovery
found = Discovery.load("yeast_carlson_1913.odediscovery")
open("law.py", "w").write(found.equations.python()); open("law.jl", "w").write(found.equations.julia())
from law import rates
ours = found.simulate(times=[0, 10, 18]).ravel()
theirs = solve_ivp(rates, (0, 18), found.initial_values[0], t_eval=[0, 10, 18], rtol=1e-9).y[0]
print("differ by", f"{abs(ours - theirs).max():.0e}")
print(open("law.jl").read())
"""
DRAWS = """
from odediscovery import Discovery, bootstrap
print(bootstrap(Discovery.load("yeast_carlson_1913.odediscovery"), 20).terms)
"""
HYPOTHESIS = """hare' = r*hare*(1 - hare/K) - a*hare*lynx/(1 + b*hare)
lynx' = c*hare*lynx/(1 + b*hare) - d*lynx
"""
FIT = "odediscovery fit lynx_hare_1900_1920.csv"
YEAST = "odediscovery fit yeast_carlson_1913.csv"
SHOWN = "lynx_hare_1900_1920.odediscovery"

TASKS = (
    Task("a table of my own", "index", (FIT,), ("hare' = 0.482(65)*hare", f"{SHOWN}/report.html")),
    Task(
        "a table with dates", "how-to/units", ("odediscovery fit dated.csv",), ("counted in days", "dated.odediscovery")
    ),
    Task(
        "a DataFrame with an index, each kind",
        "how-to/units",
        (f"py:{INDEXES}",),
        (
            "named 0.8",
            "dates 0.01333",
            "zone 0.01333",
            "durations 0.01333",
            "months 0.00657",
            "refused: the index of the frame",
            "refused: the frame has one column",
        ),
    ),
    Task("xarray with units", "how-to/units", (f"py:{XARRAY}",), ("n' = 0.80000", "1/h", "1/(g h)")),
    Task(
        "several trajectories",
        "how-to/groups",
        ("odediscovery fit orange_trees.csv --group tree --vary auto",),
        ("circumference'", "log-normal"),
    ),
    Task("units", "how-to/units", (f"{YEAST} --units biomass=g/L,t=h",), ("1/h", "g/L")),
    Task(
        "another row of the front",
        "how-to/front",
        (
            FIT,
            *(
                f"odediscovery {each} {SHOWN} --row 11"
                for each in ("show", "predict", "report --out row.html", "plot --out row.png")
            ),
        ),
        ("lynx' = 0.255", "row.html", "row.png"),
    ),
    Task(
        "my own law (Holling II) beside the one found",
        "how-to/hypotheses",
        (FIT, f"odediscovery fit-constants lynx_hare_1900_1920.csv --law law.txt --beside {SHOWN} --out mine"),
        ("criterion +0.0", "the sign of", "mine/result.json"),
    ),
    Task(
        "what I know",
        "how-to/knowledge",
        (
            "odediscovery simulate fsir --out fsir.csv",
            'odediscovery fit fsir.csv --conserve S+I+R --known "R\' = 0.05*I - 0.01*R"',
        ),
        ("R' = 0.05*I - 0.01*R\n", "S^0.5*I^0.5 - 0.05*I\n"),
    ),
    Task("GridSearchCV", "how-to/python", (f"py:{SEARCH}",), ("n' = ", "score 1.0")),
    Task(
        "a figure for a paper",
        "commands",
        (
            YEAST,
            "odediscovery plot yeast_carlson_1913.odediscovery --out figure.pdf",
            "odediscovery show yeast_carlson_1913.odediscovery --format latex",
        ),
        ("figure.pdf", "\\frac{d\\mathrm{biomass}}{dt}"),
    ),
    Task("solve_ivp and Julia", "how-to/python", (YEAST, f"py:{SOLVERS}"), ("differ by", "function rates!")),
    Task("a page to share", "index", (YEAST,), ("yeast_carlson_1913.odediscovery/report.html",)),
    Task("a table of bootstrap", "how-to/error-bars", (YEAST, f"py:{DRAWS}"), ("biomass^2", "share")),
    Task("what it cannot do", "how-to/limits", ("odediscovery fit delayed.csv",), ("note:",)),
)


def prepared(folder: Path) -> None:
    """The tables of the tasks."""
    for name in TABLES:
        shutil.copy(ROOT / "data" / f"{name}.csv", folder)
    days = pd.date_range("2024-05-01", periods=30)
    cells = 900 / (1 + 80 * np.exp(-0.3 * np.arange(30.0)))
    pd.DataFrame({"day": days.date, "cells": cells.round(1)}).to_csv(folder / "dated.csv", index=False)
    # The delayed logistic equation, past its bifurcation: no equation without a delay swings in one state.
    step, delay, x = 0.01, 2.0, [0.5] * 201
    for _ in range(4000):
        x.append(x[-1] + step * 1.0 * x[-1] * (1 - x[-1 - int(delay / step)]))
    swings = np.array(x[200::50])
    pd.DataFrame({"t": 0.5 * np.arange(len(swings)), "x": swings.round(4)}).to_csv(folder / "delayed.csv", index=False)
    (folder / "law.txt").write_text(HYPOTHESIS, encoding="utf-8")


def tried(task: Task) -> tuple[float, str, list[str]]:
    """Seconds of all steps, what they printed, and what is missing."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepared(folder)
        began, told = time.monotonic(), ""
        for step in task.steps:
            if step.startswith("py:"):
                call = [sys.executable, "-c", step[3:]]
            else:
                call = ["bash", "-c", step.replace("odediscovery", f"{sys.executable} -m odediscovery", 1)]
            done = subprocess.run(call, cwd=folder, env=os.environ, capture_output=True, text=True, check=False)
            told += done.stdout + done.stderr
            if done.returncode:
                told += f"\nENDED WITH {done.returncode}"
        seconds = time.monotonic() - began
        lacking = [each for each in task.expected if each not in told and not (folder / each).exists()]
    return seconds, told, lacking + (["ended well"] if "ENDED WITH" in told else [])


def main(names: list[str]) -> int:
    """Try the tasks; the exit code is the number of those that failed."""
    lines, failed = [], 0
    for task in TASKS:
        if names and not any(name in task.name for name in names):
            continue
        seconds, told, lacking = tried(task)
        failed += bool(lacking)
        print(f"== {task.name}: {seconds:.0f} s, {len(task.steps)} steps{f', LACKING {lacking}' if lacking else ''}")
        print("\n".join(f"   {line}" for line in told.splitlines()[:40]), flush=True)
        cells = (
            task.name,
            f"[{task.page}]({task.page}.md)",
            len(task.steps),
            f"{seconds:.0f}",
            "no" if lacking else "yes",
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    print("| task | page | steps | seconds | as wanted |\n|---|---|--:|--:|---|")
    print("\n".join(lines))
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
