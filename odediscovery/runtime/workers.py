"""Tasks in processes of their own, each with a time limit that holds whatever the task does.

A task that exceeds its limit, raises, or takes its process down ends as a `Failure`; a fresh process goes on. Joblib
and `concurrent.futures` cannot end a task that runs, and pebble's processes share a pipe, which one that dies may
block. `cluster` runs the same tasks elsewhere; both places are a `Backend`.

Processes are spawned, not forked: threads of numerical libraries do not survive a fork.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from multiprocessing.resource_tracker import ensure_running
from typing import Any, Protocol, TypeAlias

from odediscovery.errors import FitError, InputError

# Time between two looks at limits and at requests to stop.
POLL_SECONDS = 0.2
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_starting = threading.Lock()

Function: TypeAlias = Callable[[Any], Any]
Tasks: TypeAlias = Sequence[Any]
# Asked now and then; no further results come once the answer is not None.
Stopping: TypeAlias = Callable[[], object]
# The number of a task, and its result or `Failure`.
Ended: TypeAlias = Iterator[tuple[int, Any]]


def never() -> None:
    """The answer of those who let all tasks end."""


@dataclass(frozen=True)
class Failure:
    """A task without a result: why, in one line, and how many seconds it ran."""

    reason: str
    seconds: float


class Backend(Protocol):
    """Where tasks run."""

    def results(self, function: Function, tasks: Tasks, limit: float = math.inf, stopping: Stopping = never) -> Ended:
        """function(task) of all tasks, each once, as they end; leaving the loop ends what still runs.

        `function` is importable by its name. The clock of a task starts when its process has imported what that needs;
        after `limit` seconds of the wall's clock the process is killed.
        """
        ...


@dataclass(frozen=True)
class Processes:
    """Processes of this machine, a `Backend`: so many tasks run side by side, each in a process with one thread."""

    jobs: int = 1

    def __post_init__(self) -> None:
        if self.jobs < 1:
            raise InputError(f"--jobs must be at least 1, got {self.jobs}")

    def results(self, function: Function, tasks: Tasks, limit: float = math.inf, stopping: Stopping = never) -> Ended:
        """See `Backend`."""
        ended: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        waiting, served, leaving = iter(enumerate(tasks)), packed(function), threading.Event()

        def run_in_turn() -> None:
            with closing(Child(served)) as child:
                while not leaving.is_set() and (item := next(waiting, None)):
                    try:
                        ended.put((item[0], child.run(packed(item[1]), limit, leaving.is_set)))
                    except Exception as error:  # is the caller's, whose thread this is not
                        ended.put((item[0], error))

        threads = [threading.Thread(target=run_in_turn, daemon=True) for _ in range(min(self.jobs, len(tasks)))]
        left = len(tasks)
        try:
            for thread in threads:
                thread.start()
            while left and stopping() is None:
                with suppress(queue.Empty):
                    number, result = ended.get(timeout=POLL_SECONDS)
                    if isinstance(result, Exception):
                        raise result
                    left -= 1
                    yield number, result
        finally:
            leaving.set()
            for thread in threads:
                thread.join()


# One task after the other, in a process of its own.
IN_TURN = Processes(1)


def results_of_tasks(
    backend: Backend, function: Function, tasks: Tasks, limit: float = math.inf, stopping: Stopping = never
) -> Ended:
    """As `Backend.results`, but a task that failed before its limit is done once more before its `Failure` comes."""
    waiting = list(range(len(tasks)))
    for last in (False, True):
        again = []
        for place, result in backend.results(function, [tasks[number] for number in waiting], limit, stopping):
            if isinstance(result, Failure) and not last and result.seconds < limit:
                again.append(waiting[place])
            else:
                yield waiting[place], result
        waiting = again
        if not waiting:
            return


def packed(value: Any) -> bytes:
    """What a pipe between processes would carry; a `Child` unpacks it."""
    return bytes(ForkingPickler.dumps(value))


class Child:
    """A process that applies a (packed) function to one task after the other, and ends with who needs it."""

    def __init__(self, function: bytes) -> None:
        self._function = function
        self._process: BaseProcess | None = None

    def run(self, task: bytes, limit: float, leaving: Callable[[], bool]) -> Any:
        """The result of a task, or its `Failure`."""
        if self._process is None:
            self._start()
            begun = self._ask(self._function, math.inf, leaving)
            if begun is not None and not leaving():
                raise FitError(f"a process for the tasks could not start: {begun.reason}")
        return self._ask(task, limit, leaving)

    def close(self) -> None:
        """Kill the process, if there is one."""
        if self._process is not None:
            self._connection.close()
            self._process.kill()
            self._process.join()
            self._process.close()
            self._process = None

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        process = context.Process(target=_serve, args=(other,), daemon=True)
        with _for_children():
            process.start()
        self._process = process
        other.close()

    def _ask(self, message: bytes, limit: float, leaving: Callable[[], bool]) -> Any:
        """The answer of the process to a message."""
        began, reason = time.monotonic(), "the run was left"
        while self._process is not None and not leaving():
            try:
                if message:
                    self._connection.send_bytes(message)
                    message = b""
                if self._connection.poll(POLL_SECONDS):
                    return self._connection.recv()
            except (EOFError, OSError):
                self._process.join()
                reason = f"its process ended with exit code {self._process.exitcode}"
                break
            if time.monotonic() - began > limit:
                reason = f"no result within {limit:g} s"
                break
        self.close()
        return Failure(reason, round(time.monotonic() - began, 3))


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
        began = time.monotonic()
        try:
            connection.send(function(task))
        except Exception as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            connection.send(Failure(reason, round(time.monotonic() - began, 3)))


def _end_with_parent() -> None:
    """A parent that was killed cannot end its children, and nobody wants their results."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


@contextmanager
def _for_children() -> Iterator[None]:
    """What a process inherits: one thread, and no ear for Ctrl-C, which is the parent's matter."""
    blocks = hasattr(signal, "pthread_sigmask")
    # The worker of a dask cluster is a daemon of its nanny, and those may have no children.
    own = multiprocessing.current_process()
    with _starting:
        # Dask has its workers give memory back at once, which makes work on small arrays take twice as long.
        changed = (*_ONE_THREAD, "MALLOC_TRIM_THRESHOLD_")
        before = {name: os.environ.pop(name) for name in changed if name in os.environ}
        daemon, own.daemon = own.daemon, False
        os.environ.update(_ONE_THREAD)
        if blocks:
            ensure_running()  # what it starts would unblock Ctrl-C
            heard = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            if blocks:
                signal.pthread_sigmask(signal.SIG_SETMASK, heard)
            own.daemon = daemon
            for name in _ONE_THREAD:
                del os.environ[name]
            os.environ.update(before)
