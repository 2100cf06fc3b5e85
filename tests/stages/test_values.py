"""What travels between stages says what is fitted, and how many degrees of freedom are left."""

from __future__ import annotations

import numpy as np
import pytest
from problems import LOGISTIC, growth

from odediscovery.laws.cost import all_free
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.stages.polish.polish import polish
from odediscovery.stages.values import Candidate, residual_freedom


def candidate(law: PowerSum, whole: list[bool], fixed: tuple | None = None) -> Candidate:
    return Candidate(law, np.ones((1, law.n_states)), 1.0, 0, np.array(whole), fixed)


def test_a_candidate_fits_its_constants_but_for_whole_powers_and_what_is_known() -> None:
    law = PowerSum(np.array([[1.0, -2.0], [0.0, 0.5]]), np.array([[1.5, 0.0], [2.0, 1.0]]))
    a, w, _, _ = candidate(law, [False, True]).free
    assert a.tolist() == [[True, True], [False, True]]
    assert w.tolist() == [[True, False], [True, False]]
    known = np.array([[True, False], [False, False]]), np.array([[True, False], [False, False]])
    a, w, _, _ = candidate(law, [False, True], known).free
    assert a.tolist() == [[False, True], [False, True]]
    assert w.tolist() == [[False, False], [True, False]]


def test_laws_have_one_form_up_to_fitted_exponents_and_the_order_of_terms() -> None:
    law = PowerSum(np.array([[1.0, -2.0]]), np.array([[1.5], [2.0]]))
    turned = PowerSum(np.array([[-3.0, 1.0]]), np.array([[2.0], [1.4]]))
    assert candidate(law, [False]).form == candidate(turned, [False]).form
    assert candidate(law, [True]).form != candidate(turned, [True]).form


@pytest.mark.slow
def test_degrees_of_freedom_and_wider_errors() -> None:
    p = prepare(growth(np.linspace(0.0, 20.0, 60), 0.01))
    law = LOGISTIC.rescaled(p.scale.state, p.scale.time)
    found = polish(law, p.data, p.initial, p.noise, floor=p.floor, nonnegative=p.nonnegative, free=all_free(law))
    # 60 samples, two coefficients, two exponents, one start.
    assert residual_freedom(found) == 55
    wide = found.widened(3.0)
    assert wide.errors.coefficients == pytest.approx(3.0 * found.errors.coefficients)
    assert np.diag(wide.covariance) == pytest.approx(9.0 * np.diag(found.covariance))
    assert wide.law is found.law
