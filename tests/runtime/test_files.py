"""Files appear whole or not at all; devices, pipes and links stay what they are."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from odediscovery.data.series import TimeSeries, load_csv, write_csv
from odediscovery.errors import InputError
from odediscovery.runtime.files import check_writable, write_whole

SERIES = TimeSeries.from_arrays([0.0, 1.0, 2.0, 3.0], [1.0, 0.5, 0.25, 0.125], ["mass"])


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    write_whole(path, b"old")
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    assert [p.name for p in tmp_path.iterdir()] == ["a.bin"]


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.bin"
    write_whole(path, b"old")

    def refuse(source: object, target: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="no space"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.bin"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_whole(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_tables_go_into_devices(tmp_path: Path) -> None:
    write_csv(SERIES, os.devnull)
    assert not Path(os.devnull).is_file()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_tables_go_into_pipes(tmp_path: Path) -> None:
    pipe, heard = tmp_path / "pipe", list[bytes]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: heard.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write_csv(SERIES, pipe)
    reader.join(timeout=10)
    (tmp_path / "copy.csv").write_bytes(heard[0])
    copy = load_csv(tmp_path / "copy.csv").trajectories[0].values
    assert copy.tolist() == SERIES.trajectories[0].values.tolist()
    assert pipe.is_fifo()


def test_what_can_be_written_is_found_out_without_a_trace(tmp_path: Path) -> None:
    check_writable(tmp_path / "not" / "yet" / "there", "--out")
    check_writable(tmp_path, "--out")
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match=r"--out .*inside: cannot be written"):
        check_writable(tmp_path / "file" / "inside", "--out")
