"""A law whose terms do not act is passed over; what acts stays."""

import dataclasses

import numpy as np

from odediscovery.data.series import TimeSeries
from odediscovery.discovery.front import prefer_acting
from odediscovery.judge.criterion import judge
from odediscovery.judge.verdict import Verdict
from odediscovery.laws.cost import all_free
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.runtime.monitor import Monitor
from odediscovery.search.refinement import refined, sigma_of
from odediscovery.stages.values import Origin


def verdict_on(rows):
    t = np.linspace(0.0, 5.0, 60)
    x = 3.0 * np.exp(-0.5 * t) + 0.02 * np.random.default_rng(3).standard_normal(60)
    p = prepare(TimeSeries.from_arrays(t, x, ["x"]))
    judged = []
    for a, w in rows:
        law = PowerSum(np.array([a]), np.array(w)[:, None])
        _, of_w, b, v = all_free(law)
        found = refined(p, law, (law.coefficients != 0, np.zeros_like(of_w), b, v), p.initial, sigma_of(p))
        judged.append(judge(found, sigma_of(p), Origin(0)))
    return Verdict(p, tuple(judged), 0)


def test_a_term_whose_interval_contains_zero_is_taken_out():
    before = verdict_on([([-0.04, 0.001], [1.0, 2.0])])
    found = prefer_acting(before, Monitor())
    assert found.best.polished.law.exponents.ravel().tolist() == [1.0]
    assert found.best.criterion < before.best.criterion


def test_a_law_whose_terms_act_stays():
    before = verdict_on([([-0.04], [1.0])])
    assert prefer_acting(before, Monitor()) is before


def test_clean_data_and_a_spent_limit_leave_the_verdict():
    before = verdict_on([([-0.04, 0.001], [1.0, 2.0])])
    assert prefer_acting(before, Monitor(max_seconds=0.0)) is before
    clean = dataclasses.replace(before, p=before.p.without_noise(None))
    assert prefer_acting(clean, Monitor()) is clean
