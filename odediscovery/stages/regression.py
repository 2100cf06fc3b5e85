"""Laws by regression: products of whole powers on the integral form, and terms along the trajectory of a law.

    x(t_{j+1}) - x(t_j) = sum_m A[., m] integral of prod_k x_k^W[m, k] dt over the interval

Given the exponents, the coefficients are linear. In noise, the data often do not determine the
powers, and only a law of whole powers can be claimed; regression finds such laws quickly, and
pruning on windows improves them. Terms are removed from each equation, the smallest t
statistic first, and an information criterion selects a step; a strict and a loose penalty give
smaller and larger laws to prune from, and no penalty keeps a small library whole.

Source: weak-form SINDy; Schaeffer and McCalla, Sparse model selection via integral terms (2017).

Where states depend on each other, laws with different terms have equal rates: while S + I + R stays N, an epidemic
recovers by g I or by g (S I + I^2 + I R) / N. Backward elimination ends at either by chance; regression on the rates
of a law finds the fewest terms that reproduce them.

Which terms would explain the data better than a law f does? If f follows the data, it is close to the true law f + g,
and to first order in g

    data - x = Phi(t, 0) d + integral_0^t Phi(t, s) g(x(s)) ds + noise,    dPhi/dt = (df/dx) Phi

along its own trajectory x, where d is the error of its start. So the effect of any candidate term on
the trajectory is known without fitting it, and selecting a few terms for an equation is a linear
regression on the data themselves, with their own noise. Nothing is smoothed or differentiated, which
misleads regression on increments or derivatives in noise.

Source: the score test (Rao 1948) for terms of a right-hand side; Gauss-Newton, in function space.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.interpolate import CubicSpline

from odediscovery.data.series import pooled
from odediscovery.families import Family, Function, Terms, power_is_rate
from odediscovery.laws.power_sum import (
    FUNCTION_COST,
    NO_SUMS,
    Features,
    PowerSum,
    Sums,
    all_free,
    constant_penalty,
    cost,
    snap_penalty,
)
from odediscovery.problem.problem import Problem
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Indices, Mask, column_norms
from odediscovery.runtime.monitor import check_time
from odediscovery.solve.linearised import LinearisedTrajectory
from odediscovery.stages.grow import best_sets, best_subsets
from odediscovery.stages.integral_form import LEAST, Integral, Path, features_for, grid_for

# Most coefficients over all equations of a library.
MOST_COEFFICIENTS = 200
# Ridge of normal equations [squares of a column].
RIDGE = 1e-10
# How much worse a law may score before its real powers, rates or sums are fitted [of the criterion].
WORSE = 6.0


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
        exponents = _with_functions(products(n, degree), functions)
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


def shared_products(p: Problem, known: PowerSum | None = None) -> list[PowerSum]:
    """Find laws whose equations share a few products, since a flux out of one state enters another.

        minimise  sum_i ln min_a |x_i(t_{j+1}) - x_i(t_j) - sum_{m in S} a_m integral of product m dt|^2

    over all sets S of one size; the best two of each size are kept unless others fit far better. In noise, many
    products explain a single equation about as well, but few sets explain all of them. If the products of a known law
    are the best set of their size, the law is confirmed, and nothing is proposed.
    """
    moving, found = ~p.constant, list[tuple[float, PowerSum]]()
    if p.knowledge is not None or moving.sum() < 2 or not _has_paths(p):
        return []
    for degree in (2, 3):
        if len(moving) * math.comb(len(moving) + degree, degree) > MOST_COEFFICIENTS:
            break
        exponents = products(len(moving), degree)
        columns, increments = _integral_form(p, exponents)
        size = column_norms(columns)
        # A product that is 0 throughout, such as those of an absent species, has no size.
        kept = np.flatnonzero((size > 0.0) & np.isfinite(size))
        share, own = np.full(moving.sum(), 1.0 / moving.sum()), np.stack([columns[:, kept] / size[kept]] * moving.sum())
        for most in range(1, 6):
            if most > len(kept) or math.comb(len(kept), most) > 20_000:
                break
            for misfit, few, a in best_sets(own, increments[:, moving].T, share, most, 2):
                law = PowerSum(np.zeros((len(moving), most)), exponents[kept[few]])
                law.coefficients[moving] = a / size[kept[few]]
                found.append((misfit, law))
    if known is not None and known.features is None:
        used = _products_of(known)
        as_many = [pair for pair in found if len(_products_of(pair[1])) == len(used)]
        if as_many and _products_of(min(as_many, key=lambda pair: pair[0])[1]) == used:
            return []
    least = min((misfit for misfit, _ in found), default=0.0)
    # Far better: by 1.5 in the logarithm of the squares, averaged over equations.
    near = [law for misfit, law in found if misfit < least + 1.5]
    return list({_structure(law): law for law in near}.values())


def _products_of(law: PowerSum) -> set[tuple[float, ...]]:
    """Return the exponents of the products used in any equation."""
    return set(map(tuple, law.exponents[(law.coefficients != 0).any(axis=0)].tolist()))


def _structure(law: PowerSum) -> bytes:
    found: bytes = law.exponents.tobytes() + (law.coefficients != 0).tobytes()
    return found


def products(n: int, degree: int) -> Array:
    """Return the exponents of all products of n states up to a degree, [products, states]."""
    factors = itertools.combinations_with_replacement(range(n + 1), degree)
    rows = sorted(np.bincount(group, minlength=n + 1)[1:].tolist() for group in factors)
    return np.array(rows, dtype=float)


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
    exponents = products(n, degree)
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
        inverse = np.linalg.pinv(x.T @ x + RIDGE * np.eye(len(of_kept)), hermitian=True)
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
    if law.features is not None or law.constants[3].size or p.knowledge is not None or not degree:
        return None
    exponents = products(law.n_states, degree)
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
    for level in best_subsets(columns / size, rates, most, 1, pairs=True):
        subset = list(level[0])
        values = np.linalg.lstsq(columns[:, subset] / size[subset], rates, rcond=None)[0] / size[subset]
        missed = np.linalg.norm(columns[:, subset] @ values - rates)
        if missed <= within * np.linalg.norm(rates):
            coefficients = np.zeros(len(size))
            coefficients[subset] = values
            return coefficients
    return None


@dataclass(frozen=True, eq=False)
class Choice:
    """Terms for one equation, and their gain over the present ones."""

    # Indices of candidates, followed by those of the law's monomials; None for the terms that the equation has.
    terms: tuple[int, ...] | None
    coefficients: Array
    gain: float  # expected decrease of the criterion


@dataclass(frozen=True, eq=False)
class _Pool:
    """C candidates, the last of them the monomials of the law."""

    rows: Array  # their exponents outside of sums [C, features]
    cost: Array  # penalty of each as a term; for the law's own monomials, of the coefficient alone [C]
    saved: Array  # part of the cost that is saved where another equation has the same term [C]
    rough: Mask  # those with constants that are fitted afterwards: real powers and rates [C]

    @classmethod
    def of(cls, law: PowerSum, grid: Terms, problem: Integral, samples: int) -> _Pool:
        """Collect the candidates of a grid and the monomials of a law."""
        own, w, worth = law.n_monomials, law.exponents, constant_penalty(law.n_states, samples)
        cost = np.append(_costs(grid, problem.features, worth), np.full(own, worth))
        fitted = (grid.rows[:, ~problem.integer] != 0).any(axis=1)
        return cls(
            np.vstack([np.pad(grid.rows, ((0, 0), (0, w.shape[1] - grid.rows.shape[1]))), w]),
            cost,
            cost - worth,
            np.append(fitted, (w != np.round(w)).any(axis=1)),
        )

    def least_gain(self, terms: Sequence[int]) -> float:
        """Return the gain required of a choice of terms: less if their constants are fitted later."""
        return -WORSE if self.rough[list(terms)].any() else 0.0


def propose_terms(p: Problem, law: PowerSum, initial: Array, sigma: Array, family: Family) -> list[PowerSum]:
    """Propose laws of a family that should be about as good as a law that follows the data, the most promising first.

    The law, its start values [trajectories, states] and the noise sigma [states] are dimensionless. Each equation has
    the terms of the law or new ones. Empty if none looks as good, or if the law has flows or cannot be integrated.
    """
    changing = ~p.constant
    features = features_for(family, ~p.nonnegative, changing, p.scale.state)
    along = None if law.stoichiometry is not None else LinearisedTrajectory.of(p, law, initial, sigma)
    if along is None:
        return []
    wide = _widened(law, features)
    problem = Integral.of(p.data, p.noise, family.whole(~p.nonnegative), features)
    grid = grid_for(problem, family, ~p.nonnegative | p.integer_exponents, changing)
    equations = np.flatnonzero(changing)
    responses = _responses(along, grid, problem, equations)
    pool = _Pool.of(wide, grid, problem, along.samples)
    choices = [_choices(along, wide, pool, int(i), equations, responses[int(i)]) for i in equations]
    return [_law(wide, grid, equations, picks) for picks in _combined(choices, pool)]


def _widened(law: PowerSum, features: Features) -> PowerSum:
    """Express a law over the states and functions of a family, followed by its other functions."""
    own, n = law.features or Features(law.n_states), law.n_states
    functions = tuple(dict.fromkeys((*features.functions, *own.functions)))
    simple = n + len(functions)
    places = [*range(n), *(n + functions.index(f) for f in own.functions)]
    w = np.zeros((law.n_monomials, simple + len(own.sums)))
    w[:, [*places, *range(simple, w.shape[1])]] = law.exponents
    sums = NO_SUMS
    if len(own.sums):
        v = np.zeros((len(own.sums.exponents), simple))
        v[:, places] = own.sums.exponents
        sums = Sums(own.sums.weights, v)
    return PowerSum(law.coefficients, w, Features(n, functions, sums))


def _responses(along: LinearisedTrajectory, grid: Terms, problem: Integral, equations: Indices) -> dict[int, Array]:
    """Compute the linear response of the samples to each candidate, [rows, candidates] for each equation."""
    smallest = np.full(problem.features.size, LEAST)
    paths = [Path.of(problem.features.values(x), problem.integer, smallest) for x in along.x]
    found: dict[int, list[Array]] = {int(i): [] for i in equations}
    # A few hundred candidates at a time, to limit memory.
    for part in np.array_split(np.arange(len(grid)), max(len(grid) // 500, 1)):
        terms = grid.select(part)
        forces = [np.clip(np.nan_to_num(path.monomials(terms.rows)), -1e100, 1e100) for path in paths]
        for i, columns in found.items():
            columns.append(along.responses(i, forces))
    return {i: np.hstack(columns) for i, columns in found.items()}


def _choices(
    along: LinearisedTrajectory, law: PowerSum, pool: _Pool, i: int, equations: Indices, responses: Array
) -> list[Choice]:
    """Find the best sets of terms for one equation, including its present ones.

    Starts and the coefficients of the other equations are free as well. Their monomials are also candidates, which
    cost only a coefficient: a flux out of one state often enters another.
    """
    nuisance = [along.starts()]
    for e in equations[equations != i]:
        used = law.coefficients[e] != 0
        nuisance.append(along.responses(int(e), [law.monomials(x)[..., used] for x in along.x]))
    q = np.linalg.qr(_unit(np.hstack(nuisance))[0])[0]

    def projected(columns: Array) -> Array:
        rest: Array = columns - q @ (q.T @ columns)
        return rest

    used, values = law.coefficients != 0, [law.monomials(x) for x in along.x]
    shared = np.delete(used, i, axis=0).any(axis=0)
    carried = along.responses(i, values)
    columns, norm = _unit(projected(np.hstack([responses, np.where(shared, carried, 0.0)])))
    used = used[i]
    y = projected(along.residual) + projected(carried[:, used]) @ law.coefficients[i, used]
    n, present = along.samples, _left(projected(carried[:, used]), y)[0] + along.within
    present = n * np.log(present / n) + _cost(law, i, shared, n)
    found = [Choice(None, law.coefficients[i], 0.0)]
    here = {w.tobytes() for w in law.exponents[used]}
    for level in best_subsets(columns, y, 4, 40, alike=0.9999, children=20, pairs=True):
        for subset in level:
            own = list(subset)
            if {w.tobytes() for w in pool.rows[own]} == here:
                continue
            left, a = _left(columns[:, subset], y)
            gain = present - n * np.log((left + along.within) / n) - pool.cost[own].sum()
            if gain + pool.saved[own].sum() > pool.least_gain(own):
                found.append(Choice(subset, a / norm[own], float(gain)))
    return sorted(found, key=lambda c: -c.gain)[:30]


def _cost(law: PowerSum, i: int, shared: Mask, samples: int) -> float:
    """Compute the penalty of one equation's terms; shared monomials cost only a coefficient."""
    assert law.features is not None
    a = np.where((np.arange(law.n_states)[:, None] == i) & ~shared, law.coefficients, 0.0)
    coefficients = np.count_nonzero(law.coefficients[i, shared]) * constant_penalty(law.n_states, samples)
    one = PowerSum(a, law.exponents, law.features).merged().compact()
    free, n = all_free(one), law.n_states
    whole = one.exponents == np.round(one.exponents)
    if one.features is not None:
        rates = [n + k for k, f in enumerate(one.features.functions) if power_is_rate(f)]
        whole[:, rates] = False
    return cost(one, (free[0], free[1] & ~whole, free[2], np.zeros_like(free[3])), samples) + coefficients


def _costs(grid: Terms, features: Features, worth: float) -> Array:
    """Compute the penalty of each candidate as a term; rates count as fitted."""
    rates = np.array([False] * features.states + [power_is_rate(f) for f in features.functions])
    fitted = np.count_nonzero(grid.rows[:, rates], axis=1)
    held = np.array([sum(snap_penalty(float(v)) for v in row[row != 0]) for row in grid.rows[:, ~rates]])
    chosen = np.count_nonzero(grid.rows[:, features.states :], axis=1)
    costs: Array = held + worth * (1.0 + fitted) + FUNCTION_COST * chosen
    return costs


def _unit(columns: Array) -> tuple[Array, Array]:
    """Scale columns to norm 1, negligible ones to 0, and return the norms."""
    norm = column_norms(columns)
    usable = np.isfinite(norm) & (norm > 1e-9 * np.max(norm, where=np.isfinite(norm), initial=0.0))
    norm = np.where(usable, norm, 1.0)
    return np.where(usable, columns / norm, 0.0), norm


def _left(columns: Array, y: Array) -> tuple[float, Array]:
    """Fit y by columns; return the sum of squared residuals and the coefficients."""
    a = np.asarray(np.linalg.lstsq(columns, y, rcond=1e-10)[0], dtype=np.float64)
    return max(float(np.sum((y - columns @ a) ** 2)), ABOVE_ZERO), a


def _combined(choices: Sequence[Sequence[Choice]], pool: _Pool) -> list[tuple[Choice, ...]]:
    """Combine one choice per equation; return the combinations with the largest total gain and some new term.

    The shape of a term shared by equations is charged once, since its constant is fitted to both.
    """

    def gain(picks: tuple[Choice, ...]) -> float:
        used = [c for pick in picks for c in set(pick.terms or ())]
        return sum(pick.gain for pick in picks) + sum(float(pool.saved[c]) * (used.count(c) - 1) for c in set(used))

    beam: list[tuple[Choice, ...]] = [()]
    for own in choices:
        longer = ((*picks, c) for picks, c in itertools.product(beam, own))
        beam = heapq.nlargest(50, longer, key=gain)
    found = []
    for picks in beam:
        used = [c for pick in picks for c in pick.terms or ()]
        if used and gain(picks) > pool.least_gain(used):
            found.append(picks)
    return found[:8]


def _law(law: PowerSum, grid: Terms, equations: Indices, picks: Sequence[Choice]) -> PowerSum:
    """Build the law from the terms chosen for its equations."""
    present, rows, columns = np.zeros_like(law.coefficients), [*law.exponents], list[Array]()
    for e, pick in zip(equations, picks, strict=True):
        if pick.terms is None:
            present[e] = law.coefficients[e]
            continue
        for c, a in zip(pick.terms, pick.coefficients, strict=True):
            if c >= len(grid):
                present[e, c - len(grid)] += a
                continue
            rows.append(np.pad(grid.rows[c], (0, law.exponents.shape[1] - grid.rows.shape[1])))
            columns.append(a * np.eye(law.n_states)[e])
    return PowerSum(np.column_stack([present, *columns]), np.array(rows), law.features).merged().compact()
