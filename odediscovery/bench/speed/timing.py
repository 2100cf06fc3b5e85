"""Time and memory, compared fairly on a machine that may have other work too.

The candidates take turns, so that a busy minute affects all of them; the best round of each is what
the machine can do, the middle one what it did. Peak memory needs a separate process.
"""

from __future__ import annotations

import math
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

# Calls shorter than this many seconds depend on the caches.
SHORT = 0.1


@dataclass(frozen=True)
class Timing:
    """Seconds of one call of something that was called in several rounds.

    Args:
        first: its first call of all, with whatever it compiles or allocates then.
        rounds: one number a round.
        processor: seconds of all threads together, the shortest round; other work on the machine
            hardly counts here.
    """

    first: float
    rounds: tuple[float, ...]
    processor: float

    @property
    def best(self) -> float:
        """The shortest round."""
        return min(self.rounds)

    def row(self, scale: float = 1.0) -> dict[str, float]:
        """The numbers for a row of results: best, middle and first call, and processor time.

        Args:
            scale: how many of what was timed are meant.
        """
        middle = statistics.median(self.rounds)
        return {
            "seconds": scale * self.best,
            "median_seconds": scale * middle,
            "first_seconds": scale * self.first,
            "processor_seconds": scale * self.processor,
        }


def alternate(
    functions: Mapping[str, Callable[[], object]], seconds: float, least: int = 3, most: int = 200
) -> dict[str, Timing]:
    """Call all functions in turn, round after round, one call a turn.

    A short function is called twice and the second call counts: in a loop it would find the caches
    as it left them, not as the others did.

    Args:
        functions: by name; each ends only when its result is there.
        seconds: a function that has had so many leaves, once it had its turns.
        least, most: turns of each, besides the first call.

    >>> found = alternate({"sum": lambda: sum(range(9))}, seconds=0.0)
    >>> len(found["sum"].rounds)
    3
    """
    first = {name: clocked(function) for name, function in functions.items()}
    found: dict[str, list[float]] = {name: [] for name in functions}
    processor = dict.fromkeys(functions, math.inf)
    for _ in range(most):
        for name, function in functions.items():
            if len(found[name]) < least or sum(found[name]) < seconds:
                if found[name] and min(found[name]) < SHORT:
                    function()
                before = time.process_time()
                found[name].append(clocked(function))
                processor[name] = min(processor[name], time.process_time() - before)
    return {name: Timing(first[name], tuple(found[name]), processor[name]) for name in functions}


def clocked(function: Callable[[], object]) -> float:
    """Wall-clock seconds of one call."""
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def peak_megabytes() -> float:
    """Largest resident memory of this process so far."""
    status = Path("/proc/self/status")
    if status.is_file():
        # On Linux getrusage never reports less than what the parent process had.
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)
