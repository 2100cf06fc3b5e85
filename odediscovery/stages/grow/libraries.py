"""Candidate terms on the integral form: what each would contribute to the increments of the data."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from odediscovery.families import Family, Seen, Terms
from odediscovery.laws.power_sum import Features
from odediscovery.runtime.arrays import SQUARED, Array, Mask, column_norms
from odediscovery.stages.grow.integral_form import Integral, Path

# Sums that a candidate is divided by count as at least this.
MIN_SUM = 1e-9


def features_for(family: Family, integer: Mask, changing: Mask, size: Array) -> Features:
    """What the power layer of a family sees, without sums."""
    return Features(len(integer), family.features(~integer, changing, size))


def grid_for(problem: Integral, family: Family, integer: Mask, changing: Mask) -> Terms:
    """The candidates of a family."""

    def monomials(exponents: Array) -> Array:
        return problem.interpolated().monomials(exponents)

    seen = Seen(problem.features.functions, family.functions, integer, changing, monomials)
    return family.candidates(seen)


def columns_of(terms: Terms, problem: Integral, path: Path, equations: NDArray[np.int64]) -> Array:
    """Integrals of candidates as columns of norm 1, [equations, samples, candidates]."""
    columns = problem.integrals(values_of(terms, path), equations)
    norm = column_norms(columns, axis=1, keepdims=True)
    # A larger one has a single sample that counts.
    usable = (norm > 0) & (norm < SQUARED)
    unit: Array = np.where(usable, columns / np.where(usable, norm, 1.0), 0.0)
    return unit


def values_of(terms: Terms, path: Path) -> Array:
    """Values of candidates along a path, [intervals, nodes, candidates]."""
    values = path.monomials(terms.rows)
    summed = np.flatnonzero(terms.constant)
    if len(summed):
        u = 1.0 + terms.constant[summed] * path.monomials(terms.inner[summed])
        values[..., summed] *= np.maximum(u, MIN_SUM) ** terms.power[summed]
    return values
