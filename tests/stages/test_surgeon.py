"""The optimal brain surgeon is exact where residuals are linear."""

from __future__ import annotations

import torch

from odediscovery.stages.prune.surgeon import estimate_without, inverse_of, is_without_influence


def test_of_linear_least_squares_the_estimate_is_the_refit() -> None:
    generator = torch.Generator().manual_seed(0)
    design = torch.randn(20, 4, generator=generator, dtype=torch.float64) * torch.tensor([1.0, 1e3, 1e-3, 1.0])
    target = torch.randn(20, generator=generator, dtype=torch.float64)
    normal = (design.T @ design)[None]
    theta = torch.linalg.lstsq(design, target[:, None]).solution.T
    removed = torch.tensor([[[True, False, False, False], [False, True, True, False]]])
    found = estimate_without(theta, inverse_of(normal), removed)[0]
    for estimate, gone in zip(found, removed[0], strict=True):
        kept = torch.linalg.lstsq(design[:, ~gone], target[:, None]).solution[:, 0]
        torch.testing.assert_close(estimate[~gone], kept, rtol=1e-6, atol=0.0)
        assert not estimate[gone].any()


def test_a_parameter_that_no_residual_sees_has_no_influence() -> None:
    normal = torch.diag(torch.tensor([4.0, 0.0, 1.0], dtype=torch.float64))[None]
    free = torch.tensor([[True, True, False]])
    values = torch.ones(1, 3, dtype=torch.float64)
    assert is_without_influence(normal, values, free, 3).tolist() == [[False, True, False]]
    assert is_without_influence(normal, values, free, 1).tolist() == [[False]]


def test_a_singular_power_leaves_the_others_their_influence() -> None:
    # A coefficient of 1e-30 before x^-3 at x = 1e-9: a step of 1 moves residuals by 1e27.
    normal = torch.diag(torch.tensor([4.0, 0.0, 1e54], dtype=torch.float64))[None]
    values = torch.tensor([[1.0, 1.0, 1e-30]], dtype=torch.float64)
    free = torch.ones(1, 3, dtype=torch.bool)
    assert is_without_influence(normal, values, free, 3).tolist() == [[False, True, False]]
