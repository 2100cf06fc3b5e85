"""Denominators by regression: D(x) x' = N(x) is linear in the constants of both.

    x(t_b) - x(t_a) = sum_j n_j int m_j dt - sum_k d_k int z_k x' dt,    D = 1 + sum_k d_k z_k

On exact samples it says with which products and at which constants the denominators of an equation begin, also where
a coarse grid of constants would be far from all of them. Backward elimination finds five terms of which no four
explain much; where many columns are alike, forward selection beside one z x' at a time finds more.

Source: implicit SINDy (Mangan, Brunton, Proctor and Kutz 2016), in integral form.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from odediscovery.runtime.arrays import ABOVE_ZERO, SQUARED, Array, Indices, column_norms
from odediscovery.runtime.monitor import check_time
from odediscovery.stages.integral_form import SLOPE, Integral, Path
from odediscovery.stages.subsets import block_sets, without

# Most constants of a quotient by backward elimination, and quotients beside each z x' by forward selection.
MOST_OF_QUOTIENT, BESIDE = 9, 4
# Denominators of an equation, the likeliest.
LIKELY = 8


def denominators(
    problem: Integral, path: Path, i: int, above: Array, below: Array, worth: float, floor: float
) -> list[tuple[Array, Array]]:
    """Return the likeliest denominators of one equation: products [n, features] and their weights [n].

    Args:
        problem: the samples.
        path: between them.
        i: the state whose equation it is.
        above: products that N may contain; D times a term beside the quotient needs products with those below.
        below: products that D may contain, positive along the path.
        worth: price of a constant.
        floor: mean square of residuals that the path explains.
    """
    x = np.exp(path.log[..., i]) * np.where(path.negative[..., i], -1.0, 1.0)
    slope, z = (x @ SLOPE.T) / problem.step[:, None], path.monomials(below)
    columns = problem.integrals(np.concatenate([path.monomials(above), -z * slope[..., None]], axis=-1), np.array([i]))[
        0
    ]
    size = column_norms(columns, axis=0)
    usable, n, target = (size > 0) & (size < SQUARED), len(above), problem.target[i]
    unit, samples = columns / np.where(usable, size, 1.0), float(problem.counts[i])

    def misfit(left: Array) -> Array:
        return np.asarray(samples * np.log(np.maximum(left / samples + floor, ABOVE_ZERO)))

    def subsets() -> Iterator[Indices]:
        yield from _eliminated(unit, target, np.flatnonzero(usable))
        for k in (n + np.flatnonzero(usable[n:])).tolist():
            check_time()
            own = np.flatnonzero(usable & ((np.arange(len(usable)) < n) | (np.arange(len(usable)) == k)))
            yield from _eliminated(unit, target, own)
            others = np.flatnonzero(usable & (np.arange(len(usable)) != k))
            rest, y = without(unit[:, [k]], unit[:, others]), without(unit[:, [k]], target)
            sets = block_sets(rest[:, :, None], y, np.full(len(others), worth), np.arange(len(others)), misfit)
            yield from (np.append(others[list(chosen)], k) for chosen in sets[:BESIDE])

    best: dict[bytes, tuple[float, int, tuple[Array, Array]]] = {}
    for count, chosen in enumerate(subsets()):
        over = chosen[chosen >= n]
        if not len(over) or not len(over) < len(chosen):
            continue
        d = np.linalg.lstsq(unit[:, chosen], target, rcond=None)[0]
        left = float(np.sum((target - unit[:, chosen] @ d) ** 2))
        weights = (d / size[chosen])[chosen >= n]
        order = np.argsort(over)
        over, weights = over[order] - n, weights[order]
        if (1.0 + z[..., over] @ weights > 0.0).all():
            value = float(misfit(np.array(left))) + worth * len(chosen)
            key = over.tobytes()
            best[key] = min(best.get(key, (np.inf, 0, (below, below))), (value, count, (below[over], weights)))
    return [found for _, _, found in sorted(best.values(), key=lambda one: one[:2])[:LIKELY]]


def _eliminated(columns: Array, y: Array, left: Indices) -> Iterator[Indices]:
    """Yield what is left of some `columns` [samples, C] while the least significant go one by one."""
    while 2 < len(left) < len(y):
        if len(left) <= MOST_OF_QUOTIENT:
            yield left
        q, r = np.linalg.qr(columns[:, left])
        inverse = np.linalg.pinv(r)
        statistic = (inverse @ (q.T @ y)) ** 2 / np.maximum((inverse**2).sum(axis=1), ABOVE_ZERO)
        left = np.delete(left, np.argmin(statistic))
