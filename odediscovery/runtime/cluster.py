"""Tasks on a dask cluster, with the same interface as processes of this machine.

    odediscovery -- tasks --> scheduler -- tasks --> worker -- task --> its child process

A task names data, settings and seeds; its result is a row. Tasks of a lost worker are reassigned, and each result is
returned once even if a task ran twice. The child process is that of `workers`: time limits hold, a crash costs one task
but no worker, and a busy worker still responds. Neither scheduler nor workers load torch. joblib's dask backend cannot
end running tasks.

Source: https://distributed.dask.org (resilience, `allowed-failures`).
"""

from __future__ import annotations

import math
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from odediscovery.errors import FitError, InputError
from odediscovery.runtime.versions import versions
from odediscovery.runtime.workers import POLL_SECONDS, Child, Ended, Failure, Function, Stopping, Tasks, never, packed

try:
    import distributed
except ImportError:
    distributed = None


@contextmanager
def connected(scheduler: str, say: Callable[[str], None]) -> Iterator[Cluster]:
    """Connect to the cluster of the scheduler at an address for the duration of a context."""
    if distributed is None:
        raise InputError('--backend dask needs the package distributed: pip install "odediscovery[dask]"')
    try:
        # Check address and certificate first, since a client that failed to start is hard to remove.
        distributed.comm.get_address_host_port(scheduler)
        secure = distributed.Security().get_connection_args("client")["ssl_context"]
        if scheduler.startswith("tls:") and secure is None:
            raise ValueError("dask's settings name no certificate for tls")
        client = distributed.Client(scheduler, timeout=10.0, set_as_default=False)
    except (ImportError, OSError, ValueError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(
            f"--scheduler {scheduler}: expected the address of a dask scheduler, such "
            f"as tcp://node1:8786, got no answer ({reason}); start one with `dask "
            "scheduler`"
        ) from None
    with client:
        yield Cluster(client, say)


@dataclass(frozen=True)
class Cluster:
    """A dask cluster as a `Backend`: its number of parallel tasks is the number of threads of its workers."""

    client: Any
    say: Callable[[str], None]  # reports a lack of workers

    def results(self, function: Function, tasks: Tasks, limit: float = math.inf, stopping: Stopping = never) -> Ended:
        """See `Backend`; a task whose worker is lost repeatedly is a `Failure`."""
        run, served, own = uuid.uuid4().hex, packed(function), _own()
        running = {
            self.client.submit(
                _unit, run, own, served, packed(task), limit, pure=False, key=f"odediscovery-{run}-{number}"
            ): number
            for number, task in enumerate(tasks)
        }
        ended = distributed.as_completed(running, loop=self.client.loop, with_results=True, raise_errors=False)
        watched, has_workers = -math.inf, True
        try:
            while running and stopping() is None:
                batch = ended.next_batch(block=False)
                for future, result in batch:
                    yield running.pop(future), _result_of(result)
                if time.monotonic() - watched > 1.0:
                    has_workers, watched = self._watch(running, has_workers), time.monotonic()
                if not batch:
                    time.sleep(POLL_SECONDS / 4)
        finally:
            if self.client.status == "running":
                self.client.cancel(list(running))
                self.client.run(_end_children, run, on_error="ignore")

    def _watch(self, running: Iterable[Any], had_workers: bool) -> bool:
        """Whether there are workers; reports once if there are none."""
        if self.client.status == "closed" or any(future.cancelled() for future in running):
            raise _gone()
        has_workers = any(self.client.nthreads().values())
        if had_workers and not has_workers:
            address = self.client.scheduler.address
            self.say(f"no workers at {address} yet: start some with `dask worker {address}`")
        return has_workers


def _result_of(result: Any) -> Any:
    """Return the result of a future or its `Failure`, or raise the error of the cluster."""
    if isinstance(result, list):
        return result[0]
    if isinstance(result, BaseException):  # a cancelled future
        raise _gone()
    error = result[1]
    if isinstance(error, distributed.KilledWorker):
        return Failure(f"its worker was lost {error.allowed_failures + 1} times", 0.0)
    if isinstance(error, FitError):
        raise error
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    raise FitError(
        f"the cluster cannot run the tasks ({reason}); its scheduler and workers need the same packages as this machine"
    )


def _gone() -> FitError:
    return FitError("the dask scheduler was lost; what was finished is kept, and the same command goes on from there")


# The rest runs on a worker of the cluster, in parallel threads.

_lock = threading.Lock()
# Idle child processes of each run on this worker.
_idle: dict[str, list[Child]] = {}
# Runs that have ended.
_over: set[str] = set()


def _unit(run: str, asked: dict[str, str], function: bytes, task: bytes, limit: float) -> list[Any]:
    """Run a task, and return its result or `Failure` as a list of one."""
    other = [f"{name} {version}" for name, version in asked.items() if _own().get(name) != version]
    if other:
        raise FitError(
            f"a worker of the cluster has other versions than this machine: install {', '.join(other)} there"
        )
    with _lock:
        free = _idle.setdefault(run, [])
        child = free.pop() if free else Child(function)
    try:
        return [child.run(task, limit, lambda: run in _over)]
    finally:
        with _lock:
            if kept := run not in _over:
                free.append(child)
        if not kept:
            child.close()


def _end_children(run: str) -> None:
    """End the processes of a run on this worker; its running tasks end at their next check."""
    with _lock:
        _over.add(run)
        left = _idle.pop(run, [])
    for child in left:
        child.close()


@cache
def _own() -> dict[str, str]:
    """Versions of the libraries that numbers depend on, without Python, which dask checks itself."""
    return {name: version for name, version in versions().items() if name != "python"}
