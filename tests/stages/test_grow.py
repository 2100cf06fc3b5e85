"""Growing on the integral form: exact on clean data, a useful list everywhere."""

from __future__ import annotations

import numpy as np
import pytest

from odediscovery import get_system, simulate_system
from odediscovery.bench.scores import same_terms
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.problem import prepare
from odediscovery.stages.grow import grow


def grown(system: str, noise: float = 0.0) -> tuple[list[PowerSum], PowerSum]:
    """Laws in the user's units, best first, and the truth."""
    p = prepare(simulate_system(system, noise=noise))
    laws = grow(p)
    truth = get_system(system).equations().power_sum
    assert truth is not None
    return [law.unscaled(p.scale.state, p.scale.time) for law in laws], truth


@pytest.mark.slow
@pytest.mark.parametrize("system", ["theta-logistic", "lotka-volterra"])
def test_the_best_law_of_clean_data_is_the_truth(system: str) -> None:
    laws, truth = grown(system)
    assert same_terms(laws[0], truth, 0.005)


def test_states_that_change_sign_have_whole_powers() -> None:
    laws, truth = grown("van-der-pol")
    assert same_terms(laws[0], truth, 0.0)
    for law in laws:
        assert np.array_equal(law.exponents, np.round(law.exponents))
