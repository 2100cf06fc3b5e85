"""Folders appear whole or not at all, keep what is somebody else's, and have one writer at a time."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from odediscovery.errors import InputError
from odediscovery.runtime import folders
from odediscovery.runtime.folders import claimed

OWN = ("a", "b", "c")


def write(place: Path, version: str, names: tuple[str, ...] = OWN) -> None:
    def fill(new: Path) -> None:
        for name in names:
            (new / name).write_text(version)

    with claimed(place) as claim:
        claim.replace(fill, OWN)


def content(place: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in place.iterdir() if path.is_file()}


def test_a_new_folder_appears_with_those_above_it_and_nothing_beside(tmp_path: Path) -> None:
    write(tmp_path / "x" / "y" / "found", "1")
    assert content(tmp_path / "x" / "y" / "found") == dict.fromkeys(OWN, "1")
    assert [p.name for p in (tmp_path / "x" / "y").iterdir()] == ["found"]


@pytest.mark.parametrize("way", ["exchange", "no exchange", "inside"])
def test_an_old_folder_is_replaced_and_foreign_files_stay(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "found"
    write(place, "1")
    (place / "notes.txt").write_text("mine")
    (place / "deep" / "er").mkdir(parents=True)
    (place / "deep" / "er" / "more.txt").write_text("mine too")
    (place / "link").symlink_to("nowhere")
    if way == "no exchange":
        monkeypatch.setattr(folders, "_exchanged", lambda new, place: False)
    if way == "inside":
        monkeypatch.chdir(place)
    write(place, "2", ("a", "c"))
    assert content(place) == {"a": "2", "c": "2", "notes.txt": "mine"}
    assert (place / "deep" / "er" / "more.txt").read_text() == "mine too"
    assert os.readlink(place / "link") == "nowhere"
    assert [p.name for p in tmp_path.iterdir()] == ["found"]
    if way == "inside":
        assert Path("a").read_text() == "2"


def test_a_write_that_fails_leaves_the_old_folder(tmp_path: Path) -> None:
    write(tmp_path / "found", "1")

    def fail(new: Path) -> None:
        (new / "a").write_text("2")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space"), claimed(tmp_path / "found") as claim:
        claim.replace(fail, OWN)
    assert content(tmp_path / "found") == dict.fromkeys(OWN, "1")
    assert [p.name for p in tmp_path.iterdir()] == ["found"]


def test_nothing_is_left_of_a_claim_that_was_not_used(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="fit"), claimed(tmp_path / "x" / "y" / "found"):
        raise ValueError("no fit")
    assert list(tmp_path.iterdir()) == []


def test_a_link_to_a_folder_stays_one(tmp_path: Path) -> None:
    write(tmp_path / "real", "1")
    (tmp_path / "link").symlink_to("real")
    write(tmp_path / "link", "2")
    assert (tmp_path / "link").is_symlink() and content(tmp_path / "real") == dict.fromkeys(OWN, "2")


def test_a_second_writer_is_refused_at_once_and_the_next_one_is_not(tmp_path: Path) -> None:
    refused, place = list[str](), tmp_path / "found"

    def second() -> None:
        try:
            write(place, "2")
        except InputError as error:
            refused.append(str(error))

    with claimed(place) as claim:
        other = threading.Thread(target=second)
        other.start()
        other.join()
        claim.replace(lambda new: [(new / name).write_text("1") for name in OWN] and None, OWN)
    assert len(refused) == 1 and "is being written by another fit" in refused[0]
    assert content(place) == dict.fromkeys(OWN, "1")
    second()
    assert content(place) == dict.fromkeys(OWN, "2") and len(refused) == 1


def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path: Path) -> None:
    with claimed(tmp_path / "found") as claim:
        prefix = claim.prefix
    (tmp_path / f"{prefix}.12345678.part").mkdir()
    (tmp_path / f"{prefix}.12345678.part" / "a").write_text("half")
    (tmp_path / f"{prefix}.lock").write_text("")
    (tmp_path / ".odediscovery-other.part").mkdir()
    write(tmp_path / "found", "1")
    assert sorted(p.name for p in tmp_path.iterdir()) == [".odediscovery-other.part", "found"]


def test_a_folder_without_room_beside_it_is_written_from_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "found"
    write(place, "1")
    monkeypatch.setattr(os.path, "ismount", lambda path: path == place)
    write(place, "2", ("b", "c"))
    assert content(place) == {"b": "2", "c": "2"}
