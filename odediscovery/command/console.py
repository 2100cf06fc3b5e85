"""What commands print, and where their tasks run: results, tables and progress.

Text does no harm to a terminal, on streams that may be closed, full or broken. A standard error that is gone ends no
fit. A standard output that is gone ends the printing, after the work was kept.
"""

# Imports inside the functions are the point: help has to come before torch could be loaded.
# ruff: noqa: PLC0415

from __future__ import annotations

import atexit
import contextlib
import dataclasses
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
from typing import TYPE_CHECKING, TextIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from odediscovery.command.flags import Where
from odediscovery.errors import InputError, unknown_name
from odediscovery.runtime.texts import HELD, cut, printable

if TYPE_CHECKING:
    from odediscovery.result.discovery import Discovery
    from odediscovery.runtime.workers import Backend

# Longer equations are cut in the Pareto table; above it, and in result.json, they are whole.
MAX_ROW_LETTERS = 160
# Where nobody looks at a terminal lines stay whole.
MAX_LINE_LETTERS = 10**9
# Below a header, however long the lines of a table are where nobody looks at a terminal.
RULE, MAX_RULE = "\N{BOX DRAWINGS LIGHT HORIZONTAL}", 120
BACKENDS = ("processes", "dask")
# Letters of one line on standard error; what is longer quotes a whole cell or row of somebody's file.
MAX_REMARK_LETTERS = 1500
# So many new objects, not Python's 700, before it looks for those that only refer to each other.
COLLECTED_AT = 50_000


def say(text: str = "", end: str = "\n") -> None:
    """A result, on standard output."""
    print(printable(text), end=end)


def remark(text: str) -> None:
    """A line on standard error, at once, if somebody is there to read it."""
    try:
        print(cut(printable(text), MAX_REMARK_LETTERS), file=sys.stderr, flush=True)
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
        import odediscovery.plots  # noqa: F401


@contextmanager
def opened(where: Where, say: Callable[[str], None]) -> Iterator[Backend]:
    """Where tasks run, for as long as there are any."""
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

    # Its client reports a lost scheduler with a traceback; here it is one line.
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    with connected(scheduler, say) as cluster:
        yield cluster


def print_discovery(found: Discovery) -> None:
    """Equations with error bars, notes, then the Pareto front with the chosen row marked."""
    from odediscovery.laws.records import monomial_names
    from odediscovery.result.named import units_text
    from odediscovery.result.profiled import profiles_text

    room = Console().width - 1 if sys.stdout.isatty() else MAX_LINE_LETTERS
    for line in found.equations_text().splitlines():
        say(broken(line, room))
    for text in (
        found.name_text(),
        "" if found.population is None else found.population.table_text(),
        found.starts_text(),
        units_text(found.equations, found.series, found.named, found.textbook),
        found.stability_text(),
        profiles_text(found.profiles, monomial_names(found.equations)),
    ):
        if text:
            say("\n".join(wrapped(line) for line in text.splitlines()))
    from odediscovery.result.discovery import headline, shown_notes

    say(wrapped(headline(found)))
    for message in shown_notes(found.messages):
        say(wrapped(f"note: {' '.join(message.split())}"))
    if found.source_text():
        say(wrapped(found.source_text()))
    say()
    rows = []
    for row in found.front:
        plain = dataclasses.replace(row.equations, standard_errors=None)
        mark, scores = "*" if row.selected else "", (f"{row.mse:.3g}", f"{row.r2:z.6f}")
        lines = [
            x if len(x) <= MAX_ROW_LETTERS else f"{x[: MAX_ROW_LETTERS - 3]}..." for x in plain.pretty(3).splitlines()
        ]
        lines += [f"[{row.name}]"] if row.name else []
        rows.append((mark, str(row.complexity), *scores, "\n".join(lines)))
    print_table(("", "complexity", "MSE", "R2", "equations"), rows, numbers=(1, 2, 3), width=1000)


def print_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int] = (1,), width: int = 120
) -> None:
    """A table on standard output, as wide as the terminal."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for k, title in enumerate(header):
        table.add_column(title, justify="right" if k in numbers else "left", overflow="fold")
    console = Console(width=None if sys.stdout.isatty() else width, highlight=False)
    # The last column is what is left beside the others, each with three letters between.
    columns = [[title, *cells] for title, cells in zip(header, zip(*rows, strict=True), strict=True)] if rows else []
    others = [max(len(line) for cell in column for line in cell.split("\n")) for column in columns[:-1]]
    room = max(console.width - sum(others) - 3 * len(others), 20)
    for row in rows:
        *first, last = (printable(cell) for cell in row)
        table.add_row(*map(Text, first), Text("\n".join(broken(line, room) for line in last.split("\n"))))
    with console.capture() as captured:
        console.print(table)
    lines = (line.rstrip()[: MAX_RULE if line.startswith(RULE) else None] for line in captured.get().split("\n"))
    print("\n".join(lines).rstrip("\n"))


def wrapped(text: str) -> str:
    """A note as lines of the terminal, whole where standard output is none."""
    if not sys.stdout.isatty():
        return text
    width = max(Console().width - 1, 40)
    # A name and its value stay on one line.
    joined = text.replace(" = ", HELD)
    lines = textwrap.fill(joined, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return lines.replace(HELD, " = ")


def broken(line: str, room: int) -> str:
    """A line of equations in lines of at most so many letters, broken between terms, or factors of long ones.

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
    """What hears one line a finished row: standard error, or nothing."""
    return (lambda _: None) if quiet else remark
