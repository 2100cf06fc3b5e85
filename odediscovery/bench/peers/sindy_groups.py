"""pysindy on many groups: one law with the same constants for all, or one fit a group.

Its library is given the powers of the true law beside the polynomials of degree 2, which no user could know:
what it misses is not for want of a term.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence

import numpy as np

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
    times, values = [t for t, _ in runs], [x for _, x in runs]
    best = None
    for threshold in THRESHOLDS:
        model = pysindy.SINDy(
            optimizer=pysindy.STLSQ(threshold=threshold, normalize_columns=True),
            feature_library=pysindy.CustomLibrary([_product(w) for w in exponents]),
            differentiation_method=pysindy.FiniteDifference(order=2),
        )
        with warnings.catch_warnings():
            # STLSQ warns of a threshold that removes all terms.
            warnings.simplefilter("ignore")
            model.fit(values, t=times)
            predicted = np.concatenate([model.predict(x) for x in values])
        rates = np.concatenate([model.differentiation_method(x, t) for t, x in runs])
        c = np.asarray(model.coefficients(), dtype=np.float64)
        error = np.mean((predicted - rates) ** 2, axis=0) / np.maximum(rates.var(axis=0), 1e-300)
        score = len(rates) * np.log(np.maximum(error, 1e-12)).sum() + np.log(rates.size) * np.count_nonzero(c)
        if c.any() and np.isfinite(score) and (best is None or score < best[0]):
            best = score, c
    if best is None:
        raise FitError("no threshold leaves a term")
    used = (best[1] != 0).any(axis=0)
    return PowerSum(best[1][:, used], exponents[used])


def _product(w: Array) -> Callable[..., Array]:
    """A product of powers as a function of as many arguments as there are states, which pysindy counts."""

    def of(*x: Array) -> Array:
        factors = [np.where(p == round(p), v, np.maximum(v, 0.0)) ** p for v, p in zip(x, w, strict=True)]
        return np.asarray(np.prod(factors, axis=0))

    def of_two(x: Array, y: Array) -> Array:
        return of(x, y)

    def of_three(x: Array, y: Array, z: Array) -> Array:
        return of(x, y, z)

    return (lambda x: of(x), of_two, of_three)[len(w) - 1]
