"""Training on another device: nothing is left behind, and the results are those of the CPU."""

import dataclasses

import numpy as np
import pytest
import torch
from simulated import SIMULATED, Simulated

from odediscovery import InputError, Monitor, ODEDiscovery, Settings, discover, settings_for, simulate_system, write_csv
from odediscovery.bench.scores import same_terms
from odediscovery.command.cli import main
from odediscovery.neural.train import random_members, train_members
from odediscovery.problem.problem import prepare
from odediscovery.report.words import command
from odediscovery.runtime import device
from odediscovery.runtime.device import moved
from odediscovery.units import UNITS


@pytest.fixture
def simulated(monkeypatch):
    """`cuda` is the simulated device."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setitem(device._DEVICES, "cuda", SIMULATED)
    with Simulated():
        yield


def there_and_here(settings):
    return settings, dataclasses.replace(settings, device="cuda")


def test_training_ends_as_on_the_cpu(simulated):
    p = prepare(simulate_system("lotka-volterra", samples=15))
    field, short = random_members(p, [4, 4, 3], seed=1), Settings(members=3, hidden=4, adam_steps=4, lbfgs_steps=3)
    here, there = (train_members(p, field, own, Monitor(), keep=2) for own in there_and_here(short))
    assert there.theta.device.type == "cpu" and there.members == 2
    assert torch.equal(here.theta, there.theta) and torch.equal(here.free, there.free)


def made(name):
    base = {"members": 2, "dtype": torch.float64, "generator": torch.Generator().manual_seed(0)}
    return UNITS[name](2, 6 if name == "Functions" else 3, **base)


@pytest.mark.parametrize("name", UNITS)
def test_units_stay_on_the_device(simulated, name):
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


def test_a_missing_gpu_ends_in_one_line(monkeypatch, tmp_path, capsys):
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


def test_the_device_is_kept_and_told(simulated):
    series = simulate_system("logistic")
    found = discover(series, settings_for(device="cuda", members=0))
    assert found.as_dict()["settings"]["device"] == "cuda"
    assert "--device cuda" in str(command(found))
    assert "--device" not in str(command(discover(series, settings_for(members=0))))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
def test_a_gpu_finds_the_law_of_the_cpu():
    settings = settings_for(grow=False, members=8)
    here, there = (discover(simulate_system("fsir"), own) for own in there_and_here(settings))
    ours, theirs = here.equations.power_sum, there.equations.power_sum
    assert ours is not None and theirs is not None and same_terms(ours, theirs, 1e-6)
