"""Forms as numbers: their right-hand sides, and all intervals between samples stepped side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from odediscovery.ivp.marching import CLASSICAL, march
from odediscovery.ivp.rk4 import rk4_step
from odediscovery.laws.compiled import CompiledForm, form_of_expressions
from odediscovery.laws.forms import Form
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import check_time
from odediscovery.runtime.thresholds import Thresholds, threshold


@dataclass(frozen=True)
class SteppingThresholds(Thresholds):
    """When trajectories go their way alone."""

    few: int = threshold(4, "trajectories, with more of them arrays are faster", origin="cost: measured")


FLOWS = SteppingThresholds()

# (intervals, constants [constants, sets]) -> those in force, [constants, intervals or 1, trajectories or 1, sets].
ConstantsIn = Callable[[NDArray[np.int64], Array], Array]


def rates_of(form: Form) -> CompiledForm:
    """The right-hand sides of a form, compiled; its constants are the parameters."""
    return _rates_of(form.states, tuple(form.texts.items()), form.names)


@lru_cache(maxsize=500)
def _rates_of(states: tuple[str, ...], texts: tuple[tuple[str, str], ...], names: tuple[str, ...]) -> CompiledForm:
    """Kept: the same laws are fitted again and again."""
    opened = Form(states, (), dict(texts), names, (None,) * len(names)).open()
    variables, constants = opened.symbols[: len(states)], opened.symbols[len(states) :]
    return form_of_expressions(opened.right_hand_sides, variables, constants)


class Flow:
    """All intervals of a series stepped side by side, from node to node, by the classical Runge-Kutta method.

    Args:
        of: the right-hand sides of a form.
        constants: [constants].
        times: of the samples [samples, trajectories].
        steps: between two samples; 0.25 for one that spans four.
        constants_in: the constants in some intervals.
    """

    def __init__(
        self, of: CompiledForm, constants: Array, times: Array, steps: float, constants_in: ConstantsIn
    ) -> None:
        stride = max(round(1 / steps), 1)
        self.of, self.constants, self.last, self.constants_in = of, constants, len(times) - 2, constants_in
        self.nodes = np.unique(np.append(np.arange(0, len(times), stride), len(times) - 1))
        self.substeps = max(round(steps), 1)
        self.h = np.diff(times[self.nodes], axis=0) / self.substeps
        # [parameters, intervals or 1, trajectories or 1]
        self.own = constants_in(self.nodes[:-1], constants[:, None])[..., 0]

    def rates(self, x: Array, constants: Array) -> Array:
        """Rates [states, nodes, trajectories, sets] at all nodes for sets of constants [constants, sets]."""
        return self.of.rates(x, tuple(self.constants_in(np.minimum(self.nodes, self.last), constants)))

    def by_states(self, x: Array) -> tuple[Array, Array]:
        """The states [states, intervals, trajectories] an interval later, and their slopes by the states.

        The slopes are [intervals, trajectories, states, states].
        """
        ends, slopes = self._varied(self.of.of_states, x)
        return ends, np.moveaxis(slopes, (0, 1), (2, 3))

    def varied(self, x: Array) -> tuple[Array, Array, Array]:
        """The same, and the slopes by the constants [intervals, trajectories, states, constants]."""
        ends, slopes = self._varied(self.of, x)
        by_states, by_own = np.split(np.moveaxis(slopes, (0, 1), (2, 3)), [len(x)], axis=3)
        if len(self.own) == len(self.constants):
            return ends, by_states, by_own
        # which constant is in force where: [parameters, intervals, trajectories, constants]
        chosen = self.constants_in(self.nodes[:-1], np.eye(len(self.constants)))
        return ends, by_states, by_own @ np.moveaxis(chosen, 0, 2)

    def _varied(self, of: CompiledForm, x: Array) -> tuple[Array, Array]:
        """Ends [states, ...] and their slopes by states and sought parameters [states, states + sought, ...]."""
        n, varied = len(x), of.varied
        y = np.zeros((varied.variables, *x.shape[1:]))
        y[:n] = x
        slopes = y[n:].reshape(n, -1, *x.shape[1:])
        slopes[np.arange(n), np.arange(n)] = 1.0
        ends = self._stepped(varied, y, tuple(self.own), self.h)
        return ends[:n], ends[n:].reshape(slopes.shape)

    def in_turn(self, starts: Array) -> Array:
        """States at the nodes [states, nodes, trajectories], one interval after the other."""
        own = self.own
        if starts.shape[1] <= FLOWS.few and own.shape[1] == 1:
            return np.stack([self._alone(x, own[:, 0, j % own.shape[2]], j) for j, x in enumerate(starts.T)], axis=2)
        x, path = starts, [starts]
        for j, h in enumerate(self.h):
            x = self._stepped(self.of, x, tuple(own[:, min(j, own.shape[1] - 1)]), h)
            path.append(x)
            if not np.isfinite(x).any():
                break
        return np.stack(path + [x] * (len(self.nodes) - len(path)), axis=1)

    def _alone(self, start: Array, constants: Array, trajectory: int) -> Array:
        """The path of one trajectory [states, nodes] in plain numbers; nan once one of them is too large."""
        path = np.full((len(self.nodes), len(start)), np.nan)
        steps = np.repeat(self.h[:, trajectory], self.substeps).tolist()
        go = march(len(start), CLASSICAL)(partial(self.of.plain, *constants.tolist()), start.tolist(), steps)
        # A whole power of a constant may be a complex number, which a TypeError says.
        with np.errstate(all="ignore"), suppress(ArithmeticError, ValueError, TypeError):
            for k, x in enumerate(go):
                if k % self.substeps == 0:
                    check_time()
                    path[k // self.substeps] = x
        return path.T

    def _stepped(self, of: CompiledForm, x: Array, constants: Sequence[Array], h: Array) -> Array:
        with np.errstate(all="ignore"):
            for _ in range(self.substeps):
                x = rk4_step(lambda _, x: of.rates(x, constants), x, h)
        return x
