"""Least squares for coefficients, beside those of NumPy."""

from __future__ import annotations

import numpy as np

from odediscovery.stages.grow.coefficients import solve


def test_least_squares_are_those_of_numpy_and_unused_columns_stay_out() -> None:
    random = np.random.default_rng(0)
    columns, target = random.standard_normal((2, 30, 3)), random.standard_normal((2, 30))
    used = np.array([[True, True, True], [True, False, True]])
    linear = solve(columns, target, used)
    for i in range(2):
        expected = np.linalg.lstsq(columns[i][:, used[i]], target[i], rcond=None)[0]
        np.testing.assert_allclose(linear.coefficients[i, used[i]], expected, rtol=1e-8)
    assert linear.coefficients[1, 1] == 0.0
    for left in (linear.residual[:, :, None], linear.projected(random.standard_normal((2, 30, 4)))):
        np.testing.assert_allclose(np.einsum("itm,itc->imc", columns, left)[used], 0.0, atol=1e-8)
