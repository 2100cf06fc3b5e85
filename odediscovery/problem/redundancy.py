"""Linear relations among the states, and a state that equations in noise do without."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from odediscovery.data.samples import pooled
from odediscovery.problem.problem import Problem
from odediscovery.runtime.arrays import Array, Mask


@dataclass(frozen=True)
class RedundancyThresholds:
    """When samples lie on a linear relation, and when a state hardly changes."""

    across: float = 1.2  # most by which samples spread across a linear relation [standard deviation of the noise]
    along: float = 20.0  # least by which samples spread in every other direction [standard deviation of the noise]
    floors: float = 10.0  # multiple of the floor of a state that counts as its least noise
    least_weight: float = 1e-3  # weights of a relation below this are noise of its direction, and 0 [largest weight]
    # standard deviation below which the powers of a state are straight lines [mean of the state]; curvature: w^2 / 2
    # of its square, 1e-4, is below the noise; sensitivity in docs/thresholds
    flat: float = 0.01
    least_mean: float = 1e-300  # least mean that a spread is divided by; range of float64


REDUNDANCY = RedundancyThresholds()


def linear_relation(p: Problem) -> tuple[Array, float] | None:
    """c and d with sum_k c_k x_k = d in all samples, up to noise, in the user's units.

    The direction in which the samples spread least; None where they spread by more than noise
    and rounding, or do not clearly spread in all others.
    """
    x = pooled(p.data)
    x = x[np.isfinite(x).all(axis=1)]
    moving = np.flatnonzero(~p.constant)
    if len(moving) < 2 or len(x) <= len(moving) + 1:
        return None
    center = x[:, moving].mean(axis=0)
    _, spread, axes = np.linalg.svd(x[:, moving] - center, full_matrices=False)
    least, next_to = spread[-1] / np.sqrt(len(x)), spread[-2] / np.sqrt(len(x))
    sigma = np.sqrt(np.mean(np.concatenate(p.relative_sigma) ** 2, axis=0)) * p.noise
    noise = float(np.linalg.norm(axes[-1] * np.maximum(sigma, REDUNDANCY.floors * p.floor)[moving]))
    if least > REDUNDANCY.across * noise or next_to < REDUNDANCY.along * noise:
        return None
    c = np.zeros(p.data.n_states)
    c[moving] = axes[-1] / p.scale.state[moving]
    d = float(axes[-1] @ center)
    largest = c[np.argmax(np.abs(c))]
    c = np.where(np.abs(c / largest) > REDUNDANCY.least_weight, c / largest, 0.0)
    return c, d / float(largest)


def redundant_states(p: Problem) -> Mask:
    """The state that equations in noise do without, if there is one, bool [states].

    It hardly changes, x = m (1 + d), so that every power of it is a straight line,
    x^w = m^w (1 + w d + O(d^2)), and by the linear relation of all samples a combination of the
    others. With it every law could be written in many ways, as differences of large terms.
    """
    found: Mask = np.zeros(p.data.n_states, dtype=bool)
    relation = None if p.clean else linear_relation(p)
    if relation is not None:
        values = pooled(p.data)
        share = np.nanstd(values, axis=0) / np.maximum(np.abs(np.nanmean(values, axis=0)), REDUNDANCY.least_mean)
        share[relation[0] == 0.0] = np.inf
        found[np.argmin(share)] = share.min() < REDUNDANCY.flat
    return found
