"""Progress of long work, requests to stop it, and its limits of time and memory.

A stage announces itself with `stage`, calls `step` after each step, and checks `stopping` between steps; if that is not
None it returns the best so far. Long steps call `check_time`, which ends work within `Monitor.patient` by `TimeIsUp`:
the result is ready by the limit, or at most a tenth of it later.

The memory limit is set once, where a fit begins (`at_most`). Batches are split into parts that fit (`fitting_at_once`);
work that cannot be split is skipped (`has_room`). Training with large tensors is twice as fast if freed memory is kept
(`keep_freed_memory`), since the system would return it page by page.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

# Reason for the end of work that used up its default time.
TIME_SPENT = "time spent"
# Event of the log: a stage was skipped for lack of memory.
OUT_OF_MEMORY = "memory"
# Shares of the remainder after a search (`remainder_of`) at which an interrupted search, the judging of its results,
# the notes and the pictures end.
SEARCHING, JUDGING, TELLING, DRAWING = 0.1, 0.3, 0.4, 0.5

T = TypeVar("T")
S = TypeVar("S")
# The clock for limits.
_clock: ContextVar[Callable[[], float]] = ContextVar("clock", default=time.monotonic)
# Whether the current work has to end; None: without limit.
_is_over: ContextVar[Callable[[], bool] | None] = ContextVar("is_over", default=None)


class TimeIsUp(Exception):
    """The tolerated overrun is used up: the caller continues with the best so far."""


def check_time() -> None:
    """Raise `TimeIsUp` if the time is up; long steps call this repeatedly, at a microsecond each."""
    if is_time_up():
        raise TimeIsUp


def is_time_up() -> bool:
    """Whether `check_time` would end the work, for work that can continue with a coarser method."""
    is_over = _is_over.get()
    return is_over is not None and is_over()


@contextmanager
def _holding(variable: ContextVar[T], value: T) -> Iterator[None]:
    before = variable.set(value)
    try:
        yield
    finally:
        variable.reset(before)


def on_processor_time() -> AbstractContextManager[None]:
    """Let monitors made within count processor time, so that other processes do not end a measured fit early."""
    return _holding(_clock, time.process_time)


def now() -> float:
    """Seconds by the clock for limits, see `on_processor_time`."""
    return _clock.get()()


def remainder_of(limit: float | None) -> float:
    """Seconds after a search for judging, notes and pictures: the larger of five and a tenth of the limit of the
    whole work, but at most half of it.

    >>> [remainder_of(limit) for limit in (4.0, 20.0, 600.0)]
    [2.0, 5.0, 60.0]
    """
    return 5.0 if limit is None else min(max(5.0, 0.1 * limit), 0.5 * limit)


def searching_until(limit: float) -> float:
    """Seconds from the start after which a search ends, so that the result is ready by 1.1 times the limit.

    >>> [round(searching_until(limit), 3) for limit in (5.0, 10.0, 60.0, 600.0)]
    [3.75, 7.9, 60.0, 600.0]
    """
    overrun = 0.1 * limit
    # The last picture and the writing take 0.6 s.
    return min(limit, limit + overrun - min(0.6, overrun) - DRAWING * remainder_of(limit))


@dataclass
class Monitor:
    """Counts seconds against a limit and records a request to stop.

    Args:
        max_seconds: limit in seconds of the clock, or None for no limit.
        started: start of the work by the clock.
        log: entries of `note`, in order.
        processor_seconds: processor time of the process at which the search should end with the best
            so far; None for no limit.
        clock: `time.monotonic`, except within `on_processor_time`.

    >>> monitor = Monitor(max_seconds=60)
    >>> monitor.stopping() is None
    True
    >>> monitor.interrupt()
    >>> monitor.stopping()
    'interrupted'
    """

    max_seconds: float | None = None
    started: float = field(default_factory=now)
    log: list[dict[str, object]] = field(default_factory=list)
    processor_seconds: float | None = None
    clock: Callable[[], float] = field(default_factory=lambda: _clock.get())
    _interrupted: float | None = None
    _begun: tuple[float, float] = (0.0, 0.0)
    _whole: float = 0.0
    _reached: float = 0.0

    def seconds(self) -> float:
        """Seconds since the work began."""
        return self.clock() - self.started

    def interrupt(self) -> None:
        """Request the work to end with the best so far, as Ctrl-C does."""
        self._interrupted = self.clock() if self._interrupted is None else self._interrupted

    def stopping(self) -> str | None:
        """Why the work should end now ("interrupted", "time limit" or "time spent"), or None to continue."""
        if self._interrupted is not None:
            return "interrupted"
        if self.max_seconds is not None and self.seconds() > searching_until(self.max_seconds):
            return "time limit"
        if self.processor_seconds is not None and time.process_time() > self.processor_seconds:
            return TIME_SPENT
        return None

    def patient(self, share: float) -> AbstractContextManager[None]:
        """Let `check_time` end the work within, at this share of `remainder_of` after the end of the search time or of
        the processor time, or after a request to stop.
        """
        limit = self.max_seconds
        more = share * remainder_of(limit)
        ends = float("inf") if limit is None else self.started + searching_until(limit)

        def is_over() -> bool:
            asked = float("inf") if self._interrupted is None else self._interrupted
            most = float("inf") if self.processor_seconds is None else self.processor_seconds
            return self.clock() > min(asked, ends) + more or time.process_time() > most + more

        return _holding(_is_over, is_over)

    def in_time(self, share: float, work: Callable[[], T], otherwise: S) -> T | S:
        """Do `work` within its share of the remainder, and return its result, or `otherwise` if the time is up first.

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
        """Whether it is too late for `in_time` to begin work of this share."""
        return self.in_time(share, lambda: False, True)

    def spend(self, seconds: float | None, whole: float | None = None) -> None:
        """End the work after `seconds` of processor time from now; None removes the limit. For the display of
        progress, `whole` is the limit of this and all later parts together.
        """
        now = time.process_time()
        self.processor_seconds = None if seconds is None else now + seconds
        if whole is not None:
            self._begun, self._whole = (self.seconds(), now), whole

    @contextmanager
    def part(self, share: float) -> Iterator[None]:
        """Within, let work end after this share of the time left.

        >>> monitor = Monitor(max_seconds=0.1)
        >>> with monitor.part(0.0):
        ...     monitor.stopping()
        'time spent'
        >>> monitor.stopping() is None
        True
        """
        before, now, left = self.processor_seconds, time.process_time(), list[float]()
        if self.max_seconds is not None:
            left.append(searching_until(self.max_seconds) - self.seconds())
        if before is not None:
            left.append(before - now)
        self.processor_seconds = now + share * min(left) if left else None
        try:
            yield
        finally:
            self.processor_seconds = before

    def bound(self) -> tuple[float, float] | None:
        """Share of the time limit of the whole work that has passed, and the seconds left; None without a limit.

        >>> share, left = Monitor(max_seconds=60, started=time.monotonic() - 15).bound()
        >>> round(share, 2), round(left)
        (0.25, 45)
        """
        bounds, seconds = [], self.seconds()
        if self.max_seconds:
            bounds.append((min(seconds / self.max_seconds, 1.0), max(self.max_seconds - seconds, 0.0)))
        if self._whole:
            spent = time.process_time() - self._begun[1]
            # Under load, a second of processor time takes longer than a second.
            pace = max((seconds - self._begun[0]) / max(spent, 1e-3), 1.0) if spent > 1.0 else 1.0
            bounds.append((min(spent / self._whole, 1.0), max(self._whole - spent, 0.0) * pace))
        return min(bounds, key=lambda one: one[1], default=None)

    def share(self) -> float | None:
        """Share of the whole work by `bound`, never decreasing; None without a limit."""
        known = self.bound()
        self._reached = max(self._reached, known[0] if known else 0.0)
        return self._reached if known else None

    def left_text(self) -> str:
        """The time left as text if it is bounded, else the time so far."""
        known = self.bound()
        if known is None:
            return f"{self.seconds():.0f} s so far"
        return f"at most {known[1]:.0f} s left" if known[1] >= 0.5 else "finishing"

    def stage(self, name: str, steps: int) -> None:
        """Announce the stage `name` of about `steps` steps."""

    def step(self, done: int, loss: float | None = None) -> None:
        """Report that `done` steps of the stage are complete; `loss` is the best so far, dimensionless."""

    def note(self, **fields: object) -> None:
        """Add `fields` to the log (one JSON line); results never depend on them."""
        self.log.append({"seconds": round(self.seconds(), 3), **fields})


# Widths of the line and of its bar, in letters.
_LETTERS, _BAR = 78, 20


class DrawnMonitor(Monitor):
    """A `Monitor` with one progress bar for the whole work, in a notebook (`display`) or on a terminal."""

    def __init__(self, max_seconds: float | None, display: Any = None) -> None:
        super().__init__(max_seconds)
        self._display, self._handle = display, None
        self._name, self._drawn = "", 0.0

    def stage(self, name: str, steps: int) -> None:
        self._name = name
        self._draw()

    def step(self, done: int, loss: float | None = None) -> None:
        self._draw()

    def stopping(self) -> str | None:
        """As in `Monitor`; it is called often, so the bar is updated here too."""
        self._draw()
        return super().stopping()

    def line(self) -> str:
        """The bar as text on one line of 78 letters.

        >>> drawn = DrawnMonitor(60.0)
        >>> drawn.stage("train", 10)
        >>> drawn.line()
        'train                    [                    ]   0 %  at most 60 s left'
        """
        share = self.share()
        full, percent = round(_BAR * (share or 0.0)), "     " if share is None else f"{100 * share:3.0f} %"
        text = f"{self._name[:24]:<24} [{'#' * full}{' ' * (_BAR - full)}] {percent}  {self.left_text()}"
        return text[:_LETTERS]

    def close(self) -> None:
        """Remove the bar."""
        if self._handle is not None:
            self._handle.update({"text/html": ""}, raw=True)
        elif self._drawn and self._display is None:
            _write(f"\r{' ' * _LETTERS}\r")

    def _draw(self) -> None:
        now = self.seconds()
        if now < 1.0 or now - self._drawn < 0.2:  # short work needs no bar
            return
        self._drawn = now
        if self._display is None:
            return _write(f"\r{self.line():<{_LETTERS}}")
        share = self.share()
        value = "" if share is None else f'value="{share:.3f}" '
        told = f"<code>{self._name}</code> <progress {value}max=1></progress> {self.left_text()}"
        if self._handle is None:
            self._handle = self._display({"text/html": told}, raw=True, display_id=True)
        else:
            self._handle.update({"text/html": told}, raw=True)


def _write(text: str) -> None:
    """Write a text to standard error, and ignore a closed one."""
    with contextlib.suppress(OSError, ValueError):
        print(text, end="", file=sys.stderr, flush=True)


@contextmanager
def drawn(monitor: Monitor | None, max_seconds: float | None) -> Iterator[Monitor]:
    """Use a given monitor, with this limit if it has none, or a new one, drawn in notebooks and terminals."""
    if monitor is not None:
        own = monitor.max_seconds
        if own is None and max_seconds is not None:
            monitor.max_seconds = monitor.seconds() + max_seconds
        try:
            yield monitor
        finally:
            monitor.max_seconds = own
        return
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    notebook = type(shell).__name__ == "ZMQInteractiveShell"
    try:
        terminal = sys.stderr.isatty()
    except (AttributeError, ValueError):
        terminal = False
    if not notebook and not terminal:
        yield Monitor(max_seconds)
        return
    shown = DrawnMonitor(max_seconds, sys.modules["IPython"].display.display if notebook else None)
    try:
        yield shown
    finally:
        shown.close()


GIGABYTE = 1e9
_allowed: ContextVar[float] = ContextVar("allowed", default=float("inf"))


def at_most(gigabytes: float) -> AbstractContextManager[None]:
    """Limit the planned memory of the work within; a single step may take a quarter, since several may coexist.

    >>> with at_most(1.0):
    ...     fitting_at_once(100, 25e6), has_room(1e9)
    (10, False)
    """
    return _holding(_allowed, gigabytes * GIGABYTE)


def has_room(needed: float) -> bool:
    """Whether a step may take this number of bytes."""
    return needed <= 0.25 * _allowed.get()


def fitting_at_once(count: int, each: float) -> int:
    """How many of `count` members of `each` bytes fit into memory at once, at least 1."""
    return max(1, int(min(float(count), 0.25 * _allowed.get() / max(each, 1.0))))


def keep_freed_memory() -> None:
    """Tell glibc to keep up to 1 GiB of freed memory; nothing is done with another C library."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform.startswith("linux") else None
    if mallopt is not None:
        # <malloc.h>: M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD; the last must not exceed 32 MiB.
        for name, value in ((-1, 2**30), (-2, 2**27), (-3, 2**25)):
            mallopt(name, value)
