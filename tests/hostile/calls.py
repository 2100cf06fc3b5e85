"""Calls that nobody meant: values of options, encodings, streams that end, signals, arrays; one for every seed."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import folders
import numpy as np
import pandas as pd
import typer
from programs import LONGEST, ROOT, ended, started
from promise import CODE, CONTROLS, check

from odediscovery import TimeSeries, discover, settings_for
from odediscovery.command.cli import app
from odediscovery.data.series import write_csv
from odediscovery.errors import OdeDiscoveryError
from odediscovery.estimator import ODEDiscovery
from odediscovery.laws.systems import simulate_system
from odediscovery.result.discovery import Discovery

VALUES = (
    *("", " ", "0", "-1", "1", "2", "0.5", "nan", "inf", "-inf", "1e308", "1e-320", str(2**62), "9" * 400, "1_0", "٣"),
    *("x", "y", "t", "g", "feed", "x,y", "x,x", ",", "x=", "=1", "x=1", "x=nan", "x=y", "x=x", "z=1", "x=1,x=2"),
    *("x' = -k*x", "x' = ", "x' = 1/0", "x' = x^y^x", f"x' = {'(' * 500}", "x' = k*x\ny' = q*y", "x' = exp(exp(k*x))"),
    *(
        "x' = -0.3*x + ?",
        "x + y = 3",
        "x + = 3",
        "x: y",
        "x: x",
        ": y",
        "exponents 0..2",
        "exponents 2..0",
        "exponents",
    ),
    *("k in x'", "all", "auto", "none", "no-powers", "powers,functions", "logistic", "t=23,41", "2020-01-01", "x=g/L"),
    *("x=/", "t=h,x=g/L", "x=furlong^9e9", "x=2*y", "x=y/0", "x=__class__", "python", "cpu", "cuda:99", "dask"),
    *(CODE, f"x' = {CODE}", "<script>alert(1)</script>", "\x1b[31m", "\x9b2J", "\u202egnp", "\udcff", "é" * 1000),
    *("../x", "no/such/place", ".", "data.csv", "found", "/dev/full", "--", "-x", "png,pdf", "tiff", "x" * 300),
)
# So many processes or samples would be made.
_REAL = ("--jobs", "--samples", "--bootstrap", "--backend", "--scheduler")
_FEW = ("", "-1", "0", "x", "nan", "1.5", CODE)


def small_table():
    """Two groups of two states beside a step of an input, as `data.csv`."""
    t = np.linspace(0.0, 6.0, 15)
    rows = [
        f"{g},{a!r},{(3.0 + g) * np.exp(-0.5 * a)!r},{1.0 + 0.4 * a!r},{int(a > 3.0)}"
        for g in (0, 1)
        for a in t.tolist()
    ]
    Path("data.csv").write_text("g,t,x,y,feed\n" + "\n".join(rows) + "\n", encoding="utf-8")


def hostile_options(seed):
    """One to three options of a command, of any value, end in what was asked for or in one line."""
    pick = random.Random(seed)
    small_table()
    folders.copied(pick)
    name = pick.choice(("fit", "fit", "fit", "fit", "fit-constants", "predict", "show", "report", "plot", "simulate"))
    options = [p for p in typer.main.get_command(app).commands[name].params if p.param_type_name == "option"]
    # Without a limit of time a fit is no case of a second.
    options = [p for p in options if p.name not in ("thorough", "quiet")]
    first = {"fit": "data.csv", "fit-constants": "data.csv", "simulate": "logistic"}.get(name, "found")
    call = [name, pick.choice(VALUES) if pick.random() < 0.05 else first]
    if name == "fit":
        call += ["--max-seconds", "0.3", "--members", "1", "--quiet"]
    if name == "fit-constants":
        call += ["--law", "x' = -k*x"]
    if name.startswith("fit") and pick.random() < 0.7:
        call += ["--group", "g"]
    for option in pick.sample(options, min(pick.choice((1, 1, 2, 3)), len(options))):
        flag = pick.choice([*option.opts, *option.secondary_opts])
        call += [flag] if option.is_flag else [flag, pick.choice(_FEW if flag in _REAL else VALUES)]
    check(call)


def foreign_encoding(seed):
    """A table of letters beyond ASCII, in any encoding and with any line ends, is read or refused in one line."""
    pick = random.Random(seed)
    names = pick.choice((("Zeit", "Größe"), ("t", "µ [g/L]"), ("時間", "量"), ("t", "x²"), ("t", "naïve")))
    lines = [",".join(names), *(f"{k},{5 * 0.8**k!r}" for k in range(9))]
    text = pick.choice(("\n", "\r\n", "\r", "\n\r", "\u2028", "\x85", "\n\n")).join(lines) + pick.choice(("\n", ""))
    text = text.replace(",", pick.choice((",", ",", ";", "\t", " ", "\u3000", "，")))
    kinds = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "cp1252", "shift_jis")
    content = text.encode(pick.choice((*kinds, "mac-roman", "utf-7", "cp037")), errors="replace")
    if pick.random() < 0.2:
        content = content[: pick.randrange(len(content))]
    if pick.random() < 0.1:
        content += bytes(pick.choices(range(256), k=pick.randint(1, 9)))
    Path("odd.csv").write_bytes(content)
    check(["fit", "odd.csv", "--max-seconds", "0.3", "--members", "0", "--quiet"])


_STREAMS = ("2>&1 | head -c 1", "2>/dev/full", "2>&-", ">&-", ">&- 2>&-", "<&-", "| head -1", ">/dev/full", "0<&- 1>&-")
_SPOKEN = ("", "LC_ALL=C PYTHONIOENCODING=ascii", "LC_ALL=C.UTF-8 TERM=dumb", "NO_COLOR=1 COLUMNS=1", "HOME=/nowhere")


def broken_streams(seed):
    """A command whose streams are closed, full or gone does its work, or says in one line why not."""
    pick = random.Random(seed)
    write_csv(simulate_system("logistic", noise=0.01), "data.csv")
    folders.copied(pick)
    works = ("fit data.csv --members 0 --out new", "show found", "predict found", "report found --out page.html")
    work = pick.choice((*works, "simulate logistic", "--help", "doctor"))
    shell = f"{pick.choice(_SPOKEN)} {sys.executable} -m odediscovery {work} {pick.choice(_STREAMS)}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        ["bash", "-c", shell], capture_output=True, text=True, errors="replace", env=environment, timeout=LONGEST
    )
    assert "Traceback" not in done.stdout + done.stderr and "Exception" not in done.stderr, done.stderr[-2000:]
    assert done.returncode in (0, 1, 2) and CONTROLS.search(done.stderr) is None, (done.returncode, done.stderr)
    if work.startswith("fit"):
        assert Discovery.load("new").outcome == "converged"
    assert not list(Path().glob(".*new*"))


def signal_at_any_moment(seed):
    """Ctrl-C or SIGTERM ends a fit with what it has, written whole, or with one line and nothing written."""
    pick = random.Random(seed)
    write_csv(simulate_system("lotka-volterra", noise=0.05, seed=seed), "data.csv")
    program = started(["fit", "data.csv", "--out", "found", "--thorough"])
    seconds = pick.uniform(0.0, 12.0)
    time.sleep(seconds)
    program.send_signal(pick.choice((signal.SIGINT, signal.SIGTERM)))
    out, err = program.communicate(timeout=LONGEST)
    if seconds < 1.0 and not out and "odediscovery" not in err and "error" not in err:
        return  # before the program itself had begun
    assert "Traceback" not in out + err and "Warning" not in err, err[-2000:]
    # Once it is said where the result is, only the end of Python itself can be interrupted.
    if program.returncode == 0 or "written to found" in out:
        assert np.isfinite(Discovery.load("found").r2) and "'" in out
    else:
        told = [line for line in err.splitlines() if line.startswith("error: ")]
        assert program.returncode in (1, 2, 130, 143) and len(told) == 1 and not Path("found").exists(), err
    assert not list(Path().glob(".*found*"))
    if Path("found").exists():
        assert ended(started(["show", "found"]))[0] == 0


def _odd_array(pick, rows, width):
    """Numbers of a series, or something else in their place."""
    x = np.exp(-0.3 * np.linspace(0.0, 5.0, rows))
    x = x if width is None else np.column_stack([x * (k + 1.0) ** 0.5 for k in range(width)])
    makers = (
        *(lambda: x, lambda: x, lambda: x.tolist(), lambda: x.astype(np.float16), lambda: x.astype(np.longdouble)),
        *(lambda: x.astype(complex), lambda: x.astype(object), lambda: x.astype(str), lambda: x.astype(bytes)),
        *(lambda: np.ma.masked_less(x, 0.3), lambda: x[::-1][::-1], lambda: np.asfortranarray(x), lambda: x > 0.5),
        *(lambda: x * np.nan, lambda: x * np.inf, lambda: x * 1e308, lambda: x * 1e-320, lambda: (x * 9).astype(int)),
        *(lambda: x[:0], lambda: x[:1], lambda: x[:3], lambda: x.T, lambda: x[None], lambda: x[..., None, None]),
        *(lambda: None, lambda: 3.0, lambda: "x", lambda: {"a": x}, lambda: {1, 2}, lambda: [x, [x]], lambda: [[]]),
        *(lambda: pd.DataFrame(x), lambda: pd.Series(list(x)), lambda: pd.DataFrame({"t": [1, "a"]}), lambda: iter(x)),
        *(lambda: [1.0, [2.0, 3.0]], lambda: [None] * rows, lambda: np.zeros((rows, 0)), lambda: [b"1", "2", 3, {}]),
        *(lambda: np.datetime64("2020-01-01") + np.arange(rows), lambda: np.arange(rows).astype("m8[s]"), lambda: type),
    )
    return pick.choice(makers)()


def odd_arrays(seed):
    """What Python is given is fitted or refused in one line, as an error of the package."""
    pick = random.Random(seed)
    rows, width = pick.choice((4, 8, 20)), pick.choice((None, 1, 2))
    times = pick.choice((np.arange(rows), np.arange(rows), _odd_array(pick, rows, None)))
    values = _odd_array(pick, rows, width)
    few = settings_for(members=0, max_seconds=0.3)
    try:
        if pick.random() < 0.5:
            names = pick.choice((None, None, ["x"], ["x", "y"], "xy", [1, 2], ["x", "x"], [""], 7))
            found = discover(TimeSeries.from_arrays(times, values, names), few)
            assert np.isfinite(found.initial_values).all()
        else:
            model = ODEDiscovery(members=0, max_seconds=0.3)
            given = pick.choice(({}, {"t": times}, {"groups": times}))
            model.fit(values, **given)
            assert np.isfinite(model.predict(values)).all()
    except OdeDiscoveryError as error:
        assert "\n" not in str(error) and len(str(error)) < 2000, str(error)[:2000]
