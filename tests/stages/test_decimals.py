"""Constants that exact data place on a short decimal become it; others stay what was fitted."""

from __future__ import annotations

import numpy as np
import pytest

from odediscovery.data.scale import Scale
from odediscovery.laws.cost import all_free, count
from odediscovery.laws.estimates import Covariance
from odediscovery.laws.power_sum import PowerSum
from odediscovery.stages.polish.decimals import DECIMALS, nearest_decimal, round_constants
from odediscovery.stages.values import Polished

SCALE = Scale(np.array([3.7]), 0.29)


def fitted(coefficient: float, exponent: float, error: float) -> Polished:
    """x' = a x^w in units of a scale, a and w known within a relative error."""
    user = PowerSum(np.array([[coefficient]]), np.array([[exponent]]))
    law = user.rescaled(SCALE.state, SCALE.time)
    deviations = error * np.abs([law.coefficients[0, 0], law.exponents[0, 0], 1.0])
    errors = law.with_constants(deviations[:1, None], deviations[1:2, None], *law.constants[2:])
    joint = Covariance.of(np.diag(1.0 / np.append(deviations[:2], 1e-8)))
    ones = np.ones(1)
    return Polished(
        law,
        errors,
        np.ones((1, 1)),
        joint,
        free=all_free(law),
        squares=ones,
        plain_squares=ones,
        counts=40 * ones,
        finite=True,
    )


@pytest.mark.parametrize("value", [-0.0376, 6.022e23])
def test_a_value_known_to_nine_digits_is_its_decimal(value: float) -> None:
    found = nearest_decimal(value * (1 + 3e-10), 1e-9 * abs(value))
    assert found is not None
    assert found[0] == value
    assert found[1] >= -2 * np.log(DECIMALS.chance)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (np.pi, 1e-10),  # another number
        (2.6670001, 1e-9),  # near a decimal, but a hundred errors away
        (2.667, 1e-5),  # any number is so near to a decimal of four digits
        (1.0, np.nan),
    ],
)
def test_another_value_stays(value: float, error: float) -> None:
    assert nearest_decimal(value, error) is None


def test_constants_are_decimals_in_the_units_of_the_user() -> None:
    short = round_constants(fitted(0.35, 0.93, 1e-9), SCALE)
    assert short is not None
    user = short.polished.law.unscaled(SCALE.state, SCALE.time)
    assert user.coefficients[0, 0] == pytest.approx(0.35, rel=1e-15)
    assert user.exponents[0, 0] == 0.93
    assert count(short.polished.free) == 0
    # The start is known as well as before.
    np.testing.assert_allclose(short.polished.joint.deviations(), [1e-8])


def test_one_constant_that_is_no_decimal_stays_free() -> None:
    short = round_constants(fitted(np.pi, 2.0, 1e-9), SCALE)
    assert short is not None
    assert short.polished.free[0].all()
    assert not short.polished.free[1].any()
