"""Progress of a fit on standard error, and Ctrl-C as a request to end it.

On a terminal one line for the whole work shows the stage, a bar and the time left, and disappears at the end; in a log
each stage is a plain line. The first Ctrl-C requests the fit to end with the best so far, the second one ends it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TextIO, cast

from rich.console import Console
from rich.progress import Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.progress_bar import ProgressBar
from rich.table import Column
from rich.text import Text

from odediscovery.command.console import Forgiving, remark
from odediscovery.runtime.monitor import Monitor

# Signals of Ctrl-C, and of a system or batch queue that ends a program.
_WISHES = (signal.SIGINT, signal.SIGTERM)


class TerminalMonitor(Monitor):
    """A `Monitor` that draws a bar within 80 letters on a terminal, else prints a line per stage, or is quiet."""

    def __init__(self, max_seconds: float | None = None, *, quiet: bool = False, started: float | None = None) -> None:
        super().__init__(max_seconds, time.monotonic() if started is None else started)
        self._quiet = quiet
        self._lines = not quiet and not sys.stderr.isatty()
        self._progress = Progress(
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, max_width=26)),
            _Live(self._bar),
            _Live(self._left),
            TextColumn("{task.fields[loss]}", markup=False, table_column=Column(no_wrap=True)),
            console=Console(file=cast(TextIO, Forgiving())),
            transient=True,
            disable=quiet or self._lines,
        )
        self._wide = self._progress.console.width >= 100
        self._task: TaskID | None = None
        self._steps, self._done, self._stage_began = 1, 0, 0.0

    def stage(self, name: str, steps: int) -> None:
        self._steps, self._done, self._stage_began = max(steps, 1), 0, self.seconds()
        if self._lines:
            remark(f"{self._stage_began:7.1f} s  {name}")
        elif self._task is None:
            self._task = self._progress.add_task(name, total=1.0, loss="")
        else:
            self._progress.update(self._task, description=name)

    def name(self, name: str) -> None:
        """Name the work before the first stage at the bar; a log contains only errors before it."""
        if not self._lines:
            self.stage(name, 1)

    def step(self, done: int, loss: float | None = None) -> None:
        self._done = done
        if self._task is not None and loss is not None and self._wide:
            self._progress.update(self._task, loss=f"best loss {loss:.2e}")

    def share(self) -> float | None:
        """As in `Monitor`; for work without a limit the completed steps, if there are several."""
        if self.bound() is None and self._steps > 1:
            return min(self._done / self._steps, 1.0)
        return super().share()

    def left_text(self) -> str:
        """The time left as text, extrapolated from completed steps for work without a bound."""
        if self.bound() is None and self._steps > 1 and self._done:
            left = (self.seconds() - self._stage_began) / self._done * max(self._steps - self._done, 0)
            return f"about {max(left, 1.0):.0f} s left, step {self._done} of {self._steps}"
        return super().left_text()

    def _bar(self) -> ProgressBar:
        """The bar, which pulses for unbounded work."""
        share = self.share()
        return ProgressBar(total=1.0, completed=share or 0.0, width=20, pulse=share is None)

    def _left(self) -> Text:
        share = self.share()
        return Text(("" if share is None else f"{100 * share:3.0f} %  ") + self.left_text())

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the bar, and turn Ctrl-C into a request to end with the best so far."""

        def wish(_signal: int, _frame: FrameType | None) -> None:
            self.interrupt()
            for one in _WISHES:
                signal.signal(one, signal.default_int_handler)
            if not self._quiet:
                # Not by print, which the signal may have interrupted.
                with contextlib.suppress(OSError):
                    os.write(2, b"\nCtrl-C: ending with the best so far (once more: end at once)\n")

        # Only the main thread receives signals; elsewhere the caller interrupts in its own way.
        asked = threading.current_thread() is threading.main_thread()
        before = [(one, signal.signal(one, wish)) for one in _WISHES * asked]
        try:
            with self._progress:
                yield
        finally:
            for one, handler in before:
                signal.signal(one, handler)

    def end(self) -> None:
        """Remove the bar before the end of `shown`, to print without it."""
        self._progress.stop()


class _Live(ProgressColumn):
    """The column that is updated between steps."""

    max_refresh = 0.2

    def __init__(self, drawn: Callable[[], Any]) -> None:
        super().__init__(Column(no_wrap=True))
        self._drawn = drawn

    def render(self, task: Task) -> Any:
        return self._drawn()
