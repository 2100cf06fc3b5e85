"""The progress of a fit on standard error, and Ctrl-C as a request to end it.

`TerminalMonitor` does both: the stages call `stage` and `step` and know nothing of terminals. On a
terminal a line shows stage, share, best loss and time left, and vanishes at the end; where
standard error is no terminal (a log, a pipe) each stage is one plain line. The first Ctrl-C
asks the fit to end with the best it has, the second one really ends it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TextIO, cast

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn

from odediscovery.command.streams import Forgiving, remark
from odediscovery.runtime.monitor import Monitor

# Ctrl-C, and how a system or a queue of jobs asks a program to end.
_WISHES = (signal.SIGINT, signal.SIGTERM)


class TerminalMonitor(Monitor):
    """A `Monitor` that draws a bar, or prints a line a stage where there is no terminal.

    Args:
        max_seconds: wall-clock limit in seconds, or None for none.
        quiet: say nothing at all.
        started: when the command began, by `time.monotonic` (default: now).
    """

    def __init__(self, max_seconds: float | None = None, *, quiet: bool = False, started: float | None = None) -> None:
        super().__init__(max_seconds, time.monotonic() if started is None else started)
        self._quiet = quiet
        self._lines = not quiet and not sys.stderr.isatty()
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TextColumn("{task.fields[loss]}", markup=False),
            TextColumn("{task.fields[left]}", markup=False),
            console=Console(file=cast(TextIO, Forgiving())),
            transient=True,
            disable=quiet or self._lines,
        )
        self._task: TaskID | None = None
        self._steps, self._begun = 1, 0.0

    def stage(self, name: str, steps: int) -> None:
        self._steps, self._begun = max(steps, 1), self.seconds()
        if self._lines:
            remark(f"{self._begun:7.1f} s  {name}")
            return
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(name, total=self._steps, loss="", left="")

    def step(self, done: int, loss: float | None = None) -> None:
        if self._task is None:
            return
        fields: dict[str, Any] = {"left": f"{self._left(done):.0f} s left"} if done > 0 else {}
        if loss is not None:
            fields["loss"] = f"best loss {loss:.2e}"
        self._progress.update(self._task, completed=min(done, self._steps), **fields)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the bar, and turn Ctrl-C into a wish to end with the best found so far."""

        def wish(_signal: int, _frame: FrameType | None) -> None:
            self.interrupt()
            for one in _WISHES:
                signal.signal(one, signal.default_int_handler)
            if not self._quiet:
                # Not print: the signal may have come in the middle of one.
                with contextlib.suppress(OSError):
                    os.write(2, b"\nCtrl-C: ending with the best so far (once more: end at once)\n")

        # Signals are the main thread's; elsewhere the caller has its own way to interrupt.
        asked = threading.current_thread() is threading.main_thread()
        before = [(one, signal.signal(one, wish)) for one in _WISHES * asked]
        try:
            with self._progress:
                yield
        finally:
            for one, handler in before:
                signal.signal(one, handler)

    def _left(self, done: int) -> float:
        """Seconds left in this stage at its pace so far, and never more than the time limit."""
        left = (self.seconds() - self._begun) / done * max(self._steps - done, 0)
        if self.max_seconds is not None:
            left = min(left, self.max_seconds - self.seconds())
        return max(left, 0.0)
