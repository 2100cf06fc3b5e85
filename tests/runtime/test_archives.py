"""Arrays with a few words in front: read back as they were, and refused when they were altered."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from odediscovery.errors import InputError
from odediscovery.runtime.archives import pack, read_json, unpack

WORDS = {"format": "test", "states": ["S", "I"], "rate": 0.1}
ARRAYS = {"weights": np.array([[1.0, -0.1], [np.pi, np.nan]]), "kept": np.array([True, False])}


def both(words: Any, arrays: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    return words, arrays


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "model.npz"
    path.write_bytes(pack("head", WORDS, ARRAYS))
    return path


def test_words_and_arrays_come_back(archive: Path) -> None:
    words, arrays = unpack(archive.read_bytes(), archive, "head", both)
    assert words == WORDS
    for name, values in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], values, strict=True)


def test_a_file_that_was_cut_short_anywhere_is_damaged(archive: Path) -> None:
    content = archive.read_bytes()
    for length in range(0, len(content), 37):
        archive.write_bytes(content[:length])
        with pytest.raises(InputError, match=r"model\.npz is damaged \(.+\); fit the data again$"):
            unpack(archive.read_bytes(), archive, "head", both)


def test_what_cannot_be_built_is_damaged(archive: Path) -> None:
    with pytest.raises(InputError, match=r"damaged .*no-head"):
        unpack(archive.read_bytes(), archive, "no-head", both)
    with pytest.raises(InputError, match=r"damaged \('biases'\)"):
        unpack(archive.read_bytes(), archive, "head", lambda _, arrays: arrays["biases"])


def test_pickled_objects_are_never_read(archive: Path) -> None:
    stream = io.BytesIO()
    np.savez(stream, head=np.array([{"a": 1}], dtype=object), allow_pickle=True)
    archive.write_bytes(stream.getvalue())
    with pytest.raises(InputError, match=r"damaged .*arrays of object"):
        unpack(archive.read_bytes(), archive, "head", both)
    with pytest.raises(ValueError, match="allow_pickle"):
        pack("head", WORDS, {"weights": np.array([None])})


def test_an_entry_takes_no_more_memory_than_it_has_bytes(archive: Path) -> None:
    stream = io.BytesIO()
    np.savez_compressed(stream, head=np.array("null"), weights=np.zeros(10**6))
    with pytest.raises(InputError, match=r"damaged .*overlap"):
        unpack(stream.getvalue(), archive, "head", both)
    lying = archive.read_bytes().replace(b"(2, 2), }", b"(9**9,),}".replace(b"9**9", b"9999"))
    with pytest.raises(InputError, match="damaged"):
        unpack(lying, archive, "head", both)


@pytest.mark.parametrize("text", ["[" * 300_000, "1" * 4000, "NaN", "1e999", "{", "\xff", ""])
def test_documents_of_strangers_are_refused_in_words(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_json(text)
