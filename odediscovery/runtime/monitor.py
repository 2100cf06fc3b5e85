"""How long work tells where it is, and how it is asked to stop.

A stage announces itself with `stage`, calls `step` as it goes, and asks `stopping` between
two steps; when that is not None it returns the best it has. The command line shows the same
calls as a progress bar, tests listen to them, a notebook ignores them.

Some steps are long themselves: a batch over hundreds of columns, the integration of a stiff law. What
they spend their time in calls `check_time`, which ends work that `Monitor.patient` surrounds with
`TimeIsUp` once the limit is overrun by more than it allows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeVar

# Why work ends that took the time which it takes where nobody set a limit.
TIME_SPENT = "time spent"
# By how much a limit may be overrun, and the share of it if that is more.
OVERRUN_SECONDS, OVERRUN_SHARE = 5.0, 0.1

# Shares of that overrun after which a search, the judging of what it found, and what is said of it end; the
# rest is for the result and its pictures.
SEARCHING, JUDGING, TELLING = 0.1, 0.3, 0.4

T = TypeVar("T")
# When, by `time.monotonic`, the work under way has to end; None: whenever it likes.
_ends: ContextVar[Callable[[], float] | None] = ContextVar("ends", default=None)


class TimeIsUp(Exception):
    """The limit is overrun by as much as it may be: who began the work goes on with the best so far."""


def check_time() -> None:
    """What long steps call again and again, a microsecond each.

    Raises:
        TimeIsUp: work that `Monitor.patient` surrounds has to end.
    """
    ends = _ends.get()
    if ends is not None and time.monotonic() > ends():
        raise TimeIsUp


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
    _interrupted: float | None = None

    def seconds(self) -> float:
        """Seconds since the work began."""
        return time.monotonic() - self.started

    def interrupt(self) -> None:
        """Ask the work to end with the best it has (Ctrl-C calls this)."""
        self._interrupted = time.monotonic() if self._interrupted is None else self._interrupted

    def stopping(self) -> str | None:
        """Why the work should end now ("interrupted", "time limit" or "time spent"), or None to go on."""
        if self._interrupted is not None:
            return "interrupted"
        if self.max_seconds is not None and self.seconds() > self.max_seconds:
            return "time limit"
        if self.processor_seconds is not None and time.process_time() > self.processor_seconds:
            return TIME_SPENT
        return None

    @contextmanager
    def patient(self, share: float) -> Iterator[None]:
        """Surround work that `check_time` may end.

        Args:
            share: of the overrun that is allowed (5 s, or a tenth of the limit if that is more) after which
                it does, once the limit or a request to stop has passed.
        """
        limit = self.max_seconds
        overrun = share * max(OVERRUN_SECONDS, OVERRUN_SHARE * (limit or 0.0))

        def ends() -> float:
            asked = float("inf") if self._interrupted is None else self._interrupted
            return min(asked, float("inf") if limit is None else self.started + limit) + overrun

        before = _ends.set(ends)
        try:
            yield
        finally:
            _ends.reset(before)

    def in_time(self, share: float, work: Callable[[], T], otherwise: T) -> T:
        """What work gives, or something else where its time is up before it ends; see `patient`.

        >>> Monitor().in_time(0.5, lambda: "done", "the best so far")
        'done'
        """
        try:
            with self.patient(share):
                check_time()
                return work()
        except TimeIsUp:
            return otherwise

    def is_overdue(self, share: float) -> bool:
        """Whether `in_time` would not begin any more."""
        return self.in_time(share, lambda: False, True)

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
