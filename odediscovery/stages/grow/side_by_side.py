"""Fits of many small laws side by side: the steps of `Fit.optimised` on stacks of arrays.

    (J'J + lambda diag J'J) dW = -J'r    for every law at once, each with its own lambda

A law of three monomials is so small that calling NumPy takes ten times longer than its arithmetic.
Laws that have as many monomials, on one path, make a stack; those with sums, or on long series, whose
arithmetic is what takes long, are fitted one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from odediscovery.runtime.arrays import Array, Mask
from odediscovery.runtime.monitor import Monitor, check_time
from odediscovery.runtime.thresholds import Thresholds, threshold
from odediscovery.stages.grow.coefficients import COEFFICIENTS
from odediscovery.stages.grow.variable_projection import PROJECTION, Fit, Model, damped_steps, exponent_bounds

Index = NDArray[np.int64]


@dataclass(frozen=True)
class StackThresholds(Thresholds):
    """How many laws are fitted side by side."""

    most_values: int = threshold(
        1_000_000, "values of monomials at the nodes of one stack", origin="cost: a few arrays of 8 MB"
    )


STACK = StackThresholds()


@dataclass(frozen=True, eq=False)
class Stack:
    """Laws at some exponents, with the best coefficients.

    Args:
        exponents: W, [laws, monomials, features].
        values: of the monomials at the nodes, [intervals, nodes, laws, monomials].
        q: orthonormal columns that span those of the monomials, [laws, equations, samples, monomials].
        coefficients: A, [laws, equations, monomials].
        residual: [laws, equations, samples].
        squares: mean square residual of every equation, [laws, equations].
        score: the minimised likelihood, [laws].
    """

    exponents: Array
    values: Array
    q: Array
    coefficients: Array
    residual: Array
    squares: Array
    score: Array

    def take(self, laws: Index) -> Stack:
        """Some of the laws."""
        return Stack(**{f.name: getattr(self, f.name)[_place(f.name, laws)] for f in fields(self)})

    def put(self, laws: Index, others: Stack) -> None:
        """Others in the place of some of the laws."""
        for f in fields(self):
            getattr(self, f.name)[_place(f.name, laws)] = getattr(others, f.name)


def _place(name: str, laws: Index) -> tuple[slice | Index, ...]:
    return (slice(None), slice(None), laws) if name == "values" else (laws,)


def optimise_all(fit: Fit, models: Sequence[Model], monitor: Monitor | None = None, steps: int = 20) -> list[Model]:
    """All free exponents of every law by Levenberg-Marquardt, in the order of the laws.

    Args:
        fit: their likelihood.
        models: to begin with.
        monitor: once it asks to stop, laws that were not begun are left out.
        steps: most steps of a law.
    """
    found: dict[int, Model] = {}
    for alike in _stacks(fit, models):
        if found and monitor is not None and monitor.stopping() is not None:
            break
        own = [models[k] for k in alike]
        found |= zip(alike, _optimised(fit, own, steps) if own[1:] else [fit.optimised(own[0], steps)], strict=True)
    return [found[k] for k in sorted(found)]


def _stacks(fit: Fit, models: Sequence[Model]) -> Iterator[list[int]]:
    """Places of laws that may be fitted together."""
    kinds: dict[tuple[int, int, int], list[int]] = {}
    for k, model in enumerate(models):
        alone = k if len(model.sums) else -1
        kinds.setdefault((alone, id(model.path), len(model.exponents)), []).append(k)
    for (_, _, monomials), places in kinds.items():
        values = len(fit.problem.left) * models[places[0]].path.log.shape[1] * max(monomials, 1)
        together = max(STACK.most_values // values, 1)
        yield from (places[k : k + together] for k in range(0, len(places), together))


def _optimised(fit: Fit, models: Sequence[Model], steps: int) -> list[Model]:
    first = models[0]
    used = np.stack([m.used for m in models])
    at = _Places.of_models(fit, models)
    now = _evaluated(fit, first, np.stack([m.exponents for m in models]), used)
    laws, size = len(models), at.row.shape[1]
    normal, gradient = np.empty((laws, size, size)), np.empty((laws, size))
    damping, moved = np.full(laws, PROJECTION.first_damping), np.ones(laws, dtype=bool)
    live = np.flatnonzero(at.free.any(axis=(1, 2)))
    with np.errstate(all="ignore"):  # trial exponents may be anything
        for _ in range(steps):
            if not len(live):
                break
            if len(new := live[moved[live]]):
                normal[new], gradient[new] = _normal_equations(fit, first, now.take(new), at.take(new))
            shift = damped_steps(normal[live], gradient[live], damping[live])
            tried = _evaluated(fit, first, at.take(live).moved(now.exponents[live], shift), used[live])
            gain = now.score[live] - tried.score
            moved[live] = better = gain > 0
            now.put(live[better], tried.take(np.flatnonzero(better)))
            factor = PROJECTION.damping_factor
            lower = np.maximum(damping[live] / factor, PROJECTION.least_damping)
            damping[live] = np.where(better, lower, damping[live] * factor)
            ended = np.where(better, gain < PROJECTION.gain, damping[live] > PROJECTION.most_damping)
            live = live[~ended]
    return [
        Model(w, m.used, m.powers, m.sums, m.path, a, squares, float(score))
        for m, w, a, squares, score in zip(models, now.exponents, now.coefficients, now.squares, now.score, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class _Places:
    """Where exponents are free, and how far they may go.

    Args:
        row, of: monomials and features, [laws, places]; places beyond a law's own count as nothing.
        own: which places are its own, [laws, places].
        free: the same as a mask, [laws, monomials, features].
        least, most: of every exponent, [features].
    """

    row: Index
    of: Index
    own: Mask
    free: Mask
    least: Array
    most: Array

    @classmethod
    def of_models(cls, fit: Fit, models: Sequence[Model]) -> _Places:
        places = [fit.free_powers(m) for m in models]
        most = max(map(len, places))
        own = np.arange(most) < np.array([[len(p)] for p in places])
        index = np.zeros((len(models), most, 2), dtype=np.int64)
        index[own] = np.concatenate(places)
        free = np.zeros((len(models), *models[0].exponents.shape), dtype=bool)
        law, place = np.nonzero(own)
        free[law, index[law, place, 0], index[law, place, 1]] = True
        least, greatest = exponent_bounds(fit.problem, np.arange(models[0].exponents.shape[1]))
        return cls(index[..., 0], index[..., 1], own, free, least, greatest)

    def take(self, laws: Index) -> _Places:
        return _Places(self.row[laws], self.of[laws], self.own[laws], self.free[laws], self.least, self.most)

    def moved(self, exponents: Array, shift: Array) -> Array:
        """Exponents after a step, within their bounds, [laws, monomials, features]."""
        change = np.zeros_like(exponents)
        law, place = np.nonzero(self.own)
        step = shift.clip(-PROJECTION.longest, PROJECTION.longest)
        change[law, self.row[law, place], self.of[law, place]] = step[law, place]
        result: Array = np.where(self.free, (exponents + change).clip(self.least, self.most), exponents)
        return result


def _evaluated(fit: Fit, like: Model, exponents: Array, used: Mask) -> Stack:
    """Laws with the best coefficients, as `solve` has them."""
    check_time()
    laws, m, _ = exponents.shape
    path, samples, n = like.path, fit.target.shape[1], len(fit.equations)
    values = path.monomials(exponents.reshape(laws * m, exponents.shape[2]))
    columns = fit.problem.integrals(values, fit.equations).reshape(n, samples, laws, m).transpose(2, 0, 1, 3)
    columns = np.where(used[:, :, None], columns, 0.0)
    with np.errstate(all="ignore"):  # trial exponents may be anything
        size = np.sqrt(np.einsum("letm,letm->lem", columns, columns))
        size[~(size > 0)] = 1.0
        ridge = np.broadcast_to(COEFFICIENTS.ridge * np.eye(m), (laws, n, m, m))
        q, r = np.linalg.qr(np.concatenate([columns / size[:, :, None], ridge], axis=2))
        q = q[:, :, :samples]
        scaled = np.linalg.solve(r, (q.transpose(0, 1, 3, 2) @ fit.target[None, :, :, None]))[..., 0]
        scaled = np.where(used, scaled, 0.0)
        residual = fit.target - (columns / size[:, :, None] @ scaled[..., None])[..., 0]
        squares = np.sum(residual**2, axis=2) / fit.counts
        score = np.sum(fit.counts * np.log(squares + fit.floor), axis=1)
    shape = (*values.shape[:2], laws, m)
    return Stack(exponents, values.reshape(shape), q, scaled / size, residual, squares, score)


def _normal_equations(fit: Fit, like: Model, now: Stack, at: _Places) -> tuple[Array, Array]:
    """Normal matrices [laws, places, places] and gradients [laws, places] of the weighted residuals."""
    laws, size = at.row.shape
    law, n, samples = np.arange(laws)[:, None], len(fit.equations), fit.target.shape[1]
    nodes = now.values[:, :, law, at.row] * like.path.log[:, :, at.of]
    nodes = np.where(at.own, nodes, 0.0).reshape(*nodes.shape[:2], -1)
    columns = fit.problem.integrals(nodes, fit.equations).reshape(n, samples, laws, size).transpose(2, 0, 1, 3)
    jac = -columns * now.coefficients[law, :, at.row].transpose(0, 2, 1)[:, :, None]
    jac = jac - now.q @ (now.q.transpose(0, 1, 3, 2) @ jac)
    weight = 1.0 / np.sqrt(now.squares + fit.floor)
    flat = (jac * weight[:, :, None, None]).reshape(laws, n * samples, size)
    left = (now.residual * weight[:, :, None]).reshape(laws, -1, 1)
    turned = flat.transpose(0, 2, 1)
    return turned @ flat, (turned @ left)[..., 0]
