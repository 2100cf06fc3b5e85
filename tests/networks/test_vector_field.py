"""The vector field: one tensor of parameters for a chain of units, its derivative, its story."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import sympy
import torch
from problems import PREY, field_of, random_field


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


def test_symbols_and_numbers_agree() -> None:
    field = random_field()
    x = random_states(2)
    symbols = [sympy.Symbol("y0"), sympy.Symbol("y1")]
    for member in range(2):
        told = sympy.lambdify(symbols, field.symbolic(member, symbols), "numpy")
        rates = field.rhs(field.theta)(x)[member]
        np.testing.assert_allclose(np.array(told(*x[member].numpy().T)).T, rates, rtol=1e-12)
