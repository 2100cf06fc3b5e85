"""pysindy on many groups: one law with the same constants for all, or one fit a group.

Its library is given the powers of the true law beside the polynomials of degree 2, which no user could know:
what it misses is not for want of a term.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from odediscovery.bench.peers.sparse_regression import differences, fitted, products
from odediscovery.errors import FitError
from odediscovery.laws.power_sum import PowerSum
from odediscovery.runtime.arrays import Array

try:
    import pysindy
except ImportError:
    pysindy = None

# Of coefficients of columns of length 1: from far below to far above the rates.
THRESHOLDS = tuple(10.0 ** (0.25 * k) for k in range(-16, 9))
DEGREE = 2


def library(states: int, powers: Sequence[Sequence[float]]) -> Array:
    """Polynomials of degree 2 and these powers [functions, states].

    >>> library(1, [[0.5]]).ravel().tolist()
    [0.0, 0.5, 1.0, 2.0]
    """
    whole = [w for w in itertools.product(range(DEGREE + 1), repeat=states) if sum(w) <= DEGREE]
    rows = {tuple(map(float, w)) for w in [*whole, *powers]}
    return np.array(sorted(rows))


def sparse_law(runs: Sequence[tuple[Array, Array]], exponents: Array) -> PowerSum:
    """The law of runs, (times, values [samples, states]), by STLSQ; the threshold by BIC of the rates.

    Raises:
        FitError: pysindy is not installed, or no threshold leaves a term.
    """
    if pysindy is None:
        raise FitError("pysindy is not installed: pip install odediscovery[bench]")
    columns = np.concatenate([products(x, exponents) for _, x in runs])
    rates = np.concatenate([differences(x, t) for t, x in runs])
    best = None
    for threshold in THRESHOLDS:
        c = fitted(pysindy.STLSQ(threshold=threshold, normalize_columns=True), columns, rates)
        if c is None:
            continue
        error = np.mean((columns @ c.T - rates) ** 2, axis=0) / np.maximum(rates.var(axis=0), 1e-300)
        score = len(rates) * np.log(np.maximum(error, 1e-12)).sum() + np.log(rates.size) * np.count_nonzero(c)
        if np.isfinite(score) and (best is None or score < best[0]):
            best = score, c
    if best is None:
        raise FitError("no threshold leaves a term")
    used = (best[1] != 0).any(axis=0)
    return PowerSum(best[1][:, used], exponents[used])
