"""Training on another device: nothing is left behind, and the results are those of the CPU."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from simulated import SIMULATED, Elsewhere, Simulated

from odediscovery.bench.suites.scoring import same_terms
from odediscovery.command.cli import main
from odediscovery.data.controls import append_controls, with_controls
from odediscovery.data.series import TimeSeries, write_csv
from odediscovery.discovery.discover import discover
from odediscovery.errors import InputError
from odediscovery.estimator.estimator import ODEDiscovery
from odediscovery.experiments.base import Job, Plan
from odediscovery.experiments.studies.fsir import Grid
from odediscovery.experiments.studies.registry import EXPERIMENTS
from odediscovery.fitting.optimise import FirstOrder, loss_and_gradient
from odediscovery.fitting.training import TrainingWindows
from odediscovery.fitting.windows import short_windows
from odediscovery.laws.systems import simulate_system
from odediscovery.networks.vector_field import VectorField
from odediscovery.neural.members import random_members
from odediscovery.neural.train import penalised_loss, train_members
from odediscovery.problem.pose import pose
from odediscovery.problem.prepare import prepare
from odediscovery.problem.problem import Problem
from odediscovery.report.words import command
from odediscovery.runtime import device
from odediscovery.runtime.device import moved
from odediscovery.runtime.monitor import Monitor
from odediscovery.search.published.recipes import RECIPES
from odediscovery.search.published.recipes import random_members as published_members
from odediscovery.search.published.recipes import train as train_published
from odediscovery.search.published.trajectories import Trajectories
from odediscovery.settings import Settings, settings_for
from odediscovery.units import UNITS, AbstractUnit

SHORT = {"members": 3, "hidden": 4, "adam_steps": 4, "lbfgs_steps": 3}


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`cuda` is the simulated device."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setitem(device._DEVICES, "cuda", SIMULATED)
    with Simulated():
        yield


def problem(system: str) -> tuple[Problem, VectorField]:
    p = prepare(simulate_system(system, samples=15))
    return p, random_members(p, [4, 4, 3], seed=1)


# The simulated device itself


@pytest.mark.slow
def test_numbers_are_those_of_the_cpu(simulated: None) -> None:
    x = torch.arange(4.0).to(SIMULATED).requires_grad_()
    y = (x.square() * torch.ones(4, device=SIMULATED)).sum()
    (slope,) = torch.autograd.grad(y, x)
    assert isinstance(slope, Elsewhere) and slope.device == SIMULATED
    assert float(y.detach()) == 14.0
    assert slope.tolist() == slope.cpu().tolist() == [0.0, 2.0, 4.0, 6.0]
    with pytest.raises(RuntimeError):
        slope.numpy()


@pytest.mark.parametrize("system", [pytest.param("fsir", marks=pytest.mark.slow), "lotka-volterra"])
def test_what_is_left_behind_is_noticed(simulated: None, system: str) -> None:
    p, field = problem(system)
    there, windows = moved(field, SIMULATED), TrainingWindows.of(short_windows(p))
    with pytest.raises(RuntimeError, match="operands on two devices"):
        windows.loss(there, there.theta)
    for name in ("start", "duration", "target", "weight"):
        parts = {part: getattr(windows, part) for part in ("start", "duration", "target", "weight")}
        some = {k: v if k == name else v.to(SIMULATED) for k, v in parts.items()}
        part = dataclasses.replace(windows, **some, grid=windows.grid.to(SIMULATED))
        with pytest.raises(RuntimeError, match="operands on two devices"):
            loss_and_gradient(lambda t, _, w=part: w.loss(there, t), there.theta, 0.0)


# Training


@pytest.mark.slow
@pytest.mark.parametrize("system", ["fsir", "lotka-volterra", "pendulum"])
def test_loss_gradient_and_a_step_stay_on_the_device(simulated: None, system: str) -> None:
    p, field = problem(system)
    found = []
    for place in (torch.device("cpu"), SIMULATED):
        own, windows = moved(field, place), TrainingWindows.of(short_windows(p), device=place)
        loss = penalised_loss(own, windows, 0.01)
        value, gradient = loss_and_gradient(loss, own.theta, 0.7)
        theta = FirstOrder(1, 0.01).run(loss, own.theta, own.free, Monitor())
        assert {t.device for t in (value, gradient, theta)} == {place}
        found.append([t.cpu() for t in (value, gradient, theta)])
    assert all(torch.equal(here, there) for here, there in zip(*found, strict=True))


def there_and_here(settings: Settings) -> tuple[Settings, Settings]:
    return settings, dataclasses.replace(settings, device="cuda")


@pytest.mark.slow
@pytest.mark.parametrize("system", ["fsir", "lotka-volterra"])
def test_training_ends_as_on_the_cpu(simulated: None, system: str) -> None:
    p, field = problem(system)
    here, there = (train_members(p, field, own, Monitor(), keep=2) for own in there_and_here(Settings(**SHORT)))
    assert there.theta.device.type == "cpu" and there.members == 2
    assert torch.equal(here.theta, there.theta) and torch.equal(here.free, there.free)


@pytest.mark.long
def test_training_with_inputs_and_tied_equations(simulated: None) -> None:
    times = np.linspace(0.0, 4.0, 9)
    columns = np.stack([np.exp(-times), times**0.5], axis=1)
    series = with_controls(TimeSeries.from_arrays(times, columns, ["x", "u"]), ["u"])
    driven = prepare(append_controls(series))
    _, tied, _ = pose(simulate_system("fsir", samples=12), Settings(conserve=("S + I + R",)))
    for p in (driven, tied):
        field = random_members(p, [3, 2], seed=0)
        settings = there_and_here(Settings(**SHORT))
        here, there = (train_members(p, field, own, Monitor()) for own in settings)
        assert torch.equal(here.theta, there.theta)


@pytest.mark.long
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("unit", ["RealNPU", "NPU", "Dense"])
def test_published_training_ends_as_on_the_cpu(simulated: None, recipe: str, unit: str) -> None:
    series, how = simulate_system("fsir", samples=4, until=6.0), RECIPES[recipe]
    data = Trajectories.of(series, series.trajectories[0].values[:1], how.solver)
    field = published_members(unit, 3, [3, 2], 0, how)
    weights = torch.tensor([0.01, 0.1], dtype=torch.float64)
    settings = settings_for(recipe, unit=unit, adam_steps=2, lbfgs_steps=1)
    here, there = (train_published(field, data, how, own, Monitor(), weights) for own in there_and_here(settings))
    assert there.theta.device.type == "cpu" and torch.equal(here.theta, there.theta)


@pytest.mark.slow
def test_grids_of_members_on_the_device_are_those_of_the_cpu(simulated: None) -> None:
    p, field = problem("lotka-volterra")
    found = []
    for place in (torch.device("cpu"), SIMULATED):
        own = moved(field, place)
        windows = TrainingWindows.of(short_windows(p), device=place).refined(own, own.theta, 0.1)
        assert windows.grid.device == windows.start.device == place
        found.append(windows.grid.cpu())
    assert torch.equal(*found)


# Units


def made(name: str) -> AbstractUnit:
    base = {"members": 2, "dtype": torch.float64, "generator": torch.Generator().manual_seed(0)}
    return UNITS[name](2, 6 if name == "Functions" else 3, **base)


@pytest.mark.parametrize("name", UNITS)
def test_units_stay_on_the_device(simulated: None, name: str) -> None:
    x = torch.linspace(-1.5, 2.0, 20, dtype=torch.float64).reshape(2, 5, 2)
    found = []
    for place in (torch.device("cpu"), SIMULATED):
        unit = moved(made(name), place)
        y = unit(x.to(place))
        p = dict(unit.named_parameters())
        total = y.sum() + unit.regulariser(p).sum()
        found.append([y, *torch.autograd.grad(total, list(p.values()))])
        with torch.no_grad():
            unit.project_()
        assert all(t.device == place for t in (*found[-1], *unit.parameters()))
    assert all(torch.equal(a.detach().cpu(), b.detach().cpu()) for a, b in zip(*found, strict=True))


@pytest.mark.parametrize("name", UNITS)
def test_chain_rules_stay_on_the_device(simulated: None, name: str) -> None:
    x = torch.linspace(-1.5, 2.0, 20, dtype=torch.float64).reshape(2, 5, 2)
    found = []
    for place in (torch.device("cpu"), SIMULATED):
        unit = moved(made(name), place)
        p = {key: value.detach() for key, value in unit.named_parameters()}
        cotangents = torch.ones(2, 5, 1, unit.n_out, dtype=torch.float64).to(place)
        g_x, grads = unit.pull(p, x.to(place), cotangents)
        found.append([g_x.cpu(), *(grads[key].cpu() for key in sorted(grads))])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


# Experiments


# One batch of each is enough to see that all is moved; what units compute was seen above.
BATCHES = {
    "fsir": {"recipe": "as-run", "model": "RealNPU"},
    "simple-arithmetic": {"model": "iNALU"},
    "large-arithmetic": {"model": "RealNPU, ours", "task": "add"},
    "static-arithmetic": {"model": "NMU", "task": "×"},
    "division": {"model": "RealNPU"},
    "extrapolation": {"model": "PReLU"},
    "operands": {"unit": "NALU", "variant": "both", "task": "*", "operands": "2"},
    "comparisons": {"model": "NSR", "task": ">"},
    "digits": {"task": "sum", "model": "NAU"},
    "simple-functions": {"kind": "recurrent", "model": "LSTM", "task": "a + b"},
    "autoencoder": {"model": "PReLU"},
    "product-sweeps": {"sweep": "gate", "value": "+", "model": "gated"},
    "stacked-units": {"task": "sum", "model": "NALU", "layers": "3"},
    "status-registers": {"inputs": "whole", "copies": "1", "task": ">"},
}


@pytest.mark.long
# Rows of `networks` hold seconds.
@pytest.mark.parametrize("name", [n for n, e in EXPERIMENTS.items() if e.trains and n != "networks"])
def test_experiments_end_as_on_the_cpu(simulated: None, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    experiment = EXPERIMENTS[name]
    if name == "fsir":
        monkeypatch.setattr(experiment, "quick", Grid((3,), (0.1,), 1, 2, 1))
    assert BATCHES[name] in experiment.batches(Plan())
    rows = [experiment.run(Job(Plan(device=place), BATCHES[name]))[0] for place in ("cpu", "cuda")]
    assert rows[0] == rows[1] or repr(rows[0]) == repr(rows[1])


# A GPU that is missing, and one that is there


def test_a_missing_gpu_ends_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    series = simulate_system("logistic")
    write_csv(series, tmp_path / "data.csv")
    monkeypatch.chdir(tmp_path)
    for call in (["fit", "data.csv", "--device", "cuda"], ["reproduce", "fsir", "--device", "cuda"]):
        assert main(call) == 2
        said = capsys.readouterr().err.strip()
        assert said == "error: --device cuda: torch finds no GPU here; use --device cpu"
    assert [path.name for path in tmp_path.iterdir()] == ["data.csv"]
    with pytest.raises(InputError, match="--device cuda"):
        ODEDiscovery(device="cuda").fit(np.exp(-np.arange(9.0))[:, None])
    with pytest.raises(InputError, match="unknown device 'gpu'"):
        settings_for(device="gpu")


@pytest.mark.slow
def test_the_device_is_kept_and_told(simulated: None) -> None:
    series = simulate_system("logistic")
    found = discover(series, settings_for(device="cuda", members=0))
    assert found.as_dict()["settings"]["device"] == "cuda"
    assert "--device cuda" in str(command(found))
    assert "--device" not in str(command(discover(series, settings_for(members=0))))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
def test_a_gpu_finds_the_law_of_the_cpu() -> None:
    settings = settings_for(grow=False, members=8)
    here, there = (discover(simulate_system("fsir"), own) for own in there_and_here(settings))
    ours, theirs = here.equations.power_sum, there.equations.power_sum
    assert ours is not None and theirs is not None and same_terms(ours, theirs, 1e-6)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
@pytest.mark.parametrize("system", ["fsir", "lotka-volterra", "pendulum"])
def test_a_gpu_computes_the_gradient_of_the_cpu(system: str) -> None:
    p, field = problem(system)
    found = []
    for place in (torch.device("cpu"), torch.device("cuda")):
        own, windows = moved(field, place), TrainingWindows.of(short_windows(p), device=place)
        value, gradient = loss_and_gradient(penalised_loss(own, windows, 0.01), own.theta, 0.7)
        found.append((value.cpu(), gradient.cpu()))
    for here, there in zip(*found, strict=True):
        assert torch.allclose(here, there, rtol=1e-9, atol=1e-9 * float(here.abs().max()))
