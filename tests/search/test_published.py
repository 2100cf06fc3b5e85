"""The published recipes and networks alone: solvers, gradients, equations and where they end."""

import json
import math

import numpy as np
import pytest
import torch
from listening import Stages
from problems import field_of

from odediscovery import Discovery, InputError, discover, settings_for, simulate_system
from odediscovery.command.cli import main
from odediscovery.data.series import TimeSeries
from odediscovery.laws.equations import Equations
from odediscovery.laws.systems import get_system
from odediscovery.runtime.monitor import Monitor
from odediscovery.search.published.hager_zhang import lbfgs_to_first_rise
from odediscovery.search.published.recipes import RECIPES, Trajectories, equations, random_members, read_member, train

PAPER, AS_RUN = RECIPES["paper"], RECIPES["as-run"]
START = np.array([[100.0, 0.01, 0.0]])
ALL, NONE = np.ones(3, dtype=bool), np.zeros(3, dtype=bool)


@pytest.fixture(scope="module")
def fsir():
    return simulate_system("fsir")


def truth():
    law = get_system("fsir").equations().power_sum
    return field_of(law)


def wild(field):
    """All members as S' = 50 S^50 I^50 + ..., which no solver survives."""
    theta = torch.full_like(field.theta, 50.0)
    theta[:, field.place(0, "gate")] = torch.tensor([1.0, 1.0, 0.0]).to(theta)
    return field.replace(theta)


def quick(recipe, **options):
    given = {"members": 2, "hidden": 3, "adam_steps": 6, "lbfgs_steps": 3}
    return settings_for(recipe, **(given | options))


def test_the_true_law_fails_under_the_solver_of_the_code_and_not_under_the_other(fsir):
    field = truth()
    errors = [float(Trajectories.of(fsir, START, recipe.solver).mse(field, field.theta)) for recipe in (AS_RUN, PAPER)]
    # What the original Julia code gets for the true parameters with Euler(dt = 1).
    assert errors[0] == pytest.approx(1.08, abs=0.005)
    assert errors[1] < 1e-6


def test_the_error_is_the_mean_over_all_values_seen_in_all_trajectories():
    times = [np.arange(5.0), np.array([0.0, 0.5, 2.5])]
    values = [np.full((5, 1), 3.0), np.array([[1.0], [np.nan], [2.0]])]
    series = TimeSeries.from_arrays(times, values, ["x"], labels=["a", "b"])
    field = random_members("RealNPU", 1, [2], 0)
    still = torch.zeros_like(field.theta)
    for recipe in (PAPER, AS_RUN):
        data = Trajectories.of(series, np.array([[2.0], [1.0]]), recipe.solver)
        # Nothing moves: (4 + ... ) over 5 values of 3 against 2, and 0, 1 of the second.
        assert float(data.mse(field, still)) == pytest.approx((5 * 1.0 + 0.0 + 1.0) / 7)


def test_a_member_that_diverges_never_spoils_the_others(fsir):
    settings = quick("as-run", adam_steps=3, lbfgs_steps=1)
    data = Trajectories.of(fsir, START, AS_RUN.solver)
    good = random_members("RealNPU", 3, [3], 1)
    bad = wild(good)
    assert not data.mse(bad, bad.theta).isfinite().any()
    both = good.select([0, 0]).replace(torch.cat([good.theta, bad.theta]))
    alone = train(good, data, AS_RUN, settings, Monitor())
    together = train(both, data, AS_RUN, settings, Monitor())
    assert torch.allclose(together.theta[:1], alone.theta, rtol=1e-9, atol=1e-12)
    member = read_member(together, 1, fsir, START, ALL)
    assert member.mse == math.inf and member.criterion == math.inf


@pytest.mark.parametrize("unit", ["RealNPU", "NPU", "Dense"])
@pytest.mark.parametrize("positive", [True, False])
def test_equations_compute_what_the_member_computes(unit, positive):
    series = simulate_system("fsir", samples=5)
    field = random_members(unit, 3, [4, 5], 3)
    theta = field.theta * (3.0 if unit != "Dense" else 1.0)
    if unit == "NPU":
        theta[:, field.place(0, "imaginary")] = 0.3 * theta[:, field.place(0, "real")]
    field = field.replace(theta)
    x = np.random.default_rng(0).uniform(0.1 if positive else -5.0, 5.0, (20, 3))
    if not positive:
        x[0] = 0.0
    law = equations(field, 1, series, ALL if positive else NONE)
    with torch.no_grad():
        expected = field.rhs(field.theta)(torch.as_tensor(x).expand(2, -1, -1))[1].numpy()
    np.testing.assert_allclose(law.rhs(x), expected, rtol=1e-9, atol=1e-12)
    again = Equations.parse(series.states, law.texts())
    np.testing.assert_allclose(again.rhs(x), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("recipe", ["paper", "as-run"])
def test_discover_by_a_published_recipe(recipe, fsir, tmp_path):
    found = discover(fsir, quick(recipe, members=3))
    assert found.settings.recipe == recipe
    sizes, errors = ([getattr(r, k) for r in found.front] for k in ("complexity", "mse"))
    assert sizes == sorted(sizes) and errors == sorted(errors, reverse=True)
    assert sum(row.selected for row in found.front) == 1
    curve = found.equations.simulate(START[0], fsir.trajectories[0].time)
    assert found.mse == pytest.approx(np.mean((curve - fsir.trajectories[0].values) ** 2))
    assert any("biased by the L1 penalty" in m for m in found.messages)
    assert any("Euler" in m for m in found.messages) == (recipe == "as-run")
    assert found.network is not None and found.network.scale.time == 1.0
    assert found.equations.texts() == discover(fsir, quick(recipe, members=3)).equations.texts()
    found.save(tmp_path)
    again = Discovery.load(tmp_path)
    assert again.equations.texts() == found.equations.texts()
    assert again.front[0].complexity == found.front[0].complexity


@pytest.mark.parametrize("unit", ["Dense", "RealNPU"])
def test_the_gradient_of_the_code_is_near_that_of_its_value_and_not_the_same(unit, fsir):
    field = random_members(unit, 3, [4, 2], 0)
    data = Trajectories.of(fsir, START, AS_RUN.solver)

    def gradients(of):
        theta = field.theta.clone().requires_grad_()
        value = of(field, theta)
        (gradient,) = torch.autograd.grad(value.sum(), theta)
        return value.detach(), gradient * field.free

    value, exact = gradients(data.mse)
    same, adjoint = gradients(data.adjoint_mse)
    np.testing.assert_allclose(same, value, rtol=1e-12)
    cosine = torch.nn.functional.cosine_similarity(exact, adjoint)
    assert (cosine > 0.99).all()
    off = (exact - adjoint).norm(dim=1) / exact.norm(dim=1)
    assert 1e-4 < off.max() < 0.15


ROSENBROCK_STARTS = torch.tensor([[-1.2, 1.0], [0.5, 2.0], [2.0, -1.0]], dtype=torch.float64)
FREE = torch.ones(3, 2, dtype=torch.bool)


def rosenbrock(theta, progress):
    x, y = theta[:, 0], theta[:, 1]
    return 100.0 * (y - x * x).square() + (1.0 - x).square()


def test_every_member_finds_the_minimum():
    found = lbfgs_to_first_rise(rosenbrock, ROSENBROCK_STARTS, FREE, 200, Monitor())
    np.testing.assert_allclose(found, torch.ones(3, 2), atol=1e-6)


def test_a_gradient_that_is_off_ends_it_early_and_never_higher():
    wrong = torch.tensor([0.02, -0.03], dtype=torch.float64)

    def off(theta, progress):
        # The value of a bowl with the gradient of another one.
        bowl = theta.square().sum(dim=1)
        return bowl + ((theta - theta.detach()) * wrong).sum(dim=1)

    found = lbfgs_to_first_rise(off, ROSENBROCK_STARTS, FREE, 200, Monitor())
    assert (off(found, 1.0) < off(ROSENBROCK_STARTS, 1.0)).all()
    # The minimum of the value is 0; the slopes vanish elsewhere, and the search ends between.
    assert (found.abs().max(dim=1).values > 1e-6).all()
    assert (found.norm(dim=1) < 0.1).all()


@pytest.mark.long
def test_a_network_alone_finds_the_root_of_torricelli():
    stages = Stages()
    settings = settings_for("neural", members=4, hidden=3, adam_steps=300, unit="NPU")
    found = discover(simulate_system("torricelli"), settings, stages)
    assert {"Adam", "LBFGS", "prune", "polish"} <= set(stages.names)
    assert not any("grow" in name for name in stages.names)
    law = found.equations.power_sum
    assert found.found_by == "training" and law is not None and (law.coefficients != 0).all()
    assert sorted(law.exponents.round(2).ravel().tolist()) == [0.0, 0.5]


def test_it_is_said_which_stage_found_the_law(tmp_path, capsys):
    by = {}
    for name in ("logistic", "torricelli"):
        found = discover(simulate_system(name), settings_for(members=0))
        found.save(tmp_path / name)
        document = json.loads((tmp_path / name / "result.json").read_text())
        by[name] = document["found_by"]
        assert Discovery.load(tmp_path / name).found_by == found.found_by == by[name]
        assert found.source_text().startswith(f"found by: {by[name]} (")
    # Whole powers are regressed on; a root has a name.
    assert by == {"logistic": "regression", "torricelli": "textbook"}
    document["found_by"] = "guessing"
    (tmp_path / "torricelli" / "result.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match="'found_by' should be training"):
        Discovery.load(tmp_path / "torricelli")
    folder = tmp_path / "logistic"
    assert main(["show", str(folder)]) == 0 and main(["report", str(folder)]) == 0
    assert "found by: regression (" in capsys.readouterr().out
    assert "the equations were found by: " in (folder / "report.html").read_text()


def test_what_nobody_measured_is_refused():
    with pytest.raises(InputError, match="unmeasured states need --recipe default"):
        discover(simulate_system("logistic"), settings_for("neural", hidden_states=("R",)))
