"""Chains as arrays and as fields of units: laws as networks, networks as laws, derivatives."""

import dataclasses

import numpy as np
import pytest
import sympy
import torch
from problems import PREY, field_of, numeric_jacobian, random_field

from odediscovery.data.series import Scale
from odediscovery.families import STATE_FUNCTIONS, Function
from odediscovery.laws.power_sum import Features, PowerSum, Sums
from odediscovery.networks.chain import Chain, Pair, chain_of, laws_of, network_of
from odediscovery.units import NAU, UNITS, Functions, RealNPU

SIGNED, POSITIVE = np.array([True, False]), np.array([True, True])
SHORT = (Pair(SIGNED, 4, 2),)
NONNEGATIVE = (Pair(POSITIVE, 4, 2),)
LONG = (Pair(np.array([True, False, False, True]), 5, 6), Pair(np.array([True, False, False, True, True, True]), 3, 2))
# As a chain of units names them.
FUNCTIONS = (Function("sin", 1, 2.0), Function("exp", 0, 0.5))


def random(functions, pairs):
    size = sum(np.prod(pair.real) + np.prod(pair.weight) for pair in pairs)
    # Positive, so that sums are, which later powers take to be.
    theta = np.random.default_rng(1).uniform(0.1, 0.7, (2, size))
    return Chain(2, functions, pairs, theta, np.ones(theta.shape, dtype=bool))


def whole(least=0, most=3):
    """Whole powers, also odd ones of a state that changes its sign."""
    chain = random((), SHORT)
    theta = chain.theta.copy()
    theta[:, :8] = np.random.default_rng(3).integers(least, most, (2, 8), endpoint=True)
    return chain.replace(theta)


CHAINS = {
    "powers": random((), SHORT),
    "whole powers": whole(),
    "whole powers and reciprocals": whole(-2, 2),
    "high whole powers": whole(0, 9),
    "functions": random(FUNCTIONS, (Pair(np.array([True, False, False, True]), 4, 2),)),
    "powers of amounts": random((), NONNEGATIVE),
    "functions and sums": random(FUNCTIONS, LONG),
    "tied": dataclasses.replace(random((), SHORT), stoichiometry=np.array([[1.0, 0.0], [-1.0, 0.5]])),
}


def states(chain, batch=5):
    x = np.random.default_rng(2).standard_normal((chain.members, batch, 2))
    if len(chain.pairs) > 1:
        return np.abs(x) + 0.2
    x[..., chain.pairs[0].nonnegative[:2]] = np.abs(x[..., chain.pairs[0].nonnegative[:2]])
    return x


@pytest.mark.parametrize("name", [*CHAINS])
def test_rates_are_those_of_the_units(name):
    chain = CHAINS[name]
    x = states(chain)
    y = torch.as_tensor(x)
    if chain.functions:
        unit = Functions(2, 2 + len(chain.functions), functions=[(f.name, f.state) for f in chain.functions])
        y = unit.compute({"rate": torch.tensor([[f.rate for f in chain.functions]] * 2, dtype=torch.float64)}, y)
    for pair, (real, weight) in zip(chain.pairs, chain.unpack(chain.theta), strict=True):
        powers = RealNPU(pair.n_in, pair.width, nonnegative=pair.nonnegative.tolist())
        gate = torch.ones(2, pair.n_in, dtype=torch.float64)
        y = powers.compute({"real": torch.as_tensor(real), "gate": gate}, y)
        y = NAU(pair.width, pair.n_out).compute({"weight": torch.as_tensor(weight)}, y)
    expected = y if chain.stoichiometry is None else y @ torch.as_tensor(chain.stoichiometry).T
    np.testing.assert_allclose(chain.rhs(chain.theta)(x), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", [*CHAINS])
def test_linearised_is_the_derivative(name):
    chain = CHAINS[name]
    x, count = states(chain), chain.theta.shape[1]
    f, f_x, f_theta = chain.linearisation(chain.theta, np.tile(np.arange(count), (2, 1)))(x)
    np.testing.assert_allclose(f, chain.rhs(chain.theta)(x), rtol=1e-13, atol=1e-14)
    numeric = numeric_jacobian(lambda theta: chain.rhs(theta)(x).reshape(2, -1), chain.theta, 1e-6)
    np.testing.assert_allclose(f_theta.reshape(2, -1, count), numeric, rtol=1e-6, atol=1e-7)
    rates = chain.rhs(chain.theta)
    for k in range(2):
        shift = 1e-6 * np.eye(2)[k]
        np.testing.assert_allclose(f_x[..., k], (rates(x + shift) - rates(x - shift)) / 2e-6, rtol=1e-5, atol=1e-6)


def test_arguments_out_of_bounds_count_as_the_bounds():
    name, f = next((name, f) for name, f in STATE_FUNCTIONS.items() if np.isfinite(f.bounds[1]))
    chain = random((Function(name, 0),), (Pair(np.array([True, True, True]), 2, 2),))
    beyond, at = (np.array([[[z, 1.0]]] * 2) for z in (f.bounds[1] + 5.0, f.bounds[1]))
    np.testing.assert_array_equal(chain.features(beyond)[..., 2], chain.features(at)[..., 2])


# x' = 2 x sin(2 x) - x^2 / (1 + 4 x^2 y),  y' = 0.5 y exp(-1.5 y);  and one with two sums
RICH = PowerSum(
    np.array([[2.0, -1.0, 0.0], [0.0, 0.0, 0.5]]),
    np.array([[1.0, 0, 1, 0, 0], [2.0, 0, 0, 0, -1], [0, 1.0, 0, -1.5, 0]]),
    Features(
        2, (Function("sin", 0, 2.0), Function("exp", 1)), Sums(np.array([[4.0]]), np.array([[2.0, 1.0, 0.0, 0.0]]))
    ),
)
TWO_SUMS = PowerSum(
    np.array([[1.0], [2.0]]),
    np.array([[1.0, 0.0, -1.0, -1.0]]),
    Features(2, (), Sums(np.array([[2.0, 0.0], [0.0, 3.0]]), np.array([[1.0, 0.0], [1.0, 1.0]]))),
)
TWO = np.ones(2, dtype=bool)


def test_laws_of_all_families_are_members_of_one_chain():
    laws = [RICH, PREY, TWO_SUMS]
    chain = chain_of(laws, TWO, whole=True)
    assert len(chain.functions) == 2 and len(chain.pairs) == 2
    x = np.random.default_rng(0).uniform(0.2, 2.0, (3, 5, 2))
    rates = chain.rhs(chain.theta)(x)
    for member, (law, again) in enumerate(zip(laws, laws_of(chain), strict=True)):
        np.testing.assert_allclose(rates[member], law.rhs(x[member]), rtol=1e-12)
        np.testing.assert_allclose(again.rhs(x[member]), law.rhs(x[member]), rtol=1e-12)
        assert again.complexity == law.complexity
    # Coefficients, weights of sums and rates of exponentials; whole powers are held.
    assert chain.free.sum(axis=1).tolist() == [3 + 1 + 1, 4, 2 + 2]
    # Without `whole` the powers of states and of sums are fitted too.
    assert chain_of([TWO_SUMS], TWO).free.sum().item() == 2 + 2 + 3 + 3


def test_powers_of_sums_stay_as_they_are_where_powers_are_held():
    norm = dataclasses.replace(TWO_SUMS, exponents=np.array([[1.0, 0.0, 0.5, -1.0]]))
    chain = chain_of([norm], ~TWO, whole=True)
    assert laws_of(chain)[0].exponents.tolist() == norm.exponents.tolist()
    assert chain.free.sum().item() == 2 + 2


def test_a_sum_that_lost_its_weight_is_no_input_any_more():
    chain = chain_of([TWO_SUMS], TWO, whole=True)
    theta = chain.theta.copy()
    chain.unpack(theta)[0][1][0, 2, 3] = 0.0
    (law,) = laws_of(chain.replace(theta))
    assert law.features is not None and law.features.sums.weights.tolist() == [[3.0]]
    x = np.array([[0.5, 2.0]])
    np.testing.assert_allclose(law.rhs(x), [[0.5 / 4.0, 1.0 / 4.0]], rtol=1e-12)


def test_the_network_of_a_law_is_its_chain_in_units():
    network = network_of(RICH, Scale(np.ones(2), 1.0))
    assert [layer.unit for layer in network.layers] == ["Functions", *["RealNPU", "NAU"] * 2]
    units = [
        UNITS[one.unit](one.n_in, one.n_out, **({"functions": one.functions} if one.functions else {}))
        for one in network.layers
    ]
    x = np.random.default_rng(0).uniform(0.2, 2.0, (1, 5, 2))
    rates = torch.as_tensor(x)
    for unit, layer in zip(units, network.layers, strict=True):
        arrays = dict(layer.arrays)
        if layer.functions:
            arrays = {"rate": arrays["rate"][layer.n_in :]}
        rates = unit.compute({name: torch.as_tensor(a)[None] for name, a in arrays.items()}, rates)
    np.testing.assert_allclose(rates[0], RICH.rhs(x[0]), rtol=1e-12)


def test_rates_are_the_law_and_symbols_say_the_same():
    x = 0.1 + 2.0 * torch.rand(2, 5, 2, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    field = field_of(PREY, members=2)
    np.testing.assert_allclose(field.rhs(field.theta)(x), PREY.rhs(x.numpy()), rtol=1e-13)
    field, symbols = random_field(), sympy.symbols("y0 y1")
    for member in range(2):
        told = sympy.lambdify(symbols, field.symbolic(member, symbols), "numpy")
        rates = field.rhs(field.theta)(x)[member]
        np.testing.assert_allclose(np.array(told(*x[member].numpy().T)).T, rates, rtol=1e-12)
