"""The judge: what a law's misfit and constants cost, the shortlist, the front, constants that are one."""

import math

import numpy as np
import pytest

from odediscovery.judge.criterion import (
    NO_TIES,
    NOTHING,
    choose,
    find_ties,
    judge,
    non_dominated,
    penalty,
    shares_of,
    shortlist,
)
from odediscovery.laws.power_sum import PowerSum, all_free, constant_penalty, cost
from odediscovery.laws.records import Candidate, Covariance, Judged, Origin, Polished
from odediscovery.problem.problem import Independent

FLOOR = np.array([1e-3])


def law_of(terms):
    """x' = x + x^2 + ...: complexity 2 * terms + 1."""
    return PowerSum(np.ones((1, terms)), np.arange(1.0, terms + 1.0)[:, None])


def polished(terms, mean_square, samples=100, finite=True):
    law = law_of(terms)
    return Polished(
        law,
        law,
        np.ones((1, 1)),
        Covariance.nothing_known(2 * terms),
        all_free(law),
        np.array([mean_square * samples]),
        np.array([float(samples)]),
        finite,
        np.array([mean_square * samples]),
    )


def candidate(terms, mean_square, whole=False):
    return Candidate(law_of(terms), np.ones((1, 1)), mean_square, 0, np.array([whole]))


def test_the_criterion_is_misfit_and_cost():
    row = judge(polished(2, 0.04), FLOOR, Origin(3, "training"))
    fitted = 4 + 1
    expected = 100 * math.log(0.04 + 1e-6) + 4 * constant_penalty(1, 100) * 100 / (100 - fitted - 2)
    assert row.criterion == pytest.approx(expected, rel=1e-12)
    assert row.origin == Origin(3, "training")


def test_fitting_closer_than_the_floor_is_no_merit():
    close, closer = (judge(polished(2, ms), FLOOR, 0).criterion for ms in (1e-12, 1e-16))
    assert close == pytest.approx(closer, abs=1e-3)
    assert judge(polished(1, 1e-12), FLOOR, 0).criterion < closer
    assert judge(polished(1, 1e-4), FLOOR, 0).criterion > close


def test_few_samples_make_constants_dear():
    law = law_of(2)
    assert penalty(law, all_free(law), 1e9, 1) == pytest.approx(cost(law, all_free(law), 1e9))
    factors = [penalty(law, all_free(law), n, 1) / cost(law, all_free(law), n) for n in (10.0, 20.0, 100.0)]
    assert factors == pytest.approx([10 / 3, 20 / 13, 100 / 93])
    assert penalty(law, all_free(law), 6.0, 1) > 6.0  # more constants than samples: finite, dear


def test_a_law_that_blows_up_is_the_worst():
    assert judge(polished(1, 0.1, finite=False), FLOOR, 0).criterion == math.inf
    assert judge(polished(1, math.inf), FLOOR, 0).criterion == math.inf


def test_evidence_is_counted_in_independent_samples():
    few = Independent(np.array([0.5]))
    whole, half = (judge(polished(2, 0.04), FLOOR, 0, independent=count) for count in (None, few))
    assert half.criterion - whole.criterion == pytest.approx(-50 * math.log(0.04 + 1e-6))


def test_what_exceeds_the_error_of_a_solver_counts_by_all_samples():
    few = Independent(np.array([0.01]), np.array([1e-3]))

    def gain(far, near):
        """Decades of the mean square that the criterion counts between two laws of one length."""
        rows = (judge(polished(2, ms), np.array([1e-9]), 0, independent=few).criterion for ms in (far, near))
        return float(np.subtract(*rows)) / math.log(10.0)

    assert gain(1e-1, 1e-3) == pytest.approx(200.0, abs=0.1)  # of 100 samples
    assert gain(1e-10, 1e-12) == pytest.approx(2.0, abs=0.1)  # of the one that is independent


def test_numbers_next_to_nothing_are_found_with_their_shares():
    x = np.exp(np.linspace(-1.0, 1.0, 21))[:, None]
    a, w = np.array([[1.0, -1e-4, 0.5]]), np.array([[1.0], [2.0], [3.001]])
    law = PowerSum(a, w)
    free = all_free(law)
    of_terms, of_powers, _ = shares_of(law, free, x)
    largest = np.maximum(x, 0.5 * x**3.001)
    beside = 1e-4 * x**2 / np.maximum(largest, np.median(largest))
    assert of_terms[0, 1] == pytest.approx(np.sqrt(np.mean(beside**2)), rel=1e-6)
    assert of_terms[0, 1] < NOTHING < min(of_terms[0, 0], of_terms[0, 2])
    assert of_powers[2, 0] == pytest.approx(1e-3 * np.std(np.log(x)), rel=1e-6) and of_powers[2, 0] < NOTHING
    # A simple power is what it would be without its distance; what was not fitted was not chosen to be so small.
    assert np.isinf(of_powers[:2]).all()
    assert all(np.isinf(share).all() for share in shares_of(law, (free[0] & False, free[1] & False, *free[2:]), x))


def test_the_smallest_criterion_is_chosen():
    rows = [judge(polished(k, ms), FLOOR, 0) for k, ms in ((1, 0.5), (2, 1e-4), (3, 0.9e-4))]
    assert choose(rows) == 1
    assert choose([*rows, Judged(polished(1, 1.0), -1e9, 0)]) == 3


def test_the_shortlist_is_the_front_around_the_best():
    squares = {1: 1.0, 2: 0.5, 3: 0.1, 4: 1e-6, 5: 0.9e-6, 6: 0.8e-6, 7: 0.7e-6, 8: 0.6e-6}
    given = [candidate(k, ms) for k, ms in squares.items()]
    given += [candidate(k, 2.0 * ms) for k, ms in squares.items()]  # worse of the same size
    listed = shortlist(given, 100, 1e-9, around=2)
    assert [c.law.n_monomials for c in listed] == [2, 3, 4, 5, 6]
    assert all(c.mean_square == squares[c.law.n_monomials] for c in listed)


def test_the_front_has_what_nothing_simpler_beats():
    rows = [judge(polished(k, ms), FLOOR, 0) for k, ms in ((3, 0.02), (1, 0.5), (2, 0.1), (2, 0.09), (4, 0.03))]
    assert non_dominated(rows, chosen=0, scale=np.ones(1)) == [1, 3, 0]


ONE = np.ones(2)


def linear(a, deviations, samples=100.0):
    """A law of linear terms whose coefficients have independent errors; starts are not among them."""
    law = PowerSum(np.array(a), np.eye(len(a[0]), 2))
    free = (law.coefficients != 0, np.zeros_like(law.exponents, dtype=bool), *all_free(law)[2:])
    joint = Covariance.of(np.diag(1.0 / np.array(deviations)))
    counts = np.full(2, samples / 2)
    return Polished(law, law, np.ones((1, 2)), joint, free, counts, counts, True, counts)


def test_a_flow_from_one_state_to_another_is_one_constant():
    found = find_ties(linear([[-1.0, 0.0], [1.1, -0.5]], [0.1, 0.1, 0.1]), ONE)
    assert found.number == 1
    # (1.1 - 1.0)^2 over the variance of the difference.
    assert found.loss == pytest.approx(0.5, rel=1e-6)


@pytest.mark.parametrize(
    ("a", "scale"),
    [
        ([[1.0, 0.0], [1.0, -0.5]], ONE),  # enters both
        ([[-1.0, 0.0], [1.0, -0.5]], np.array([1.0, 5.0])),  # other rates in the user's units
    ],
)
def test_what_is_no_flow_is_not_tied(a, scale):
    deviations = [0.01] * np.count_nonzero(a)
    assert find_ties(linear(a, deviations), scale) is NO_TIES


def three(signs, deviations):
    """One monomial in three equations, with independent errors."""
    law = PowerSum(np.array(signs)[:, None], np.array([[1.0, 0.0, 0.0]]))
    free = (law.coefficients != 0, np.zeros_like(law.exponents, dtype=bool), *all_free(law)[2:])
    counts = np.full(3, 50.0)
    return Polished(
        law,
        law,
        np.ones((1, 3)),
        Covariance.of(np.diag(1.0 / np.array(deviations))),
        free,
        counts,
        counts,
        True,
        counts,
    )


def test_a_tie_saves_what_a_value_costs():
    found = linear([[-1.0, 0.0], [1.0, -0.5]], [0.01] * 3)
    untied, tied = (penalty(found.law, found.free, 100.0, 2, ties) for ties in (0, 1))
    # Two exponents held at 1 cost 1 each; three coefficients and two starts, or two and two, of 100 samples.
    cost = 3 * constant_penalty(2, 100.0) + 2.0
    assert untied == pytest.approx(cost * 100.0 / (100.0 - 5 - 2))
    assert tied == pytest.approx((cost - math.log(100.0)) * 100.0 / (100.0 - 4 - 2))
