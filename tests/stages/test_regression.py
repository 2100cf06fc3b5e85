"""Whole powers by regression: the fewest products behind a law's rates."""

import numpy as np

from odediscovery import TimeSeries
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.problem import prepare
from odediscovery.stages.regression import fewest_terms, products_up_to_degree


def epidemic(total=1.0):
    """Samples of an SIR law, of which S + I + R never changes, as a problem."""
    t, x = np.linspace(0.0, 20.0, 60), [np.array([0.9, 0.1, 0.0]) * total]
    for _ in t[1:]:
        s, i, r = x[-1]
        new, well = 0.1 * s * i, 0.05 * i
        x.append(np.array([s - new, i + new - well, r + well]))
    return prepare(TimeSeries.from_arrays([t], [np.array(x)], ["S", "I", "R"]))


def law_of(*equations):
    """The law with coefficients of products up to degree two, by exponents."""
    rows = products_up_to_degree(3, 2)
    a = np.zeros((3, len(rows)))
    for i, terms in enumerate(equations):
        for row, value in terms.items():
            a[i, (rows == row).all(axis=1)] = value
    return PowerSum(a, rows)


def test_a_rate_written_with_a_conserved_sum_has_one_product():
    p = epidemic()
    total = float((p.data.trajectories[0].values[0] * p.scale.state).sum())
    # I (S + I + R) / N is I, in the units of the problem.
    share = p.scale.state / total
    long = {(1, 1, 0): share[0], (0, 2, 0): share[1], (0, 1, 1): share[2]}
    found = fewest_terms(law_of({(1, 1, 0): -1.0}, {(1, 1, 0): 1.0}, long), p)
    assert found is not None
    x = p.data.trajectories[0].values
    np.testing.assert_allclose(found.rhs(x)[:, 2], x[:, 1], rtol=1e-5)
    assert (found.coefficients != 0.0).sum(axis=1).tolist() == [1, 1, 1]


def test_a_law_that_no_fewer_products_reproduce_stays():
    assert (
        fewest_terms(law_of({(1, 0, 0): 1.0, (0, 0, 2): -1.0}, {(0, 1, 0): 1.0}, {(0, 0, 1): 1.0}), epidemic()) is None
    )
