"""Groups fitted each on its own: exact data give their constants back, an expectation holds them as Bayes says."""

from __future__ import annotations

import numpy as np
import pytest

from odediscovery.population.model.measured import ANY, POSITIVE, GroupModel, Measured, Start
from odediscovery.population.model.members import members_of
from odediscovery.population.model.separate import fit_each
from odediscovery.population.model.structures import Entry, Structure

DECAY = Structure(np.array([[1.0]]), (Entry(0, 0, 0, -1),))
T = np.linspace(0.0, 4.0, 9)
RATES, STARTS = np.array([0.3, 0.8, 1.5]), np.array([2.0, 5.0, 1.0])


def model_of(values: np.ndarray, kind: str) -> GroupModel:
    """Decay of groups [groups, samples], with a start of each group's own."""
    data = members_of([(T, own[:, None]) for own in values])
    start = Start(kind, values[:, 0].copy())
    return GroupModel(DECAY, Measured(data, (start,), np.zeros(1, bool), tuple("abc"[: len(values)]), {}))


def test_exact_data_give_every_group_its_constants_back() -> None:
    model = model_of(STARTS[:, None] * np.exp(-RATES[:, None] * T), POSITIVE)
    found = fit_each(model, np.zeros((2, 3)), np.full(1, 0.01))
    # What is left is the error of Runge-Kutta with its first, coarse steps.
    np.testing.assert_allclose(np.exp(found.unknowns), [RATES, STARTS], rtol=1e-4)
    assert (found.objective < 1e-3).all()
    np.testing.assert_allclose(found.squares.sum(axis=0), found.objective * 0.01**2)


@pytest.mark.parametrize("width", [0.2])
def test_an_expectation_weighs_as_much_as_its_precision(width: float) -> None:
    """A rate that is held at nearly 0 leaves a constant, of which the most likely value is a weighted mean."""
    values = 3.0 + 0.3 * np.cos(5.0 * np.arange(9.0))[None]
    sigma, expected = 0.3, 1.0
    begin = np.array([[-25.0], [2.0]])
    centre, widths = np.array([-25.0, expected]), np.array([1e-6, width])
    found = fit_each(model_of(values, ANY), begin, np.full(1, sigma), centre, widths, steps=100)
    n = values.size
    mean = (values.sum() / sigma**2 + expected / width**2) / (n / sigma**2 + 1.0 / width**2)
    assert found.unknowns[1, 0] == pytest.approx(mean, rel=1e-4)
    left = ((values - mean) ** 2).sum() / sigma**2 + ((mean - expected) / width) ** 2
    assert found.objective[0] == pytest.approx(left, rel=1e-4)
