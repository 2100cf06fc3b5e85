"""Files that appear whole or not at all.

Results are written beside their place first and then renamed, so that a program that is stopped
in between leaves the old file, or none, and never half of a new one.
"""

from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path

from odediscovery.errors import InputError


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it appears whole or not at all: beside it first, then renamed.

    A link keeps being one, and what is no file (a device, a pipe) is written to, never replaced.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        path.write_bytes(content)
        return
    path = path.resolve()
    beside = path.with_name(f".{path.name[:40]}.{os.getpid()}.{threading.get_ident()}.part")
    try:
        beside.write_bytes(content)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def check_writable(path: Path, option: str) -> None:
    """Try it out where the path's nearest existing folder is; nothing stays behind."""
    begin = path.absolute().parent if path.is_file() else path
    nearest = next(p for p in (begin, *begin.absolute().parents) if p.exists())
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        raise InputError(f"{option} {path}: cannot be written ({error.strerror})") from error
