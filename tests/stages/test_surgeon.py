"""The optimal brain surgeon is exact where residuals are linear."""

from __future__ import annotations

import numpy as np
import pytest

from odediscovery.stages.prune.surgeon import estimate_without, inverse_of, is_without_influence


def test_of_linear_least_squares_the_estimate_is_the_refit() -> None:
    generator = np.random.default_rng(0)
    design = generator.standard_normal((20, 4)) * np.array([1.0, 1e3, 1e-3, 1.0])
    target = generator.standard_normal(20)
    normal = (design.T @ design)[None]
    theta = np.linalg.lstsq(design, target)[0][None]
    removed = np.array([[[True, False, False, False], [False, True, True, False]]])
    found = estimate_without(theta, inverse_of(normal), removed)[0]
    for estimate, gone in zip(found, removed[0], strict=True):
        kept = np.linalg.lstsq(design[:, ~gone], target)[0]
        np.testing.assert_allclose(estimate[~gone], kept, rtol=1e-6)
        assert not estimate[gone].any()


def test_a_parameter_that_no_residual_sees_has_no_influence() -> None:
    normal = np.diag([4.0, 0.0, 1.0])[None]
    free = np.array([[True, True, False]])
    values = np.ones((1, 3))
    assert is_without_influence(normal, values, free, 3).tolist() == [[False, True, False]]
    assert is_without_influence(normal, values, free, 1).tolist() == [[False]]


def test_a_singular_power_leaves_the_others_their_influence() -> None:
    # A coefficient of 1e-30 before x^-3 at x = 1e-9: a step of 1 moves residuals by 1e27.
    normal = np.diag([4.0, 0.0, 1e54])[None]
    values = np.array([[1.0, 1.0, 1e-30]])
    free = np.ones((1, 3), dtype=bool)
    assert is_without_influence(normal, values, free, 3).tolist() == [[False, True, False]]


def test_what_is_beyond_all_numbers_has_no_estimate_and_hinders_no_other() -> None:
    inverse = np.array([np.eye(2), np.full((2, 2), np.inf)])
    removed = np.array([[[True, False]], [[True, False]]])
    with np.errstate(invalid="ignore"):
        found = estimate_without(np.ones((2, 2)), inverse, removed)[:, 0]
    np.testing.assert_array_equal(found, [[0.0, 1.0], [0.0, np.nan]])


def test_a_member_beyond_all_numbers_does_not_end_the_others() -> None:
    normal = np.stack([np.diag([4.0, 1.0]), np.full((2, 2), np.inf)])
    inverse = inverse_of(normal)
    assert inverse[0] == pytest.approx(np.diag([0.25, 1.0]), rel=1e-6)
