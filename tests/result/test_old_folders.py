"""A folder that an earlier version wrote is read, shown and continued as one of today."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from odediscovery.command.cli import main
from odediscovery.errors import InputError
from odediscovery.result.discovery import Discovery
from odediscovery.result.folder import log_lines, read_document

# Written by `odediscovery fit tank.csv --members 0`, on 30 samples of `simulate torricelli --noise 0.01`,
# of version 0.1.0 before its modules moved into rooms; without the pictures and the report.
OLD = Path(__file__).parents[1] / "files" / "torricelli_0.1.0"


def test_it_loads_with_everything_that_was_kept() -> None:
    found = Discovery.load(OLD)
    assert found.equations_text() == "h' = 0.00311(16)*h^2 - 0.11181(90)*h"
    assert found.starts_text() == "at t = 0: h = 9.0096(98)"
    assert (found.outcome, found.equations.complexity, len(found.front)) == ("converged", 5, 6)
    assert found.network is not None and [layer.unit for layer in found.network.layers] == ["RealNPU", "NAU"]
    assert found.estimates is not None and found.estimates.law.stoichiometry is None
    np.testing.assert_allclose(found.simulate(times=[0.0, 5.0])[:, 0], [9.0096175, 5.7713051], rtol=1e-7)


def test_it_is_shown_and_predicted_with(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["show", str(OLD)]) == 0
    assert "*            5   0.000223   0.999944   h' = 0.00311*h^2 - 0.112*h" in capsys.readouterr().out
    assert main(["predict", str(OLD), "--until", "5", "--out", str(tmp_path / "ahead.csv")]) == 0
    last = (tmp_path / "ahead.csv").read_text().splitlines()[-1]
    assert [float(cell) for cell in last.split(",")] == pytest.approx([5.0, 5.771305068995609], rel=1e-7)


def test_saved_again_it_says_the_same(tmp_path: Path) -> None:
    Discovery.load(OLD).save(tmp_path)
    before, after = (json.loads((folder / "result.json").read_text()) for folder in (OLD, tmp_path))
    assert before.pop("versions") and after.pop("versions")
    assert set(after.pop("files")) == {"covariance.npz", "data.csv", "equations.tex", "log.jsonl", "model.npz"}
    # Keys and options that it had not yet.
    assert after.pop("found_by") is None
    after["settings"] = {name: after["settings"][name] for name in before["settings"]}
    assert after == before
    for name in ("data.csv", "equations.tex", "log.jsonl"):
        assert (tmp_path / name).read_bytes() == (OLD / name).read_bytes(), name


def test_another_version_is_refused_and_a_log_is_plain_lines(tmp_path: Path) -> None:
    assert read_document(OLD / "result.json")["outcome"] == "converged"
    (tmp_path / "result.json").write_text('{"format": "odediscovery-result", "version": 2}')
    with pytest.raises(InputError, match="has version 2, this program reads 1"):
        read_document(tmp_path / "result.json")
    lines = log_lines([{"n": np.int64(1), "x": np.nan, "rows": np.array([True])}, {"place": Path("a")}])
    assert lines == b'{"n": 1, "x": null, "rows": [true]}\n{"place": "a"}\n'
