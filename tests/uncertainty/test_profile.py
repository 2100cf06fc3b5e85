"""Profile likelihood: its ends are where a fit that holds the constant says."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from problems import LOGISTIC, PREY, TWINS, logistic
from scipy.optimize import curve_fit
from scipy.special import stdtrit
from test_bands import fitted, measured

from odediscovery.errors import InputError
from odediscovery.laws.records import interval
from odediscovery.uncertainty.profile import profile

TIMES = np.linspace(0.0, 12.0, 25)


@pytest.mark.slow
def test_ends_are_where_the_sum_of_squares_has_grown_by_t_squared() -> None:
    found = fitted(LOGISTIC, measured(LOGISTIC, np.array([0.1]), TIMES, 0.05, 3), 0.05)
    y = found.series.trajectories[0].values[:, 0]

    def left(r: float | None) -> float:
        """Sum of squares at a rate, or the least of all."""
        if r is None:
            best, _ = curve_fit(logistic, TIMES, y, (0.5, 0.5, 0.1))
            return float(np.sum((logistic(TIMES, *best) - y) ** 2))
        at, _ = curve_fit(lambda t, c, n0: logistic(t, r, c, n0), TIMES, y, (r, 0.1))
        return float(np.sum((logistic(TIMES, r, *at) - y) ** 2))

    told = profile(found, "coefficient", 0, "x0")
    least, student = left(None), float(stdtrit(22, 0.975))
    for end in (told.low, told.high):
        assert (left(end) - least) / (least / 22) == pytest.approx(student**2, rel=0.03)
    assert told.low < 0.5 < told.high
    # It is no parabola: the interval is not symmetric, unlike that of the standard error.
    assert abs((told.high - told.value) / (told.value - told.low) - 1.0) > 0.02


@pytest.mark.slow
def test_the_wald_interval_of_a_well_known_constant_is_that_of_its_profile() -> None:
    found = fitted(PREY, measured(PREY, np.array([1.5, 0.8]), TIMES, 0.02, 1), 0.02)
    assert found.estimates is not None and found.equations.power_sum is not None
    errors = found.estimates.covariance.deviations() / found.estimates.scale.time
    value = found.equations.power_sum.coefficients[0, 0]
    wald = interval(value, errors[0], found.degrees_of_freedom)
    told = profile(found, "coefficient", 0, "x0")
    np.testing.assert_allclose([told.low, told.high], wald, rtol=0.005)
    assert wald is not None
    np.testing.assert_allclose(told.high - told.low, wald[1] - wald[0], rtol=0.1)


@pytest.mark.slow
def test_a_constant_that_the_data_do_not_tell_has_no_end() -> None:
    found = fitted(TWINS, measured(TWINS, np.array([0.1]), TIMES, 0.02, 0), 0.02)
    told = profile(found, "coefficient", 0, "x0")
    assert (told.low, told.high) == (-math.inf, math.inf)


def test_what_cannot_be_profiled_is_said() -> None:
    found = fitted(PREY, measured(PREY, np.array([1.5, 0.8]), TIMES, 0.02, 1), 0.02)
    for arguments, said in (
        (("coefficient", 7, "x0"), "numbered from 0 to 2, got 7"),
        (("coefficient", 0, "x9"), "x9"),
        (("constant", 0, "x0"), "constant"),
        (("exponent", 0, "x0"), "was not fitted"),
        (("coefficient", 2, "x0"), "was not fitted"),
    ):
        with pytest.raises(InputError, match=said):
            profile(found, *arguments)
    with pytest.raises(InputError, match="no covariance"):
        profile(dataclasses.replace(found, estimates=None), "coefficient", 0, "x0")
