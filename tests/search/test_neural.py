"""Recipe neural: networks alone find laws, whatever their unit and whoever differentiates."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from listening import Stages

from odediscovery import Discovery, InputError, discover, settings_for, simulate_system
from odediscovery.command.cli import main
from odediscovery.laws.systems import get_system

SMALL = {"members": 4, "hidden": 3, "adam_steps": 300}


def same_terms(found: Discovery, name: str) -> bool:
    """Whether the chosen law has the terms of a known one, exponents to a hundredth."""
    forms = []
    for law in (found.equations.power_sum, get_system(name).equations().power_sum):
        assert law is not None
        forms.append({(tuple(law.exponents[j].round(2)), i) for i, j in np.argwhere(law.coefficients != 0)})
    return forms[0] == forms[1]


@pytest.mark.long
@pytest.mark.parametrize("options", [{"unit": "NPU"}])
def test_a_network_alone_finds_the_root_of_torricelli(options: dict[str, str]) -> None:
    stages = Stages()
    found = discover(simulate_system("torricelli"), settings_for("neural", **SMALL, **options), stages)
    assert {"Adam", "LBFGS", "prune", "polish"} <= set(stages.names)
    assert not any("grow" in name for name in stages.names)
    assert found.found_by == "training" and same_terms(found, "torricelli")


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
