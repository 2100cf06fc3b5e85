"""SIGTERM and Ctrl-C, streams that are gone, and time that counts from the start of the command."""

import io
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
import types
from pathlib import Path

import pytest

from odediscovery import Discovery, Monitor, simulate_system, write_csv
from odediscovery.command.cli import main
from odediscovery.command.console import Forgiving, mute_if_broken, note, say
from odediscovery.command.progress import TerminalMonitor
from odediscovery.runtime.monitor import drawn

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "odediscovery"]


@pytest.fixture(autouse=True)
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    write_csv(simulate_system("logistic", noise=0.01), "data.csv")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_for_the_best_so_far(number):
    monitor = TerminalMonitor(quiet=True)
    before = signal.getsignal(number)
    with monitor.shown():
        assert monitor.stopping() is None
        os.kill(os.getpid(), number)
        time.sleep(0.01)
        assert monitor.stopping() == "interrupted"
    assert signal.getsignal(number) is before


def test_time_counts_from_the_start_of_the_command():
    assert TerminalMonitor(5.0, quiet=True, started=time.monotonic() - 6.0).stopping() == "time limit"


@pytest.mark.long
def test_ctrl_c_while_libraries_are_loaded_is_one_line():
    for seconds in (0.15, 0.4, 0.8):
        with subprocess.Popen([*COMMAND, "fit", "data.csv"], stderr=subprocess.PIPE, text=True) as process:
            time.sleep(seconds)
            process.send_signal(signal.SIGINT)
            said = process.communicate()[1]
        # Before Python itself has begun, the line is Python's.
        if "odediscovery" in said or "error" in said:
            told = [line for line in said.splitlines() if line.startswith(("error: interrupted", "Ctrl-C"))]
            assert "Traceback" not in said and len(told) == 1


@pytest.mark.parametrize(
    "shell",
    [
        pytest.param("{} fit data.csv --members 0 2>&1 | head -1", marks=pytest.mark.long),
        pytest.param("{} fit data.csv --members 0 2>/dev/full", marks=pytest.mark.long),
        # Nor is it harmed by other letters, and by settings of pictures that are broken.
        "printf 'axes.grid: \\377\\nfont.size: big\\n' > matplotlibrc; "
        "LC_ALL=C PYTHONIOENCODING=ascii {} fit data.csv --members 0",
    ],
)
def test_a_fit_goes_on_without_its_streams(shell):
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", shell.format(" ".join(COMMAND))], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stdout + done.stderr and "matplotlib" not in done.stderr
    assert Discovery.load("data.odediscovery").outcome == "converged"
    assert Path("data.odediscovery/fit.png").exists() and Path("data.odediscovery/report.html").exists()


@pytest.mark.long
def test_a_full_standard_output_is_one_line_after_the_folder_is_written():
    command = f"{' '.join(COMMAND)} fit data.csv --members 0 --quiet >/dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr == "error: output: No space left on device\n"
    assert Discovery.load("data.odediscovery").outcome == "converged"


def test_a_short_limit_keeps_a_fit_with_unmeasured_states():
    call = ["fit", "data.csv", "--hidden-states", "h", "--max-seconds", "0.001", "--quiet"]
    assert main(call) == 0
    kept = Discovery.load("data.odediscovery")
    # What a fit in haste explains badly is called so, whyever it ended.
    assert kept.outcome == "poor-fit"
    assert any(message.startswith("stopped (time limit)") for message in kept.messages)


def run(code, *, closed=""):
    """A program in a shell that has closed some of its streams."""
    command = f"{sys.executable} -c '{textwrap.dedent(code)}' {closed}"
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)


def test_results_and_remarks_go_to_streams_of_their_own_and_do_no_harm(capsys):
    say("x' = -x\x1b[2J")
    note("few samples" + "y" * 5000)
    printed = capsys.readouterr()
    assert printed.out == "x' = -x\\u001b[2J\n"
    assert printed.err.startswith("note: few samples") and len(printed.err) < 1600


def test_a_standard_error_that_is_closed_ends_nothing():
    ended = run(
        'from odediscovery.command import console as s; s.prepare(); s.remark("x"); s.say("kept")', closed="2>&-"
    )
    assert (ended.returncode, ended.stdout) == (0, "kept\n")


def test_a_full_standard_output_is_an_error():
    code = 'from odediscovery.command import console as s; s.prepare(); s.say("lost"); import sys; sys.stdout.flush()'
    ended = run(code, closed=">/dev/full")
    assert ended.returncode != 0 and "No space left" in ended.stderr


def test_a_library_that_draws_on_a_closed_stream_goes_on(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    own = Forgiving()
    assert own.write("bar") == 3
    assert stream.getvalue() == "bar"
    stream.close()
    assert own.write("bar") == 3
    own.flush()
    mute_if_broken(stream)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("columns", [80, 120])
def test_no_word_of_the_bar_is_broken(monkeypatch, columns):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(columns))
    monitor = TerminalMonitor(1000.0)
    with monitor.shown():
        monitor.stage("terms along a law: functions", 100)
        monitor.step(3, 1.25e-4)
        monitor._progress.refresh()
    drawn = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line) for line in re.split(r"[\r\n]", screen.getvalue())]
    lines = {line.rstrip() for line in drawn if "left" in line}
    assert lines and all(len(line) <= columns for line in lines)
    assert all("at most " in line and line.count(" s left") == 1 for line in lines)
    assert any("best loss 1.25e-04" in line for line in lines) == (columns == 120)


def test_the_bar_of_a_whole_work_never_goes_back():
    monitor = TerminalMonitor(quiet=True)
    monitor.stage("grow", 1)
    assert monitor.share() is None and monitor.left_text().endswith("so far")
    monitor.spend(20.0, whole=30.0)
    first = monitor.share()
    assert first is not None and first < 0.1 and "at most 30 s left" in monitor.left_text()
    monitor.spend(10.0)
    monitor.stage("polish", 50)
    later = monitor.share()
    assert later is not None and later >= first
    counted = TerminalMonitor(quiet=True, started=time.monotonic() - 10.0)
    counted.stage("systems", 4)
    counted._stage_began = 0.0
    counted.step(1)
    assert counted.share() == 0.25 and counted.left_text().startswith("about 30 s left")


def test_a_python_session_on_a_terminal_has_a_bar_too(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with drawn(None, 60.0) as monitor:
        monitor.started -= 15.0
        monitor.stage("grow", 1)
        assert monitor.stopping() is None
    last, erased = screen.getvalue().split("\r")[1:3]
    assert last.startswith("grow ") and "25 %" in last and "at most 45 s left" in last and len(last) <= 79
    assert erased.strip() == ""
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with drawn(None, None) as silent:
        assert type(silent) is Monitor


def test_a_notebook_shows_one_bar_and_takes_it_away(monkeypatch):
    shown = []

    class Handle:
        def update(self, piece, raw):
            shown.append(piece["text/html"])

    def display(piece, raw, display_id):
        assert raw and display_id
        shown.append(piece["text/html"])
        return Handle()

    shell = type("ZMQInteractiveShell", (), {})()
    inside = types.SimpleNamespace(get_ipython=lambda: shell, display=types.SimpleNamespace(display=display))
    monkeypatch.setitem(sys.modules, "IPython", inside)
    with drawn(None, 60.0) as monitor:
        monitor.started -= 30.0
        monitor.stage("grow", 1)
        monitor.started -= 10.0
        monitor.step(1)
    assert len(shown) == 3 and "at most 30 s left" in shown[0] and 'value="0.667"' in shown[1] and shown[2] == ""
