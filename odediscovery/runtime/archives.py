"""Arrays with a few words in front, in one npz file that is read back without trusting it."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from odediscovery.errors import InputError

Built = TypeVar("Built")
# What numpy, zipfile and our own building raise for files that were cut short or altered.
_DAMAGED = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    EOFError,
    MemoryError,
    OverflowError,
    IndexError,
    zipfile.BadZipFile,
    zlib.error,
    NotImplementedError,
    RuntimeError,
    OSError,
)


def pack(head: str, words: object, arrays: Mapping[str, Any]) -> bytes:
    """The content of an npz file.

    Args:
        head: name of the entry that holds `words`.
        words: anything that JSON can hold.
        arrays: the other entries, by name.
    """
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **{head: np.array(json.dumps(words)), **arrays})
    return stream.getvalue()


def unpack(path: Path, head: str, build: Callable[[Any, dict[str, Any]], Built]) -> Built:
    """What `build` makes of the words and the arrays that `pack` put into a file.

    Args:
        path: of an existing file.
        head: name of the entry that holds the words.
        build: may raise whatever arrays of wrong names, kinds or shapes lead to.

    Raises:
        InputError: cut short, or anything but the expected entries.
    """
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        return build(json.loads(str(arrays[head])), arrays)
    except _DAMAGED as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{path} is damaged ({reason}); fit the data again") from error
