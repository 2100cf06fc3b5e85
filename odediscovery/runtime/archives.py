"""Safe reading of documents (JSON) and arrays (npz) from untrusted sources, and writing of archives.

Numbers, nesting and sizes have limits, and arrays are checked before memory is allocated. The same arrays give the
same bytes, so that a hash of the file identifies its content.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from odediscovery.errors import InputError

Built = TypeVar("Built")
# Errors raised in building a value from a truncated or altered document.
DAMAGED = (
    *(LookupError, TypeError, ValueError, AttributeError, ArithmeticError),
    *(RuntimeError, MemoryError, zlib.error),
)
# Longer files are not ours: a result of 300 states with all its samples is a tenth as long.
MAX_BYTES = 2**30


def read_json(text: str | bytes) -> Any:
    """Parse a JSON document within limits."""
    try:
        return json.loads(text, parse_int=_whole, parse_float=_finite, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read_bytes(path: Path) -> bytes:
    """Read a file of at most `MAX_BYTES`."""
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"{path} is no file; fit the data again")
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"{path} has more than {MAX_BYTES} bytes, which no result has; fit the data again")
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path} is missing; fit the data again") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error


def _whole(digits: str) -> int:
    if len(digits) > 20 or not -(2**63) <= int(digits) < 2**63:
        raise ValueError(f"a whole number of {len(digits)} digits")
    return int(digits)


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError("a number beyond the range of floats")
    return value


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def pack(head: str, words: object, arrays: Mapping[str, Any]) -> bytes:
    """Pack a JSON document and arrays as the content of an npz file."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, array in {head: np.array(json.dumps(words, allow_nan=False)), **arrays}.items():
            entry = io.BytesIO()
            np.lib.format.write_array(entry, np.asanyarray(array), allow_pickle=False)
            # A constant date, the earliest of the format, so that equal arrays give equal bytes.
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0)), entry.getvalue())
    return stream.getvalue()


def unpack(content: bytes, path: Path, head: str, build: Callable[[Any, dict[str, Any]], Built]) -> Built:
    """Pass the document and the arrays written by `pack` to `build`, and return its value."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > len(content):
                raise ValueError("its entries overlap")
            arrays = {entry.filename.removesuffix(".npy"): _array(archive, entry) for entry in archive.infolist()}
        return build(read_json(str(arrays[head])), arrays)
    except (*DAMAGED, zipfile.BadZipFile, NotImplementedError, EOFError, OSError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{path} is damaged ({reason[:200]}); fit the data again") from error


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray[Any, Any]:
    """Read the array in an entry, an uncompressed npy file whose header agrees with its length."""
    if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
        raise ValueError(f"its entry {entry.filename!r} is compressed")
    content = archive.read(entry)
    stream = io.BytesIO(content)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError("arrays of an unknown version")
    shape, fortran, kind = np.lib.format.read_array_header_1_0(stream)
    # Only masks, whole numbers, floats and text are written.
    if kind.hasobject or kind.kind not in "biufU" or kind.names is not None:
        raise ValueError(f"arrays of {kind}")
    if any(n < 0 for n in shape) or math.prod(shape) * kind.itemsize != len(content) - stream.tell():
        raise ValueError(f"an array of shape {shape} that has another length")
    flat = np.frombuffer(content, kind, offset=stream.tell())
    return np.array(flat.reshape(shape, order="F" if fortran else "C"))
