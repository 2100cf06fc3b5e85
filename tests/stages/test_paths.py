"""Laws pruned on windows: their length, what stays whole, and a needless term that goes."""

from __future__ import annotations

import numpy as np
import pytest
from problems import LOGISTIC, PISTON, bouncing, growth

from odediscovery import TimeSeries
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.runtime.monitor import Monitor
from odediscovery.stages.prune.eliminate import Elimination
from odediscovery.stages.prune.paths import PRUNING_WINDOWS, all_whole, prune_laws, whole_features, window_length


def test_a_window_holds_a_few_extrema_within_its_bounds() -> None:
    t = np.linspace(0.0, 20.0 * np.pi, 401)
    # Twenty extrema of the sine in 400 intervals.
    p = prepare(TimeSeries.from_arrays(t, 2.0 + np.sin(t), ["x"]))
    assert p.extrema_per_interval == pytest.approx(20 / 400)
    assert window_length(p, 1.0) == 20
    assert window_length(p) == PRUNING_WINDOWS.longest
    still = prepare(growth(np.linspace(0.0, 10.0, 30), 0.0))
    assert window_length(still) == PRUNING_WINDOWS.longest


def test_exponents_of_states_that_change_sign_stay_whole() -> None:
    assert all_whole(np.array([[1.0, -2.0]])) and not all_whole(np.array([[1.0, 0.5]]))
    t = np.linspace(0.0, 10.0, 60)
    p = prepare(TimeSeries.from_arrays(t, np.column_stack([np.sin(t), 2.0 + np.cos(t)]), ["x", "y"]))
    law = PowerSum(np.eye(2), np.eye(2))
    assert whole_features(law, p, False).tolist() == [True, False]
    assert whole_features(law, p, True).tolist() == [True, True]


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [0.0, 0.01])
def test_a_needless_term_goes_and_the_law_is_on_the_path(sigma: float) -> None:
    p = prepare(growth(np.linspace(0.0, 20.0, 80), sigma))
    law = LOGISTIC.rescaled(p.scale.state, p.scale.time)
    rich = PowerSum(np.hstack([law.coefficients, [[0.01]]]), np.array([[1.0], [2.0], [3.0]]))
    path = prune_laws(p, [rich], Elimination(), Monitor(), whole=True)
    two = min((c for c in path if c.law.n_monomials == 2), key=lambda c: c.mean_square)
    assert sorted(two.law.exponents.ravel()) == [1.0, 2.0]
    found = two.law.coefficients[0, np.argsort(two.law.exponents.ravel())]
    assert found == pytest.approx(law.coefficients[0], rel=1e-3 if sigma == 0.0 else 0.1)
    assert two.origin == 0 and two.whole.all() and not two.free[1].any()
    assert prune_laws(p, [], Elimination(), Monitor()) == []


@pytest.mark.slow
def test_laws_that_leave_much_do_not_decide_on_the_steps_of_a_steep_one() -> None:
    # A piston that bounces off its gas: x^-1.3 wants finer steps than any law that has lost the data.
    p = prepare(bouncing(1e-5))
    law = PISTON.rescaled(p.scale.state, p.scale.time)
    lost = [PowerSum(np.array([[0.1], [0.01 * k]]), np.array([[0.0, 1.0]])) for k in range(4)]
    path = prune_laws(p, [law, *lost], Elimination(), Monitor(), fitted=True)
    best = min(path, key=lambda c: c.mean_square)
    assert best.law.n_monomials == 3
    assert best.law.exponents.min() == pytest.approx(-1.3, abs=1e-4)
    # The estimate of the noise is an upper limit: a law leaves no more than that.
    assert best.mean_square < 1.0
