"""Data without noise tell constants so well that the short decimals among them are known."""

import numpy as np
import pytest
from problems import logistic

from odediscovery import Discovery, TimeSeries, discover, settings_for

TIMES = np.linspace(0.0, 8.0, 161)


def found(r: float, c: float, noise: float = 0.0) -> Discovery:
    """What is found in two trajectories of logistic growth N' = r N - c N^2."""
    rng, values = np.random.default_rng(0), []
    for start in (0.1, 0.4):
        exact = logistic(TIMES, r, c, start)
        values.append((exact + noise * exact.std() * rng.standard_normal(len(TIMES)))[:, None])
    return discover(TimeSeries.from_arrays([TIMES, TIMES], values, ["x"]), settings_for(members=0))


def test_decimals_are_printed_as_such_and_without_an_error() -> None:
    equations = found(1.68, 1.25).equations
    assert equations.texts() == {"x": "1.68*x - 1.25*x**2"}
    assert equations.standard_errors is not None
    assert not equations.standard_errors.coefficients.any()
    assert equations.snapped is not None
    assert equations.snapped[0].all()


@pytest.mark.slow
def test_other_constants_keep_their_errors() -> None:
    equations = found(np.sqrt(2.0), np.pi / 2.0).equations
    assert equations.power_sum is not None
    assert equations.standard_errors is not None
    assert (equations.standard_errors.coefficients > 0).all()
    assert np.sort(np.abs(equations.power_sum.coefficients.ravel())) == pytest.approx([2**0.5, np.pi / 2], rel=1e-6)
