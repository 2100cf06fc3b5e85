"""Arrays with a few words in front: read back as they were, and refused when they were altered."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from odediscovery.errors import InputError
from odediscovery.runtime.archives import pack, unpack

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
