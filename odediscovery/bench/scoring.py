"""Is a found law the true one?"""

from __future__ import annotations

import numpy as np

from odediscovery.powersum import PowerSum


def same_terms(found: PowerSum, truth: PowerSum, tolerance: float = 0.05) -> bool:
    """Whether both have exactly the same monomials in the same equations.

    Args:
        tolerance: largest difference of exponents, absolute, relative above 1.

    >>> decay = PowerSum(np.array([[-0.5]]), np.array([[1.0]]))
    >>> same_terms(PowerSum(np.array([[-0.4]]), np.array([[0.98]])), decay)
    True
    """
    found, truth = found.merged(), truth.merged()
    if found.coefficients.shape != truth.coefficients.shape:
        return False
    free = set(range(found.n_monomials))
    for j, w in enumerate(truth.exponents):
        near = [
            k for k in free
            if np.all(np.abs(found.exponents[k] - w) <= tolerance * np.maximum(np.abs(w), 1.0))
            and np.array_equal(found.coefficients[:, k] != 0, truth.coefficients[:, j] != 0)
        ]  # fmt: skip
        if not near:
            return False
        free.remove(near[0])
    return True


def worst_errors(found: PowerSum, truth: PowerSum) -> tuple[float, float]:
    """Largest absolute error of an exponent and largest relative error of a coefficient.

    Both laws have the same terms (`same_terms`); monomials may come in another order.
    """
    exponent = coefficient = 0.0
    for j, w in enumerate(truth.exponents):
        k = int(np.argmin(np.abs(found.exponents - w).max(axis=1)))
        exponent = max(exponent, float(np.abs(found.exponents[k] - w).max(initial=0.0)))
        there = truth.coefficients[:, j] != 0
        relative = found.coefficients[there, k] / truth.coefficients[there, j] - 1.0
        coefficient = max(coefficient, float(np.abs(relative).max(initial=0.0)))
    return exponent, coefficient
