"""Two rows of a layer of powers that became the same monomial are made one."""

from __future__ import annotations

import numpy as np
import pytest

from odediscovery.fitting.levenberg_marquardt import LeastSquares
from odediscovery.laws.power_sum import PowerSum
from odediscovery.networks.translate import chain_of
from odediscovery.runtime.arrays import Array, Indices, Mask
from odediscovery.stages.prune.twins import TWINS, merge_twins

ALIKE = PowerSum(np.array([[0.2, 0.3, -0.5]]), np.array([[0.9], [1.1], [3.0]]))


@pytest.mark.parametrize(("approved", "exponents"), [(True, [0.0, 1.02, 3.0]), (False, [0.9, 1.1, 3.0])])
def test_the_two_rows_that_are_most_alike_become_one_where_that_is_approved(approved: bool, exponents: list) -> None:
    chain = chain_of([ALIKE], np.array([True]))
    size = chain.theta.shape[1]
    fit = LeastSquares(chain.theta, np.ones(1), np.eye(size)[None])
    asked = []

    def refit(start: Array, free: Mask) -> LeastSquares:
        asked.append((start.copy(), free.copy()))
        return LeastSquares(start, np.ones(len(start)), fit.normal)

    def approves(old: Array, new: Array, saved: Indices) -> Mask:
        # The estimate asks first, before anything is refitted; it says nothing here.
        return np.array([approved or not asked])

    merged, free = merge_twins(chain, fit, chain.free.copy(), 0.5, refit, approves)
    (start, left) = asked[0]
    # The exponent is the mean, weighted by the coefficients, which are added.
    assert sorted(v for v in start[0].tolist() if v) == pytest.approx([-0.5, 0.5, 1.02, 3.0])
    assert int(left.sum()) == int(chain.free.sum()) - 2
    w = merged.unknowns[0, chain.places()[0][0]]
    assert sorted(w.tolist()) == pytest.approx(exponents)
    assert int(free.sum()) == int(chain.free.sum()) - 2 * approved


def test_rows_whose_difference_the_data_are_sure_of_are_not_refitted() -> None:
    chain = chain_of([ALIKE], np.array([True]))
    size, seen = chain.theta.shape[1], []
    sure = np.eye(size)[None] * 1e6
    fit = LeastSquares(chain.theta, np.ones(1), sure)

    def approves(old: Array, new: Array, saved: Indices) -> Mask:
        seen.append(float(new[0]))
        return new < 2 * old

    merged, free = merge_twins(chain, fit, chain.free, 0.5, lambda *_: pytest.fail("refitted"), approves)
    # d = 0.2, of variance 2e-6: d^2 / variance on top of the sum of squares.
    assert seen == [pytest.approx(1.0 + 0.04 / 2e-6 / TWINS.linear, rel=1e-6)]
    assert merged is fit and np.array_equal(free, chain.free)
