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


def test_a_member_beyond_all_numbers_does_not_end_the_others() -> None:
    normal = np.stack([np.diag([4.0, 1.0]), np.full((2, 2), np.inf)])
    inverse = inverse_of(normal)
    assert inverse[0] == pytest.approx(np.diag([0.25, 1.0]), rel=1e-6)
