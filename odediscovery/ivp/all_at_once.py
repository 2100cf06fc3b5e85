r"""Initial value problems whose steps are all taken at once, by Newton's method on the whole path.

    x_{j+1} = F_j(x_j),      d_j = F_j(x_j) - x_{j+1},      A_j = dF_j/dx
    delta_0 = 0,   delta_{j+1} = A_j delta_j + d_j,   x_j <- x_j + delta_j

One evaluation of F takes all steps side by side, so that an array holds what a loop would take in turn; the
recurrence is a banded triangular system. The path that is found is that of one step after the other: there is no
other.

Source: Ascher, Mattheij, Russell, Numerical Solution of Boundary Value Problems (1995), section 4.3 (multiple
shooting); Lim et al., Parallelizing non-linear sequential models over the sequence length (2024).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy.linalg.lapack import dtbtrs

from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import check_time

# [states, steps, runs] -> the same one step later, and its slopes by the states [steps, runs, states, states].
Flow = Callable[[Array], tuple[Array, Array]]


def linear_recurrence(
    a: Float[np.ndarray, "steps runs n n"], b: Float[np.ndarray, "steps runs n columns"], first: Array
) -> Float[np.ndarray, "1+steps runs n columns"]:
    """All z_j of

        z_0 = first,   z_{j+1} = A_j z_j + b_j

    Args:
        a: matrices.
        b: what is added in every step.
        first: [runs, n, columns].

    >>> linear_recurrence(np.full((3, 1, 1, 1), 2.0), np.ones((3, 1, 1, 1)), np.zeros((1, 1, 1))).ravel().tolist()
    [0.0, 1.0, 3.0, 7.0]
    """
    steps, runs, n, columns = b.shape
    found = np.empty((1 + steps, runs, n, columns))
    size = (1 + steps) * n
    for r in range(runs):
        # The band of a lower triangle: row d holds what stands d below the diagonal.
        band = np.zeros((2 * n, size))
        for i in range(n):
            for k in range(n):
                band[n + i - k, k : steps * n : n] = -a[:, r, i, k]
        right = np.concatenate([first[r], b[:, r].reshape(-1, columns)])
        found[:, r] = dtbtrs(band, right, uplo="L", diag="U")[0].reshape(1 + steps, n, columns)
    return found


def newton_path(flow: Flow, guess: Array, size: Array, *, most: int, accuracy: float) -> Array | None:
    """The path [states, 1 + steps, runs] that begins where a guess does; None where Newton's method ends elsewhere.

    Args:
        flow: one step.
        guess: [states, 1 + steps, runs]; its first states are the true ones.
        size: what counts as large, of every state [states, 1, runs or 1].
        most: iterations.
        accuracy: a change below this share of `size` is the last one; the next would be about its square.
    """
    path = guess.copy()
    none = np.zeros((path.shape[2], path.shape[0], 1))
    for _ in range(most):
        check_time()
        ends, slopes = flow(path[:, :-1])
        defects = np.moveaxis(ends - path[:, 1:], 0, 2)[..., None]
        if not (np.isfinite(defects).all() and np.isfinite(slopes).all()):
            return None
        with np.errstate(all="ignore"):
            change = np.moveaxis(linear_recurrence(slopes, defects, none)[..., 0], 2, 0)
            path += change
            largest = float(np.max(np.abs(change) / size))
        if not np.isfinite(largest):
            return None
        if largest < accuracy:
            return path
    return None
