"""Laws by regression: products of whole powers on the integral form.

    x(t_{j+1}) - x(t_j) = sum_m A[., m] integral of prod_k x_k^W[m, k] dt over the interval

Given the exponents, the coefficients are linear. In noise, the data often do not determine the
powers, and only a law of whole powers can be claimed; regression finds such laws quickly, and
pruning on windows improves them. Terms are removed from each equation, the smallest t
statistic first, and an information criterion selects a step; a strict and a loose penalty give
smaller and larger laws to prune from, and no penalty keeps a small library whole.

Source: weak-form SINDy; Schaeffer and McCalla, Sparse model selection via integral terms (2017).

Where states depend on each other, laws with different terms have equal rates: while S + I + R stays N, an epidemic
recovers by g I or by g (S I + I^2 + I R) / N. Backward elimination ends at either by chance; regression on the rates
of a law finds the fewest terms that reproduce them, as a best set of blocks of columns.

Source of best sets: orthogonal least squares with a beam (Chen, Billings and Luo, Int. J. Control 50, 1989); backward
steps as in the floating search of Pudil, Novovicova and Kittler (Pattern Recognition Letters 15, 1994).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.interpolate import CubicSpline

from odediscovery.data.series import pooled
from odediscovery.families import Function
from odediscovery.families.base import products_up_to_degree
from odediscovery.laws.power_sum import Features, PowerSum, constant_penalty
from odediscovery.problem.problem import Problem
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Indices, Mask, column_norms
from odediscovery.runtime.monitor import check_time

# Most coefficients over all equations of a library.
MOST_COEFFICIENTS = 200
# Sets of one, two and more blocks, with as many steps, that grow on.
BEAM = (80, 40, 20)
# A column with a smaller share of its square outside of a set explains nothing beside it.
OUTSIDE = 1e-10
# Blocks whose products are held at a time; memory.
MOST_BLOCKS = 1200


def polynomials(p: Problem, functions: Sequence[Function] = (), most: float = math.inf) -> list[PowerSum]:
    """Find a law for each library and penalty, and laws whose equations each have their best degree, no duplicates.

    With functions f of a state, x f(x) is a product, too, and only laws with such a product are returned. `most` is the
    number of terms of an equation: long laws with functions fit as long polynomials do, but look more like laws.
    """
    n = p.data.n_states
    features = Features(n, tuple(functions)) if functions else None
    laws: dict[bytes, PowerSum] = {}
    # For each penalty and equation: the lowest score so far, and the equation as a law of its own.
    best: dict[float, list[tuple[float, PowerSum]]] = {}
    if not _has_paths(p):
        return []
    for degree in range(1, 4 if functions else 6):
        if degree > 1 and n * math.comb(n + degree, degree) > MOST_COEFFICIENTS:
            continue
        exponents = _with_functions(products_up_to_degree(n, degree), functions)
        columns, increments = _integral_form(p, exponents, features)
        samples = len(increments)
        # High degrees need two intervals per product, and are used only in equations that improve.
        high = degree > 3
        if high and samples < 2 * len(exponents):
            break
        increments = increments - _of_known(p)
        allowed = allowed_products(p, exponents)
        ways = [_eliminated(columns[:, own], y) for own, y in zip(allowed, increments.T, strict=True)]
        ways = [[step for step in way if np.count_nonzero(step[0]) <= most] for way in ways]
        for factor in (1.5, 0.3, 0.0):  # gain required of a term [penalty of a constant]
            # Only small libraries are kept whole.
            if factor == 0.0 and n * len(exponents) > 30:
                continue
            worth = factor * constant_penalty(n, increments.size)
            a, equations = np.zeros((n, len(exponents))), list[tuple[float, PowerSum]]()
            for i, way in enumerate(ways):
                score, a[i, allowed[i]] = _best_step(way, worth, samples)
                equations.append((score, PowerSum(np.where(np.arange(n)[:, None] == i, a, 0.0), exponents, features)))
            earlier = best.get(factor, equations)
            best[factor] = [min(pair, key=lambda one: one[0]) for pair in zip(earlier, equations, strict=True)]
            if not high:
                law = PowerSum(a, exponents, features).merged()
                laws.setdefault(_structure(law), law)
    for equations in (of_each for factor, of_each in best.items() if factor > 0.0):
        a = np.hstack([one.coefficients for _, one in equations])
        law = PowerSum(a, np.vstack([one.exponents for _, one in equations]), features).merged()
        laws.setdefault(_structure(law), law)
    found = [law.compact() for law in laws.values() if law.n_monomials]
    return [law for law in found if law.features is not None] if functions else found


def _with_functions(exponents: Array, functions: Sequence[Function]) -> Array:
    """Append each function of a state, times that state, to products of states."""
    of, n = np.eye(len(functions)), exponents.shape[1]
    beside = np.hstack([np.eye(n)[[f.state for f in functions]], of])
    return np.vstack([np.pad(exponents, ((0, 0), (0, len(of)))), beside])


def _structure(law: PowerSum) -> bytes:
    found: bytes = law.exponents.tobytes() + (law.coefficients != 0).tobytes()
    return found


def allowed_products(p: Problem, exponents: Array) -> Mask:
    """Mask the products that each equation may have, [states, products]."""
    found: Mask = np.repeat(~p.constant[:, None], len(exponents), axis=1)
    known = p.knowledge
    if known is not None:
        forbidden = known.forbidden.astype(float) @ (exponents != 0).T > 0
        found &= ~forbidden & ~(known.fully_known | known.tied)[:, None]
    return found


def _of_known(p: Problem) -> Array:
    """Integrate the known parts of the right-hand sides, [intervals, states] (0 if none)."""
    n = p.data.n_states
    law = PowerSum(np.zeros((n, 0)), np.zeros((0, n)))
    if p.knowledge is not None:
        law = p.knowledge.impose(law)
    if not law.n_monomials:
        return np.zeros(n)
    integrals: Array = _integral_form(p, law.exponents)[0] @ law.coefficients.T
    return integrals


def library_law(p: Problem, degree: int) -> PowerSum | None:
    """Fit all products up to a degree in every equation by least squares; None if there are far too many.

    With a large library, each equation keeps only the terms that an information criterion selects.
    """
    n = p.data.n_states
    size = n * math.comb(n + degree, degree)
    if size > MOST_COEFFICIENTS or not _has_paths(p):
        return None
    is_small = size <= 60
    exponents = products_up_to_degree(n, degree)
    columns, increments = _integral_form(p, exponents)
    # The interpolation error grows with the third power of the gap, so long gaps get little weight.
    gaps = np.concatenate([np.diff(t.time) for t in p.smooth.trajectories if len(t.time) >= 3])
    weights = (gaps.min() / gaps)[:, None] ** 3.0
    columns, increments = columns * weights, increments * weights
    if is_small:
        # A product that is 0 throughout, such as those of an absent species, has no size.
        scale = column_norms(columns)
        scale = np.where(scale > 0.0, scale, 1.0)
        solution = np.linalg.lstsq(columns / scale, increments, rcond=1e-10)[0].T / scale
    else:
        worth = constant_penalty(n, increments.size)
        solution = np.stack([_best_step(_eliminated(columns, y), worth, len(y))[1] for y in increments.T])
    law = PowerSum(np.where(p.constant[:, None], 0.0, solution), exponents)
    return law if is_small else law.merged()


def _has_paths(p: Problem) -> bool:
    """Whether any trajectory is long enough for a path between its samples."""
    return any(len(t.time) >= 3 for t in p.smooth.trajectories)


def _integral_form(p: Problem, exponents: Array, features: Features | None = None) -> tuple[Array, Array]:
    """Return integrals of the products [intervals, monomials] and increments [intervals, states]."""
    nodes, weights = np.polynomial.legendre.leggauss(3)
    law = PowerSum(np.zeros((p.data.n_states, len(exponents))), exponents, features)
    columns, increments = [], []
    for t in p.smooth.trajectories:
        if len(t.time) < 3:
            continue
        path = CubicSpline(t.time, t.values)
        half = np.diff(t.time)[:, None] / 2
        at = t.time[:-1, None] + half * (1.0 + nodes)
        x = path(at)
        if t.controls is not None:
            x[..., p.data.is_control] = t.controls.at(at)
        columns.append((law.monomials(x) * (half * weights)[..., None]).sum(axis=1))
        increments.append(np.diff(t.values, axis=0))
    return np.concatenate(columns), np.concatenate(increments)


def _eliminated(columns: Array, y: Array) -> list[tuple[Array, float]]:
    """Remove columns one by one, smallest t statistic first; return coefficients and squared residuals of each step.

    The first entry, without columns, has an infinite misfit and is chosen only if there is no other.
    """
    nothing = np.zeros(columns.shape[1])
    scale = column_norms(columns)
    kept = np.flatnonzero((scale > 0) & np.isfinite(scale))
    # The R factor of a QR decomposition keeps all information in as many rows as unknowns.
    both: Array = np.linalg.qr(np.column_stack([columns[:, kept] / scale[kept], y]))[1]
    scaled, y, of_kept = both[:, :-1], both[:, -1], np.arange(len(kept))
    found = [(nothing, math.inf)]
    while len(of_kept):
        check_time()
        x = scaled[:, of_kept]
        inverse = np.linalg.pinv(x.T @ x + 1e-10 * np.eye(len(of_kept)), hermitian=True)
        solution = inverse @ (x.T @ y)
        a = nothing.copy()
        a[kept[of_kept]] = solution / scale[kept[of_kept]]
        found.append((a, float(np.sum((y - x @ solution) ** 2)) + 1e-16 * float(y @ y)))
        statistic = solution**2 / np.maximum(inverse.diagonal(), ABOVE_ZERO)
        of_kept = np.delete(of_kept, int(np.argmin(statistic)))
    return found


def _best_step(steps: Sequence[tuple[Array, float]], worth: float, samples: int) -> tuple[float, Array]:
    """Return score and coefficients of the step with the lowest information criterion; each term costs `worth`."""
    least, chosen = math.inf, steps[0][0]
    for a, misfit in steps:
        score = samples * math.log(max(misfit, ABOVE_ZERO) / samples) + worth * np.count_nonzero(a)
        if score < least:
            least, chosen = float(score), a
    return least, chosen


def fewest_terms(law: PowerSum, p: Problem, within: float = 1e-5) -> PowerSum | None:
    """Find the law with the fewest products of whole powers that has the same rates at all samples.

        minimise |S_i| so that |sum_{m in S_i} a_im x^w_m - f_i(x)| <= within |f_i|, x all samples, for each equation i

    None if no equation becomes shorter, or the law is not a sum of products of whole powers.
    """
    used = law.coefficients != 0
    degree = int(law.exponents[used.any(axis=0)].sum(axis=1).max(initial=0.0))
    # Known terms must not be rewritten.
    if law.features is not None or p.knowledge is not None or not degree:
        return None
    exponents = products_up_to_degree(law.n_states, degree)
    if len(exponents) > 500:
        return None
    values = pooled(p.data)
    x = values[np.unique(np.linspace(0, len(values) - 1, 500).astype(int))]
    columns = np.prod(x[:, None, :] ** exponents, axis=2)
    allowed, rates = allowed_products(p, exponents), law.rhs(x)
    shorter = np.zeros((law.n_states, len(exponents)))
    kept = law.coefficients.copy()
    for i in np.flatnonzero(used.sum(axis=1) > 1):
        found = _alone(columns[:, allowed[i]], rates[:, i], int(used[i].sum()) - 1, within)
        if found is not None:
            shorter[i, allowed[i]], kept[i] = found, 0.0
    if not shorter.any():
        return None
    return PowerSum(np.hstack([kept, shorter]), np.vstack([law.exponents, exponents])).merged()


def _alone(columns: Array, rates: Array, most: int, within: float) -> Array | None:
    """Fit the rates by the fewest columns, at most `most`; return coefficients, or None if so few do not suffice."""
    size = np.linalg.norm(columns, axis=0)
    size = np.where(size > 0.0, size, 1.0)
    unit, kinds = (columns / size)[:, :, None], np.arange(len(size))
    sets = block_sets(unit, rates, np.zeros(len(size)), kinds, lambda left: left, largest=most)
    for subset in map(list, sorted(sets, key=len)):
        values = np.linalg.lstsq(columns[:, subset] / size[subset], rates, rcond=None)[0] / size[subset]
        missed = np.linalg.norm(columns[:, subset] @ values - rates)
        if missed <= within * np.linalg.norm(rates):
            coefficients = np.zeros(len(size))
            coefficients[subset] = values
            return coefficients
    return None


# The best sets of a few blocks of columns, by linear algebra alone.


def block_sets(
    x: Array,
    y: Array,
    charge: Array,
    kinds: Indices,
    misfit: Callable[[Array], Array],
    most: float = np.inf,
    largest: int = 4,
) -> list[tuple[int, ...]]:
    """The best sets of a few blocks of columns, of any size up to the largest, the best first.

        minimise  misfit(min_a |y - sum_{c in S} X_c a_c|^2) + sum_{c in S} charge_c

    Sets grow by one block at a time, by a dozen with steps and a dozen without, the best few of each size, and then
    lose one. Columns after the first of a block are steps of its constants, which flatter it: sets with as many such
    blocks are compared with each other.

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
                of, j = of_each_kind(own_value, kinds, 12) if size else np.nonzero(np.isfinite(own_value))
                sets.append(np.column_stack([part[of], j]))
                of_sets.append(value[of, j])
        beam, value = _ranked(
            np.concatenate(sets), np.concatenate(of_sets), kinds, steps, BEAM[min(size, len(BEAM)) - 1]
        )
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
