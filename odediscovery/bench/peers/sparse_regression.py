"""pysindy on polynomials of degree 4: STLSQ, STLSQ in weak form, and MIOSR where gurobipy is installed.

    weak-stlsq   rows are integrals over 200 subdomains of each trajectory, without derivatives
    stlsq        rates by finite differences
    miosr        the same rates, the best subset of each size by mixed-integer optimisation

Thresholds grow from 1e-6 by a constant factor; of all models the one with the least AIC of the rates of
trajectories without noise is taken, of subsets the one of each equation, as in the benchmark of
Kaptanoglu et al. (2023), here with one model of all data instead of ten of halves.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from odediscovery.data.series import TimeSeries
from odediscovery.errors import FitError, InputError
from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import PowerSum
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import now

try:
    import pysindy
except ImportError:
    pysindy = None

# (training data, exact trajectories to choose by, seconds it may take, seed) -> equations.
SparseMethod: TypeAlias = Callable[[TimeSeries, Sequence[Array], float, int], Equations]

DEGREE = 4
FIRST_THRESHOLD, FACTOR, THRESHOLDS = 1e-6, 1.3, 100
RIDGE, STLSQ_STEPS = 1e-5, 100
SUBDOMAINS = 200
# Largest subset of an equation, and seconds to find one. (All equations together are too large a problem
# for gurobipy without a licence.)
MOST_TERMS, MIOSR_SECONDS = 12, 10


def sparse_methods() -> dict[str, SparseMethod]:
    """The methods that are installed, by name."""
    if pysindy is None:
        return {}
    found: dict[str, SparseMethod] = {"weak-stlsq": weak_stlsq}
    return found | ({"miosr": miosr} if hasattr(pysindy, "MIOSR") else {"stlsq": stlsq})


def check_sparse_methods(names: Sequence[str]) -> None:
    """Whether these methods are installed.

    Raises:
        InputError: one is not, with what to install.
    """
    known = sparse_methods() | ({"stlsq": stlsq} if pysindy is not None else {})
    for name in names:
        if name not in known:
            package = "gurobipy" if name == "miosr" and pysindy is not None else "pysindy"
            raise InputError(f"--method {name} needs the package {package}: pip install {package}")


def weak_stlsq(train: TimeSeries, test: Sequence[Array], max_seconds: float, seed: int) -> Equations:
    """STLSQ of the weak form.

    Args:
        train: noisy trajectories, equally spaced, all at the same times.
        test: trajectories [samples, states] without noise, by which is chosen.
        max_seconds: thresholds that are not begun by then are left out.
        seed: of the subdomains.
    """
    times = train.trajectories[0].time
    state = np.random.get_state()
    np.random.seed(seed)
    try:
        library = pysindy.WeakPDELibrary(
            function_library=pysindy.PolynomialLibrary(degree=DEGREE, include_bias=False),
            spatiotemporal_grid=times,
            include_bias=True,
            K=SUBDOMAINS,
        )
    finally:
        np.random.set_state(state)
    axes = {"ax_time": 0, "ax_coord": 1}
    seen = [pysindy.AxesArray(t.values, axes=axes) for t in train.trajectories]
    with warnings.catch_warnings():
        # It warns of the axes of its own arrays.
        warnings.simplefilter("ignore")
        library.fit(seen)
        columns = np.concatenate([np.asarray(one) for one in library.transform(seen)])
        rates = np.concatenate([np.asarray(library.convert_u_dot_integral(one)) for one in seen])
    return _equations(train, _chosen(train, test, _by_thresholds(columns, rates, max_seconds)))


def stlsq(train: TimeSeries, test: Sequence[Array], max_seconds: float, seed: int) -> Equations:
    """STLSQ of rates by finite differences; arguments as of `weak_stlsq`."""
    return _equations(train, _chosen(train, test, _by_thresholds(*_strong(train), max_seconds)))


def miosr(train: TimeSeries, test: Sequence[Array], max_seconds: float, seed: int) -> Equations:
    """Best subsets by mixed-integer optimisation; arguments as of `weak_stlsq`."""
    sizes = list(_by_sizes(*_strong(train), max_seconds))
    single = [_chosen(train, test, iter([c[[i]] for c in sizes]), i) for i in range(train.n_states)]
    return _equations(train, np.concatenate(single))


METHODS: Mapping[str, SparseMethod] = {"weak-stlsq": weak_stlsq, "stlsq": stlsq, "miosr": miosr}


def exponents_of(states: int) -> Array:
    """Exponents [functions, states] of the polynomials, in pysindy's order; the constant comes first."""
    library = pysindy.PolynomialLibrary(degree=DEGREE).fit(np.zeros((2, states)))
    powers: Array = np.asarray(library.powers_, dtype=np.float64)
    return powers


def products(x: Array, exponents: Array) -> Array:
    """Values [samples, functions] of products of powers; powers that are not whole take 0 for what is below 0."""
    whole = exponents == np.round(exponents)
    values: Array = np.prod(np.where(whole, x[:, None, :], np.maximum(x[:, None, :], 0.0)) ** exponents, axis=2)
    return values


def differences(x: Array, times: Array) -> Array:
    """Rates by finite differences of order 2."""
    rates: Array = np.asarray(pysindy.FiniteDifference()._differentiate(x, times))
    return rates


def _strong(train: TimeSeries) -> tuple[Array, Array]:
    """Functions and rates of all samples."""
    exponents = exponents_of(train.n_states)
    columns = np.concatenate([products(t.values, exponents) for t in train.trajectories])
    return columns, np.concatenate([differences(t.values, t.time) for t in train.trajectories])


def _by_thresholds(columns: Array, rates: Array, max_seconds: float) -> Iterator[Array]:
    """Coefficients [states, functions] of every threshold, until no term is left."""
    ending = now() + max_seconds
    for threshold in FIRST_THRESHOLD * FACTOR ** np.arange(THRESHOLDS):
        optimiser = pysindy.STLSQ(threshold=float(threshold), alpha=RIDGE, max_iter=STLSQ_STEPS)
        c = fitted(optimiser, columns, rates)
        if c is None or now() > ending:
            return
        yield c


def _by_sizes(columns: Array, rates: Array, max_seconds: float) -> Iterator[Array]:
    """Coefficients [states, functions] of every number of terms of an equation."""
    ending = now() + max_seconds
    for terms in range(1, MOST_TERMS + 1):
        optimiser = pysindy.MIOSR(
            target_sparsity=None,
            group_sparsity=(terms,) * rates.shape[1],
            alpha=RIDGE,
            regression_timeout=MIOSR_SECONDS,
        )
        c = fitted(optimiser, columns, rates)
        if c is None or now() > ending:
            return
        yield c


def fitted(optimiser: Any, columns: Array, rates: Array) -> Array | None:
    """Coefficients [states, functions], None where no term is left."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # Warned of where a threshold removes all terms of a state, or the columns are nearly alike.
        warnings.simplefilter("ignore")
        try:
            c: Array = np.array(optimiser.fit(columns, rates).coef_, dtype=np.float64)
        except (ValueError, np.linalg.LinAlgError):
            return None
    c = c.reshape(rates.shape[1], -1)
    return c if c.any() and np.isfinite(c).all() else None


def _chosen(train: TimeSeries, test: Sequence[Array], candidates: Iterator[Array], state: int | None = None) -> Array:
    """The candidate with the least corrected AIC of the rates of the test trajectories [states, functions].

    Args:
        state: whose equation alone the candidates are, if not all.
    """
    exponents, times = exponents_of(train.n_states), train.trajectories[0].time
    columns = [products(x, exponents) for x in test]
    rates = [differences(x, times)[:, slice(None) if state is None else [state]] for x in test]
    best: tuple[float, Array] | None = None
    for c in candidates:
        terms, samples = np.count_nonzero(c), len(times)
        misfits = [np.linalg.norm(r - phi @ c.T, ord=2) ** 2 for phi, r in zip(columns, rates, strict=True)]
        aic = float(np.mean(samples * np.log(np.maximum(misfits, 1e-300))))
        aic += 2 * terms + 2 * terms * (terms + 1) / (samples - terms - 1)
        if best is None or aic < best[0]:
            best = aic, c
    if best is None:
        raise FitError("no threshold leaves a term")
    return best[1]


def _equations(train: TimeSeries, c: Array) -> Equations:
    used = (c != 0).any(axis=0)
    return Equations.from_power_sum(train.states, PowerSum(c[:, used], exponents_of(train.n_states)[used]))
