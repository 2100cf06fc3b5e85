"""How long work tells where it is, and how it is asked to stop.

A stage announces itself with `stage`, calls `step` as it goes, and asks `stopping` between
two steps; when that is not None it returns the best it has. The command line shows the same
calls as a progress bar, tests listen to them, a notebook ignores them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

# Why work ends that took the time which it takes where nobody set a limit.
TIME_SPENT = "time spent"


@dataclass
class Monitor:
    """Counts seconds against a limit and remembers a request to stop.

    Args:
        max_seconds: wall-clock limit in seconds, or None for none.
        started: when the work began, by `time.monotonic`.
        log: what `note` was told, in order.
        processor_seconds: of the process, after which the search should end with what it has; None for
            no such end.

    >>> monitor = Monitor(max_seconds=60)
    >>> monitor.stopping() is None
    True
    >>> monitor.interrupt()
    >>> monitor.stopping()
    'interrupted'
    """

    max_seconds: float | None = None
    started: float = field(default_factory=time.monotonic)
    log: list[dict[str, object]] = field(default_factory=list)
    processor_seconds: float | None = None
    _interrupted: bool = False

    def seconds(self) -> float:
        """Seconds since the work began."""
        return time.monotonic() - self.started

    def interrupt(self) -> None:
        """Ask the work to end with the best it has (Ctrl-C calls this)."""
        self._interrupted = True

    def stopping(self) -> str | None:
        """Why the work should end now ("interrupted", "time limit" or "time spent"), or None to go on."""
        if self._interrupted:
            return "interrupted"
        if self.max_seconds is not None and self.seconds() > self.max_seconds:
            return "time limit"
        if self.processor_seconds is not None and time.process_time() > self.processor_seconds:
            return TIME_SPENT
        return None

    def spend(self, seconds: float | None) -> None:
        """End the work after so many seconds of the processor from now; None: no such end any more."""
        self.processor_seconds = None if seconds is None else time.process_time() + seconds

    def stage(self, name: str, steps: int) -> None:
        """The stage called `name` begins, which will take about `steps` steps."""

    def step(self, done: int, loss: float | None = None) -> None:
        """`done` steps of the stage are over; `loss` is the best so far, dimensionless."""

    def note(self, **fields: object) -> None:
        """`fields` worth keeping in the log (one JSON line), never needed for the result."""
        self.log.append({"seconds": round(self.seconds(), 3), **fields})
