"""Fits of many small laws side by side: exponents and constants of sums by Levenberg-Marquardt.

    (J'J + lambda diag J'J) d(W, B, V) = -J'r    for every law at once, each with its own lambda

J is Kaufman's Jacobian (BIT 15, 1975): what the integrals of the monomials change by, times A, projected
off them. Not `fitting.levenberg_marquardt`: what falls is a likelihood whose variances change with every step,
no sum of squares, exponents have bounds, and whole exponents stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from odediscovery.fitting.levenberg_marquardt import damped_steps
from odediscovery.runtime.arrays import ABOVE_ZERO, Array
from odediscovery.runtime.monitor import Monitor
from odediscovery.stages.grow.integral_form import Integral
from odediscovery.stages.grow.stack import Constants, Index, Places, evaluated, normal_equations
from odediscovery.stages.grow.variable_projection import PROJECTION, Draft, Fit, Projected, exp_features


@dataclass(frozen=True)
class StackThresholds:
    """How many laws are fitted side by side."""

    most_values: int = 1_000_000  # values of monomials at the nodes of one stack


STACK = StackThresholds()


def optimise_all(fit: Fit, laws: Sequence[Draft], monitor: Monitor | None = None, steps: int = 20) -> list[Projected]:
    """All free constants of every law by Levenberg-Marquardt, in the order of the laws.

    Args:
        fit: their likelihood.
        laws: to begin with.
        monitor: once it asks to stop, laws that were not begun are left out.
        steps: most steps of a law.
    """
    found: dict[int, Projected] = {}
    for alike in _stacks(fit, laws):
        if found and monitor is not None and monitor.stopping() is not None:
            break
        found |= zip(alike, _optimised(fit, [laws[k] for k in alike], steps), strict=True)
    return [found[k] for k in sorted(found)]


def settled(fit: Fit, model: Projected, rounds: int = 12) -> Projected:
    """Constants optimised and the path refined in turn, until neither helps."""
    best, worse = model, 0
    for _ in range(rounds):
        path = fit.problem.refined(fit.rates_of(model))
        (model,) = optimise_all(fit, [Draft(model.exponents, model.used, model.powers, model.sums, path)])
        if not np.isfinite(model.score):
            break
        gain = best.score - model.score
        # The error of a path may rise for a round before it falls.
        worse = 0 if gain > 0 else worse + 1
        best = model if gain > 0 else best
        if abs(gain) < PROJECTION.round_gain or worse == 2 or fit.exact(best):
            break
    return best


def _stacks(fit: Fit, laws: Sequence[Draft]) -> Iterator[list[int]]:
    """Places of laws that are fitted together."""
    paths: dict[int, list[int]] = {}
    for k, law in enumerate(laws):
        paths.setdefault(id(law.path), []).append(k)
    for places in paths.values():
        largest = max(len(laws[k].exponents) + len(laws[k].sums) for k in places)
        values = laws[places[0]].path.log[..., 0].size * max(largest, 1)
        together = max(STACK.most_values // values, 1)
        yield from (places[k : k + together] for k in range(0, len(places), together))


def _optimised(fit: Fit, laws: Sequence[Draft], steps: int) -> list[Projected]:
    path = laws[0].path
    free = tuple(Places.of_each(kind) for kind in zip(*(fit.places(law) for law in laws), strict=True))
    # Monomials inside sums of whole exponents stay what they are.
    whole_inside = not free[2].own.size
    now = evaluated(fit, path, Constants.of(laws, fit.problem.features.size))
    size = sum(p.own.shape[1] for p in free)
    normal, gradient = np.empty((len(laws), size, size)), np.empty((len(laws), size))
    damping, moved = np.full(len(laws), PROJECTION.first_damping), np.ones(len(laws), dtype=bool)
    live = np.flatnonzero(np.concatenate([p.own for p in free], axis=1).any(axis=1))
    for _ in range(steps):
        if not len(live):
            break
        if len(new := live[moved[live]]):
            normal[new], gradient[new] = normal_equations(fit, path, now.take(new), [p.take(new) for p in free])
        shift = damped_steps(normal[live], gradient[live], damping[live], PROJECTION.singular, ABOVE_ZERO)
        trial = _moved(fit, now.constants(live), [p.take(live) for p in free], shift)
        tried = evaluated(fit, path, trial, now.inside[live] if whole_inside else None)
        gain = now.score[live] - tried.score
        moved[live] = better = gain > 0
        now.put(live[better], tried.take(np.flatnonzero(better)))
        factor = PROJECTION.damping_factor
        lower = np.maximum(damping[live] / factor, PROJECTION.least_damping)
        damping[live] = np.where(better, lower, damping[live] * factor)
        ended = np.where(better, gain < PROJECTION.gain, damping[live] > PROJECTION.most_damping)
        live = live[~ended]
    return [now.model(k, law) for k, law in enumerate(laws)]


def _moved(fit: Fit, at: Constants, free: Sequence[Places], shift: Array) -> Constants:
    """Constants after a step, within their bounds."""
    w, b, v, longest = at.w.copy(), at.b.copy(), at.v.copy(), PROJECTION.longest
    ends = np.cumsum([p.own.shape[1] for p in free])
    step_w, step_b, step_v = (part[p.own] for part, p in zip(np.split(shift, ends[:-1], axis=1), free, strict=True))
    of_w, of_b, of_v = (p.index for p in free)
    w[of_w] = (w[of_w] + step_w.clip(-longest, longest)).clip(*_bounds(fit.problem, of_w[2]))
    most = 0.5 * np.abs(b[of_b])
    b[of_b] += step_b.clip(-most, most)
    if len(step_v):
        rates = np.isin(of_v[2], exp_features(fit.problem))
        most = np.where(rates, PROJECTION.fastest_rate, PROJECTION.most_inside)
        v[of_v] = (v[of_v] + step_v.clip(-longest, longest)).clip(-most, most)
    return Constants(w, b, v, at.used)


def _bounds(problem: Integral, features: Index) -> tuple[Array, Array]:
    """Least and largest exponents of features."""
    rates = np.isin(features, exp_features(problem))
    most = np.where(rates, PROJECTION.fastest_rate, PROJECTION.most_exponent)
    return np.where(rates, -most, PROJECTION.least_exponent), most
