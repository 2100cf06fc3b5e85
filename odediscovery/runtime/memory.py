"""Keeping freed memory at hand, which long trainings of large tensors gain a factor of two from.

glibc gives every freed block above 128 KiB back to the system. The next operation then asks for
it anew, page by page, which takes longer than the arithmetic on it.
"""

from __future__ import annotations

import ctypes
import sys

# <malloc.h>: M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD; the last must not exceed 32 MiB.
_SETTINGS = ((-1, 2**30), (-2, 2**27), (-3, 2**25))


def keep_freed_memory() -> bool:
    """Tell glibc to keep up to 1 GiB of freed memory; False where the C library is another."""
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all(mallopt(name, value) for name, value in _SETTINGS)
