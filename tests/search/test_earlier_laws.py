"""Laws of an earlier fit compete, in the units of the new data."""

from __future__ import annotations

import numpy as np

from odediscovery import get_system, simulate_system
from odediscovery.problem.prepare import prepare
from odediscovery.runtime.monitor import Monitor
from odediscovery.search.candidates import as_grown, is_settled, simplest, warm_start


def test_the_true_law_comes_back_settled() -> None:
    p = prepare(simulate_system("logistic"))
    truth = get_system("logistic").equations().power_sum
    assert truth is not None
    found = warm_start(p, [truth], Monitor())
    assert is_settled(found)
    best = simplest(found, p).law.unscaled(p.scale.state, p.scale.time)
    np.testing.assert_allclose(best.coefficients, truth.coefficients, rtol=1e-5)


def test_nothing_comes_of_nothing() -> None:
    p = prepare(simulate_system("logistic"))
    assert warm_start(p, [], Monitor()) == [] and not is_settled([])


def test_a_law_as_grown_keeps_its_exponents_and_says_what_it_leaves() -> None:
    p = prepare(simulate_system("logistic"))
    truth = get_system("logistic").equations().power_sum
    assert truth is not None
    good = as_grown(p, truth.rescaled(p.scale.state, p.scale.time))
    bad = as_grown(p, truth)
    assert good.mean_square < 1e-8 < bad.mean_square and good.whole.all()
