"""Chains and networks solved on chosen grids: accuracy, sensitivities, the choice of the grid, plain numbers."""

import dataclasses

import numpy as np
import pytest
import torch
from problems import PREY, STARTS, chain_of_law, field_of, numeric_jacobian, random_chain, series_of, solved

from odediscovery.families import Function
from odediscovery.laws.power_sum import PowerSum
from odediscovery.networks.chain import Chain, Pair, member_rates
from odediscovery.problem.problem import prepare
from odediscovery.solve import fixed_step
from odediscovery.solve.grids import (
    GRIDS,
    REFERENCE,
    advance,
    advance_by_grid,
    choose_grids,
    plain_nodes,
    rk4_nodes,
    sensitivities,
)
from odediscovery.solve.sensitivities import LinearisedTrajectory, linear_recurrence

# x' = sqrt(x): x(t) = (sqrt(x0) + t / 2)^2, singular at 0.
ROOT = PowerSum(np.array([[1.0]]), np.array([[0.5]]))


def root_error(grid, start):
    chain = chain_of_law(ROOT)
    end = advance(chain.rhs(chain.theta), np.array([[[start]]]), np.array([1.0]), grid)
    return abs(end.item() - (start**0.5 + 0.5) ** 2)


def test_finer_uniform_grids_are_of_fourth_order():
    errors = [root_error(np.linspace(0, 1, n + 1), 1.0) for n in (4, 8)]
    assert errors[0] / errors[1] == pytest.approx(16.0, rel=0.25)


def test_graded_grids_are_better_near_a_singular_start():
    graded, uniform = GRIDS[5], np.linspace(0, 1, len(GRIDS[5]))
    assert root_error(graded, 1e-4) < 0.1 * root_error(uniform, 1e-4)
    assert root_error(REFERENCE, 1e-4) < 1e-5


def test_sensitivities_are_the_derivatives_of_the_end():
    chain, duration = random_chain(), np.array([0.7, 1.2])
    start, index = np.array([STARTS, STARTS + 0.1]), np.array([2, 4])
    columns = np.tile(np.arange(chain.theta.shape[1]), (2, 1))
    end, s = sensitivities(chain, chain.theta, start, duration, index, columns)
    rhs = chain.rhs(chain.theta)
    np.testing.assert_allclose(end, advance_by_grid(rhs, start, duration, index), rtol=1e-13)
    assert s.shape == (2, 2, 2, 2 + chain.theta.shape[1])

    def by_theta(theta):
        return advance_by_grid(chain.rhs(theta), start, duration, index).reshape(2, -1)

    numeric = numeric_jacobian(by_theta, chain.theta, 1e-6).reshape(2, 2, 2, -1)
    np.testing.assert_allclose(s[..., 2:], numeric, rtol=1e-5, atol=1e-7)
    for k in range(2):
        shift = np.zeros(2)
        shift[k] = 1e-6
        ends = [advance_by_grid(rhs, start + d, duration, index) for d in (shift, -shift)]
        np.testing.assert_allclose(s[..., k], (ends[0] - ends[1]) / 2e-6, rtol=1e-5, atol=1e-7)


def test_grids_are_as_fine_as_a_window_needs():
    chain = chain_of_law(ROOT, members=3)
    start = np.array([[[1.0], [1.0], [1e-4]]] * 3)
    duration = np.array([0.01, 2.0, 1.0])
    tolerance = np.array([1e-6])
    index = choose_grids(chain.rhs(chain.theta), start, duration, tolerance)
    assert index[0] == 0
    assert index[0] < index[1] < index[2]
    exact = [(x**0.5 + h / 2) ** 2 for x, h in zip((1.0, 1.0, 1e-4), (0.01, 2.0, 1.0), strict=True)]
    ends = advance_by_grid(chain.rhs(chain.theta), start, duration, index)
    assert bool((np.abs(ends[0, :2, 0] - exact[:2]) <= 1.5e-6).all())
    coarse = choose_grids(chain.rhs(chain.theta), start, duration, 1e4 * tolerance)
    assert bool((coarse <= index).all()) and coarse[2] < index[2]


def test_members_without_a_solution_do_not_choose_the_grid():
    chain = chain_of_law(ROOT, members=3)
    theta = chain.theta.copy()
    start, duration, tolerance = np.array([[[1.0]]] * 3), np.array([1.0]), np.array([1e-5])
    expected = choose_grids(chain.rhs(theta), start, duration, tolerance)
    theta[1] = np.nan
    assert np.array_equal(choose_grids(chain.rhs(theta), start, duration, tolerance), expected)
    theta[:] = np.nan
    hopeless = choose_grids(chain.rhs(theta), start, duration, tolerance)
    assert hopeless.tolist() == [len(GRIDS) - 1]


def test_steps_side_by_side_give_the_same_sensitivities():
    chain, duration = random_chain(), np.array([0.7, 1.2, 0.3])
    start, index = np.array([[*STARTS, STARTS[0]]] * 2), np.array([5, 1, 7])
    columns = np.array([[0, 4, 9], [1, 2, 11]])
    end, s = sensitivities(chain, chain.theta, start, duration, index, columns)
    # Of so many windows steps are taken one after the other.
    many = np.tile(start, (1, 800, 1)), np.tile(duration, 800), np.tile(index, 800)
    one_by_one, expected = sensitivities(chain, chain.theta, *many, columns)
    np.testing.assert_allclose(end, one_by_one[:, :3], rtol=1e-13)
    np.testing.assert_allclose(s, expected[:, :3], rtol=1e-11, atol=1e-13)


def test_a_march_takes_the_steps_of_the_solver():
    chain, duration = random_chain(), np.array([0.7, 1.2])
    rhs, start = chain.rhs(chain.theta), np.array([STARTS, STARTS + 0.1])
    nodes = rk4_nodes(rhs, start, duration[:, None] * np.diff(GRIDS[3]))
    assert nodes.shape == (2, 2, len(GRIDS[3]), 2)
    np.testing.assert_array_equal(nodes[:, :, 0], start)
    np.testing.assert_allclose(nodes[:, :, -1], advance(rhs, start, duration, GRIDS[3]), rtol=1e-13)


def test_accurate_on_a_predator_and_its_prey_and_as_networks_solve_it():
    chain, field, times = chain_of_law(PREY), field_of(PREY), np.array([0.0, 1.5])
    start, duration = np.array([STARTS]), np.array([1.5, 1.5])
    end = advance(chain.rhs(chain.theta), start, duration, GRIDS[-1])
    np.testing.assert_allclose(end[0], [solved(PREY, start, times)[-1] for start in STARTS], rtol=1e-7)
    rhs, tensors = field.rhs(field.theta), (torch.as_tensor(part) for part in (start, duration))
    np.testing.assert_allclose(end, fixed_step.advance(rhs, *tensors, fixed_step.GRIDS[-1]), rtol=1e-12)


POSITIVE, ANY = np.array([True, True]), np.array([False, False])
CROSSED = np.array([[0.0, 1.0], [1.0, 0.5]])


def chain_of(pairs, **options):
    """A chain of one member from (nonnegative, exponents, weights) of each pair."""
    theta = np.concatenate([part.ravel() for _, w, a in pairs for part in (w, a)])[None]
    layers = tuple(Pair(nonnegative, len(w), len(a)) for nonnegative, w, a in pairs)
    return Chain(2, options.pop("functions", ()), layers, theta, theta != 0.0, **options)


CHAINS = {
    "real powers": chain_of([(POSITIVE, np.array([[0.5, 0.7], [0.0, -0.3]]), np.array([[-0.5, 0.2], [0.3, -0.1]]))]),
    "whole powers": chain_of(
        [(ANY, np.array([[2.0, 1.0], [-1.0, 0.0], [0.0, 3.0]]), np.array([[0.0, 0.2, -1.0]] * 2))]
    ),
    "a function": chain_of(
        [(np.array([False] * 3), np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]), np.array([[-1.0, 0.0], [0.0, 2.0]]))],
        functions=(Function("sin", 1, 0.7),),
    ),
    "a quotient": chain_of(
        [
            (POSITIVE, np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]), np.array([[1, 0, 0.0], [0, 1, 0], [0.3, 0, 1]])),
            (np.array([True] * 3), np.array([[1.0, 1.0, -1.0], [0.0, 1.0, 0.0]]), np.array([[0.5, 0], [-0.5, 0.1]])),
        ]
    ),
    "an equation that follows": chain_of(
        [(POSITIVE, CROSSED, np.array([[-0.5, 0.2], [0.0, 0.0]]))], stoichiometry=np.array([[1.0, 0.0], [-1.0, 0.0]])
    ),
}


@pytest.mark.parametrize("name", sorted(CHAINS))
def test_they_are_those_of_arrays(name):
    chain = CHAINS[name]
    start = np.array([[[1.0, 2.0], [0.7, 0.3], [1.5, 0.9]]])
    steps = np.array([[0.1, 0.05, 0.1], [0.1, 0.0, 0.1], [0.2, 0.1, 0.0]])
    found = plain_nodes(chain, chain.theta, start, steps)
    np.testing.assert_allclose(found, rk4_nodes(chain.rhs(chain.theta), start, steps), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("x", [(-0.5, 0.2), (0.0, 0.0), (0.3, -1e-9), (1e-18, 0.0)])
@pytest.mark.parametrize("name", sorted(CHAINS))
def test_rates_at_and_beyond_zero_are_those_of_arrays(name, x):
    chain, rates = CHAINS[name], member_rates(CHAINS[name], CHAINS[name].theta[0])
    np.testing.assert_allclose(rates(*x), chain.rhs(chain.theta)(np.array([[x]]))[0, 0], rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("place", range(8))
def test_a_trial_step_that_is_no_number_leads_to_none(place, value):
    chain = CHAINS["real powers"]
    theta, start = chain.theta.copy(), np.array([[[1.2, 2.0]]])
    theta[0, place] = value
    steps = np.full((1, 3), 0.1)
    with np.errstate(all="ignore"):
        expected = rk4_nodes(chain.rhs(theta), start, steps)
        found = plain_nodes(chain, theta, start, steps)
    assert found is None or not np.isfinite(found[0, 0, -1]).all()
    assert not np.isfinite(expected[0, 0, -1]).all() or found is None


def test_what_is_no_number_stays_none():
    for chain in CHAINS.values():
        rates = member_rates(chain, chain.theta[0])
        assert rates is not None and np.isnan(rates(np.nan, np.nan)).any()


def test_functions_whose_arguments_have_bounds_are_left_to_arrays():
    three = np.array([False] * 3)
    one = [(three, np.array([[0.0, 0.0, 1.0]]), np.array([[-1.0], [0.0]]))]
    chain = chain_of(one, functions=(Function("log", 1),))
    assert member_rates(chain, chain.theta[0]) is None


def test_powers_that_turn_and_many_points_are_left_to_arrays():
    turning = chain_of([(ANY, np.array([[0.5, 1.0]]), np.array([[1.0], [0.0]]))])
    assert plain_nodes(turning, turning.theta, np.ones((1, 1, 2)), np.full((1, 3), 0.1)) is None
    chain, many = CHAINS["real powers"], 250
    assert plain_nodes(chain, chain.theta, np.ones((1, many, 2)), np.full((many, 3), 0.1)) is None


def test_a_number_that_becomes_too_large_is_left_to_arrays():
    growing = chain_of([(POSITIVE, np.array([[300.0, 0.0]]), np.array([[1.0], [0.0]]))])
    assert plain_nodes(growing, growing.theta, np.full((1, 1, 2), 1e3), np.full((1, 3), 1.0)) is None


LAW = PowerSum(np.array([[-0.02, 0.03], [0.04, -0.02]]), np.eye(2))


def problem(samples=30):
    """Predator and prey with a little noise."""
    return prepare(series_of(PREY, STARTS, [np.linspace(0.0, 8.0, samples)] * 2, 0.02))


def along_of(p, law=LAW):
    return LinearisedTrajectory.of(p, law, p.initial, p.sigma)


def responses(along):
    return along.responses(1, [LAW.monomials(x)[..., :1] for x in along.x])[:, 0]


@pytest.mark.parametrize("samples", [30, 1000])
def test_responses_are_what_small_forces_do(samples):
    p = problem(samples)
    size = 1e-5
    along = along_of(p)
    other = along_of(p, PowerSum(LAW.coefficients + np.array([[0.0, 0.0], [size, 0.0]]), LAW.exponents))
    expected = (along.residual - other.residual) / size
    assert responses(along) == pytest.approx(expected, rel=1e-2, abs=1e-3 * float(np.abs(expected).max()))


def test_starts_are_what_other_starts_do():
    p = problem()
    along, size = along_of(p), 1e-5
    moved = p.initial + size * np.array([[0.0, 1.0], [0.0, 0.0]])
    other = LinearisedTrajectory.of(p, LAW, moved, p.sigma)
    expected = (along.residual - other.residual) / size
    assert along.starts()[:, 1] == pytest.approx(expected, rel=1e-2, abs=1e-3 * float(np.abs(expected).max()))


@pytest.mark.parametrize("samples", [30, 1000])
def test_the_adjoint_weights_forces_as_responses_do(samples):
    along, random = along_of(problem(samples)), np.random.default_rng(0)
    rows = random.standard_normal((len(along.residual), 3))
    kernel = along.adjoint(rows)
    forces = [random.standard_normal((len(x), 2)) for x in along.x]
    for equation in range(2):
        found = kernel[equation] @ np.concatenate(forces)
        np.testing.assert_allclose(found, rows.T @ along.responses(equation, forces), rtol=1e-9, atol=1e-9)


def test_no_forces_have_no_responses():
    along = along_of(problem())
    assert along.responses(1, [LAW.monomials(x)[..., :0] for x in along.x]).shape == (len(along.residual), 0)


def test_missing_values_count_for_nothing_in_means_of_neighbours():
    p = problem(1000)
    gone = [
        dataclasses.replace(t, values=np.where(np.arange(1000)[:, None] % 2, np.nan, t.values))
        for t in p.data.trajectories
    ]
    p = dataclasses.replace(p, data=dataclasses.replace(p.data, trajectories=tuple(gone)))
    along = along_of(p)
    assert len(along.residual) == 1000 and along.samples == 2000
    # Of four neighbours two are known: their sum over the root of two.
    first = along.left[0][:4, 0]
    assert np.count_nonzero(first) == 2
    assert along.residual[0] == pytest.approx(first.sum() / np.sqrt(2.0))


def test_a_recurrence_is_what_a_loop_gives():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((7, 3, 3)), rng.standard_normal((7, 3, 4))
    z = [rng.standard_normal((3, 4))]
    for j in range(7):
        z.append(a[j] @ z[-1] + b[j])
    np.testing.assert_allclose(linear_recurrence(a, b, z[0]), np.stack(z), rtol=1e-10)
