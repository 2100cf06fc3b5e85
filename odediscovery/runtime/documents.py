"""JSON that strangers may have written: read without trusting it, whatever it says.

Its numbers are finite floats and whole numbers of 64 bits, its nesting and its size have a limit.
"""

from __future__ import annotations

import json
import math
import zlib
from pathlib import Path
from typing import Any

from odediscovery.errors import InputError

# What building a value of a document raises if the document was cut short or altered.
DAMAGED = (
    KeyError,
    IndexError,
    TypeError,
    ValueError,
    AttributeError,
    OverflowError,
    RecursionError,
    MemoryError,
    RuntimeError,
    ZeroDivisionError,
    zlib.error,
)
# Longer files are none of ours: a result of 300 states with all its samples is a tenth of it.
MAX_BYTES = 2**30
_MAX_WHOLE = 2**63


def write_json(value: object, indent: int | None = None) -> str:
    """A document that `read_json` reads; letters beyond ASCII and control characters are escaped.

    Raises:
        ValueError: a number that is not finite.
    """
    return json.dumps(value, indent=indent, allow_nan=False)


def read_json(text: str | bytes) -> Any:
    """The value that a document spells.

    Raises:
        ValueError: no JSON, nan, infinite or overlong numbers, nested too deeply, or no UTF-8.

    >>> read_json('{"a": [1, 2.5, null]}')
    {'a': [1, 2.5, None]}
    """
    try:
        return json.loads(text, parse_int=_whole, parse_float=_finite, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read_bytes(path: Path) -> bytes:
    """The content of a file of a sensible size.

    Raises:
        InputError: missing, no file, larger than any of ours, or unreadable.
    """
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
    if len(digits) > 20 or not -_MAX_WHOLE <= int(digits) < _MAX_WHOLE:
        raise ValueError(f"a whole number of {len(digits)} digits")
    return int(digits)


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError("a number beyond the range of floats")
    return value


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")
