"""LBFGS as Optim.jl ran it in June 2020, for the recipe `as-run` alone.

Its line search relies on both values and slopes. Where they disagree, as with the continuous
adjoint of coarse Euler steps, it accepts steps that rise (by at most 1e-6, relative), and Optim
stops at the first of them. That ended four of five dense nets of the fSIR study after 50 of 1000
steps. Every member is a generator that yields the point to evaluate; one batch evaluates all.

Source: Hager and Zhang, Algorithm 851 (2006), as in LineSearches.jl 7.0 and Optim.jl 0.21.
"""

from __future__ import annotations

import math
from collections.abc import Generator

import numpy as np
import torch
from torch import Tensor

from odediscovery.fitting.training import Loss, loss_and_gradient
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import Monitor

# Numbers without another source are from the paper, or else from LineSearches.jl.
DELTA = 0.1  # sufficient decrease of the Wolfe conditions
TRIALS = 50  # most rounds of one search

Asking = Generator[float, tuple[float, float], float]
MemberRun = Generator[Array, tuple[float, Array], Array]


class _Thrown(Exception):
    """The line search failed; the Julia script then kept the parameters from before LBFGS."""


class _Line:
    """One line search, which requests (value, slope) at step lengths and returns a step length."""

    def __init__(self, value: float, slope: float) -> None:
        self.at, self.value, self.slope = [0.0], [value], [slope]
        self.most = value + 1e-6 * abs(value)  # a smaller rise counts as none

    def search(self) -> Asking:
        """Find a step length that satisfies the Wolfe conditions, or the approximate ones near a minimum."""
        c, trial = 1.0, (yield 1.0)
        for _ in range(52):  # bits of a float64
            if all(map(math.isfinite, trial)):
                break
            c *= 0.1
            trial = yield c
        else:
            return 0.0
        self._add(c, trial)
        a, b, rounds = yield from self._bracket()
        for _ in range(rounds, TRIALS):
            width = self.at[b] - self.at[a]
            if width <= np.spacing(self.at[b]):
                return self.at[a]
            done, low, high = yield from self._secants(a, b)
            if done:
                return self.at[low]
            if self.at[high] - self.at[low] < 2.0 / 3.0 * width:
                if self._flat(a, b) and self._flat(low, high):
                    return self.at[low]
                a, b = low, high
            else:
                middle = yield from self._ask((self.at[low] + self.at[high]) / 2)
                a, b = yield from self._update(low, high, middle)
        return self.at[a]

    def _add(self, c: float, trial: tuple[float, float]) -> int:
        self.at.append(c)
        self.value.append(trial[0])
        self.slope.append(trial[1])
        return len(self.at) - 1

    def _ask(self, c: float) -> Generator[float, tuple[float, float], int]:
        trial = yield c
        if not all(map(math.isfinite, (c, *trial))):
            raise _Thrown
        return self._add(c, trial)

    def _flat(self, a: int, b: int) -> bool:
        return bool(np.nextafter(self.value[a], np.inf) >= self.value[b])

    def _wolfe(self, i: int) -> bool:
        first, slope = self.slope[0], self.slope[i]
        if slope < 0.9 * first:
            return False
        return (self.value[i] - self.value[0] <= DELTA * first * self.at[i]) or (
            (2 * DELTA - 1) * first >= slope and self.value[i] <= self.most
        )

    def _bracket(self) -> Generator[float, tuple[float, float], tuple[int, int, int]]:
        """Find two points whose slopes bracket a minimum; return them and the number of rounds used."""
        for rounds in range(1, TRIALS):
            last = len(self.at) - 1
            good = next(i for i in range(last - 1, -1, -1) if self.value[i] <= self.most)
            if self.slope[last] >= 0:
                return good, last, rounds + 1
            if self.value[last] > self.most:
                return *(yield from self._bisect(good, last)), rounds + 1
            below = self.at[last]
            c = 5.0 * below
            trial = yield c
            while not all(map(math.isfinite, trial)):
                c = (below + c) / 2
                if c - below <= np.spacing(below):
                    return last, last, rounds + 1
                trial = yield c
            self._add(c, trial)
        return 0, 0, TRIALS

    def _secants(self, a: int, b: int) -> Generator[float, tuple[float, float], tuple[bool, int, int]]:
        if not self.slope[a] < 0 <= self.slope[b]:
            raise _Thrown
        c = yield from self._ask(self._secant(a, b))
        if self._wolfe(c):
            return True, c, c
        low, high = yield from self._update(a, b, c)
        if c in (low, high):
            again = self._secant(b, high) if c == high else self._secant(a, low)
            if self.at[low] <= again <= self.at[high]:
                c = yield from self._ask(again)
                if self._wolfe(c):
                    return True, c, c
                low, high = yield from self._update(low, high, c)
        return False, low, high

    def _secant(self, a: int, b: int) -> float:
        rise = self.slope[b] - self.slope[a]
        product = self.at[a] * self.slope[b] - self.at[b] * self.slope[a]
        return product / rise if rise else math.nan

    def _update(self, a: int, b: int, c: int) -> Generator[float, tuple[float, float], tuple[int, int]]:
        if not self.at[a] <= self.at[c] <= self.at[b]:
            return a, b
        if self.slope[c] >= 0:
            return a, c
        if self.value[c] <= self.most:
            return c, b
        return (yield from self._bisect(a, c))

    def _bisect(self, a: int, b: int) -> Generator[float, tuple[float, float], tuple[int, int]]:
        while self.at[b] - self.at[a] > np.spacing(self.at[b]):
            c = yield from self._ask((self.at[a] + self.at[b]) / 2)
            if self.slope[c] >= 0:
                return a, c
            a, b = (c, b) if self.value[c] <= self.most else (a, c)
        return a, b


def _member(start: Array, steps: int) -> MemberRun:
    """Run LBFGS for one member: yield points, receive (value, gradient), stop at the first rise."""
    x = start
    value, gradient = yield x
    pairs: list[tuple[Array, Array]] = []
    for _ in range(steps):
        if not math.isfinite(value) or np.abs(gradient).max() <= 1e-8:
            break
        direction = _direction(gradient, pairs)
        if direction @ gradient >= 0:
            pairs, direction = [], -gradient
        seen = {0.0: (value, gradient)}
        line = _Line(value, float(direction @ gradient)).search()
        try:
            c = next(line)
            while True:
                seen[c] = yield x + c * direction
                c = line.send((seen[c][0], float(seen[c][1] @ direction)))
        except StopIteration as end:
            length = end.value
        except _Thrown:
            return start
        new_value, new_gradient = seen[length]
        moved, change = length * direction, new_gradient - gradient
        if new_value >= value or moved @ change == 0:
            break
        x, value, gradient = x + moved, new_value, new_gradient
        pairs = [*pairs, (moved, change)][-10:]
    return x


def _direction(gradient: Array, pairs: list[tuple[Array, Array]]) -> Array:
    q, weights = gradient.copy(), []
    for s, y in reversed(pairs):
        weights.append((s @ q) / (s @ y))
        q -= weights[-1] * y
    if pairs:
        s, y = pairs[-1]
        q *= (s @ y) / (y @ y)
    for (s, y), weight in zip(pairs, reversed(weights), strict=True):
        q += (weight - (y @ q) / (s @ y)) * s
    return -q


def lbfgs_to_first_rise(loss: Loss, theta: Tensor, free: Tensor, steps: int, monitor: Monitor) -> Tensor:
    """Minimise as `fitting.training.lbfgs` does, with the line search and stopping rules of Optim.jl."""
    found = theta.detach().to("cpu", copy=True)
    runs = [_member(row, steps) for row in found.numpy().copy()]
    asked = torch.stack([torch.as_tensor(next(run)) for run in runs])
    open_, rounds = set(range(len(runs))), 0
    while open_ and not monitor.stopping():
        value, gradient = loss_and_gradient(loss, asked.to(theta.device), 1.0)
        values, gradients = value.tolist(), (gradient * free).cpu().numpy()
        for i in sorted(open_):
            try:
                asked[i] = torch.as_tensor(runs[i].send((values[i], gradients[i].copy())))
            except StopIteration as end:
                found[i] = asked[i] = torch.as_tensor(end.value)
                open_.remove(i)
        rounds += 1
        monitor.step(min(rounds // 3, steps), min(values))
    return found.to(theta.device)
