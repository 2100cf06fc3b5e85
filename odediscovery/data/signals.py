"""One run of an experiment: samples of its states, and the inputs u(t) that acted on it.

Inputs are known at some times, straight lines or held between them:

    u(t) = u_j + (t - t_j) * drift_j,    t_j <= t < t_{j+1}

with drift_j = (u_{j+1} - u_j) / (t_{j+1} - t_j), or 0 for an input that is held until the next
time, where it jumps. Behind the last time its value stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from odediscovery.runtime.arrays import Array, Mask

# Share of an input's size by which a line may miss the next sample and still go on through it.
SAME = 1e-12


@dataclass(frozen=True, eq=False)
class Signal:
    """Inputs of one run of an experiment.

    Args:
        times: increasing [n].
        values: at these times [n, inputs], none missing.
        held: bool [inputs], True for inputs that keep each value until the next time.

    >>> feed = Signal(np.array([0.0, 2.0, 4.0]), np.array([[0.0], [1.0], [3.0]]), np.array([True]))
    >>> feed.at([1.0, 2.0, 9.0]).ravel().tolist()
    [0.0, 1.0, 3.0]
    """

    times: Array
    values: Array
    held: Mask

    @property
    def drift(self) -> Array:
        """Slopes between neighbouring times, [n - 1, inputs]."""
        rise = np.diff(self.values, axis=0) / np.diff(self.times)[:, None]
        return np.where(self.held, 0.0, rise)

    def at(self, times: ArrayLike) -> Array:
        """The inputs at times [...], [..., inputs]; outside of its own times the nearest value."""
        t = np.clip(times, self.times[0], self.times[-1])
        j = np.searchsorted(self.times, t, side="right") - 1
        slopes = np.vstack([self.drift, np.zeros(len(self.held))])
        value: Array = self.values[j] + (t - self.times[j])[..., None] * slopes[j]
        return value

    def lines(self) -> list[tuple[int, int]]:
        """First and last sample of each run along which every input is one straight line.

        A solver has to begin anew only where one ends: time itself is a single line.
        """
        slopes = self.drift
        size = SAME * np.abs(self.values).max(axis=0, initial=0.0)
        ends = self.values[:-1] + slopes * np.diff(self.times)[:, None]
        jumps = (np.abs(ends - self.values[1:]) > size).any(axis=1)
        found, first = [], 0
        for j in range(1, len(self.times)):
            last = j == len(self.times) - 1
            if not last and not jumps[j - 1]:
                on = self.values[first] + slopes[first] * (self.times[j + 1] - self.times[first])
                to = self.values[j] + slopes[j] * (self.times[j + 1] - self.times[j])
                if (np.abs(on - to) <= size).all():
                    continue
            found.append((first, j))
            first = j
        return found

    def until(self, end: float, time: Mask) -> Signal:
        """The same with the last value held up to a later time.

        Args:
            end: the later time.
            time: inputs that are time itself, which goes on, bool [inputs].
        """
        if end <= self.times[-1]:
            return self
        values = np.vstack([self.values, np.where(time, end, self.values[-1])])
        return Signal(np.append(self.times, end), values, self.held)

    def part(self, samples: slice) -> Signal:
        """Some of its samples."""
        return Signal(self.times[samples], self.values[samples], self.held)

    def joined(self, later: Signal) -> Signal:
        """The same with what acts at later times."""
        return Signal(np.concatenate([self.times, later.times]), np.vstack([self.values, later.values]), self.held)

    def scaled(self, size: Array, time: float) -> Signal:
        """The same for u' = u / size [inputs] and t' = t / time."""
        return Signal(self.times / time, self.values / size, self.held)


@dataclass(frozen=True, eq=False)
class Trajectory:
    """One run of an experiment.

    Args:
        time: sample times [n], strictly increasing.
        values: states at these times [n, states], nan where missing.
        label: what tells it from the others, empty if there are no others.
        sigma: standard deviations of the values [n, states], nan where unknown or missing; None
            if nothing is known of them.
        inputs: what acted on it at the same times, if anything.

    >>> run = Trajectory(np.array([0.0, 1.0]), np.array([[2.0], [np.nan]]), "first")
    >>> run.values.shape
    (2, 1)
    """

    time: Array
    values: Array
    label: str = ""
    sigma: Array | None = None
    inputs: Signal | None = None

    def part(self, samples: slice) -> Trajectory:
        """Some of its samples, under the same label.

        >>> Trajectory(np.arange(3.0), np.ones((3, 1))).part(slice(2)).time.tolist()
        [0.0, 1.0]
        """
        sigma = None if self.sigma is None else self.sigma[samples]
        inputs = self.inputs and self.inputs.part(samples)
        return Trajectory(self.time[samples], self.values[samples], self.label, sigma, inputs)


def followed(
    solve: Callable[..., Array], rates: Callable[[Array], Array], start: Array, times: Array, inputs: Signal, time: Mask
) -> Array:
    """The solution under inputs [n, states], line by line: solvers step over no kink or jump.

    Args:
        solve: (rates(t, x), start, times) -> states at times [n, states], the first is the start.
        rates: of states and inputs [variables] -> [states].
        start: at the first of the times.
        times: increasing [n].
        inputs: known from the first of the times on.
        time: which of them are time itself, bool [inputs].
    """
    result = np.full((len(times), len(start)), np.nan)
    if not len(times) or not np.isfinite(times).all():
        return result
    result[times == times[0]] = x = start
    u = inputs.until(float(times[-1]), time)
    slopes = u.drift
    for first, last in u.lines():
        begin, end = max(u.times[first], times[0]), min(u.times[last], times[-1])
        if begin >= end:
            continue

        def along(t: float, x: Array, j: int = first) -> Array:
            return rates(np.append(x, u.values[j] + (t - u.times[j]) * slopes[j]))

        inside = (times > begin) & (times <= end)
        asked = np.unique([begin, *times[inside], end])
        part = solve(along, x, asked)
        result[inside], x = part[1 : 1 + inside.sum()], part[-1]
    return result


def filled(times: Array, values: Array, held: bool) -> Array:
    """Values [n] of one input without gaps: interpolated or held, and the last one kept.

    The first one has to be there.

    >>> filled(np.arange(4.0), np.array([1.0, np.nan, 3.0, np.nan]), False).tolist()
    [1.0, 2.0, 3.0, 3.0]
    """
    seen = np.flatnonzero(np.isfinite(values))
    if held:
        latest = np.searchsorted(seen, np.arange(len(values)), side="right") - 1
        return values[seen[latest]]
    return np.interp(times, times[seen], values[seen])


def drifts(runs: Sequence[Trajectory]) -> Array:
    """Slopes of all variables in every interval of all runs, [intervals, states].

    Inputs are the last of them; 0 for the others, whose rates a law tells.
    """
    rows = [np.zeros((len(t.time) - 1, t.values.shape[1])) for t in runs]
    for row, t in zip(rows, runs, strict=True):
        if t.inputs is not None:
            row[:, row.shape[1] - len(t.inputs.held) :] = t.inputs.drift
    return np.concatenate(rows)
