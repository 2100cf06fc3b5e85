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
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from odediscovery.fitting.training import Loss, loss_and_gradient
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import Monitor

# Numbers without another source are from the paper, or else from LineSearches.jl.
DELTA = 0.1  # sufficient decrease of the Wolfe conditions
TRIALS = 50  # most rounds of one search

T = TypeVar("T")
Asking: TypeAlias = Generator[float, tuple[float, float], T]
MemberRun = Generator[Array, tuple[float, Array], Array]


class _Thrown(Exception):
    """The line search failed; the Julia script then kept the parameters from before LBFGS."""


class _Point(NamedTuple):
    """A step length, with the value and the slope there."""

    at: float
    value: float
    slope: float

    @property
    def finite(self) -> bool:
        return all(map(math.isfinite, self))


class _Line:
    """One line search, which requests (value, slope) at step lengths and returns a step length."""

    def __init__(self, value: float, slope: float) -> None:
        self.start = _Point(0.0, value, slope)
        self.most = value + 1e-6 * abs(value)  # a smaller rise counts as none

    def search(self) -> Asking[float]:
        """Find a step length that satisfies the Wolfe conditions, or the approximate ones near a minimum."""
        c = 1.0
        for _ in range(52):  # bits of a float64
            first = _Point(c, *(yield c))
            if first.finite:
                break
            c *= 0.1
        else:
            return 0.0
        a, b, rounds = yield from self._bracket(first)
        for _ in range(rounds, TRIALS):
            width = b.at - a.at
            if width <= np.spacing(b.at):
                return a.at
            done, low, high = yield from self._secants(a, b)
            if done:
                return low.at
            if high.at - low.at < 2.0 / 3.0 * width:
                if _is_flat(a, b) and _is_flat(low, high):
                    return low.at
                a, b = low, high
            else:
                middle = yield from self._ask((low.at + high.at) / 2)
                a, b = yield from self._update(low, high, middle)
        return a.at

    def _ask(self, c: float) -> Asking[_Point]:
        point = _Point(c, *(yield c))
        if not point.finite:
            raise _Thrown
        return point

    def _wolfe(self, point: _Point) -> bool:
        first = self.start.slope
        if point.slope < 0.9 * first:
            return False
        return (point.value - self.start.value <= DELTA * first * point.at) or (
            (2 * DELTA - 1) * first >= point.slope and point.value <= self.most
        )

    def _bracket(self, last: _Point) -> Asking[tuple[_Point, _Point, int]]:
        """Find two points whose slopes bracket a minimum; return them and the number of rounds used."""
        good = self.start  # the last but one whose value has not risen
        for rounds in range(1, TRIALS):
            if last.slope >= 0:
                return good, last, rounds + 1
            if last.value > self.most:
                return *(yield from self._bisect(good, last)), rounds + 1
            c = 5.0 * last.at
            while not (further := _Point(c, *(yield c))).finite:
                c = (last.at + c) / 2
                if c - last.at <= np.spacing(last.at):
                    return last, last, rounds + 1
            good, last = last, further
        return self.start, self.start, TRIALS

    def _secants(self, a: _Point, b: _Point) -> Asking[tuple[bool, _Point, _Point]]:
        if not a.slope < 0 <= b.slope:
            raise _Thrown
        c = yield from self._ask(_secant(a, b))
        if self._wolfe(c):
            return True, c, c
        low, high = yield from self._update(a, b, c)
        if c is low or c is high:
            again = _secant(b, high) if c is high else _secant(a, low)
            if low.at <= again <= high.at:
                c = yield from self._ask(again)
                if self._wolfe(c):
                    return True, c, c
                low, high = yield from self._update(low, high, c)
        return False, low, high

    def _update(self, a: _Point, b: _Point, c: _Point) -> Asking[tuple[_Point, _Point]]:
        if not a.at <= c.at <= b.at:
            return a, b
        if c.slope >= 0:
            return a, c
        if c.value <= self.most:
            return c, b
        return (yield from self._bisect(a, c))

    def _bisect(self, a: _Point, b: _Point) -> Asking[tuple[_Point, _Point]]:
        while b.at - a.at > np.spacing(b.at):
            c = yield from self._ask((a.at + b.at) / 2)
            if c.slope >= 0:
                return a, c
            a, b = (c, b) if c.value <= self.most else (a, c)
        return a, b


def _is_flat(a: _Point, b: _Point) -> bool:
    return bool(np.nextafter(a.value, np.inf) >= b.value)


def _secant(a: _Point, b: _Point) -> float:
    rise = b.slope - a.slope
    return (a.at * b.slope - b.at * a.slope) / rise if rise else math.nan


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
