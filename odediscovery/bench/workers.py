"""Tasks in processes of their own, each with a limit that holds whatever the task does.

A task that exceeds its limit, or takes its process down, ends as a `Failure` and never as an
exception; a fresh process goes on with the next one. `concurrent.futures` cannot end a task that
is running, hence this. Processes are spawned, not forked: threads of numerical libraries do not
survive a fork.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from odediscovery.errors import FitError

# Seconds between two looks at limits and at the wish to stop.
_LOOK = 0.2
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Failure:
    """A task without a result.

    Args:
        reason: why, in one line.
        seconds: how long it ran.
    """

    reason: str
    seconds: float


def in_processes(
    function: Callable[[Any], Any], tasks: Sequence[Any], jobs: int, limit: float,
    stopping: Callable[[], object] = lambda: None,
) -> Iterator[tuple[int, Any]]:  # fmt: skip
    """function(task) for all tasks, `jobs` at a time: pairs (number of the task, result).

    Pairs come as tasks end. The clock of a task starts when its process has imported what
    `function` needs. Leaving the loop ends all processes.

    Args:
        function: importable by its name; what it takes and gives travels between processes.
        limit: wall-clock seconds of a task, after which its process is killed.
        stopping: asked now and then; no further results come once it is not None.

    Raises:
        FitError: a process cannot be started.
    """
    waiting = list(range(len(tasks)))[::-1]
    workers = [_Worker(function) for _ in range(min(jobs, len(tasks)))]
    try:
        while (waiting or any(w.task is not None for w in workers)) and stopping() is None:
            for i, worker in enumerate(workers):
                if worker.lost:
                    worker.end()
                    workers[i] = worker = _Worker(function)
                if worker.ready and worker.task is None and waiting:
                    worker.give(waiting[-1], tasks[waiting.pop()])
            wait([w.connection for w in workers], _LOOK)
            for worker in workers:
                number = worker.task
                result = worker.heard(limit)
                if result is not None and number is not None:
                    yield number, result[0]
    finally:
        for worker in workers:
            worker.end()


class _Worker:
    """One process and the task that it has."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other, function), daemon=True)
        self.ready = self.lost = False
        self.task: int | None = None
        self.began = 0.0
        with _for_children():
            self.process.start()
        other.close()

    def give(self, number: int, task: Any) -> None:
        self.task, self.began = number, time.monotonic()
        # A process that has just died is found out when it is listened to.
        with suppress(OSError):
            self.connection.send(task)

    def heard(self, limit: float) -> tuple[Any] | None:
        """The end of the task, if it has come, as a tuple of one."""
        try:
            while self.connection.poll():
                message = self.connection.recv()
                if self.ready:
                    self.task = None
                    return (message,)
                self.ready = True
        except (EOFError, OSError):
            self.process.join()
            if not self.ready:
                raise FitError(f"a process for the benchmark could not start (exit code "
                               f"{self.process.exitcode})") from None  # fmt: skip
            return self._failed(f"its process ended with exit code {self.process.exitcode}")
        if self.task is not None and time.monotonic() - self.began > limit:
            return self._failed(f"no result within {limit:g} s")
        return None

    def _failed(self, reason: str) -> tuple[Failure] | None:
        self.lost = True
        if self.task is None:
            return None
        self.task = None
        return (Failure(reason, round(time.monotonic() - self.began, 3)),)

    def end(self) -> None:
        self.connection.close()
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        self.process.close()


def _serve(connection: Connection, function: Callable[[Any], Any]) -> None:
    """The life of a process: one task after the other until nobody listens."""
    connection.send(None)
    while True:
        try:
            task = connection.recv()
        except EOFError:
            return
        connection.send(function(task))


@contextmanager
def _for_children() -> Iterator[None]:
    """What a process inherits: one thread, and no ear for Ctrl-C, which is the parent's matter."""
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    main = threading.current_thread() is threading.main_thread()
    heard = signal.signal(signal.SIGINT, signal.SIG_IGN) if main else None
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        if main:
            signal.signal(signal.SIGINT, heard)
