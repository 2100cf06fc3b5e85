"""Output of commands and the backends of their tasks: results, tables and progress.

A closed standard error does not end a fit; a closed standard output ends the command, but only after the folder is
written.
"""

# Imports inside the functions let help appear before torch is loaded.
# ruff: noqa: PLC0415

from __future__ import annotations

import atexit
import contextlib
import gc
import logging
import os
import re
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from odediscovery.command.flags import Where
from odediscovery.errors import InputError, unknown_name
from odediscovery.runtime.texts import HELD, cut, printable

if TYPE_CHECKING:
    from odediscovery.result.discovery import Discovery
    from odediscovery.result.front import FrontRow
    from odediscovery.runtime.workers import Backend

BACKENDS = ("processes", "dask")


def say(text: str = "", end: str = "\n") -> None:
    """Print a result on standard output."""
    print(printable(text), end=end)


def remark(text: str) -> None:
    """Print a line on standard error at once; ignore a closed one."""
    try:
        # Longer messages quote a whole cell or row of a file.
        print(cut(printable(text), 1500), file=sys.stderr, flush=True)
    except (OSError, ValueError):
        mute(sys.stderr)


def note(text: str) -> None:
    """Print a remark with its prefix."""
    remark(f"note: {text}")


class Forgiving:
    """Standard error for a library that draws on it; writes to a closed terminal are ignored."""

    def __init__(self) -> None:
        # Keep the current stream, since the library replaces `sys.stderr` by a proxy.
        self._stream = sys.stderr

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write as `TextIO.write`, if possible."""
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush as `TextIO.flush`, if possible."""
        mute_if_broken(self._stream)


def mute(stream: TextIO) -> None:
    """Make a broken stream ignore writes, including the flush of Python at exit."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def mute_if_broken(stream: TextIO) -> None:
    """Mute a stream that cannot be flushed."""
    try:
        stream.flush()
    except (OSError, ValueError):
        mute(stream)


def prepare() -> None:
    """Prepare the streams of a command for every character, reopen closed ones, and silence libraries."""
    # A file opened while a stream is closed would get its number, and its output.
    while True:
        spare = os.open(os.devnull, os.O_RDWR)
        if spare > 2:
            os.close(spare)
            break
        os.set_inheritable(spare, True)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        if hasattr(stream := getattr(sys, name), "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    # Modules and pictures consist of permanent objects: garbage collection after every 700 new ones took a sixth of the
    # time of a short fit, and a second at the end of a training.
    gc.set_threshold(50_000)
    atexit.register(gc.freeze)
    os.environ["MATPLOTLIBRC"], os.environ["MPLBACKEND"] = os.devnull, "agg"
    logging.getLogger("matplotlib").setLevel(logging.ERROR)


def load_pictures() -> None:
    """Load matplotlib without a possibly broken file of settings in the working directory."""
    if "matplotlib" in sys.modules or threading.current_thread() is not threading.main_thread():
        return
    with contextlib.suppress(OSError), contextlib.chdir(Path(__file__).parent):
        import odediscovery.plots  # noqa: F401


@contextmanager
def opened(where: Where, say: Callable[[str], None]) -> Iterator[Backend]:
    """Open the backend of tasks for the duration of a context."""
    from odediscovery.runtime.workers import Processes

    backend, scheduler, jobs = where.backend, where.scheduler, where.jobs
    if backend not in BACKENDS:
        raise unknown_name("backend", backend, BACKENDS)
    local = Processes(jobs)
    if backend == "processes":
        if scheduler is not None:
            raise InputError("--scheduler is the address of a dask cluster: it needs --backend dask")
        yield local
        return
    if scheduler is None:
        raise InputError(
            "--backend dask needs --scheduler ADDRESS, such as tcp://node1:8786; "
            "`dask scheduler` starts one and prints its address"
        )
    if jobs != 1:
        raise InputError(
            f"--jobs {jobs} counts processes of this machine; with --backend dask the "
            "threads of the workers count: leave it out"
        )
    from odediscovery.runtime.cluster import connected

    # The client reports a lost scheduler with a traceback; we report it in one line.
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    with connected(scheduler, say) as cluster:
        yield cluster


def print_discovery(found: Discovery) -> None:
    """Print equations with error bars, notes, then the Pareto front with the chosen row marked."""
    from odediscovery.result.discovery import facts, headline, row_lines, shown_notes

    # Lines are broken on a terminal only.
    room = Console().width - 1 if sys.stdout.isatty() else sys.maxsize
    for line in found.equations_text().splitlines():
        say(broken(line, room))
    told = [line for text in facts(found) for line in text.splitlines()]
    told += [headline(found), *(f"note: {' '.join(message.split())}" for message in shown_notes(found.messages))]
    for line in [*told, *found.source_text().splitlines()]:
        say(wrapped(line))
    say()
    _print_front([(row, row_lines(row)) for row in found.front])


def _print_front(front: Sequence[tuple[FrontRow, list[str]]]) -> None:
    """Print the Pareto front, rows with the lines of their equations, as a table as wide as the terminal."""
    header = ("", "complexity", "MSE", "R2")
    scores = [("*" * row.selected, str(row.complexity), f"{row.mse:.3g}", f"{row.r2:z.6f}") for row, _ in front]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for title in (*header, "equations"):
        table.add_column(title, justify="right" if title in header[1:] else "left", overflow="fold")
    console = Console(width=None if sys.stdout.isatty() else 1000, highlight=False)
    # The equations fill the width beside the other columns, with three letters between columns.
    widths = [max(map(len, column)) for column in zip(header, *scores, strict=True)]
    room = max(console.width - sum(widths) - 3 * len(widths), 20)
    for cells, (_, lines) in zip(scores, front, strict=True):
        table.add_row(*map(Text, cells), Text("\n".join(broken(printable(line), room) for line in lines)))
    with console.capture() as captured:
        console.print(table)
    # Limit the rule below the header even if lines are longer.
    rule = "\N{BOX DRAWINGS LIGHT HORIZONTAL}"
    drawn = (line.rstrip()[: 120 if line.startswith(rule) else None] for line in captured.get().split("\n"))
    print("\n".join(drawn).rstrip("\n"))


def wrapped(text: str) -> str:
    """Wrap a note for the terminal; leave it whole if standard output is not a terminal."""
    if not sys.stdout.isatty():
        return text
    width = max(Console().width - 1, 40)
    # Keep a name and its value on one line.
    joined = text.replace(" = ", HELD)
    lines = textwrap.fill(joined, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return lines.replace(HELD, " = ")


def broken(line: str, room: int) -> str:
    """Break a line of equations to at most `room` letters, between terms, or between factors of long ones.

    >>> print(broken("x' = 0.5*alpha*beta^2*gamma + 2*gamma", 18))
    x' = 0.5*alpha*
        beta^2*gamma
        + 2*gamma
    """
    lines = [""]
    for term in re.split(r" (?=[+-] )", line):
        if len(lines[-1]) + 1 + len(term) <= room:
            lines[-1] += f" {term}" if lines[-1] else term
            continue
        lines += ["    "] if lines[-1] else []
        for piece in re.findall(r"[^ *]+[ *]*|[ *]+", term):
            if len(lines[-1]) + len(piece.rstrip()) > room and lines[-1].strip():
                lines.append("    ")
            lines[-1] += piece
    return "\n".join(one.rstrip() for one in lines)


def sayer(quiet: bool) -> Callable[[str], None]:
    """Choose the output for a line per finished row: standard error, or none."""
    return (lambda _: None) if quiet else remark
