"""What commands print: text that does no harm to a terminal, on streams that may be closed, full or broken.

A standard error that is gone ends no fit. A standard output that is gone ends the printing, after the
work was kept.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import logging
import os
import sys
import threading
import warnings
from pathlib import Path
from typing import TextIO

from odediscovery.runtime.texts import cut, printable

# Letters of one line on standard error; what is longer quotes a whole cell or row of somebody's file.
MAX_LINE_LETTERS = 1500
# So many new objects, not Python's 700, before it looks for those that only refer to each other.
COLLECTED_AT = 50_000


def say(text: str = "", end: str = "\n") -> None:
    """A result, on standard output."""
    print(printable(text), end=end)


def remark(text: str) -> None:
    """A line on standard error, at once, if somebody is there to read it."""
    try:
        print(cut(printable(text), MAX_LINE_LETTERS), file=sys.stderr, flush=True)
    except (OSError, ValueError):
        mute(sys.stderr)


def note(text: str) -> None:
    """A remark that begins as one."""
    remark(f"note: {text}")


class Forgiving:
    """Standard error for a library that draws on it: writes to a terminal that is gone are lost."""

    def __init__(self) -> None:
        # The stream of now: the library puts a proxy of its own into the place of `sys.stderr`.
        self._stream = sys.stderr
        self.encoding = getattr(sys.stderr, "encoding", "utf-8")

    def write(self, text: str) -> int:
        """What `TextIO.write` does, if it can be done."""
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """What `TextIO.flush` does, if it can be done."""
        mute_if_broken(self._stream)

    def isatty(self) -> bool:
        """Whether standard error is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """The number of standard error."""
        return self._stream.fileno()


def mute(stream: TextIO) -> None:
    """Let a broken stream swallow what is written to it, also what Python flushes when it ends."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def mute_if_broken(stream: TextIO) -> None:
    """Mute a stream that does not take what it holds."""
    try:
        stream.flush()
    except (OSError, ValueError):
        mute(stream)


def prepare() -> None:
    """Streams that take every letter, also where they were closed; no words of libraries on them.

    For a command only: a program that imports this package keeps its own streams and settings.
    """
    # A file that is opened while a stream is closed would get its number, and what is printed.
    while True:
        spare = os.open(os.devnull, os.O_RDWR)
        if spare > 2:
            os.close(spare)
            break
        os.set_inheritable(spare, True)
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    # Modules and pictures are made of objects that stay: to look through them again and again for some that do
    # not was a sixth of the time of a short fit, and before the end a second of that of a training.
    gc.set_threshold(COLLECTED_AT)
    atexit.register(gc.freeze)
    os.environ["MATPLOTLIBRC"], os.environ["MPLBACKEND"] = os.devnull, "agg"
    logging.getLogger("matplotlib").setLevel(logging.ERROR)


def load_pictures() -> None:
    """Load matplotlib without the file of settings that may lie where somebody works, broken perhaps."""
    if "matplotlib" in sys.modules or threading.current_thread() is not threading.main_thread():
        return
    with contextlib.suppress(OSError), contextlib.chdir(Path(__file__).parent):
        import odediscovery.plots  # noqa: F401, PLC0415 (loaded when it is needed, so that help is instant)
