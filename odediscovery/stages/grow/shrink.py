"""Simpler laws from rich ones on the integral form, one constant less at a time.

The weakest constants by Wald statistic are left out side by side and the rest is refitted; two
monomials that became alike are made one, so are two sums over the same monomials, and an
exponential that is a straight line over the data becomes one. The best by the criterion goes on.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from odediscovery.laws.power_sum import Sums
from odediscovery.runtime.arrays import ABOVE_ZERO, Mask
from odediscovery.runtime.monitor import Monitor
from odediscovery.stages.grow.side_by_side import optimise_all, settled
from odediscovery.stages.grow.variable_projection import Draft, Fit, Projected, exp_features
from odediscovery.stages.grow.wald import wald

# Rates of exponentials, 1 / rms of the state, below which straight lines are tried for them.
SLOW = 0.3


def _tidied(fit: Fit, model: Draft, used: Mask, powers: Mask, weights: Mask) -> Draft:
    """The law with fewer constants: empty and coinciding monomials go."""
    first = fit.problem.features.size
    exponents, used, rows = np.where(powers, model.exponents, 0.0), used.copy(), list[int]()
    exponents[:, first:][:, ~weights.any(axis=1)] = 0.0
    for j in np.flatnonzero(used.any(axis=0)):
        twin = next((k for k in rows if np.abs(exponents[j] - exponents[k]).max() < 1e-6), None)
        if twin is None:
            rows.append(int(j))
        else:
            used[:, twin] |= used[:, j]
    w, used = exponents[rows], used[:, rows]
    kept = np.flatnonzero(np.any(w[:, first:] != 0, axis=0))
    sums = Sums(np.where(weights, model.sums.weights, 0.0), model.sums.exponents).select(kept)
    w = w[:, [*range(first), *(first + kept)]]
    return Draft(w, used, w != 0, sums, model.path)


def _merged(fit: Fit, model: Projected, distance: float = 0.5) -> Draft | None:
    """The two nearest monomials made one, if any are near."""
    pairs = [
        (float(np.abs(model.exponents[a] - model.exponents[b]).max()), a, b)
        for a, b in itertools.combinations(range(len(model.exponents)), 2)
    ]
    nearest, a, b = min(pairs, default=(np.inf, 0, 0))
    if nearest > distance:
        return None
    used, exponents = model.used.copy(), model.exponents.copy()
    weight = np.abs(model.coefficients[:, [a, b]]).sum(axis=0)
    share = weight[0] / max(weight.sum(), ABOVE_ZERO)
    mixed = share * exponents[a] + (1 - share) * exponents[b]
    whole = np.zeros(len(mixed), dtype=bool)
    whole[: len(fit.problem.integer)] = fit.problem.integer
    exponents[a] = np.where(whole, np.round(mixed), mixed)
    used[:, a] |= used[:, b]
    keep = np.arange(len(exponents)) != b
    w = exponents[keep]
    return Draft(w, used[:, keep], w != 0, model.sums, model.path)


def _with_one_sum_less(fit: Fit, model: Projected) -> list[Draft]:
    """Sums over the same monomials made one."""
    first, found = fit.problem.features.size, []
    for a in range(len(model.sums)):
        later = np.arange(a + 1, len(model.sums))
        b = model.sums.select(later).alike(model.sums.select(np.array([a])), np.inf)
        if b is not None:
            w = model.exponents.copy()
            w[:, first + a] += w[:, first + later[b]]
            w[:, first + later[b]] = 0.0
            changed = Draft(w, model.used, w != 0, model.sums, model.path)
            found.append(_tidied(fit, changed, model.used, w != 0, model.sums.weights != 0))
    return found


def _without_slow_rates(fit: Fit, model: Projected) -> list[Draft]:
    """Exponentials that are straight lines over the data as such: exp(r x) ~ 1 + r x."""
    n, found = len(fit.problem.row), []
    for j, k in np.argwhere(model.powers):
        if k in exp_features(fit.problem) and abs(model.exponents[j, k]) < SLOW:
            w = model.exponents.copy()
            w[j, fit.problem.features.functions[k - n].state] += 1.0
            w[j, k] = 0.0
            found.append(Draft(w, model.used, w != 0, model.sums, model.path))
    return found


def simpler(fit: Fit, model: Projected, tries: int = 3) -> list[Draft]:
    """Laws with one constant less or two monomials made one, not refitted."""
    constants = (model.used, model.powers, model.sums.weights != 0)
    places = [
        (statistic[row, column], kind, row, column)
        for kind, (statistic, free) in enumerate(zip(wald(fit, model), constants, strict=True))
        for row, column in np.argwhere(free)
    ]
    found = [*_with_one_sum_less(fit, model), *_without_slow_rates(fit, model)]
    for _, kind, row, column in sorted(places)[:tries]:
        left = [free.copy() for free in constants]
        left[kind][row, column] = False
        if left[0].any():
            found.append(_tidied(fit, model, *left))
    merged = _merged(fit, model)
    return [*found, *([merged] if merged else [])]


def descents(fit: Fit, models: Sequence[Projected], monitor: Monitor, *, settle: bool) -> list[Projected]:
    """Every law on the way from each rich one to a single constant; all ways are gone side by side.

    Args:
        settle: whether every law refines its own path.
    """
    found, live = list(models), [model for model in models if model.size > 1]
    while live and monitor.stopping() is None:
        tried = [simpler(fit, model) for model in live]
        fitted = iter(optimise_all(fit, [model for own in tried for model in own]))
        best = [min(itertools.islice(fitted, len(own)), key=fit.criterion) for own in tried if own]
        found += (after := [settled(fit, model) for model in best] if settle else best)
        live = [model for model in after if model.size > 1]
    return found


def best_of_each(fit: Fit, models: Sequence[Projected]) -> list[Projected]:
    """The best model of every structure, by the criterion."""
    best: dict[object, Projected] = {}
    for model in models:
        if model.structure not in best or model.score < best[model.structure].score:
            best[model.structure] = model
    return sorted(best.values(), key=fit.criterion)
