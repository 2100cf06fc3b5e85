"""Tasks in separate processes, each with an enforced time limit.

A task that exceeds its limit, raises, or crashes its process ends as a `Failure`; after the loss of a process a new
one takes over. Joblib and `concurrent.futures` cannot end a running task, and pebble's processes share a pipe, which a
dying one may block. `cluster` runs the same tasks elsewhere; both are a `Backend`.

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

# Time between checks of limits and of requests to stop.
POLL_SECONDS = 0.2
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_starting = threading.Lock()

Function: TypeAlias = Callable[[Any], Any]
Tasks: TypeAlias = Sequence[Any]
# Called repeatedly; the results end once its value is not None.
Stopping: TypeAlias = Callable[[], object]
# The number of a task, and its result or `Failure`.
Ended: TypeAlias = Iterator[tuple[int, Any]]


def never() -> None:
    """Never stop: the default of `Stopping`."""


@dataclass(frozen=True)
class Failure:
    """A task without a result: the reason, in one line, and its seconds."""

    reason: str
    seconds: float


class Backend(Protocol):
    """Where tasks run."""

    def results(self, function: Function, tasks: Tasks, limit: float = math.inf, stopping: Stopping = never) -> Ended:
        """Yield function(task) of all tasks, each once, as they end; leaving the loop ends running tasks.

        `function` is importable by its name. The clock of a task starts when its process has imported `function`;
        after `limit` seconds of wall time the process is killed.
        """
        ...


@dataclass(frozen=True)
class Processes:
    """Processes of this machine as a `Backend`: `jobs` tasks run in parallel, each in a process with one thread."""

    jobs: int = 1
    fresh: bool = False  # whether each task has a process of its own

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
                    except Exception as error:  # raised again in the caller's thread
                        ended.put((item[0], error))
                    if self.fresh:
                        child.close()

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


# One task after the other, in a separate process.
IN_TURN = Processes(1)


def results_of_tasks(
    backend: Backend, function: Function, tasks: Tasks, limit: float = math.inf, stopping: Stopping = never
) -> Ended:
    """Yield as `Backend.results`, but repeat a task that failed before its limit once before yielding its `Failure`."""
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
    """Pickle a value as for a pipe between processes; a `Child` unpacks it."""
    return bytes(ForkingPickler.dumps(value))


class Child:
    """A process that applies a packed function to successive tasks, and ends with its parent."""

    def __init__(self, function: bytes) -> None:
        self._function = function
        self._process: BaseProcess | None = None

    def run(self, task: bytes, limit: float, leaving: Callable[[], bool]) -> Any:
        """Run a task, and return its result or `Failure`."""
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
        """Send a message to the process, and return its reply or a `Failure`."""
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
    """Serve tasks in a process until its connection is closed."""
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
    """End this process when its parent ends, since a killed parent cannot end its children."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


@contextmanager
def _for_children() -> Iterator[None]:
    """Prepare what a process inherits: one thread, and Ctrl-C blocked, which the parent handles."""
    blocks = hasattr(signal, "pthread_sigmask")
    # The worker of a dask cluster is a daemon of its nanny, and daemons may not have children.
    own = multiprocessing.current_process()
    with _starting:
        # Dask lets workers return memory at once, which doubles the time of work on small arrays.
        changed = (*_ONE_THREAD, "MALLOC_TRIM_THRESHOLD_")
        before = {name: os.environ.pop(name) for name in changed if name in os.environ}
        daemon, own.daemon = own.daemon, False
        os.environ.update(_ONE_THREAD)
        if blocks:
            ensure_running()  # started later, it would unblock Ctrl-C
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
