"""Warm start: a law grown one product of powers at a time on the integral form.

The coefficients are linear given the exponents and are eliminated (variable projection), so
that only exponents are searched: the candidates of a grid by what they would explain, then all
exponents together by Levenberg-Marquardt. Each law refines the path of the states between the
samples, which takes the error of the interpolation out of its own residuals. From rich laws
single constants are removed, weakest first; an information criterion ranks what it meets.

Equations are grown one by one and joined, monomials that coincide being shared, and also all
at once: the first is the smaller search, the second has more data for every exponent.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from odediscovery.integral import Integral, Path
from odediscovery.monitor import Monitor
from odediscovery.powersum import Array, PowerSum
from odediscovery.projection import Fit, Mask, Model
from odediscovery.series import TimeSeries

# Exponents of candidates made of one or two states, of three, and of sign-changing states.
GRID = (-2.0, -1.0, -0.5, 0.5, 1.0, 1.5, 2.0)
COARSE_GRID = (-1.0, 0.5, 1.0)
WHOLE_GRID = (1.0, 2.0, 3.0)
# Residual, in units of what is expected, that counts as none.
FLOOR = 0.1
# New monomials tried on every law, and how alike (correlation) two of them may be.
TRIED, ALIKE = 6, 0.98
# Monomials of separately grown equations with exponents this close are taken as one.
SHARED = 0.05
# Terms up to which an exact equation needs no second look with the monomials of the others.
PLAIN = 3
# Laws returned at most, and times the equations are grown anew on the path that they refine.
LISTED, ROUNDS = 12, 6


def candidates(integer: Mask, changing: Mask) -> Array:
    """Exponents of candidate monomials of at most three states, [candidates, states]."""
    n = len(integer)
    rows = [np.zeros(n)]
    for size in (1, 2, 3):
        for chosen in itertools.combinations(np.flatnonzero(changing), size):
            choices = [
                (WHOLE_GRID[:1] if size == 3 else WHOLE_GRID) if integer[k]
                else (COARSE_GRID if size == 3 else GRID)
                for k in chosen
            ]  # fmt: skip
            for values in itertools.product(*choices):
                row = np.zeros(n)
                row[list(chosen)] = values
                rows.append(row)
    return np.stack(rows)


def proposals(fit: Fit, model: Model, grid: Array, columns: Array) -> list[Array]:
    """The rows of the grid that explain most of the residuals, no two of them alike."""
    linear = fit.linear(model)
    columns = linear.projected(columns)
    norm = np.linalg.norm(columns, axis=1, keepdims=True)
    columns = np.where(norm > 1e-7, columns / np.where(norm > 1e-7, norm, 1.0), 0.0)
    explained = np.einsum("itc,it->ic", columns, linear.residual) ** 2 / fit.counts[:, None]
    left = np.maximum(model.squares[:, None] - explained, 0.0) + fit.floor[:, None]
    gain = fit.counts[:, None] * np.log((model.squares + fit.floor)[:, None] / left)
    chosen: list[int] = []
    for c in np.argsort(-gain.sum(axis=0), kind="stable"):
        cosines = np.einsum("it,itd->id", columns[:, :, c], columns[:, :, chosen])
        if not chosen or np.abs(cosines).max(axis=0).max() < ALIKE:
            chosen.append(int(c))
        if len(chosen) == TRIED:
            break
    return [grid[c] for c in chosen]


def pairs(fit: Fit, grid: Array, columns: Array) -> list[Array]:
    """The pairs of rows of the grid that explain most of one equation together."""
    unit, y = columns[0], fit.target[0]
    gram, b = unit.T @ unit, unit.T @ y
    a, c = np.triu_indices(len(grid), 1)
    rho = gram[a, c]
    apart = 1.0 - rho**2
    explained = (b[a] ** 2 + b[c] ** 2 - 2 * rho * b[a] * b[c]) / np.maximum(apart, 1e-7)
    explained[apart < 1e-7] = -np.inf
    taken = np.zeros(len(grid))
    chosen: list[Array] = []
    for k in np.argsort(-explained, kind="stable"):
        # Neighbours of a pair on the grid lead to the same law.
        if max(taken[a[k]], taken[c[k]]) < 2:
            chosen.append(grid[[a[k], c[k]]])
            taken[[a[k], c[k]]] += 1
        if len(chosen) == TRIED:
            break
    return chosen


def extended(fit: Fit, model: Model, row: Array) -> Model:
    """The law with one more monomial in every equation, optimised."""
    everywhere = np.ones((len(fit.equations), len(np.atleast_2d(row))), dtype=bool)
    return fit.optimised(
        fit.model(
            np.vstack([model.exponents, row]),
            np.hstack([model.used, everywhere]),
            np.vstack([model.powers, row != 0]),
            model.path,
        )
    )


def empty(fit: Fit, path: Path) -> Model:
    """No monomials."""
    n = len(fit.problem.row)
    used, powers = np.zeros((len(fit.equations), 0), dtype=bool), np.zeros((0, n), dtype=bool)
    return fit.model(np.zeros((0, n)), used, powers, path)


def climb(fit: Fit, path: Path, grid: Array, most: int, beam: int,
          monitor: Monitor) -> list[list[Model]]:  # fmt: skip
    """The best laws with 1, 2, ... monomials on one path, until one more gains nothing."""
    levels = [[empty(fit, path)]]
    penalty = 2 * np.log(fit.counts.sum())
    columns = fit.problem.columns(path, grid, fit.equations)
    norm = np.linalg.norm(columns, axis=1, keepdims=True)
    columns = columns / np.where(norm > 0, norm, 1.0)
    while len(levels) <= most and monitor.stopping() is None:
        wider = (
            (model, row) for model in levels[-1] for row in proposals(fit, model, grid, columns)
        )
        # One level of a long series takes minutes: a limit must hold within it.
        found = [
            extended(fit, model, row)
            for model, row in itertools.takewhile(lambda _: monitor.stopping() is None, wider)
        ]
        if not found:
            break
        if len(levels) == 2 and len(fit.equations) == 1:
            found += [extended(fit, levels[0][0], pair) for pair in pairs(fit, grid, columns)]
        kept: list[Model] = []
        for model in sorted(found, key=lambda m: m.score):
            if all(abs(model.score - k.score) > 1e-2 for k in kept):
                kept.append(model)
            if len(kept) == beam:
                break
        levels.append(kept)
        # Two terms may explain what neither explains alone: one idle level is allowed.
        if len(levels) > 2 and levels[-3][0].score - kept[0].score < 2 * penalty:
            break
        if fit.exact(kept[0]):
            break
    return levels[1:]


def _tidied(fit: Fit, model: Model, used: Mask, powers: Mask) -> Model:
    """The law with fewer constants: empty and coinciding monomials go, the rest is refitted."""
    exponents = np.where(powers, model.exponents, 0.0)
    used, rows = used.copy(), list[int]()
    for j in np.flatnonzero(used.any(axis=0)):
        twin = next((k for k in rows if np.abs(exponents[j] - exponents[k]).max() < 1e-6), None)
        if twin is None:
            rows.append(int(j))
        else:
            used[:, twin] |= used[:, j]
    return fit.optimised(fit.model(exponents[rows], used[:, rows], powers[rows], model.path))


def _merged(fit: Fit, model: Model, distance: float = 0.5) -> Model | None:
    """The two nearest monomials made one, if any are near."""
    pairs = [
        (float(np.abs(model.exponents[a] - model.exponents[b]).max()), a, b)
        for a, b in itertools.combinations(range(len(model.exponents)), 2)
    ]
    nearest, a, b = min(pairs, default=(np.inf, 0, 0))
    if nearest > distance:
        return None
    used, powers, exponents = model.used.copy(), model.powers.copy(), model.exponents.copy()
    weight = np.abs(model.coefficients[:, [a, b]]).sum(axis=0)
    share = weight[0] / max(weight.sum(), 1e-300)
    mixed = share * exponents[a] + (1 - share) * exponents[b]
    exponents[a] = np.where(fit.problem.integer, np.round(mixed), mixed)
    used[:, a] |= used[:, b]
    powers[a] = exponents[a] != 0
    keep = np.arange(len(exponents)) != b
    return fit.optimised(fit.model(exponents[keep], used[:, keep], powers[keep], model.path))


def simpler(fit: Fit, model: Model, tries: int = 3) -> Model | None:
    """The best law with one constant less or two monomials made one."""
    of_a, of_w = fit.wald(model)
    places = [(of_a[i, j], 0, i, j) for i, j in np.argwhere(model.used)]
    places += [(of_w[j, k], 1, j, k) for j, k in np.argwhere(model.powers)]
    found = []
    for _, is_power, row, column in sorted(places)[:tries]:
        used, powers = model.used.copy(), model.powers.copy()
        (powers if is_power else used)[row, column] = False
        if used.any():
            found.append(_tidied(fit, model, used, powers))
    merged = _merged(fit, model)
    return min([*found, *([merged] if merged else [])], key=fit.criterion, default=None)


def descent(fit: Fit, model: Model, monitor: Monitor, *, settle: bool) -> Iterator[Model]:
    """Every law on the way from a rich one to a single constant."""
    yield model
    while model.size > 1 and monitor.stopping() is None:
        after = simpler(fit, model)
        if after is None:
            return
        model = fit.settled(after) if settle else after
        yield model


def best_of_each(fit: Fit, models: Sequence[Model]) -> list[Model]:
    """The best model of every structure, by the criterion."""
    best: dict[frozenset[tuple[bytes, bytes]], Model] = {}
    for model in models:
        if model.structure not in best or model.score < best[model.structure].score:
            best[model.structure] = model
    return sorted(best.values(), key=fit.criterion)


def single_laws(fit: Fit, i: int, path: Path, grid: Array, most: int, beam: int,
                monitor: Monitor) -> list[Model]:  # fmt: skip
    """Laws for one equation alone, the best first, judged with the error of the path."""
    one = Fit(fit.problem, fit.equations[[i]], fit.counts[[i]], fit.floor[[i]])
    levels = climb(one, path, grid, most, beam, monitor)
    if not levels:
        return []
    judge = one
    starts = [m for level in levels[-2:] for m in level]
    found = [m for s in starts for m in descent(judge, s, monitor, settle=False)]
    return best_of_each(judge, found)


def joined(fit: Fit, parts: Sequence[Model], path: Path) -> Model:
    """The laws of single equations as one law with shared monomials."""
    exponents: list[Array] = []
    used: list[Mask] = []
    for i, part in enumerate(parts):
        for row in part.exponents:
            near = [k for k, w in enumerate(exponents) if np.abs(w - row).max() < SHARED]
            same = [k for k in near if np.array_equal(exponents[k] != 0, row != 0)]
            if not same:
                exponents.append(row)
                used.append(np.zeros(len(parts), dtype=bool))
            used[same[0] if same else -1][i] = True
    w = np.array(exponents).reshape(-1, len(fit.problem.row))
    uses = np.array(used).reshape(-1, len(parts)).T
    return fit.settled(fit.optimised(fit.model(w, uses, w != 0, path)))


def separately(
    fit: Fit, grid: Array, most: int, beam: int, monitor: Monitor
) -> tuple[Fit, list[Model]]:
    """Equations grown one by one and joined, again and again on the path that this refines.

    What one equation is made of is a candidate for the others in the next round.
    """
    path = fit.problem.interpolated()
    fit = on_path(fit, path, grid)
    found: list[Model] = []
    choices = grid
    for _ in range(ROUNDS):
        singles = [
            single_laws(fit, i, path, choices, most, beam, monitor)
            for i in range(len(fit.equations))
        ]
        if not all(singles):
            break
        law = joined(fit, [laws[0] for laws in singles], path)
        path = law.path
        fit = on_path(fit, path, grid)
        law = fit.settled(fit.model(law.exponents, law.used, law.powers, path))
        if found and fit.criterion(law) > fit.criterion(found[-1]) - 1.0:
            break
        found.append(law)
        choices = np.vstack([grid, *[m.exponents for laws in singles for m in laws[:1]]])
        if fit.exact(law) and law.used.sum(axis=1).max() <= PLAIN:
            break
    return fit, found[::-1]


def on_path(fit: Fit, path: Path, grid: Array) -> Fit:
    """The same fit with intervals weighted by how certain their integrals are on this path."""
    problem = fit.problem.weighted(path, grid)
    e = fit.equations
    return Fit(problem, e, problem.counts[e], fit.floor)


def grow(
    series: TimeSeries, noise: Array, *, integer: Mask, max_monomials: int = 8, beam: int = 3,
    monitor: Monitor | None = None,
) -> tuple[PowerSum, ...]:  # fmt: skip
    """Laws dx_i/dt = sum_j A[i, j] prod_k x_k^W[j, k] of several sizes, the best first.

    Args:
        series: dimensionless: states divided by their rms, time by the sample interval.
        noise: standard deviation of the noise of every state [states], 0 for none.
        integer: states that change sign and take whole powers only [states].
        max_monomials: most monomials of one law.
        beam: laws kept of each size on the way up.
        monitor: can end the growing early; what was found so far is returned.
    """
    monitor = monitor or Monitor()
    problem = Integral.of(series, noise, integer)
    spread = np.nanmax(problem.values, axis=0) - np.nanmin(problem.values, axis=0)
    changing = spread > 1e-12
    equations = np.flatnonzero(changing)
    fit = Fit(problem, equations, problem.counts[equations], np.full(len(equations), FLOOR**2))
    grid = candidates(integer, changing)
    fit, starts = separately(fit, grid, max_monomials, beam, monitor)
    if len(equations) > 1 and not any(fit.exact(m) for m in starts):
        path = starts[0].path if starts else problem.interpolated()
        levels = climb(fit, path, grid, max_monomials, beam, monitor)
        starts += [fit.settled(m) for level in levels[-2:] for m in level]
    found = [m for start in starts[:1] for m in descent(fit, start, monitor, settle=True)]
    return tuple(fit.law(m) for m in best_of_each(fit, found + starts)[:LISTED])
