"""Arrays with a few words in front, in one npz file that is read back without trusting it.

The same content gives the same bytes, so that a hash of the file says what is in it. What is read is
checked before memory is taken for it: an entry is as long in the file as its arrays will be.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from odediscovery.errors import InputError
from odediscovery.runtime.documents import DAMAGED, read_json, write_json

Built = TypeVar("Built")
# The date of every entry: the oldest that the format knows.
_DATE = (1980, 1, 1, 0, 0, 0)
# Kinds of arrays that we write: masks, whole numbers, floats, text.
_KINDS = "biufU"


def pack(head: str, words: object, arrays: Mapping[str, Any]) -> bytes:
    """The content of an npz file.

    Args:
        head: name of the entry that holds `words`.
        words: anything that JSON can hold.
        arrays: the other entries, by name.
    """
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, array in {head: np.array(write_json(words)), **arrays}.items():
            entry = io.BytesIO()
            np.lib.format.write_array(entry, np.asanyarray(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", _DATE), entry.getvalue())
    return stream.getvalue()


def unpack(content: bytes, path: Path, head: str, build: Callable[[Any, dict[str, Any]], Built]) -> Built:
    """What `build` makes of the words and the arrays that `pack` put into a file.

    Args:
        content: of the file.
        path: of the file, for messages.
        head: name of the entry that holds the words.
        build: may raise whatever arrays of wrong names, kinds or shapes lead to.

    Raises:
        InputError: cut short, or anything but the expected entries.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            arrays = {
                entry.filename.removesuffix(".npy"): _array(_stored(archive, entry)) for entry in archive.infolist()
            }
        return build(read_json(str(arrays[head])), arrays)
    except (*DAMAGED, zipfile.BadZipFile, NotImplementedError, EOFError, OSError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{path} is damaged ({reason[:200]}); fit the data again") from error


def _stored(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """The bytes of an entry, which we never compress."""
    if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
        raise ValueError(f"its entry {entry.filename!r} is compressed")
    return archive.read(entry)


def _array(content: bytes) -> np.ndarray[Any, Any]:
    """The array in an npy file, whose header has to fit its length.

    Raises:
        ValueError: another version, a kind of array that we do not write, or another length.
    """
    stream = io.BytesIO(content)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError("arrays of an unknown version")
    shape, fortran, kind = np.lib.format.read_array_header_1_0(stream)
    if kind.hasobject or kind.kind not in _KINDS or kind.names is not None:
        raise ValueError(f"arrays of {kind}")
    if any(n < 0 for n in shape) or math.prod(shape) * kind.itemsize != len(content) - stream.tell():
        raise ValueError(f"an array of shape {shape} that has another length")
    flat = np.frombuffer(content, kind, offset=stream.tell())
    return np.array(flat.reshape(shape, order="F" if fortran else "C"))
