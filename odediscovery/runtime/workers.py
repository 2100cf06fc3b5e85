"""Tasks in processes of their own, each with a limit that holds whatever the task does.

A task that exceeds its limit, or takes its process down, ends as a `Failure` and never as an
exception; a fresh process goes on with the next one. Neither `concurrent.futures` nor joblib can
end a task that is running, hence this; what else joblib would bring is to leave this machine, for
which see `cluster`. Both places are a `Backend`, and whoever has tasks does not know which one.
Processes are spawned, not forked: threads of numerical libraries do not survive a fork.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from typing import Any, Protocol

from odediscovery.errors import FitError, InputError

# Seconds between two looks at limits and at the wish to stop.
LOOK = 0.2
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_starting = threading.Lock()


@dataclass(frozen=True)
class Failure:
    """A task without a result.

    Args:
        reason: why, in one line.
        seconds: how long it ran.
    """

    reason: str
    seconds: float


class Backend(Protocol):
    """Where tasks run."""

    def results(
        self,
        function: Callable[[Any], Any],
        tasks: Sequence[Any],
        limit: float = math.inf,
        stopping: Callable[[], object] = lambda: None,
    ) -> Iterator[tuple[int, Any]]:
        """function(task) of all tasks, each once: pairs (number of the task, result or `Failure`).

        Pairs come as tasks end. The clock of a task starts when its process has imported what
        `function` needs. Leaving the loop ends what still runs.

        Args:
            function: importable by its name; what it takes and gives travels between processes.
            limit: wall-clock seconds of a task, after which its process is killed.
            stopping: asked now and then; no further results come once it is not None.

        Raises:
            FitError: a process cannot be started, or nobody is left who could run the tasks.
        """
        ...


@dataclass(frozen=True)
class Processes:
    """Processes of this machine, a `Backend`.

    Args:
        jobs: how many tasks run side by side, each in a process with one thread.

    Raises:
        InputError: `jobs` is less than 1.
    """

    jobs: int = 1

    def __post_init__(self) -> None:
        if self.jobs < 1:
            raise InputError(f"--jobs must be at least 1, got {self.jobs}")

    def results(
        self,
        function: Callable[[Any], Any],
        tasks: Sequence[Any],
        limit: float = math.inf,
        stopping: Callable[[], object] = lambda: None,
    ) -> Iterator[tuple[int, Any]]:
        """See `Backend`."""
        waiting, served = list(range(len(tasks)))[::-1], packed(function)
        children = [Child(served) for _ in range(min(self.jobs, len(tasks)))]
        try:
            while (waiting or any(c.task is not None for c in children)) and stopping() is None:
                for i, child in enumerate(children):
                    if child.lost:
                        child.end()
                        children[i] = child = Child(served)
                    if child.ready and child.task is None and waiting:
                        child.give(waiting[-1], packed(tasks[waiting.pop()]))
                wait([c.connection for c in children], LOOK)
                for child in children:
                    number = child.task
                    result = child.heard(limit)
                    if result is not None and number is not None:
                        yield number, result[0]
        finally:
            for child in children:
                child.end()


# One task after the other, in a process of its own.
IN_TURN = Processes(1)


def packed(value: Any) -> bytes:
    """What a pipe between processes would carry; a `Child` unpacks it."""
    return bytes(ForkingPickler.dumps(value))


class Child:
    """A process that applies one function to one task after the other, and the task that it has.

    It ends with the process that started it, however that one ends.

    Args:
        function: packed.
    """

    def __init__(self, function: bytes) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other,), daemon=True)
        self.ready = self.lost = False
        self.task: int | None = None
        self.began = 0.0
        with _for_children():
            self.process.start()
        other.close()
        self._send(function)

    def give(self, number: int, task: bytes) -> None:
        """Begin with a task, packed; `number` is its name."""
        self.task, self.began = number, time.monotonic()
        self._send(task)

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
                raise FitError(f"a process for the tasks could not start (exit code {self.process.exitcode})") from None
            return self._failed(f"its process ended with exit code {self.process.exitcode}")
        if self.task is not None and time.monotonic() - self.began > limit:
            return self._failed(f"no result within {limit:g} s")
        return None

    def end(self) -> None:
        """Kill the process."""
        self.connection.close()
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        self.process.close()

    def _send(self, message: bytes) -> None:
        # A process that has just died is found out when it is listened to.
        with suppress(OSError):
            self.connection.send_bytes(message)

    def _failed(self, reason: str) -> tuple[Failure] | None:
        self.lost = True
        if self.task is None:
            return None
        self.task = None
        return (Failure(reason, round(time.monotonic() - self.began, 3)),)


def _serve(connection: Connection) -> None:
    """The life of a process: one task after the other until nobody listens."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    function = connection.recv()
    connection.send(None)
    while True:
        try:
            task = connection.recv()
        except EOFError:
            return
        connection.send(function(task))


def _end_with_parent() -> None:
    """A parent that was killed cannot end its children, and nobody wants their results."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


@contextmanager
def _for_children() -> Iterator[None]:
    """What a process inherits: one thread, and no ear for Ctrl-C, which is the parent's matter."""
    with _starting:
        before = {name: os.environ.get(name) for name in _ONE_THREAD}
        main = threading.current_thread() is threading.main_thread()
        heard = signal.signal(signal.SIGINT, signal.SIG_IGN) if main else None
        # The worker of a dask cluster is a daemon of its nanny, and those may have no children.
        own = multiprocessing.current_process()
        daemon, own.daemon = own.daemon, False
        os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
            own.daemon = daemon
            if main:
                signal.signal(signal.SIGINT, heard)
