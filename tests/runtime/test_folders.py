"""Files and folders appear whole or not at all, keep what is somebody else's, and hold no objects."""

import errno
import io
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from odediscovery import InputError, TimeSeries, load_csv, write_csv
from odediscovery.runtime import files
from odediscovery.runtime.archives import pack, read_json, unpack
from odediscovery.runtime.files import check_writable, claimed, write_whole

OWN = ("a", "b", "c")


def write(place, version, names=OWN):
    def fill(new):
        for name in names:
            (new / name).write_text(version)

    with claimed(place) as claim:
        claim.replace(fill, OWN)


def content(place):
    return {path.name: path.read_text() for path in place.iterdir() if path.is_file()}


def test_a_new_folder_appears_with_those_above_it_and_nothing_beside(tmp_path):
    write(tmp_path / "x" / "y" / "found", "1")
    assert content(tmp_path / "x" / "y" / "found") == dict.fromkeys(OWN, "1")
    assert [p.name for p in (tmp_path / "x" / "y").iterdir()] == ["found"]


@pytest.mark.parametrize("way", ["exchange", "no exchange", "inside"])
def test_an_old_folder_is_replaced_and_foreign_files_stay(tmp_path, way, monkeypatch):
    place = tmp_path / "found"
    write(place, "1")
    (place / "notes.txt").write_text("mine")
    (place / "deep" / "er").mkdir(parents=True)
    (place / "deep" / "er" / "more.txt").write_text("mine too")
    (place / "link").symlink_to("nowhere")
    if way == "no exchange":
        monkeypatch.setattr(files, "_exchanged", lambda new, place: False)
    if way == "inside":
        monkeypatch.chdir(place)
    write(place, "2", ("a", "c"))
    assert content(place) == {"a": "2", "c": "2", "notes.txt": "mine"}
    assert (place / "deep" / "er" / "more.txt").read_text() == "mine too"
    assert os.readlink(place / "link") == "nowhere"
    assert [p.name for p in tmp_path.iterdir()] == ["found"]
    if way == "inside":
        assert Path("a").read_text() == "2"


def test_a_write_that_fails_leaves_the_old_folder(tmp_path):
    write(tmp_path / "found", "1")

    def fail(new):
        (new / "a").write_text("2")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space"), claimed(tmp_path / "found") as claim:
        claim.replace(fail, OWN)
    assert content(tmp_path / "found") == dict.fromkeys(OWN, "1")
    assert [p.name for p in tmp_path.iterdir()] == ["found"]


def test_nothing_is_left_of_a_claim_that_was_not_used(tmp_path):
    with pytest.raises(ValueError, match="fit"), claimed(tmp_path / "x" / "y" / "found"):
        raise ValueError("no fit")
    assert list(tmp_path.iterdir()) == []


def test_links_stay_links(tmp_path):
    write(tmp_path / "real", "1")
    (tmp_path / "link").symlink_to("real")
    write(tmp_path / "link", "2")
    assert (tmp_path / "link").is_symlink() and content(tmp_path / "real") == dict.fromkeys(OWN, "2")
    (tmp_path / "name").symlink_to(tmp_path / "file")
    write_whole(tmp_path / "name", b"new")
    assert (tmp_path / "name").is_symlink() and (tmp_path / "file").read_bytes() == b"new"


def test_a_second_writer_is_refused_at_once_and_the_next_one_is_not(tmp_path):
    refused, place = list(), tmp_path / "found"

    def second():
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


def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path):
    with claimed(tmp_path / "found") as claim:
        prefix = claim.prefix
    (tmp_path / f"{prefix}.12345678.part").mkdir()
    (tmp_path / f"{prefix}.12345678.part" / "a").write_text("half")
    (tmp_path / f"{prefix}.lock").write_text("")
    (tmp_path / ".odediscovery-other.part").mkdir()
    write(tmp_path / "found", "1")
    assert sorted(p.name for p in tmp_path.iterdir()) == [".odediscovery-other.part", "found"]


def test_a_folder_without_room_beside_it_is_written_from_inside(tmp_path, monkeypatch):
    place = tmp_path / "found"
    write(place, "1")
    monkeypatch.setattr(os.path, "ismount", lambda path: path == place)
    write(place, "2", ("b", "c"))
    assert content(place) == {"b": "2", "c": "2"}


SERIES = TimeSeries.from_arrays([0.0, 1.0, 2.0, 3.0], [1.0, 0.5, 0.25, 0.125], ["mass"])


def test_a_file_is_replaced_whole_or_not_at_all_and_nothing_else_is_left(tmp_path, monkeypatch):
    path = tmp_path / "a.bin"
    write_whole(path, b"old")
    write_whole(path, b"new")

    def refuse(source, target):
        raise OSError("no space")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="no space"):
        write_whole(path, b"lost")
    assert path.read_bytes() == b"new"
    assert [p.name for p in tmp_path.iterdir()] == ["a.bin"]


def test_tables_go_into_devices(tmp_path):
    write_csv(SERIES, os.devnull)
    assert not Path(os.devnull).is_file()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_tables_go_into_pipes(tmp_path):
    pipe, heard = tmp_path / "pipe", list()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: heard.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write_csv(SERIES, pipe)
    reader.join(timeout=10)
    (tmp_path / "copy.csv").write_bytes(heard[0])
    copy = load_csv(tmp_path / "copy.csv").trajectories[0].values
    assert copy.tolist() == SERIES.trajectories[0].values.tolist()
    assert pipe.is_fifo()


def test_what_can_be_written_is_found_out_without_a_trace_and_what_cannot_is_named(tmp_path):
    check_writable(tmp_path / "not" / "yet" / "there", "--out")
    check_writable(tmp_path, "--out")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match=r"--out .*inside: cannot be written"):
        check_writable(tmp_path / "file" / "inside", "--out")


WORDS = {"format": "test", "states": ["S", "I"], "rate": 0.1}
ARRAYS = {"weights": np.array([[1.0, -0.1], [np.pi, np.nan]]), "kept": np.array([True, False])}


def both(words, arrays):
    return words, arrays


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "model.npz"
    path.write_bytes(pack("head", WORDS, ARRAYS))
    return path


def test_words_and_arrays_come_back(archive):
    words, arrays = unpack(archive.read_bytes(), archive, "head", both)
    assert words == WORDS
    for name, values in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], values, strict=True)


def test_a_file_that_was_cut_short_anywhere_is_damaged(archive):
    content = archive.read_bytes()
    for length in range(0, len(content), 37):
        archive.write_bytes(content[:length])
        with pytest.raises(InputError, match=r"model\.npz is damaged \(.+\); fit the data again$"):
            unpack(archive.read_bytes(), archive, "head", both)


def test_what_cannot_be_built_is_damaged(archive):
    with pytest.raises(InputError, match=r"damaged .*no-head"):
        unpack(archive.read_bytes(), archive, "no-head", both)
    with pytest.raises(InputError, match=r"damaged \('biases'\)"):
        unpack(archive.read_bytes(), archive, "head", lambda _, arrays: arrays["biases"])


def test_pickled_objects_are_never_read(archive):
    stream = io.BytesIO()
    np.savez(stream, head=np.array([{"a": 1}], dtype=object), allow_pickle=True)
    archive.write_bytes(stream.getvalue())
    with pytest.raises(InputError, match=r"damaged .*arrays of object"):
        unpack(archive.read_bytes(), archive, "head", both)
    with pytest.raises(ValueError, match="allow_pickle"):
        pack("head", WORDS, {"weights": np.array([None])})


def test_an_entry_takes_no_more_memory_than_it_has_bytes(archive):
    stream = io.BytesIO()
    np.savez_compressed(stream, head=np.array("null"), weights=np.zeros(10**6))
    with pytest.raises(InputError, match=r"damaged .*overlap"):
        unpack(stream.getvalue(), archive, "head", both)
    lying = archive.read_bytes().replace(b"(2, 2), }", b"(9**9,),}".replace(b"9**9", b"9999"))
    with pytest.raises(InputError, match="damaged"):
        unpack(lying, archive, "head", both)


@pytest.mark.parametrize("text", ["[" * 300_000, "1" * 4000, "NaN", "1e999", "{", "\xff", ""])
def test_documents_of_strangers_are_refused_in_words(text):
    with pytest.raises(ValueError, match=r"."):
        read_json(text)
