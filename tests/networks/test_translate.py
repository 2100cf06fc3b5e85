"""Laws as networks and networks as laws."""

from __future__ import annotations

import numpy as np
import torch
from problems import PREY

from odediscovery.data.scale import Scale
from odediscovery.laws.power_sum import Features, Function, PowerSum, Sums
from odediscovery.networks.translate import chain_of, laws_of, network_of
from odediscovery.units import UNITS

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


def test_laws_of_all_families_are_members_of_one_chain() -> None:
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


def test_a_sum_that_lost_its_weight_is_no_input_any_more() -> None:
    chain = chain_of([TWO_SUMS], TWO, whole=True)
    theta = chain.theta.copy()
    chain.unpack(theta)[0][1][0, 2, 3] = 0.0
    (law,) = laws_of(chain.replace(theta))
    assert law.features is not None and law.features.sums.weights.tolist() == [[3.0]]
    x = np.array([[0.5, 2.0]])
    np.testing.assert_allclose(law.rhs(x), [[0.5 / 4.0, 1.0 / 4.0]], rtol=1e-12)


def test_the_network_of_a_law_is_its_chain_in_units() -> None:
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
