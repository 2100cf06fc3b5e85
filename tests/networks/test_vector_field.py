"""The vector field: one tensor of parameters for a chain of units, its derivative, its story."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import sympy
import torch
from problems import PREY, field_of, numeric_jacobian, random_field

from odediscovery.networks.translate import power_units
from odediscovery.networks.vector_field import VectorField
from odediscovery.units import NAU, Dense, RealNPU


def random_states(members: int, states: int = 2, batch: int = 5) -> torch.Tensor:
    source = torch.Generator().manual_seed(9)
    return 0.1 + 2.0 * torch.rand(members, batch, states, generator=source, dtype=torch.float64)


def test_parameters_lie_where_slices_say_without_gaps() -> None:
    field = random_field(members=3, states=2, width=4)
    places = field.slices()
    assert [(i, name) for i, name, _, _ in places] == [(0, "real"), (0, "gate"), (1, "weight")]
    assert places[0][2].start == 0 and places[-1][2].stop == field.theta.shape[1] == 18
    assert all(a[2].stop == b[2].start for a, b in pairwise(places))
    assert field.place(1, "weight") == slice(10, 18)
    parts = field.unpack(field.theta)
    again = torch.cat([v.reshape(3, -1) for part in parts for v in part.values()], dim=1)
    assert torch.equal(again, field.theta)
    assert (field.members, field.n_states) == (3, 2)
    assert bool(field.free.all())


def test_rates_are_the_law() -> None:
    field = field_of(PREY, members=2)
    x = random_states(2)
    rates = field.rhs(field.theta)(x)
    np.testing.assert_allclose(rates, PREY.rhs(x.numpy()), rtol=1e-13)


def test_rates_are_the_chain_of_the_units() -> None:
    field = random_field()
    x = random_states(2)
    first, second = field.unpack(field.theta)
    chained = field.units[1].compute(second, field.units[0].compute(first, x))
    assert torch.equal(field.rhs(field.theta)(x), chained)


@pytest.mark.parametrize("dense", [False, True])
def test_linearised_is_the_derivative(dense: bool) -> None:
    field = random_field()
    if dense:
        units = (Dense(2, 5, activation="tanh"), Dense(5, 2))
        field = VectorField.random(units, 2, torch.Generator().manual_seed(1))
    x = random_states(2)
    f, f_x, f_theta = field.linearisation(field.theta)(x)
    assert torch.allclose(f, field.rhs(field.theta)(x), rtol=1e-14)

    def by_theta(theta: torch.Tensor) -> torch.Tensor:
        return field.rhs(theta)(x).flatten(1)

    numeric = numeric_jacobian(by_theta, field.theta, 1e-6)
    np.testing.assert_allclose(f_theta.flatten(1, 2), numeric, rtol=1e-6, atol=1e-8)
    for k in range(2):
        shift = torch.zeros(2, dtype=torch.float64)
        shift[k] = 1e-6
        rates = field.rhs(field.theta)
        np.testing.assert_allclose(f_x[..., k], (rates(x + shift) - rates(x - shift)) / 2e-6, rtol=1e-6, atol=1e-8)


def test_selected_members_compute_what_they_did() -> None:
    field = random_field(members=4)
    x = random_states(4)
    chosen = field.select([2, 0, 2])
    y = field.rhs(field.theta)(x)
    assert torch.equal(chosen.rhs(chosen.theta)(x[[2, 0, 2]]), y[[2, 0, 2]])
    assert torch.equal(chosen.free, field.free[[2, 0, 2]])


def test_replacing_keeps_what_is_not_given() -> None:
    field = random_field()
    free = torch.zeros_like(field.free)
    assert field.replace(field.theta + 1.0).free is field.free
    other = field.replace(field.theta + 1.0, free)
    assert other.free is free and other.units is field.units
    assert torch.equal(other.theta, field.theta + 1.0)


def test_arrays_are_copies() -> None:
    field = random_field()
    before = field.theta.clone()
    field.arrays(1)[0]["real"][:] = 7.0
    assert torch.equal(field.theta, before)


def test_symbols_and_numbers_agree() -> None:
    field = random_field()
    x = random_states(2)
    symbols = [sympy.Symbol("y0"), sympy.Symbol("y1")]
    for member in range(2):
        told = sympy.lambdify(symbols, field.symbolic(member, symbols), "numpy")
        rates = field.rhs(field.theta)(x)[member]
        np.testing.assert_allclose(np.array(told(*x[member].numpy().T)).T, rates, rtol=1e-12)


def test_the_same_generator_makes_the_same_members() -> None:
    units = (RealNPU(2, 3), NAU(3, 2))
    one, two = (VectorField.random(units, 3, torch.Generator().manual_seed(4)) for _ in range(2))
    assert torch.equal(one.theta, two.theta)
    assert not torch.equal(one.theta[0], one.theta[1])


@pytest.mark.parametrize("flags", [[True, True, True], [True, False, False]])
@pytest.mark.parametrize("gates", [False, True])
def test_columns_of_a_linearisation_are_those_of_the_whole(flags: list[bool], gates: bool) -> None:
    source = torch.Generator().manual_seed(0)
    field = VectorField.random(power_units(flags, 4), 2, source)
    x = torch.randn(2, 5, 3, generator=source, dtype=torch.float64)
    x = x.abs() if all(flags) else x
    first = [0, 5, 11, 13] if gates else [0, 5, 11, 7]
    columns = torch.tensor([first, [15, 26, 3, 20]])
    f, f_x, f_theta = field.linearisation(field.theta)(x)
    told = field.linearisation(field.theta, columns)(x)
    torch.testing.assert_close(told[0], f)
    torch.testing.assert_close(told[1], f_x)
    for member in range(2):
        torch.testing.assert_close(told[2][member], f_theta[member][..., columns[member]])
