"""Forms as numbers: their right-hand sides, and all intervals between samples stepped side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odediscovery.ivp.marching import CLASSICAL, march
from odediscovery.ivp.rk4 import rk4_step
from odediscovery.laws.equations import as_function
from odediscovery.laws.forms import Form
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import check_time
from odediscovery.runtime.thresholds import Thresholds, threshold

# (states [states, ...], constants, one array each) -> rates, a list of one array a state; or plain numbers of a point.
Rates = Callable[[Any, Sequence[Any]], Sequence[Any]]


@dataclass(frozen=True)
class SteppingThresholds(Thresholds):
    """When trajectories go their way alone."""

    few: int = threshold(4, "trajectories, with more of them arrays are faster", origin="cost: measured")


FLOWS = SteppingThresholds()

# (intervals, constants [constants, sets]) -> those in force, [constants, intervals or 1, trajectories or 1, sets].
ConstantsIn = Callable[[NDArray[np.int64], Array], Array]


def rates_of(form: Form) -> Rates:
    """The right-hand sides of a form as numbers, for any shape of states and constants."""
    sides = _sides(form.states, tuple(form.texts.items()), form.names)
    return lambda x, c: sides(*x, *c)


@lru_cache(maxsize=500)
def _sides(
    states: tuple[str, ...], texts: tuple[tuple[str, str], ...], names: tuple[str, ...]
) -> Callable[..., list[Array]]:
    """Kept: the same laws are fitted again and again."""
    opened = Form(states, (), dict(texts), names, (None,) * len(names)).open()
    return as_function(opened.right_hand_sides, opened.symbols)


def _rates(rates: Rates, constants: Sequence[Array], _: float, x: Array) -> Array:
    found = np.empty_like(x)
    for row, rate in zip(found, rates(x, constants), strict=True):
        row[...] = rate
    return found


class Flow:
    """All intervals of a series stepped side by side, from node to node.

    Args:
        of: the right-hand sides of a form.
        constants: [constants].
        times: of the samples [samples, trajectories].
        steps: between two samples; 0.25 for one that spans four.
        constants_in: the constants in some intervals.
    """

    def __init__(self, of: Rates, constants: Array, times: Array, steps: float, constants_in: ConstantsIn) -> None:
        stride = max(round(1 / steps), 1)
        self.of, self.constants, self.last, self.constants_in = of, constants, len(times) - 2, constants_in
        self.nodes = np.unique(np.append(np.arange(0, len(times), stride), len(times) - 1))
        self.substeps = max(round(steps), 1)
        self.h = np.diff(times[self.nodes], axis=0) / self.substeps

    def rates(self, x: Array, constants: Array) -> Array:
        """Rates [states, nodes, trajectories, sets] at all nodes."""
        intervals = np.minimum(self.nodes, self.last)
        return _rates(self.of, tuple(self.constants_in(intervals, constants)), 0.0, x)

    def base(self, x: Array) -> Array:
        """The states [states, intervals, trajectories, sets] an interval later."""
        return self(x, self.constants[:, None])

    def __call__(self, x: Array, constants: Array) -> Array:
        """The same for sets of constants [constants, sets]."""
        own = tuple(self.constants_in(self.nodes[:-1], constants))
        return self._stepped(x, own, self.h[..., None])

    def in_turn(self, starts: Array) -> Array:
        """States at the nodes [states, nodes, trajectories], one interval after the other."""
        own = self.constants_in(self.nodes[:-1], self.constants[:, None])[..., 0]
        if starts.shape[1] <= FLOWS.few and own.shape[1] == 1:
            return np.stack([self._alone(x, own[:, 0, j % own.shape[2]], j) for j, x in enumerate(starts.T)], axis=2)
        x, path = starts, [starts]
        for j, h in enumerate(self.h):
            x = self._stepped(x, tuple(own[:, min(j, own.shape[1] - 1)]), h)
            path.append(x)
            if not np.isfinite(x).any():
                break
        return np.stack(path + [x] * (len(self.nodes) - len(path)), axis=1)

    def _alone(self, start: Array, constants: Array, trajectory: int) -> Array:
        """The path of one trajectory [states, nodes] in plain numbers; nan once one of them is too large."""
        c, path = constants.tolist(), np.full((len(self.nodes), len(start)), np.nan)
        steps = np.repeat(self.h[:, trajectory], self.substeps).tolist()
        go = march(len(start), CLASSICAL)(lambda *x: self.of(x, c), start.tolist(), steps)
        # A number that is not real is none of a path's, which a TypeError says.
        with np.errstate(all="ignore"), suppress(ArithmeticError, ValueError, TypeError):
            for k, x in enumerate(go):
                if k % self.substeps == 0:
                    check_time()
                    path[k // self.substeps] = x
        return path.T

    def _stepped(self, x: Array, constants: Sequence[Array], h: Array) -> Array:
        rhs = partial(_rates, self.of, constants)
        with np.errstate(all="ignore"):
            for _ in range(self.substeps):
                x = rk4_step(rhs, x, h)
        return x
