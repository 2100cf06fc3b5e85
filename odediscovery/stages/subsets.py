"""The best sets of a few blocks of columns, by linear algebra alone.

Source: orthogonal least squares with a beam (Chen, Billings and Luo, Int. J. Control 50, 1989); backward steps as in
the floating search of Pudil, Novovicova and Kittler (Pattern Recognition Letters 15, 1994).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from odediscovery.runtime.arrays import Array, Indices, Mask, column_norms
from odediscovery.runtime.monitor import check_time

# Most blocks of a set; sets of each size with as many steps that grow on; extensions of each, with steps and without.
MOST_OF_SET, BEAM, CHILDREN = 4, (0, 80, 40, 20), 12
# A column with a smaller share of its square outside of a set explains nothing beside it.
OUTSIDE = 1e-10
# Blocks whose products are held at a time; memory.
MOST_BLOCKS = 1200


def block_sets(
    x: Array,
    y: Array,
    charge: Array,
    kinds: Indices,
    misfit: Callable[[Array], Array],
    most: float = np.inf,
    largest: int = MOST_OF_SET,
) -> list[tuple[int, ...]]:
    """The best sets of a few blocks of columns, of any size up to the largest, the best first.

        minimise  misfit(min_a |y - sum_{c in S} X_c a_c|^2) + sum_{c in S} charge_c

    Sets grow by one block at a time, the best few of each size, and then lose one. Columns after the first of a block
    are steps of its constants, which flatter it: sets with as many such blocks are compared with each other.

    Args:
        x: blocks of columns of norm 1 at most [rows, blocks, width].
        y: the data [rows].
        charge: what each block costs.
        kinds: of blocks; only the best of the sets with the same kinds is kept.
        misfit: of squares.
        most: sets cost less than this.
        largest: most blocks of a set.
    """
    rows, c, width = x.shape
    if c > MOST_BLOCKS:
        kept = np.sort(np.argsort(-np.square(x[:, :, 0].T @ y))[:MOST_BLOCKS])
        some = block_sets(x[:, kept], y, charge[kept], kinds[kept], misfit, most, largest)
        return [tuple(kept[list(own)].tolist()) for own in some]
    flat = x.transpose(2, 1, 0).reshape(width * c, rows)
    gram, b, total = flat @ flat.T, flat @ y, float(y @ y)
    own, places = gram.reshape(width, c, width, c)[:, np.arange(c), :, np.arange(c)], c * np.arange(width)
    steps: Mask = np.asarray(x[:, :, 1:].any(axis=(0, 2)))
    beam, found, values = np.zeros((1, 0), dtype=int), list[Indices](), list[Array]()
    for size in range(min(largest, c)):
        growing = beam[charge[beam].sum(axis=1) + charge.min() < most]
        sets, of_sets = [np.zeros((0, size + 1), dtype=int)], [np.zeros(0)]
        for part in np.array_split(growing, len(growing) * c * width // 60_000 + 1):
            check_time()
            at = (part[..., None] + places).reshape(len(part), size * width)
            root = np.linalg.inv(np.linalg.cholesky(_inside(gram, at)))
            cross, carried = root @ gram[at], (root @ b[at][..., None])[..., 0]
            r = (b - (carried[:, None] @ cross)[:, 0]).reshape(len(part), width, c)
            gain = _gains(own, cross.reshape(len(part), size * width, width, c), r)
            left = total - (carried**2).sum(axis=1)[:, None] - gain
            cost = charge + charge[part].sum(axis=1)[:, None]
            value = np.where(cost < most, misfit(np.maximum(left, 0.0)) + cost, np.inf)
            value[np.arange(len(part))[:, None], part] = np.inf
            for flattered in (False, True):
                own_value = np.where(steps == flattered, value, np.inf)
                of, j = of_each_kind(own_value, kinds, CHILDREN) if size else np.nonzero(np.isfinite(own_value))
                sets.append(np.column_stack([part[of], j]))
                of_sets.append(value[of, j])
        beam, value = _ranked(np.concatenate(sets), np.concatenate(of_sets), kinds, steps, BEAM[min(size, 3)])
        found, values = [*found, beam], [*values, value]
    if len(beam) and beam.shape[1] > 1:
        fewer = np.unique(
            np.sort(np.vstack([np.delete(beam, k, axis=1) for k in range(beam.shape[1])]), axis=1), axis=0
        )
        at = (fewer[..., None] + places).reshape(len(fewer), -1)
        left = total - np.einsum("sk,sk->s", b[at], np.linalg.solve(_inside(gram, at), b[at][..., None])[..., 0])
        found, values = [*found, fewer], [*values, misfit(np.maximum(left, 0.0)) + charge[fewer].sum(axis=1)]
    every = [tuple(own) for sets in found for own in sets.tolist()]
    return [every[k] for k in np.argsort(np.concatenate([*values, np.zeros(0)]), kind="stable").tolist()]


def _inside(gram: Array, at: Indices) -> Array:
    """Products of the columns of each set [sets, columns, columns], of full rank."""
    found: Array = gram[at[:, :, None], at[:, None, :]] + OUTSIDE * np.eye(at.shape[1])
    return found


def _ranked(sets: Indices, values: Array, kinds: Indices, steps: Mask, most: int) -> tuple[Indices, Array]:
    """The best `most` sets for each number of blocks with steps, no two of the same kinds, and their values.

    Of single blocks, all.
    """
    order = np.argsort(values, kind="stable")
    sets, values = sets[order], values[order]
    if sets.shape[1] == 1:
        return sets, values
    first = np.sort(np.unique(np.sort(kinds[sets], axis=1), axis=0, return_index=True)[1])
    many = steps[sets[first]].sum(axis=1)
    kept = np.concatenate([first[many == k][:most] for k in range(sets.shape[1] + 1)])
    return sets[kept], values[kept]


def _gains(own: Array, cross: Array, r: Array) -> Array:
    """Squares that blocks explain beside sets, one column of a block after another, [sets, blocks].

    Args:
        own: products of the columns of a block [blocks, width, width].
        cross: orthonormal columns of sets times those of blocks [sets, columns, width, blocks].
        r: what sets leave of the data times the columns of blocks [sets, width, blocks].
    """
    width = own.shape[1]
    m = [
        [own[:, v, w] - np.einsum("mkc,mkc->mc", cross[:, :, v], cross[:, :, w]) for w in range(v + 1)]
        for v in range(width)
    ]
    rest, gain = [r[:, v] for v in range(width)], np.zeros(r[:, 0].shape)
    for v in range(width):
        usable = m[v][v] > OUTSIDE * own[:, v, v]
        share = np.where(usable, 1.0 / np.where(usable, m[v][v], 1.0), 0.0)
        gain = gain + rest[v] ** 2 * share
        for w in range(v + 1, width):
            factor = m[w][v] * share
            rest[w] = rest[w] - factor * rest[v]
            for u in range(v + 1, w + 1):
                m[w][u] = m[w][u] - factor * m[u][v]
    return gain


def of_each_kind(value: Array, kinds: Indices, most: int) -> tuple[Indices, Indices]:
    """Row and column of the least values [rows, columns] of each row, at most so many, no two of a kind."""
    width = min(8 * most, value.shape[1])
    order = np.argpartition(value, width - 1, axis=1)[:, :width]
    order = np.take_along_axis(order, np.argsort(np.take_along_axis(value, order, axis=1), axis=1), axis=1)
    kind = kinds[order]
    again = np.tril(kind[:, :, None] == kind[:, None, :], -1).any(axis=2)
    new = np.isfinite(np.take_along_axis(value, order, axis=1)) & ~again
    row, column = np.nonzero(new & (new.cumsum(axis=1) <= most))
    return row, order[row, column]


def without(fixed: Array, x: Array) -> Array:
    """Return x [rows, ...] without what it has in common with some columns [rows, columns]."""
    size = column_norms(fixed)
    if not size.any():
        return x
    q = np.linalg.qr(fixed[:, size > 0] / size[size > 0])[0]
    rest: Array = x - np.tensordot(q, np.tensordot(q.T, x, axes=1), axes=1)
    return rest
