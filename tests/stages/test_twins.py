"""Two rows of a power unit that became the same monomial are made one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from odediscovery.fitting.levenberg_marquardt import LeastSquares
from odediscovery.laws.power_sum import PowerSum
from odediscovery.networks.translate import members_of
from odediscovery.stages.prune.twins import TWINS, merge_twins

ALIKE = PowerSum(np.array([[0.2, 0.3, -0.5]]), np.array([[0.9], [1.1], [3.0]]))


@pytest.mark.parametrize(("approved", "exponents"), [(True, [0.0, 1.02, 3.0]), (False, [0.9, 1.1, 3.0])])
def test_the_two_rows_that_are_most_alike_become_one_where_that_is_approved(approved: bool, exponents: list) -> None:
    field = members_of([ALIKE], np.array([True]))
    size = field.theta.shape[1]
    fit = LeastSquares(field.theta, torch.ones(1, dtype=torch.float64), torch.eye(size, dtype=torch.float64)[None])
    asked = []

    def refit(start: Tensor, free: Tensor) -> LeastSquares:
        asked.append((start.clone(), free.clone()))
        return LeastSquares(start, torch.ones(len(start), dtype=torch.float64), fit.normal)

    def approves(old: Tensor, new: Tensor, saved: Tensor) -> Tensor:
        # Only the estimate asks for one number; it says nothing here.
        return torch.tensor([approved]) if saved.ndim else torch.tensor(True)

    merged, free = merge_twins(field, fit, field.free.clone(), 0.5, refit, approves)
    (start, left) = asked[0]
    # The exponent is the mean, weighted by the coefficients, which are added; 1 is the gate.
    assert sorted(v for v in start[0].tolist() if v) == pytest.approx([-0.5, 0.5, 1.0, 1.02, 3.0])
    assert int(left.sum()) == int(field.free.sum()) - 2
    w = merged.unknowns[0, field.place(0, "real")]
    assert sorted(w.tolist()) == pytest.approx(exponents)
    assert int(free.sum()) == int(field.free.sum()) - 2 * approved


def test_rows_whose_difference_the_data_are_sure_of_are_not_refitted() -> None:
    field = members_of([ALIKE], np.array([True]))
    size, seen = field.theta.shape[1], []
    sure = torch.eye(size, dtype=torch.float64)[None] * 1e6
    fit = LeastSquares(field.theta, torch.ones(1, dtype=torch.float64), sure)

    def approves(old: Tensor, new: Tensor, saved: Tensor) -> Tensor:
        seen.append(float(new))
        return new < 2 * old

    merged, free = merge_twins(field, fit, field.free, 0.5, lambda *_: pytest.fail("refitted"), approves)
    # d = 0.2, of variance 2e-6: d^2 / variance on top of the sum of squares.
    assert seen == [pytest.approx(1.0 + 0.04 / 2e-6 / TWINS.linear, rel=1e-6)]
    assert merged is fit and torch.equal(free, field.free)
