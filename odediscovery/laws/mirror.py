"""States that are negative throughout: their real powers are those of their mirror images.

    m_k ** w = (-x_k) ** w  for a fractional w,    x_k ** w  for a whole one,    x_k < 0

The velocity of a fall or a membrane potential has no power 1.8, but its negative has. The scale s
of such a state is negative, so that the dimensionless x' = x / s is positive like any other and
the stages of a fit need not know of it. Laws in the user's units keep the list of such states.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def fractional(exponents: Array) -> NDArray[np.bool_]:
    """Exponents that are no whole numbers [as they are]."""
    found: NDArray[np.bool_] = exponents != np.round(exponents)
    return found


def signs(exponents: Array, mirrored: Sequence[int]) -> Array:
    """What bases are multiplied with, -1 or 1, [monomials, inputs].

    >>> signs(np.array([[1.8, 0.5], [2.0, 1.0]]), [0]).tolist()
    [[-1.0, 1.0], [1.0, 1.0]]
    """
    found = np.ones(exponents.shape)
    columns = list(mirrored)
    found[:, columns] = np.where(fractional(exponents[:, columns]), -1.0, 1.0)
    return found


def factors(exponents: Array, scale: Array) -> Array:
    """prod_k s_k ** w_k, of |s_k| where w_k is fractional [monomials].

    Args:
        exponents: [monomials, states].
        scale: s, other than 0 [states].

    >>> factors(np.array([[0.5, 0.0], [3.0, 1.0]]), np.array([-4.0, 2.0])).round(9).tolist()
    [2.0, -128.0]
    """
    with np.errstate(over="ignore", invalid="ignore"):  # inf where no number is large enough
        size = np.exp(exponents @ np.log(np.abs(scale)))
    odd = (np.abs(exponents) % 2.0 == 1.0) & (scale < 0.0)
    found: Array = size * (1.0 - 2.0 * (odd.sum(axis=1) % 2))
    return found


def turned(mirrored: Sequence[int], scale: Array, exponents: Iterable[Array]) -> tuple[int, ...]:
    """The mirrored states of a law for x' = x / scale: those that a negative scale turns, and
    that have a fractional power.

    Args:
        mirrored: states of which the law takes powers of -x.
        scale: [states].
        exponents: of the law [monomials, inputs], the states first.
    """
    there = np.isin(np.arange(len(scale)), list(mirrored)) != (scale < 0.0)
    used = np.zeros(len(scale), dtype=bool)
    for w in (w for w in exponents if len(w)):
        used |= fractional(w[:, : len(scale)]).any(axis=0)
    return tuple(np.flatnonzero(there & used).tolist())
