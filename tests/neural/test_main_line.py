"""Train, prune, equations, pareto: on any chain of units, in the units of the data."""

import math
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pytest
import sympy
import torch
import torchdiffeq
from problems import growth, random_field
from torch import nn
from torch.nn.utils.prune import random_unstructured

from odediscovery import (
    Field,
    InputError,
    Monitor,
    TimeSeries,
    equations,
    pareto,
    prune,
    settings_for,
    simulate_system,
    train,
)
from odediscovery.fitting.training import TrainingWindows
from odediscovery.fitting.windows import short_windows
from odediscovery.networks.chain import Chain
from odediscovery.networks.vector_field import UnitRates, VectorField, on_arrays
from odediscovery.neural.field import units_of
from odediscovery.neural.train import (
    binarise_gates,
    drop_small,
    gates,
    penalised_loss,
    random_members,
    train_members,
    trained_laws,
)
from odediscovery.problem.problem import prepare
from odediscovery.units import NALU, NAU, NMU, NPU, NSR, RealNPU

X, Y = sympy.symbols("x y")


def courses():
    """x' = 0.5 x^0.5, y' = -0.2 x y, in units far from 1."""
    t = np.linspace(0.0, 8.0, 30)
    x = (1.0 + 0.25 * t) ** 2
    y = np.exp(-0.2 * (t + 0.25 * t**2 + t**3 / 48.0))
    return TimeSeries.from_arrays(t, np.column_stack([x, 1000.0 * y]), ["x", "y"])


def test_a_trained_field_is_pruned_to_the_law_in_the_units_of_the_data():
    torch.manual_seed(0)
    chain, series = nn.Sequential(RealNPU(2, 3), NAU(3, 2)), courses()
    before = [p.clone() for p in chain.parameters()]
    trained = train(chain, series, members=3, adam_steps=200)
    assert all(torch.equal(a, b) for a, b in zip(before, chain.parameters(), strict=True))
    assert trained.members == 3 and trained(0.0, torch.ones(3, 3, 2).double()).shape == (3, 3, 2)
    path = prune(trained, series)
    sizes = [step.parameters for step in path]
    assert sizes == sorted(sizes, reverse=True) and len(path) == len(set(sizes))
    told = equations(path.best, series.states, snapped=True, digits=3)
    assert str(told) == "{'x': 0.5*x**0.5, 'y': -0.2*x*y}"
    start = torch.tensor(series.trajectories[0].values[0])
    solved = torchdiffeq.odeint(path.best, start, torch.tensor(series.trajectories[0].time), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(solved.detach(), series.trajectories[0].values, rtol=1e-3)


def test_members_come_back_best_first():
    torch.manual_seed(2)
    series = courses()
    trained = train(nn.Sequential(RealNPU(2, 2), NAU(2, 2)), series, members=4, adam_steps=60, lbfgs_steps=3)
    t, x = (torch.tensor(v) for v in (series.trajectories[0].time, series.trajectories[0].values))
    slopes, middle = x.diff(dim=0) / t.diff()[:, None], ((x[1:] + x[:-1]) / 2).expand(4, -1, -1)
    off = ((trained(0.0, middle) - slopes) / slopes.std(dim=0)).square().mean(dim=(1, 2))
    assert off[0] <= 1.2 * off.min() and off[-1] > off[0]


def test_the_table_and_the_axes_show_the_choice():
    series = simulate_system("pendulum", {"angle": 0.001})
    path = prune(nn.Sequential(NAU(2, 2)), series)
    table, axes = pareto(path)
    assert table.chosen.sum() == 1 and table.parameters[table.chosen].item() == path.chosen.parameters == 2
    assert "chosen: 2 parameters" in axes.get_legend().get_texts()[1].get_text()
    _, given = plt.subplots()
    assert pareto(path, given)[1] is given
    plt.close("all")


def test_equations_are_exact_for_the_weights_of_each_member():
    torch.manual_seed(3)
    chain = nn.Sequential(NPU(2, 3, members=2, init_im="glorot"), NAU(3, 2, members=2)).double()
    field = Field(chain, torch.tensor([2.0, 30.0]), 0.5)
    points = torch.tensor([[1.3, 20.0], [-0.7, 4.0]]).double()
    rates = field(0.0, points.expand(2, -1, -1)).detach().numpy()
    for member in (0, 1):
        told = equations(field, ["x", "y"], member=member)
        compute = sympy.lambdify([X, Y], list(told.values()), modules=["numpy", {"Heaviside": np.heaviside}])
        found = np.array([compute(*point) for point in points.tolist()])
        np.testing.assert_allclose(found, rates[member], rtol=1e-11)
        alone = field.member(member)
        np.testing.assert_allclose(alone(0.0, points).detach(), rates[member], rtol=1e-13)


def test_a_gate_between_0_and_1_is_never_rounded_without_a_word():
    chain = nn.Sequential(
        RealNPU(2, 1, init_re=0.5, init_gate=lambda g: torch.tensor([0.18, 1.0])), NAU(1, 2, init_weight=1.0)
    )
    with pytest.warns(UserWarning, match=r"the gate 0\.18 of input 0 is read as 0, which mixes it with 1 by 18%"):
        assert str(equations(chain, ["x", "y"], snapped=True, digits=2)) == "{'x': y**0.5, 'y': y**0.5}"
    assert "0.18" in str(equations(chain, ["x", "y"], digits=2)["x"])
    with pytest.warns(UserWarning, match=r"imaginary exponents up to 0\.3 are left out"):
        equations(nn.Sequential(NPU(1, 1, init_im=0.3, init_gate=1.0)), ["x"], snapped=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        equations(nn.Sequential(RealNPU(1, 1, init_gate=1.0)), ["x"], snapped=True)


def test_sums_of_powers_are_pruned_as_arrays_and_other_chains_by_their_units():
    torch.manual_seed(1)
    units = units_of(nn.Sequential(RealNPU(2, 3), NAU(3, 2), RealNPU(2, 3), NAU(3, 2)))
    field = binarise_gates(VectorField.of(units))
    fast, columns = on_arrays(field)
    assert isinstance(fast, Chain)
    slow, x = UnitRates.of(field), 0.5 + np.random.default_rng(0).random((1, 5, 2))
    own = np.arange(len(columns))[None]
    for a, b in zip(
        fast.linearisation(fast.theta, own)(x), slow.linearisation(slow.theta, columns[None])(x), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fast.rhs(fast.theta)(x), slow.rhs(slow.theta)(x), rtol=1e-12)
    assert isinstance(on_arrays(VectorField.of(units_of(nn.Sequential(NMU(2, 2), NAU(2, 2)))))[0], UnitRates)


@pytest.mark.long
def test_a_chain_that_is_no_sum_of_powers_is_trained_and_pruned_too():
    torch.manual_seed(0)
    t = np.linspace(0.0, 3.0, 25)
    series = TimeSeries.from_arrays(t, 2.0 / (1.0 + 3.0 * np.exp(-t)), ["x"])  # x' = x - x^2/2
    chain = nn.Sequential(NAU(1, 4), NMU(4, 3), NAU(3, 1))
    path = prune(train(chain, series, members=8, adam_steps=500), series)
    told = sympy.expand(equations(path.best, ["x"])["x"])
    for x in (0.6, 1.0, 1.8):
        assert float(told.subs(X, x)) == pytest.approx(x - x * x / 2, abs=0.02)


@pytest.mark.parametrize("gradients", ["odeint-adjoint", "closed-form"])
def test_windows_may_be_longer_and_gradients_differ_in_name_only(gradients):
    torch.manual_seed(0)
    chain, options = nn.Sequential(RealNPU(2, 2), NAU(2, 2)), {"members": 2, "adam_steps": 3, "lbfgs_steps": 0}
    usual, other = (
        train(chain, courses(), generator=torch.Generator().manual_seed(4), gradients=way, intervals=3, **options)
        for way in ("odeint", gradients)
    )
    for a, b in zip(usual.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0.0, atol=1e-3 if gradients == "odeint-adjoint" else 1e-8)


def test_a_field_is_saved_and_cast_like_any_module():
    series, quick = courses(), {"members": 2, "adam_steps": 3, "lbfgs_steps": 1}
    trained = train(nn.Sequential(NAU(2, 2)), series, **quick)
    other = Field(nn.Sequential(NAU(2, 2, members=2)), torch.ones(2))
    other.load_state_dict(trained.state_dict())
    x = torch.rand(2, 4, 2).double()
    assert torch.equal(other(0.0, x), trained(0.0, x))
    assert len(prune(other.float(), series)) >= 1
    assert set(equations(other.bfloat16(), ["x", "y"], digits=2)) == {"x", "y"}
    with pytest.raises(InputError, match="a member from 0 to 1 is expected, got 2"):
        trained.member(2)
    for scale, time in ((torch.ones(3), 1.0), (torch.zeros(2), 1.0), (torch.ones(2), 0.0)):
        with pytest.raises(InputError, match="a scale of 2 states is as many numbers that are not 0"):
            Field(nn.Sequential(NAU(2, 2)), scale, time)


def test_a_stop_keeps_what_was_found():
    monitor = Monitor()
    monitor.interrupt()
    series, chain = courses(), nn.Sequential(RealNPU(2, 2), NAU(2, 2))
    trained = train(chain, series, members=2, monitor=monitor)
    assert trained.members == 2 and len(prune(trained, series, monitor=monitor)) >= 1


@pytest.mark.parametrize(
    ("chain", "says"),
    [
        (nn.Sequential(nn.Linear(2, 2)), "a field is a chain of arithmetic units .*, got Linear in it"),
        (nn.Sequential(RealNPU(2, 3), NAU(2, 2)), r"NAU.* stands behind RealNPU.*: it should take 3 inputs"),
        (nn.Sequential(NAU(3, 3)), "a field of the 2 states x, y has as many inputs and outputs, got 3 and 3"),
        (nn.Sequential(NAU(2, 2, members=2), NAU(2, 2)), "units of one chain have the same number of members"),
        (nn.Sequential(), "a field is a chain of arithmetic units .*, got none"),
    ],
)
def test_what_is_no_field_is_refused(chain, says):
    for verb in (train, prune):
        with pytest.raises(InputError, match=says):
            verb(chain, courses())


def masked():
    chain = nn.Sequential(NAU(2, 2))
    random_unstructured(chain[0], "weight", 0.5)
    return chain


PLAIN = nn.Sequential(NAU(2, 2))
AT_REST = TimeSeries.from_arrays(range(8), np.ones((8, 2)), ["x", "y"])


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: train(PLAIN, courses(), members=0), "members must be a whole number of at least 1, got 0"),
        (lambda: train(PLAIN, courses(), intervals=0), "intervals must be a whole number of at least 1, got 0"),
        (lambda: train(PLAIN, courses(), intervals=1.5), r"intervals must be a whole number of at least 1, got 1\.5"),
        (lambda: pareto(PLAIN), "what prune returns, got Sequential"),
        (lambda: train(PLAIN, AT_REST), "no state of the series changes"),
        (lambda: prune(PLAIN, AT_REST), "no state of the series changes"),
        (lambda: train(masked(), courses()), "make them permanent first"),
        (lambda: train(PLAIN, [1.0, 2.0]), "TimeSeries"),
        (lambda: equations(PLAIN, ["x"]), r"a field of 2 inputs and 2 outputs has as many states.*, got x"),
        (lambda: equations(PLAIN, "aa"), "each with a name of its own, got a, a"),
        (lambda: equations(PLAIN, ["x", "y"], digits=0), "digits must be a whole number of at least 1, got 0"),
        (lambda: equations(nn.Sequential(NAU(1, 1, init_weight=math.nan)), ["x"]), "that are no finite numbers"),
        (lambda: equations(PLAIN, ["x", "y"], member=1), "a member from 0 to 0 is expected, got 1"),
        (lambda: prune(Field(PLAIN, torch.ones(2)), courses()), "was trained on data of another size"),
    ],
)
def test_other_mistakes_are_refused_in_one_line(call, says):
    with pytest.raises(InputError, match=says):
        call()


@pytest.mark.parametrize("unit", [NMU(1, 1, init_weight=0.4), NALU(1, 1)], ids=lambda unit: unit.name)
def test_no_unit_rounds_its_weights_without_a_word(unit):
    with pytest.warns(UserWarning, match="its weights are rounded, which changes what it puts out by up to"):
        equations(nn.Sequential(unit), ["x"], snapped=True)


def test_what_is_true_counts_one_in_the_sums_behind_it():
    compare = NSR(2, 1, init_sign=9.0, init_zero=-9.0)
    compare.left.data.copy_(torch.tensor([[[30.0, 0.0]]]))
    compare.right.data.copy_(torch.tensor([[[0.0, 30.0]]]))
    chain = nn.Sequential(compare, NAU(1, 2, init_weight=2.0))
    with pytest.warns(UserWarning, match="read as logic"):
        told = equations(chain, ["x", "y"], snapped=True)["x"]
    assert [float(told.subs({X: x, Y: 1.0})) for x in (0.5, 3.0)] == [0.0, 2.0]


P = prepare(growth(np.linspace(0.0, 20.0, 60), 0.01))


def test_the_penalty_rises_and_gates_are_drawn_to_one():
    field, windows = random_members(P, [2], seed=0), TrainingWindows.of(short_windows(P))
    free, light = penalised_loss(field, windows, 0.0), penalised_loss(field, windows, 0.1)
    theta = field.theta
    norm = (theta * (field.free & ~gates(field))).abs().sum(dim=1)
    for progress, share in ((0.0, 0.0), (0.25, 0.5), (1.0, 1.0)):
        gained = light(theta, progress) - free(theta, progress)
        torch.testing.assert_close(gained, 0.1 * share * norm)
    opened = torch.where(gates(field), 1.0, theta)
    torch.testing.assert_close(free(theta, 1.0), windows.loss(field, opened))
    torch.testing.assert_close(free(theta, 0.4), windows.loss(field, theta))


def test_training_lowers_the_loss_and_leaves_laws_that_are_read_exactly():
    settings = settings_for(members=3, hidden=2, adam_steps=100, lbfgs_steps=10)
    field, windows = random_members(P, [2] * 3, seed=0), TrainingWindows.of(short_windows(P))
    after = train_members(P, field, settings, Monitor(), keep=2)
    assert after.members == 2 and bool((after.theta[:, gates(after)] == 1.0).all())
    before = windows.loss(field, field.theta).min()
    assert float(windows.loss(after, after.theta).min()) < 0.2 * float(before)
    laws = trained_laws(P, settings, Monitor())
    assert len(laws) == 3 and all(law.n_states == 1 for law in laws)
    # Every parameter that is left is larger than what is removed.
    assert all((np.abs(law.coefficients[law.coefficients != 0]) >= 0.02).all() for law in laws)


def test_gates_end_at_one_or_take_their_exponents_with_them():
    field = random_field(members=2, states=2, width=3)
    theta = field.theta.clone()
    gate = field.place(0, "gate")
    theta[:, gate] = torch.tensor([[0.9, 0.01], [-0.3, 1.4]], dtype=torch.float64)
    after = binarise_gates(field.replace(theta))
    assert bool((after.theta[:, gate] == 1).all()) and not after.free[:, gate].any()
    (power, total), (free, _) = after.unpack(after.theta), after.unpack(after.free)
    hidden = torch.tensor([[False, True], [True, False]])[:, None].expand(-1, 3, -1)
    assert torch.equal(power["real"], field.unpack(theta)[0]["real"].masked_fill(hidden, 0.0))
    assert torch.equal(free["real"], ~hidden) and torch.equal(total["weight"], field.unpack(theta)[1]["weight"])


def test_small_parameters_are_removed_and_fixed_ones_are_not():
    field = random_field(members=1)
    theta, free = field.theta.clone(), field.free.clone()
    theta[0, :3] = torch.tensor([0.01, -0.01, -0.04])
    theta[0, 3], free[0, 3] = 0.007, False
    after = drop_small(field.replace(theta, free))
    assert after.theta[0, :4].tolist() == [0.0, 0.0, theta[0, 2].item(), theta[0, 3].item()]
    assert after.free[0, :4].tolist() == [False, False, True, False]
