"""A family that does not exist yet: one file and one line of the registry, and nothing else.

The package is copied, the file and the line are added to the copy, and everything that knows
families has to know the new one: growing, prices, printing, reading back, the documentation.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import odediscovery

PACKAGE = Path(odediscovery.__file__).parent
FAMILY = '''"""Products of powers with tanh of a state among the factors: what saturates on both sides."""

from odediscovery.families.base import Family, StateFunction
from odediscovery.families.products import products

TANH = StateFunction("tanh", "the hyperbolic tangent of", lambda lib, z: 1.0 - lib.tanh(z) ** 2, exponents=(1.0, 2.0))

SATURATING = Family(
    name="saturating",
    says="with tanh of a state among the factors, whole exponents",
    chain="Functions -> NPU -> NAU",
    richness=1.5,
    candidates=products,
    functions=(TANH,),
    in_noise=True,
)
'''
PROGRAM = """
import numpy as np
from odediscovery import Discovery, Equations, TimeSeries, discover, settings_for
from odediscovery.report import readings
from odediscovery.search.table import families_table

truth = Equations.parse(["x", "y"], {"x": "y", "y": "-1.3*x*tanh(x)*tanh(y) - 0.7*tanh(x)"})
t = np.linspace(0.0, 12.0, 120)
series = TimeSeries.from_arrays(t, truth.simulate([2.0, 0.3], t), ["x", "y"])
found = discover(series, settings_for(members=0))
print("found", found.equations.texts())
found.save("out")
again = Discovery.load("out")
points = np.random.default_rng(0).uniform(-2.0, 2.0, (50, 2))
for equations in (found.equations, again.equations):
    np.testing.assert_allclose(equations.rhs(points), truth.rhs(points), rtol=1e-4, atol=1e-5)
print("read back", again.equations.texts() == found.equations.texts())
print("julia", again.equations.julia().count("tanh("))
print("said", readings(again.equations, points)[1][0].striptags())
row = next(line for line in families_table().splitlines() if "saturating" in line)
print("documented", row)
"""


@pytest.mark.slow
def test_one_file_and_one_line_make_a_family(tmp_path: Path) -> None:
    copy = tmp_path / "odediscovery"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    assert len(FAMILY.splitlines()) <= 40
    (copy / "families" / "saturating.py").write_text(FAMILY)
    registry = copy / "families" / "__init__.py"
    before = "from odediscovery.families.sums"
    line = "from odediscovery.families.saturating import SATURATING"
    registry.write_text(registry.read_text().replace(before, f"{line}\n{before}", 1))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    assert said["found"].count("tanh(x)") == 2 and "sin" not in said["found"]
    assert "back True" in done.stdout
    assert int(said["julia"]) == 3
    assert "the hyperbolic tangent of" in said["said"]
    assert "| saturating | with tanh of a state among the factors" in said["documented"]
