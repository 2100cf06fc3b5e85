"""Warm start: a law grown one product of powers at a time on the integral form.

The coefficients are linear given the exponents and are eliminated (variable projection), so
that only exponents are searched: the candidates of a grid by what they would explain, then all
exponents together by Levenberg-Marquardt. Each law refines the path of the states between the
samples, which takes the error of the interpolation out of its own residuals. From rich laws
single constants are removed, weakest first; an information criterion ranks what it meets.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from odediscovery.integral import Integral, Path
from odediscovery.monitor import Monitor
from odediscovery.powersum import Array, PowerSum
from odediscovery.series import TimeSeries

GRID = (-2.0, -1.0, -0.5, 0.5, 1.0, 1.5, 2.0)
WIDE_GRID = (-1.0, 0.5, 1.0)
WHOLE_GRID = (1.0, 2.0, 3.0)
LEAST, MOST = -3.0, 4.0
# Relative residual that counts as none.
FLOOR = 1e-6
# New monomials tried on every law, and how alike (correlation) two of them may be.
TRIED, ALIKE = 6, 0.98
RIDGE = 1e-11


@dataclass(frozen=True, eq=False)
class Model:
    """A law on its own path.

    Args:
        exponents: W, [monomials, states].
        used: which coefficients are free, bool [states, monomials]; the others are 0.
        powers: which exponents are non-zero, bool [monomials, states].
        path: the states between the samples.
        coefficients: A, [states, monomials].
        squares: mean square residual of every state, [states].
        score: N ln(squares + floor^2) summed over the states.
    """

    exponents: Array
    used: NDArray[np.bool_]
    powers: NDArray[np.bool_]
    path: Path
    coefficients: Array
    squares: Array
    score: float

    @property
    def law(self) -> PowerSum:
        return PowerSum(self.coefficients, self.exponents)

    @property
    def size(self) -> int:
        """Constants of the law."""
        return int(self.used.sum() + self.powers.sum())


@dataclass(frozen=True, eq=False)
class Linear:
    """Least squares for the coefficients of all states at once.

    q [states, samples, m] and r [states, m, m] of the scaled columns, scale [states, m].
    """

    q: Array
    r: Array
    scale: Array
    coefficients: Array
    residual: Array


def solve(columns: Array, target: Array, used: NDArray[np.bool_]) -> Linear:
    """min |target_i - columns_i a_i| over the used coefficients of every state i."""
    n, samples, m = columns.shape
    scale = np.sqrt(np.einsum("itm,itm->im", columns, columns))
    scale = np.where(used & (scale > 0), scale, 1.0)
    stacked = np.zeros((n, samples + m, m))
    stacked[:, :samples] = np.where(used[:, None, :], columns / scale[:, None, :], 0.0)
    diagonal = np.arange(m)
    # Unused columns are unit vectors of their own rows: their coefficient becomes 0.
    stacked[:, samples + diagonal, diagonal] = np.where(used, RIDGE, 1.0)
    q, r = np.linalg.qr(stacked)
    q = q[:, :samples]
    a = np.linalg.solve(r, np.einsum("itm,it->im", q, target)[:, :, None])[:, :, 0]
    residual = target - np.einsum("itm,im->it", stacked[:, :samples], a)
    return Linear(q, r, scale, a / scale, residual)


@dataclass(frozen=True, eq=False)
class Fit:
    """The likelihood of laws on one set of samples.

    Args:
        problem: the integral form.
        counts: residuals of every state, [states].
        floor: mean squares that count as none, [states].
        alive: states that change, bool [states].
    """

    problem: Integral
    counts: Array
    floor: Array
    alive: NDArray[np.bool_]

    def score(self, squares: Array) -> float:
        return float(np.sum((self.counts * np.log(squares + self.floor))[self.alive]))

    def criterion(self, model: Model) -> float:
        """Bayes' information criterion."""
        return model.score + model.size * float(np.log(self.counts.sum()))

    def model(self, exponents: Array, used: NDArray[np.bool_], powers: NDArray[np.bool_],
              path: Path) -> Model:  # fmt: skip
        linear = solve(self.problem.columns(path, exponents), self.problem.target, used)
        squares = np.sum(linear.residual**2, axis=1) / self.counts
        return Model(exponents, used, powers, path, linear.coefficients, squares,
                     self.score(squares))  # fmt: skip

    def empty(self) -> Model:
        n = len(self.alive)
        squares = np.sum(self.problem.target**2, axis=1) / self.counts
        return Model(np.zeros((0, n)), np.zeros((n, 0), dtype=bool), np.zeros((0, n), dtype=bool),
                     self.problem.interpolated(), np.zeros((n, 0)), squares,
                     self.score(squares))  # fmt: skip

    def places(self, model: Model) -> NDArray[np.int64]:
        """Free exponents as (monomial, state), [places, 2]."""
        result: NDArray[np.int64] = np.argwhere(model.powers & ~self.problem.integer)
        return result

    def jacobian(self, model: Model, linear: Linear, places: NDArray[np.int64]) -> Array:
        """d residual / d exponent with the coefficients held, [states, samples, places]."""
        monomials = model.path.monomials(model.exponents)
        nodes = monomials[:, :, places[:, 0]] * model.path.log[:, :, places[:, 1]]
        columns = self.problem.reduced(self.problem.cumulative(nodes)[None])
        result: Array = -columns * linear.coefficients[:, None, places[:, 0]]
        return result

    def optimised(self, model: Model, steps: int = 15) -> Model:
        """All free exponents by Levenberg-Marquardt with projected coefficients."""
        places = self.places(model)
        if not len(places):
            return model
        damping = 1e-3
        rows, states = places.T
        linear = None
        for _ in range(steps):
            if linear is None:
                columns = self.problem.columns(model.path, model.exponents)
                linear = solve(columns, self.problem.target, model.used)
                weight = np.where(self.alive, 1.0 / np.sqrt(model.squares + self.floor), 0.0)
                jac = self.jacobian(model, linear, places)
                jac = jac - linear.q @ (linear.q.transpose(0, 2, 1) @ jac)
                jac = (jac * weight[:, None, None]).reshape(-1, len(places))
                normal = jac.T @ jac
                gradient = jac.T @ (linear.residual * weight[:, None]).ravel()
            diagonal = np.diag(normal)
            shift = -np.linalg.solve(
                normal + np.diag(damping * diagonal + 1e-12 * diagonal.max(initial=0.0) + 1e-300),
                gradient,
            )
            shift = np.clip(shift, -0.5, 0.5)
            w = model.exponents.copy()
            w[rows, states] = np.clip(w[rows, states] + shift, LEAST, MOST)
            after = self.model(w, model.used, model.powers, model.path)
            gain = model.score - after.score
            if np.isfinite(gain) and gain > 0:
                model, damping, linear = after, max(damping / 10, 1e-9), None
                if gain < 1e-3:
                    break
            else:
                damping *= 10
                if damping > 1e4:
                    break
        return model

    def settled(self, model: Model, rounds: int = 3) -> Model:
        """Optimised and its path refined in turn."""
        for _ in range(rounds):
            before = model.score
            path = self.problem.refined(model.path, model.law)
            after = self.model(model.exponents, model.used, model.powers, path)
            after = self.optimised(after)
            if not np.isfinite(after.score) or after.score >= before:
                break
            model = after
            if before - after.score < 1.0:
                break
        return model


def grid(integer: NDArray[np.bool_], alive: NDArray[np.bool_]) -> Array:
    """Exponents of candidate monomials: one or two states on a fine grid, three on a coarse."""
    n = len(integer)
    states = np.flatnonzero(alive)
    rows = [np.zeros(n)]
    for size in (1, 2, 3):
        for chosen in itertools.combinations(states, size):
            choices = [
                WHOLE_GRID[: 3 if size < 3 else 1] if integer[k]
                else (GRID if size < 3 else WIDE_GRID)
                for k in chosen
            ]  # fmt: skip
            for values in itertools.product(*choices):
                row = np.zeros(n)
                row[list(chosen)] = values
                rows.append(row)
    return np.stack(rows)


def proposals(fit: Fit, model: Model, candidates: Array) -> list[Array]:
    """The candidates that explain most of the residuals, no two of them alike."""
    linear = solve(
        fit.problem.columns(model.path, model.exponents), fit.problem.target, model.used
    )
    columns = fit.problem.columns(model.path, candidates)
    norm = np.linalg.norm(columns, axis=1, keepdims=True)
    columns = columns / np.where(norm > 0, norm, 1.0)
    columns = columns - linear.q @ (linear.q.transpose(0, 2, 1) @ columns)
    norm = np.linalg.norm(columns, axis=1)
    ok = norm > 1e-7
    columns = np.where(ok[:, None, :], columns / np.where(ok, norm, 1.0)[:, None, :], 0.0)
    explained = np.einsum("itc,it->ic", columns, linear.residual) ** 2 / fit.counts[:, None]
    left = np.maximum(model.squares[:, None] - explained, 0.0) + fit.floor[:, None]
    gain = fit.counts[:, None] * np.log((model.squares + fit.floor)[:, None] / left)
    gain[~fit.alive] = 0.0
    total = gain.sum(axis=0)
    chosen: list[int] = []
    for c in np.argsort(-total, kind="stable"):
        alike = [
            np.max(np.abs(np.einsum("it,it->i", columns[:, :, c], columns[:, :, d]))[fit.alive])
            for d in chosen
        ]
        if max(alike, default=0.0) < ALIKE:
            chosen.append(int(c))
        if len(chosen) == TRIED:
            break
    return [candidates[c] for c in chosen]


def extended(fit: Fit, model: Model, row: Array) -> Model:
    """The law with one more monomial, optimised."""
    exponents = np.vstack([model.exponents, row])
    used = np.hstack([model.used, fit.alive[:, None]])
    powers = np.vstack([model.powers, row != 0])
    if fit.problem.integer.sum() < len(row):
        # Every fractional state may enter the new monomial.
        pass
    return fit.optimised(fit.model(exponents, used, powers, model.path))


def wald(fit: Fit, model: Model) -> tuple[Array, Array]:
    """(constant / standard error)^2 of coefficients [states, m] and exponents [m, states]."""
    linear = solve(fit.problem.columns(model.path, model.exponents), fit.problem.target, model.used)
    weight = np.where(fit.alive, 1.0 / np.sqrt(model.squares + fit.floor), 0.0)
    places = np.argwhere(model.powers)
    jac = fit.jacobian(model, linear, places)
    inside = linear.q.transpose(0, 2, 1) @ jac
    projected = (jac - linear.q @ inside) * weight[:, None, None]
    projected = projected.reshape(linear.residual.size, len(places))
    free = ~fit.problem.integer[places[:, 1]]
    cov = np.zeros((len(places), len(places)))
    p = projected[:, free]
    cov[np.ix_(free, free)] = np.linalg.pinv(p.T @ p, rcond=1e-14, hermitian=True)
    inverse = np.linalg.inv(linear.r)
    change = inverse @ inside
    variance = np.einsum("imk,imk->im", inverse, inverse) / np.maximum(weight, 1e-300)[:, None] ** 2
    variance = variance + np.einsum("imp,pr,imr->im", change, cov, change)
    scaled = linear.coefficients * linear.scale
    of_a = np.where(model.used, scaled**2 / np.maximum(variance, 1e-300), np.inf)
    of_w = np.full(model.powers.shape, np.inf)
    single = np.einsum("tp,tp->p", projected, projected)
    curvature = np.where(free, np.diag(cov), 1.0 / np.maximum(single, 1e-300))
    values = model.exponents[places[:, 0], places[:, 1]]
    of_w[places[:, 0], places[:, 1]] = values**2 / np.maximum(curvature, 1e-300)
    return of_a, of_w


def reduced(fit: Fit, model: Model, used: NDArray[np.bool_], powers: NDArray[np.bool_]) -> Model:
    """The law with some constants set to 0, tidied and refitted."""
    keep = used.any(axis=0)
    used, powers = used[:, keep], powers[keep]
    exponents = np.where(powers, model.exponents[keep], 0.0)
    # Monomials that have become equal are one.
    rows: list[int] = []
    for j in range(len(exponents)):
        for k in rows:
            if np.max(np.abs(exponents[j] - exponents[k])) < 1e-6:
                used[:, k] |= used[:, j]
                break
        else:
            rows.append(j)
    return fit.optimised(fit.model(exponents[rows], used[:, rows], powers[rows], model.path))


def simpler(fit: Fit, model: Model, tries: int = 3) -> Model | None:
    """The best law with one constant less, or with two neighbouring monomials merged."""
    of_a, of_w = wald(fit, model)
    a_order = [(of_a[i, j], 0, i, j) for i, j in np.argwhere(model.used)]
    w_order = [(of_w[j, k], 1, j, k) for j, k in np.argwhere(model.powers)]
    results = []
    for _, kind, i, j in sorted(a_order + w_order)[:tries]:
        used, powers = model.used.copy(), model.powers.copy()
        (powers if kind else used)[i, j] = False
        if used.any():
            results.append(reduced(fit, model, used, powers))
    merged = _merged_pair(fit, model)
    if merged is not None:
        results.append(merged)
    return min(results, key=fit.criterion, default=None)


def _merged_pair(fit: Fit, model: Model) -> Model | None:
    m = len(model.exponents)
    pairs = [
        (np.max(np.abs(model.exponents[a] - model.exponents[b])), a, b)
        for a, b in itertools.combinations(range(m), 2)
    ]
    if not pairs:
        return None
    distance, a, b = min(pairs)
    if distance > 0.5:
        return None
    keep = [j for j in range(m) if j != b]
    used = model.used.copy()
    used[:, a] |= used[:, b]
    weight = np.abs(model.coefficients).sum(axis=0)
    exponents = model.exponents.copy()
    share = weight[a] / max(weight[a] + weight[b], 1e-300)
    powers = model.powers.copy()
    powers[a] |= powers[b]
    mixed = share * exponents[a] + (1 - share) * exponents[b]
    exponents[a] = np.where(fit.problem.integer, np.round(mixed), mixed)
    powers[a] &= exponents[a] != 0
    return fit.optimised(fit.model(exponents[keep], used[:, keep], powers[keep], model.path))


def eliminated(fit: Fit, model: Model, monitor: Monitor) -> Iterable[Model]:
    """Every law on the way from a rich one down to a single constant."""
    yield model
    while model.size > 1 and monitor.stopping() is None:
        after = simpler(fit, model)
        if after is None:
            return
        after = fit.settled(after, 2)
        yield after
        model = after


def signature(model: Model) -> frozenset[tuple[bytes, bytes]]:
    """The structure: which monomial has which powers and stands in which equations."""
    return frozenset(
        (model.used[:, j].tobytes(), model.powers[j].tobytes()) for j in range(len(model.powers))
    )


def grow(
    series: TimeSeries, noise: Array, *, integer: NDArray[np.bool_], max_monomials: int = 8,
    beam: int = 3, monitor: Monitor | None = None,
) -> tuple[PowerSum, ...]:  # fmt: skip
    monitor = monitor or Monitor()
    problem = Integral.of(series, noise, integer)
    counts = np.maximum(problem.row.sum(axis=1), 1).astype(float)
    size = np.sum(problem.target**2, axis=1) / counts
    alive = size > 1e-24
    noisy = np.where(problem.smoothed, noise**2, 2 * noise**2)
    fit = Fit(problem, counts, np.maximum(FLOOR**2 * size, 1e-30), alive)
    candidates = grid(integer, alive)
    levels = [[fit.empty()]]
    while len(levels) <= max_monomials and monitor.stopping() is None:
        found: list[Model] = []
        for model in levels[-1]:
            for row in proposals(fit, model, candidates):
                found.append(extended(fit, model, row))
        found.sort(key=lambda m: m.score)
        kept: list[Model] = []
        for model in found:
            if all(abs(model.score - k.score) > 1e-2 for k in kept):
                kept.append(model)
            if len(kept) == beam:
                break
        kept = sorted((fit.settled(m) for m in kept), key=lambda m: m.score)
        if DEBUG:
            print(len(levels), [round(m.score, 1) for m in kept],
                  [f"{np.sqrt(np.max(m.squares/size)):.1e}" for m in kept])
        gain = levels[-1][0].score - kept[0].score
        if not gain > 2 * np.log(counts.sum()):
            break
        levels.append(kept)
        if np.all(kept[0].squares[alive] < fit.floor[alive]):
            break
    best: dict[frozenset[tuple[bytes, bytes]], Model] = {}
    for start in [m for level in levels[-2:] for m in level if len(m.powers)]:
        for model in eliminated(fit, start, monitor):
            key = signature(model)
            if key not in best or model.score < best[key].score:
                best[key] = model
    ranked = sorted(best.values(), key=fit.criterion)
    return tuple(m.law for m in ranked[:12])


DEBUG = False
