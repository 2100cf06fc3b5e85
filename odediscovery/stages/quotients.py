"""Denominators by regression: D(x) x' = N(x) is linear in the constants of both.

    x(t_b) - x(t_a) = sum_j n_j int m_j dt - sum_k d_k int z_k x' dt,    D = 1 + sum_k d_k z_k

On exact samples it says with which products and at which constants the denominators of an equation begin, also where
a coarse grid of constants would be far from all of them. Backward elimination finds five terms of which no four
explain much.

Source: implicit SINDy (Mangan, Brunton, Proctor and Kutz 2016), in integral form.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from odediscovery.runtime.arrays import ABOVE_ZERO, SQUARED, Array, Indices, column_norms
from odediscovery.runtime.monitor import check_time
from odediscovery.stages.integral_form import SLOPE, Integral, Path

# Most constants of a quotient, and denominators of an equation, the likeliest.
MOST_OF_QUOTIENT, LIKELY = 9, 4


def denominators(
    problem: Integral, path: Path, i: int, above: Array, below: Array, worth: float, floor: float
) -> list[tuple[Array, Array]]:
    """Return the likeliest denominators of one equation: products [n, features] and their weights [n].

    Args:
        problem: the samples.
        path: between them.
        i: the state whose equation it is.
        above: products that N may contain; D times a term beside the quotient needs products with those below.
        below: products that D may contain, first all of them and then each alone.
        worth: price of a constant.
        floor: mean square of residuals that the path explains.
    """
    x = np.exp(path.log[..., i]) * np.where(path.negative[..., i], -1.0, 1.0)
    slope, z = (x @ SLOPE.T) / problem.step[:, None], path.monomials(below)
    nodes = np.concatenate([path.monomials(above), -z * slope[..., None]], axis=-1)
    columns = problem.operator(i) @ problem.over_intervals(nodes)
    size = column_norms(columns, axis=0)
    usable, n, target = (size > 0) & (size < SQUARED), len(above), problem.target[i]
    unit, samples = columns / np.where(usable, size, 1.0), float(problem.counts[i])

    def subsets() -> Iterator[Indices]:
        yield from _eliminated(unit, target, np.flatnonzero(usable))
        for k in np.flatnonzero(usable[n:]).tolist():
            yield from _eliminated(unit, target, np.append(np.flatnonzero(usable[:n]), n + k))

    best: dict[bytes, tuple[float, Array, Array]] = {}
    for at in subsets():
        over = at[at >= n] - n
        if 0 < len(over) < len(at):
            d = np.linalg.lstsq(unit[:, at], target, rcond=None)[0]
            left, weights = float(np.sum((target - unit[:, at] @ d) ** 2)), (d / size[at])[at >= n]
            value = samples * np.log(max(left / samples + floor, ABOVE_ZERO)) + worth * len(at)
            if (1.0 + z[..., over] @ weights > 0.0).all() and value < best.get(over.tobytes(), (np.inf,))[0]:
                best[over.tobytes()] = value, below[over], weights
    return [(inside, weights) for _, inside, weights in sorted(best.values(), key=lambda one: one[0])[:LIKELY]]


def _eliminated(columns: Array, y: Array, left: Indices) -> Iterator[Indices]:
    """Yield what is left of some `columns` [samples, C] while the least significant go, of many a tenth at a time."""
    # Rotated, the samples are no more than the columns.
    r = np.linalg.qr(np.column_stack([columns[:, left], y]))[1]
    while 2 < len(left) < len(y):
        check_time()
        if len(left) <= MOST_OF_QUOTIENT:
            yield left
        inverse = np.linalg.pinv(r[: len(left), :-1])
        statistic = (inverse @ r[: len(left), -1]) ** 2 / np.maximum((inverse**2).sum(axis=1), ABOVE_ZERO)
        gone = np.argsort(statistic)[: max(len(left) // 10 - MOST_OF_QUOTIENT // 4, 1)]
        left, r = np.delete(left, gone), np.linalg.qr(np.delete(r, gone, axis=1))[1]
