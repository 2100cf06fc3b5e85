"""Recipe neural: networks alone find laws, whatever their unit and whoever differentiates."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from listening import Stages

from odediscovery import Discovery, InputError, TimeSeries, discover, settings_for, simulate_system
from odediscovery.command.cli import main
from odediscovery.laws.systems import get_system
from odediscovery.problem.prepare import prepare
from odediscovery.runtime.monitor import Monitor
from odediscovery.search import neural
from odediscovery.search.candidates import is_settled
from odediscovery.search.neural import train_networks
from odediscovery.solve import adjoint, fixed_step

SMALL = {"members": 4, "hidden": 3, "adam_steps": 300}


def same_terms(found: Discovery, name: str) -> bool:
    """Whether the chosen law has the terms of a known one, exponents to a hundredth."""
    forms = []
    for law in (found.equations.power_sum, get_system(name).equations().power_sum):
        assert law is not None
        forms.append({(tuple(law.exponents[j].round(2)), i) for i, j in np.argwhere(law.coefficients != 0)})
    return forms[0] == forms[1]


@pytest.mark.long
@pytest.mark.parametrize(
    "options", [{"unit": "NPU"}, {"gradients": "closed-form"}, {"gradients": "odeint-adjoint"}, {}]
)
def test_a_network_alone_finds_the_root_of_torricelli(options: dict[str, str]) -> None:
    stages = Stages()
    found = discover(simulate_system("torricelli"), settings_for("neural", **SMALL, **options), stages)
    assert {"Adam", "LBFGS", "prune", "polish"} <= set(stages.names)
    assert not any("grow" in name for name in stages.names)
    assert found.found_by == "training" and same_terms(found, "torricelli")


@pytest.mark.slow
def test_exact_data_become_exact_and_noisy_data_do_not() -> None:
    settings = settings_for("neural", **SMALL)
    for noise, exact in ((0.0, True), (0.05, False)):
        p = prepare(simulate_system("logistic", noise=noise))
        q, candidates = train_networks(p, [], settings, Monitor())
        assert q.clean is exact and is_settled(candidates) is exact
        assert {c.found_by for c in candidates} == {"training"}


def test_a_stop_before_the_first_network_ends_with_a_law(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neural, "climb", lambda strategy, at: True)
    p, settings = prepare(simulate_system("logistic", noise=0.05)), settings_for("neural", **SMALL)
    _, candidates = train_networks(p, [], settings, Monitor(1e-9))
    assert [bool(np.isfinite(c.law.coefficients).all()) for c in candidates] == [True]
    assert train_networks(p, [], settings, Monitor())[1] == []


def test_states_that_never_change_need_no_network() -> None:
    t = np.linspace(0.0, 1.0, 20)
    found = discover(TimeSeries.from_arrays(t, np.ones((20, 1)), ("x",)), settings_for("neural"))
    assert found.found_by == "" and found.as_dict()["found_by"] is None
    assert found.source_text() == ""


@pytest.mark.slow
def test_it_is_said_which_stage_found_the_law(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
    with pytest.raises(InputError, match="'found_by' should be growing"):
        Discovery.load(tmp_path / "torricelli")
    (tmp_path / "x.csv").write_text("t,x\n" + "".join(f"{t},{2.0**-t}\n" for t in range(12)))
    assert main(["fit", str(tmp_path / "x.csv"), "--members", "0", "--out", str(tmp_path / "out"), "--quiet"]) == 0
    said = capsys.readouterr().out
    assert "found by: " in said and "the equations were found by: " in (tmp_path / "out" / "report.html").read_text()


def test_what_nobody_measured_is_refused() -> None:
    with pytest.raises(InputError, match="unmeasured states need --recipe default"):
        discover(simulate_system("logistic"), settings_for("neural", hidden_states=("R",)))


def test_networks_are_trained_inside_torchdiffeq(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: Counter[str] = Counter()

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            calls[name] += 1
            return function(*args, **kwargs)

        return call

    monkeypatch.setattr(fixed_step, "odeint", counted("odeint", fixed_step.odeint))
    monkeypatch.setattr(torch.optim.Adam, "step", counted("Adam", torch.optim.Adam.step))
    monkeypatch.setattr(adjoint, "_solved", counted("closed form", adjoint._solved))
    settings = settings_for("neural", members=2, hidden=2, adam_steps=40, lbfgs_steps=3)
    assert discover(simulate_system("logistic"), settings).found_by == "training"
    assert calls["odeint"] >= calls["Adam"] + 3 and calls["Adam"] % 40 == 0 and calls["closed form"] == 0
