"""Which few columns of a library explain an equation together? A wide beam search.

    minimise |y - sum_{c in S} a_c column_c|^2    over the subsets S of 1, 2, ... columns

Growing greedily loses terms that explain little alone. With the columns fixed a step is linear
algebra only, so that many subsets of each size can be kept, and only the best of each size go on
to where exponents and constants of sums are fitted. Subsets grow by one column at a time and then
lose one at a time: three columns that explain little in pairs are found as four of which one is idle.

Source: orthogonal least squares (Chen, Billings and Luo, Int. J. Control 50, 1989) with a beam; the way
back as in the floating search of Pudil, Novovicova and Kittler (Pattern Recognition Letters 15, 1994).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import check_time


@dataclass(frozen=True)
class SubsetThresholds:
    """How wide the beam of subsets is."""

    beam: int = 100  # subsets of one size that are kept
    children: int = 10  # columns that each of them is extended by
    columns: int = 2000  # columns of a library that are looked at, the best alone
    starts: int = 150  # single columns, one of each kind, that are extended
    paired: int = 1500  # columns of which all pairs are looked at
    of_a_kind: int = 3  # subsets of one kind that are kept
    alike: float = 0.98  # correlation from which on two extensions are one
    dependent: float = 1e-5  # share of a column that is left when it depends on the others
    side_by_side: int = 100_000  # subsets times their columns times columns of the library that are extended at once


SUBSETS = SubsetThresholds()


def best_subsets(
    columns: Array,
    y: Array,
    kinds: NDArray[np.int64],
    most: int,
    listed: int,
    *,
    alike: float | None = None,
    children: int | None = None,
    pairs: bool = False,
) -> list[list[tuple[int, ...]]]:
    """The best subsets of 1, 2, ..., `most` columns, each list the best first.

    Args:
        columns: of norm 1, [samples, C].
        y: what they are to explain, [samples].
        kinds: columns of one kind differ by a constant that is fitted later, [C].
        listed: subsets returned of each size.
        alike: correlation from which on two extensions are one.
        children: columns that each subset is extended by.
        pairs: beside these extensions all pairs are looked at, also of two columns that explain little alone.

    >>> t = np.linspace(0.0, 1.0, 9)
    >>> library = np.stack([t**0, t, t**2, t**3], axis=1)
    >>> library /= np.linalg.norm(library, axis=0)
    >>> best_subsets(library, 2 * t - t**3, np.arange(4), 2, 1)[1]
    [(1, 3)]
    """
    alike = SUBSETS.alike if alike is None else alike
    children = SUBSETS.children if children is None else children
    alone = np.argsort(-np.abs(columns.T @ y), kind="stable")[: SUBSETS.columns]
    columns, kinds = columns[:, alone], kinds[alone]
    gram, b, total = columns.T @ columns, columns.T @ y, float(y @ y)
    # What explains little alone may be needed: the best column of every kind is a start.
    starts = np.sort(np.unique(kinds, return_index=True)[1])[: SUBSETS.starts]
    single: list[tuple[int, ...]] = [(int(c),) for c in starts]
    beam = single
    levels: list[dict[tuple[int, ...], float]] = []
    for size in range(2, most + 1):
        found: dict[tuple[int, ...], float] = {}
        if pairs and size == 2:
            found = _pairs(gram[: SUBSETS.paired, : SUBSETS.paired], b[: SUBSETS.paired], total)
        for part in _parts(beam, len(b)):
            check_time()
            for k, c, left in _extensions(gram, b, total, np.array(part), alike, children):
                found[tuple(sorted((*part[k], c)))] = left
        if not found:
            break
        beam = _best(found, kinds)
        levels.append(found)
    # Columns that explain little without a third one come in with a fourth, which may then go.
    for k in range(len(levels) - 1, 0, -1):
        for part in _parts(_best(levels[k], kinds), len(b)):
            levels[k - 1].update(_without_one(gram, b, total, np.array(part)))
    best = [single, *(_best(found, kinds) for found in levels)]
    return [[tuple(sorted(alone[list(s)].tolist())) for s in level[:listed]] for level in best]


def _pairs(gram: Array, b: Array, total: float) -> dict[tuple[int, ...], float]:
    """The best pairs of columns, and what each leaves of y, squared."""
    columns, most = len(b), SUBSETS.of_a_kind * SUBSETS.beam
    rows = max(SUBSETS.side_by_side // columns, 1)
    best: list[tuple[float, int, int]] = []
    for first in range(0, columns, rows):
        # Of a symmetric matrix the part right of this block's diagonal.
        rho, own, other = gram[first : first + rows, first:], b[first : first + rows, None], b[first:]
        apart = 1.0 - rho**2
        explained = (own**2 + other**2 - 2.0 * rho * (own * other)) / np.maximum(apart, SUBSETS.dependent)
        left = np.maximum(total - explained, 0.0)
        left[np.tri(*left.shape, dtype=np.bool_) | (apart <= SUBSETS.dependent)] = np.inf
        worst = best[-1][0] if len(best) == most else np.inf
        k, m = np.nonzero(left < worst)
        if len(k) > most:
            few = np.argpartition(left[k, m], most)[:most]
            k, m = k[few], m[few]
        found = zip(left[k, m].tolist(), (k + first).tolist(), (m + first).tolist(), strict=True)
        best = sorted([*best, *found])[:most]
    return {(k, m): left for left, k, m in best}


def _inverse_root(gram: Array, subsets: NDArray[np.int64]) -> Array:
    """L^-1 of L L^T = G, the products of the columns of each subset [subsets, size, size]."""
    inside = gram[subsets[:, :, None], subsets[:, None]] + SUBSETS.dependent**2 * np.eye(subsets.shape[1])
    found: Array = np.linalg.inv(np.linalg.cholesky(inside))
    return found


def _without_one(
    gram: Array, b: Array, total: float, subsets: NDArray[np.int64]
) -> Iterator[tuple[tuple[int, ...], float]]:
    """Subsets [subsets, size] with one column less, and what these leave of y, squared.

    Without the coefficient a_j the rest leaves a_j^2 / (G^-1)_jj more.
    """
    inverse = _inverse_root(gram, subsets)
    of_y = (inverse @ b[subsets][:, :, None])[:, :, 0]
    a = (of_y[:, None] @ inverse)[:, 0]
    left, more = total - (of_y**2).sum(axis=1), a**2 / (inverse**2).sum(axis=1)
    for subset, each in zip(subsets.tolist(), np.maximum(left[:, None] + more, 0.0).tolist(), strict=True):
        for j, left_without in enumerate(each):
            yield tuple(subset[:j] + subset[j + 1 :]), left_without


def _parts(beam: list[tuple[int, ...]], columns: int) -> Iterator[list[tuple[int, ...]]]:
    """The subsets of one size, as many at a time as stay in the cache."""
    if beam:
        many = max(SUBSETS.side_by_side // (columns * len(beam[0])), 1)
        yield from (beam[first : first + many] for first in range(0, len(beam), many))


def _best(found: dict[tuple[int, ...], float], kinds: NDArray[np.int64]) -> list[tuple[int, ...]]:
    """The subsets that leave least, few of each kind."""
    seen: dict[tuple[int, ...], int] = {}
    kept = []
    for subset in sorted(found, key=lambda s: found[s]):
        kind = tuple(sorted(kinds[list(subset)].tolist()))
        seen[kind] = seen.get(kind, 0) + 1
        if seen[kind] <= SUBSETS.of_a_kind:
            kept.append(subset)
        if len(kept) == SUBSETS.beam:
            break
    return kept


def _extensions(
    gram: Array, b: Array, total: float, subsets: NDArray[np.int64], alike: float, children: int
) -> Iterator[tuple[int, int, float]]:
    """Columns that subsets [subsets, size] gain most by: which subset, which column, what is then left of y, squared.

    All subsets side by side, since each is a small system.
    """
    inverse = _inverse_root(gram, subsets)
    projected = inverse @ gram[subsets]
    of_y = (inverse @ b[subsets][:, :, None])[:, :, 0]
    norm = np.sqrt(np.maximum(1.0 - np.einsum("skc,skc->sc", projected, projected), 0.0))
    usable = norm > SUBSETS.dependent
    scaled = np.where(usable, b - (of_y[:, None] @ projected)[:, 0], 0.0) / np.where(usable, norm, 1.0)
    left = np.maximum(total - (of_y**2).sum(axis=1)[:, None] - scaled**2, 0.0)
    first = min(10 * children, len(b))
    best = np.argpartition(left, first - 1, axis=1)[:, :first]
    best = np.take_along_axis(best, np.lexsort((best, np.take_along_axis(left, best, axis=1))), axis=1)
    free, size = np.take_along_axis(usable, best, axis=1), np.take_along_axis(norm, best, axis=1)
    within, each = np.take_along_axis(projected, best[:, None], axis=2), np.arange(len(subsets))
    for _ in range(children):
        k = free.argmax(axis=1)
        left_any, column = free[each, k], best[each, k]
        for s in np.flatnonzero(left_any).tolist():
            yield s, int(column[s]), float(left[s, column[s]])
        if not left_any.any():
            return
        shared = (within[each, :, k][:, None] @ within)[:, 0]
        free &= np.abs(gram[column[:, None], best] - shared) < alike * size[each, k][:, None] * size
        free[each, k] = False
