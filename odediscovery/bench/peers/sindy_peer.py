"""pysindy at its leanest: one polynomial library, rates by differences, a search for the threshold.

`peers.sindy` searches libraries, ways to differentiate and thresholds, which takes ten times as
long; who knows that the system is a polynomial of degree 2 needs only this.
"""

from __future__ import annotations

import warnings

import numpy as np

from odediscovery.data.series import TimeSeries
from odediscovery.errors import FitError
from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import PowerSum

try:
    import pysindy
except ImportError:
    pysindy = None

DEGREE, ORDER = 2, 4
THRESHOLDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
# Share of a state's variance below which an error of the rates is that of differences.
_FLOOR = 1e-4


def installed() -> bool:
    """Whether pysindy is there."""
    return pysindy is not None


def versions() -> dict[str, str]:
    """The version of pysindy, where it is there."""
    return {"pysindy": pysindy.__version__} if installed() else {}


def threshold_search(series: TimeSeries) -> Equations:
    """Polynomials of degree 2 by STLSQ, one for each threshold; the best by BIC of its rates.

    Its own simulation of each would take most of the time, so none is made.

    Args:
        series: one clean trajectory.

    Raises:
        FitError: no threshold leaves a term.
    """
    (run,) = series.trajectories
    best = None
    for threshold in THRESHOLDS:
        model = pysindy.SINDy(
            optimizer=pysindy.STLSQ(threshold=threshold),
            feature_library=pysindy.PolynomialLibrary(degree=DEGREE),
            differentiation_method=pysindy.FiniteDifference(order=ORDER),
        )
        with warnings.catch_warnings():
            # STLSQ warns of a threshold that removes all terms.
            warnings.simplefilter("ignore")
            model.fit(run.values, t=run.time)
        c = np.asarray(model.coefficients(), dtype=np.float64)
        rates = model.differentiation_method(run.values, run.time)
        error = np.mean((model.predict(run.values) - rates) ** 2, axis=0) / rates.var(axis=0)
        criterion = len(run.time) * np.log(np.maximum(error, _FLOOR)).sum() + np.log(
            run.values.size
        ) * np.count_nonzero(c)
        if c.any() and (best is None or criterion < best[0]):
            best = criterion, c, np.asarray(model.feature_library.powers_, dtype=np.float64)
    if best is None:
        raise FitError("no threshold leaves a term")
    used = (best[1] != 0).any(axis=0)
    return Equations.from_power_sum(series.states, PowerSum(best[1][:, used], best[2][used]))
