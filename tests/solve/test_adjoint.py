"""Networks solved on chosen grids; the closed-form gradient is that of backpropagation through torchdiffeq."""

import dataclasses

import numpy as np
import pytest
import torch
from problems import STARTS, field_of, random_field

from odediscovery.laws.power_sum import PowerSum
from odediscovery.networks.vector_field import VectorField
from odediscovery.solve.adjoint import applies, interval_ends, nodes
from odediscovery.solve.fixed_step import GRIDS, LinearControls, advance, advance_together
from odediscovery.units import NAU, NPU, Dense, NaiveNPU, RealNPU

MEMBERS, WINDOWS, STATES, WIDTH = 3, 4, 3, 5
# Three grids, one of them graded.
GRID_INDEX = torch.tensor([1, 0, 3, 1])
DURATION = torch.tensor([0.3, 0.5, 0.2, 0.4], dtype=torch.float64)


def random(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def gated_field(nonnegative, gate_gradient="through"):
    """Random weights, and gates from below 0 to above 1."""
    power = RealNPU(STATES, WIDTH, nonnegative=nonnegative, gate_gradient=gate_gradient)
    units = (power, NAU(WIDTH, STATES))
    field = VectorField.random(units, MEMBERS, torch.Generator().manual_seed(0))
    theta = field.theta.clone()
    gates = torch.tensor([[0.4, 1.0, 0.9], [-0.2, 0.7, 1.3], [1.0, 1.0, 0.0]])
    theta[:, field.place(0, "gate")] = gates.to(theta)
    return field.replace(theta)


def starts(nonnegative):
    x = random(MEMBERS, WINDOWS, STATES).abs() + 0.2
    sign = torch.tensor([[1.0], [-1.0], [1.0], [-1.0]]).to(x)
    return torch.where(torch.tensor(nonnegative), x, sign * x)


FIELDS = {
    "nonnegative": gated_field((True, True, True)),
    "signs": gated_field((False, False, False)),
    "one sign": gated_field((True, False, True)),
    "gradient of gates stopped": gated_field((True, False, True), "zero"),
    "mixed": dataclasses.replace(gated_field((True, True, True)), stoichiometry=random(STATES, STATES)),
}


def compare(ours, theirs, *by, rounding=1.0):
    """The same values, and the same gradients of a number made of them."""
    torch.testing.assert_close(ours, theirs, rtol=1e-12 * rounding, atol=1e-13 * rounding)
    weights = random(*ours.shape, seed=2)
    mine = torch.autograd.grad((ours * weights).sum(), by)
    for a, b in zip(mine, torch.autograd.grad((theirs * weights).sum(), by), strict=True):
        assert b.abs().max() > 1e-3
        torch.testing.assert_close(a, b, rtol=1e-10 * rounding, atol=1e-12 * rounding)


@pytest.mark.parametrize("field", FIELDS.values(), ids=FIELDS)
def test_ends_of_intervals_and_their_gradients_are_those_of_torchdiffeq(field):
    power = field.units[0]
    assert applies(field) and isinstance(power, RealNPU)
    theta, start = field.theta.clone().requires_grad_(), starts(power.nonnegative).requires_grad_()
    ends = interval_ends(field, theta, start, DURATION, GRID_INDEX)
    theirs = interval_ends(field, theta, start, DURATION, GRID_INDEX, gradients="odeint")
    compare(ends, theirs, theta, start)
    with torch.no_grad():
        without = interval_ends(field, theta, start, DURATION, GRID_INDEX)
    assert torch.equal(without, ends) and not without.requires_grad


def test_members_of_many_windows_are_solved_in_blocks():
    field, many = FIELDS["one sign"], 400
    theta, start = field.theta.clone().requires_grad_(), starts((True, False, True)).repeat(1, many, 1)
    duration, fine = DURATION.repeat(many), torch.full((WINDOWS * many,), len(GRIDS) - 1)
    blocks = interval_ends(field, theta, start, duration, fine)
    few = interval_ends(field, theta, start[:, :WINDOWS], DURATION, fine[:WINDOWS])
    # Blocks of other sizes are summed in another order, which processors round differently.
    compare(blocks[:, -WINDOWS:], few, theta, rounding=1e3)


def test_all_nodes_of_a_trajectory_have_gradients():
    field, steps = FIELDS["one sign"], torch.tensor([0.0, 0.1, 0.15, 0.4, 0.5]).double()
    theta = field.theta.clone().requires_grad_()
    start = starts((True, False, True))[:, :1].clone().requires_grad_()
    ours = nodes(field, theta, start, steps.diff()[None])
    theirs = advance_together(field.rhs(theta), start, steps, steps)
    assert torch.equal(ours[:, :, 0], start)
    compare(ours[:, :, 1:], theirs, theta, start)


def test_inputs_enter_where_they_are_and_drift():
    field = FIELDS["nonnegative"]
    entry, drift = torch.full((WINDOWS, STATES), torch.nan), torch.zeros(WINDOWS, STATES)
    entry[:, 2], drift[:, 2] = torch.arange(1.0, 5.0), torch.tensor([0.5, 0.0, -0.3, 1.0])
    controls = LinearControls(entry.double(), drift.double())
    theta, start = field.theta.clone().requires_grad_(), starts((True, True, True)).requires_grad_()
    ours = interval_ends(field, theta, start, DURATION, GRID_INDEX, controls)
    theirs = interval_ends(field, theta, start, DURATION, GRID_INDEX, controls, "odeint")
    compare(ours, theirs, theta, start)


def test_a_member_that_overflows_leaves_the_others_alone():
    field = FIELDS["nonnegative"]
    wild = field.theta.clone()
    wild[1, field.place(1, "weight")] = 1e308
    theta, start = wild.requires_grad_(), starts((True, True, True))
    ends = interval_ends(field, theta, start, DURATION, GRID_INDEX)
    (gradient,) = torch.autograd.grad(ends[[0, 2]].sum(), theta)
    assert not ends[1].isfinite().all() and ends[[0, 2]].isfinite().all()
    assert gradient[[0, 2]].isfinite().all()


@pytest.mark.parametrize(
    "units",
    [
        (RealNPU(3, 4, nonnegative=True), NAU(4, 3, clip=True)),
        (NaiveNPU(3, 4), NAU(4, 3)),
        (Dense(3, 3),),
        (RealNPU(3, 2, nonnegative=True), NAU(2, 2), RealNPU(2, 2, nonnegative=True), NAU(2, 3)),
    ],
    ids=["clipped", "imaginary", "dense", "two pairs"],
)
def test_other_chains_are_left_to_torchdiffeq(units):
    field = VectorField.random(units, MEMBERS, torch.Generator().manual_seed(3))
    start = starts((True, True, True))
    assert not applies(field)
    ends = interval_ends(field, field.theta, start, DURATION, GRID_INDEX)
    theirs = interval_ends(field, field.theta, start, DURATION, GRID_INDEX, gradients="odeint")
    assert torch.equal(ends, theirs)


@pytest.mark.parametrize("name", ["nonnegative", "one sign", "NPU"])
def test_the_continuous_adjoint_is_that_of_the_steps_where_these_are_short(name):
    if name == "NPU":  # complex exponents have no closed form: there both ways of torchdiffeq are compared
        units = (NPU(STATES, WIDTH, nonnegative=True), NAU(WIDTH, STATES))
        field = VectorField.random(units, MEMBERS, torch.Generator().manual_seed(0))
    else:
        field = FIELDS[name]
    theta = (field.theta + 0.1 * random(*field.theta.shape) * (name == "NPU")).requires_grad_()
    x = starts((True, name != "one sign", True))
    fine, duration = torch.full_like(GRID_INDEX, len(GRIDS) - 1), 0.1 * DURATION
    ours = interval_ends(field, theta, x, duration, fine)
    theirs = interval_ends(field, theta, x, duration, fine, gradients="odeint-adjoint")
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-13)
    weights = random(*ours.shape, seed=2)
    mine, other = (torch.autograd.grad((y * weights).sum(), theta)[0] for y in (ours, theirs))
    assert other.abs().max() > 1e-3
    assert ((mine - other).abs().max() / other.abs().max()).item() < 1e-8


def tensor(values):
    return torch.as_tensor(np.array(values), dtype=torch.float64)


def test_every_window_has_its_own_duration_and_every_member_its_own_law():
    laws = [PowerSum(np.array([[a]]), np.array([[1.0]])) for a in (-0.7, 0.4)]
    fields = [field_of(law) for law in laws]
    theta = torch.cat([f.theta for f in fields])
    start, duration = tensor([[[1.0], [2.0], [3.0]]] * 2), tensor([0.5, 1.0, 0.25])
    end = advance(fields[0].rhs(theta), start, duration, GRIDS[4])
    exact = [[[x * np.exp(a * h)] for x, h in zip((1, 2, 3), (0.5, 1, 0.25), strict=True)] for a in (-0.7, 0.4)]
    np.testing.assert_allclose(end, exact, rtol=1e-6)


def test_together_is_interval_by_interval():
    field, times = random_field(), tensor([0.0, 0.4, 1.0, 1.3])
    grids = [GRIDS[1], GRIDS[3], GRIDS[2]]
    steps = [times[j] + grids[j][:-1] * times.diff()[j] for j in range(3)]
    start = tensor([STARTS, STARTS])
    rhs = field.rhs(field.theta)
    together = advance_together(rhs, start, times, torch.cat([*steps, times[-1:]]))
    assert together.shape == (2, 2, 3, 2)
    x = start
    for j in range(3):
        x = advance(rhs, x, times.diff()[j].expand(2), grids[j])
        np.testing.assert_allclose(together[:, :, j], x, rtol=1e-12)


def test_windows_on_different_grids_come_back_in_their_order():
    field = random_field()
    start, duration = tensor([[[1.0, 0.5], [0.2, 0.9], [1.5, 1.5]]] * 2), tensor([0.5, 2.0, 1.0])
    index = torch.tensor([5, 1, 5])
    rhs = field.rhs(field.theta)
    mixed = interval_ends(field, field.theta, start, duration, index, gradients="odeint")
    for window, g in enumerate(index.tolist()):
        alone = advance(rhs, start[:, window : window + 1], duration[window : window + 1], GRIDS[g])
        np.testing.assert_allclose(mixed[:, window], alone[:, 0], rtol=1e-13)
