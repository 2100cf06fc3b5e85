"""Growing on the integral form: exact on clean data, a useful list everywhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from odediscovery import TimeSeries, get_system, simulate_system
from odediscovery.bench.suites.problems import load_suite
from odediscovery.bench.suites.protocol import Protocol, training_data
from odediscovery.bench.suites.scoring import same_terms
from odediscovery.families import HILL_FUNCTIONS
from odediscovery.judge.doubt import interval_squares
from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.stages.grow.grow import GROWING, grow


def grown(system: str, noise: float = 0.0) -> tuple[list[PowerSum], PowerSum]:
    """Laws in the user's units, best first, and the truth."""
    p = prepare(simulate_system(system, noise=noise))
    laws = grow(p)
    truth = get_system(system).equations().power_sum
    assert truth is not None
    return [law.unscaled(p.scale.state, p.scale.time) for law in laws], truth


@pytest.mark.slow
@pytest.mark.parametrize("system", ["logistic", "theta-logistic", "lotka-volterra", "torricelli"])
def test_the_best_law_of_clean_data_is_the_truth(system: str) -> None:
    laws, truth = grown(system)
    assert same_terms(laws[0], truth, 0.005)


@pytest.mark.slow
def test_the_singular_start_of_fsir_does_not_hide_the_truth() -> None:
    laws, truth = grown("fsir")
    assert any(same_terms(law, truth, 0.01) for law in laws)


@pytest.mark.long
@pytest.mark.parametrize("draw", [12, 14])
def test_a_singular_start_of_rounded_values_does_not_hide_it_either(draw: int) -> None:
    system = load_suite("classics")["fsir"]
    # Samples at other times: the draws whose time span is longer or shorter by so much.
    share = {12: 0.035740427658756936, 14: 0.02296554464299441}[draw]
    system = replace(system, id=f"fsir-{draw}", t_span=(0.0, (1.0 + share) * system.t_span[1]))
    p = prepare(training_data(system, Protocol(0.0, digits=4, trajectories=1)))
    assert (interval_squares(grow(p, max_monomials=GROWING.quick_monomials)[0], p) < 1e-3).all()


def test_states_that_change_sign_have_whole_powers() -> None:
    laws, truth = grown("van-der-pol")
    assert same_terms(laws[0], truth, 0.0)
    for law in laws:
        assert np.array_equal(law.exponents, np.round(law.exponents))


@pytest.mark.slow
def test_a_law_that_leaves_nothing_and_is_plain_needs_no_other() -> None:
    laws, _ = grown("lotka-volterra")
    assert len(laws) == 1


@pytest.mark.slow
def test_structures_differ() -> None:
    laws, _ = grown("lotka-volterra", noise=0.002)
    assert len(laws) > 1
    # Laws differ by their terms, or by which exponents are whole numbers.
    kinds = {
        (law.structure(), np.sort(law.exponents[law.exponents == np.round(law.exponents)]).tobytes()) for law in laws
    }
    assert len(kinds) == len(laws)


@pytest.mark.slow
def test_hill_functions_have_the_exponent_that_the_data_have() -> None:
    hill = Equations.parse(["x", "y"], {"x": "0.6*y - 0.3*x", "y": "2/(1 + 0.1*x**2.6) - 0.4*y"})
    time = np.linspace(0.0, 20.0, 80)
    p = prepare(TimeSeries.from_arrays(time, hill.simulate(np.array([0.3, 1.0]), time), ["x", "y"]))
    laws = grow(p, family=HILL_FUNCTIONS)
    inner = laws[0].features.sums.exponents
    np.testing.assert_allclose(inner[inner != 0], 2.6, atol=1e-3)


def test_a_family_without_candidates_grows_nothing() -> None:
    # Every state changes its sign: there is nothing that a Hill function could be of.
    assert grow(prepare(simulate_system("van-der-pol")), family=HILL_FUNCTIONS) == ()
