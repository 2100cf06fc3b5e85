r"""Nonlinear mixed effects by the algorithm of Lindstrom and Bates (1990).

    c_g = X_g beta + b_g,    b_g ~ N(0, diag(d^2)),    y_g = x(t; c_g) + e_g

The curves are straightened at the present constants of every group; the linear mixed model that
results gives beta, d, sigma and new constants, and so on until nothing changes. Constants are logarithms,
so their spread is that of a log-normal distribution.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from odediscovery.population.model.linear_mixed import Estimate, Sums, estimate
from odediscovery.population.model.measured import GroupModel
from odediscovery.runtime.arrays import Array, Mask
from odediscovery.runtime.thresholds import Thresholds, threshold


@dataclass(frozen=True)
class MixedThresholds(Thresholds):
    """How the mixed model is fitted."""

    rounds: int = threshold(30, "straightenings of the curves, at most", origin="cost: most fits need 5 to 10")
    settled: float = threshold(1e-3, "change of -2 log likelihood that ends them")
    calm: int = threshold(
        10,
        "straightenings after which each one that is worse than the last halves the steps",
        origin="what has not settled until then may go round in circles, and where it ends would be chance",
    )
    noise: float = threshold(
        1e-4, "noise from which on that is done", unit="size of the values", origin="less is the solver's"
    )
    halvings: int = threshold(4, "times that a step is halved before it is given up")
    begin: float = threshold(0.3, "spread of a logarithm to begin from", origin="typical of constants of people")
    begin_again: float = threshold(0.02, "the same on newly straightened curves, at least")
    common: float = threshold(1e-4, "spread of a logarithm that all groups share, while steps are weighed")
    exact: float = threshold(
        1e-14,
        "least mean square of residuals",
        unit="mean square of the values",
        origin="keeps the likelihood finite without noise",
    )
    least_noise: float = threshold(1e-8, "least noise", unit="size of the values", origin="the same")
    rounding: float = threshold(1e-9, "relative differences that are none", origin="rounding")


MIXED = MixedThresholds()


@dataclass(frozen=True, eq=False)
class MixedFit:
    """A mixed model of one structure.

    Args:
        model: structure and groups.
        design: X, [groups, unknowns, columns].
        random: unknowns that differ from group to group.
        estimate: the linear mixed model where the iteration ended.
        unknowns: of the groups [unknowns, groups].
        sums: what the likelihood needs.
        squares: of the residuals at these unknowns [states].
    """

    model: GroupModel
    design: Array
    random: Mask
    estimate: Estimate
    unknowns: Array
    sums: Sums
    squares: Array

    @property
    def minus_2_log_likelihood(self) -> float:
        """Of the values as they were measured."""
        return self.estimate.minus_2_log_likelihood + self.model.measured.jacobian_of_logs()

    @property
    def parameters(self) -> int:
        """Fitted numbers of the population: means, effects of covariates, spreads, noise."""
        seen = int((self.sums.counts > 0).sum())
        return int(self.design.shape[2]) + int(self.random.sum()) + seen


def plain_design(groups: int, unknowns: int) -> Array:
    """One column for the mean of each unknown [groups, unknowns, unknowns]."""
    return np.tile(np.eye(unknowns), (groups, 1, 1))


def sums_of(model: GroupModel, unknowns: Array) -> tuple[Sums, Array]:
    """The straightened curves of all groups, and the squares of the residuals [states]."""
    curves = model.curves(unknowns)
    j, r = curves.slopes, curves.residual
    assert j is not None
    if not np.isfinite(unknowns).all():
        raise np.linalg.LinAlgError("constants have run away")
    w = r + np.einsum("tipg,pg->tig", j, unknowns)
    w = np.where(model.seen, w, 0.0)
    normal = np.einsum("tipg,tiqg->igpq", j, j, optimize=True)
    moment = np.einsum("tipg,tig->igp", j, w)
    counts = model.measured.counts()
    return Sums(normal, moment, np.einsum("tig,tig->i", w, w), counts), np.einsum("tig,tig->i", r, r)


def fit_mixed(
    model: GroupModel,
    begin: Array,
    random: Mask,
    design: Array | None = None,
    deviations: Array | None = None,
    rounds: int | None = None,
) -> MixedFit:
    """The mixed model from these unknowns.

    Args:
        begin: [unknowns, groups].
        random: which unknowns differ from group to group; all groups share the others.
        design: columns of the means, by default one an unknown.
        deviations: spreads to begin from.
    """
    design = plain_design(begin.shape[1], len(begin)) if design is None else design
    d = np.full(len(begin), MIXED.begin) if deviations is None else deviations
    x = begin
    sums, squares = sums_of(model, x)
    sigma = np.sqrt(np.maximum(squares / np.maximum(sums.counts, 1), MIXED.exact * _size(model)))
    found, last, share = None, np.inf, 1.0
    for done in range(MIXED.rounds if rounds is None else rounds):
        found = estimate(sums, design, random, d, sigma)
        d, sigma = found.deviations, np.maximum(found.sigma, MIXED.least_noise * np.sqrt(_size(model)))
        target = found.unknowns.T
        worse = done >= MIXED.calm and found.minus_2_log_likelihood > last + MIXED.settled
        # Without noise the likelihood has no bound, and what is worse is rounding.
        if worse and np.any((sigma**2 > MIXED.noise**2 * _size(model))[sums.counts > 0]):
            share *= 0.5
        x_new, squares, settled = _stepped(model, x, target, found, design, share)
        if settled or abs(last - found.minus_2_log_likelihood) < MIXED.settled:
            if not settled:
                x = x_new
            sums, squares = sums_of(model, x)
            break
        last, x = found.minus_2_log_likelihood, x_new
        d = np.where(random, np.maximum(d, MIXED.begin_again), 0.0)
        sums, squares = sums_of(model, x)
    assert found is not None
    found = estimate(sums, design, random, d, sigma)
    return MixedFit(model, design, random, found, x, sums, squares)


def _size(model: GroupModel) -> Array:
    """Mean square of the values of each state, in the scale of the noise [states]."""
    measured = model.measured
    found: Array = np.where(measured.logarithmic, 1.0, measured.data.scale**2)
    return found


def _stepped(
    model: GroupModel, x: Array, target: Array, found: Estimate, design: Array, share: float
) -> tuple[Array, Array, bool]:
    """A share of the way to the target as far as it is downhill; True where it is not at all."""
    weight = 1.0 / found.sigma**2
    d = np.maximum(found.deviations, MIXED.common)

    def value(at: Array) -> tuple[float, Array]:
        squares = np.einsum("tig,tig->i", *([model.curves(at, slopes=False).residual] * 2))
        off = (at - (design @ found.beta).T) / d[:, None]
        return float(squares @ weight + np.sum(off**2)), squares

    # Where constants are shared the present ones of the groups may differ: they first become one.
    before = np.inf if np.any(np.ptp(x[found.deviations <= 0], axis=1) > MIXED.rounding) else value(x)[0]
    for _ in range(MIXED.halvings + 1):
        tried = x + share * (target - x)
        reached, squares = value(tried)
        if reached <= before + MIXED.rounding * abs(before):
            return tried, squares, False
        share *= 0.5
    return x, squares, True
