"""How much memory and how many threads work may take, and freed memory kept at hand.

What is allowed stands once, where a fit begins (`at_most`). Batches whose members know nothing of each
other are cut into parts that fit (`fitting_at_once`); what cannot be cut is left out (`has_room`).

Long trainings of large tensors gain a factor of two from keeping what they free: glibc gives every freed
block above 128 KiB back to the system. The next operation then asks for it anew, page by page, which takes
longer than the arithmetic on it.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

from threadpoolctl import threadpool_limits

GIGABYTE = 1e9
_allowed: ContextVar[float] = ContextVar("allowed", default=float("inf"))


@contextmanager
def at_most(gigabytes: float) -> Iterator[None]:
    """Surround work that plans with so much memory: one step may take a quarter of it, several stand side by side.

    >>> with at_most(1.0):
    ...     fitting_at_once(100, 25e6), has_room(1e9)
    (10, False)
    """
    before = _allowed.set(gigabytes * GIGABYTE)
    try:
        yield
    finally:
        _allowed.reset(before)


def blas_threads(threads: int | None) -> AbstractContextManager[object]:
    """Surround work whose linear algebra uses so many threads of the processor (default: 1).

    The matrices of a fit are small and many: threads wait for each other longer than they multiply. On two cores
    growing took six times the time of the processor without a limit.
    """
    limits: AbstractContextManager[object] = threadpool_limits(threads or 1, user_api="blas")
    return limits


def has_room(needed: float) -> bool:
    """Whether a step may take so many bytes."""
    return needed <= 0.25 * _allowed.get()


def fitting_at_once(count: int, each: float) -> int:
    """How many of `count` members that take `each` bytes may stand side by side, at least 1."""
    return max(1, int(min(float(count), 0.25 * _allowed.get() / max(each, 1.0))))


def keep_freed_memory() -> bool:
    """Tell glibc to keep up to 1 GiB of freed memory; False where the C library is another."""
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    # <malloc.h>: M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD; the last must not exceed 32 MiB.
    settings = ((-1, 2**30), (-2, 2**27), (-3, 2**25))
    return mallopt is not None and all(mallopt(name, value) for name, value in settings)
