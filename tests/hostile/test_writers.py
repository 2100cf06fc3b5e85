"""A writer that is killed at any moment, or that finds the disk full, leaves a whole folder."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from writers import OWN, version_in, write_version

ROOT = Path(__file__).resolve().parents[2]
SAMPLE, ALL = 3, 200


def killed_writer(place, first, seconds):
    """Let another program write versions from `first` on, and kill it after so many seconds."""
    command = [sys.executable, str(Path(__file__).with_name("writers.py")), str(place), str(first), "100000"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as writer:
        assert writer.stdout is not None and writer.stdout.readline() == b"ready\n"
        time.sleep(seconds)
        writer.send_signal(signal.SIGKILL)


def check_kills(count, place):
    pick, seen = random.Random(0), set()
    write_version(place, 0)
    (place / "notes.txt").write_text("mine")
    for round in range(1, count + 1):
        killed_writer(place, 1_000_000 * round, pick.uniform(0.0, 0.05))
        seen.add(version_in(place))
        assert (place / "notes.txt").read_text() == "mine"
        # The next command works, and clears away what is left.
        write_version(place, round)
        assert version_in(place) == round
        assert [p.name for p in place.parent.iterdir()] == [place.name]
        assert {p.name for p in place.iterdir()} == {*OWN, "notes.txt"}
    return seen


@pytest.mark.parametrize("count", [SAMPLE, pytest.param(ALL, marks=pytest.mark.accept)])
def test_killed_writers_leave_whole_folders(tmp_path, count):
    assert len(check_kills(count, tmp_path / "found")) > (ALL // 4 if count == ALL else 0)


def write_with_room(place, version, room):
    """The exit code of a writer none of whose files may be longer than `room` bytes."""
    command = [sys.executable, str(Path(__file__).with_name("writers.py")), str(place), str(version), "1"]

    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    # The writer limits itself: code between fork and exec is not safe beside the threads of other libraries.
    return subprocess.run([*command, str(room)], capture_output=True, env=environment).returncode


FIFTY = [pytest.param(k / 45, marks=pytest.mark.accept) for k in range(50)]


@pytest.mark.parametrize("share", [0.0, 0.4, 0.9, 1.0, *FIFTY])
def test_a_disk_that_fills_leaves_the_old_folder(share, tmp_path):
    write_version(tmp_path / "found", 1)
    whole = max(path.stat().st_size for path in (tmp_path / "found").iterdir())
    code = write_with_room(tmp_path / "found", 2, int(share * whole))
    assert version_in(tmp_path / "found") == (2 if share >= 1.0 else 1)
    assert (code == 0) == (share >= 1.0)
    assert [p.name for p in tmp_path.iterdir()] == ["found"]
