"""Whether an installed package works on its own, run by `make wheel-test` in an empty environment:
nothing but the package and what it needs is there, no pytest either.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import odediscovery
from odediscovery.bench.systems import load_suite

package = Path(odediscovery.__file__).parent
assert package.is_relative_to(sys.prefix), f"{package} is not the installed one"
assert (package / "py.typed").is_file()
assert (package / "result" / "schema.json").is_file()
assert len(load_suite("fractional")) == 25

command = Path(sys.executable).with_name("odediscovery")
with tempfile.TemporaryDirectory() as folder:

    def run(*arguments: str) -> str:
        """What the installed command prints."""
        done = subprocess.run([command, *arguments], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("simulate", "torricelli", "--out", "tank.csv")
    found = run("fit", "tank.csv", "--members", "0")
    assert "*h^0.5" in found, found
    assert run("show", "tank.odediscovery").splitlines()[0] == found.splitlines()[0]
    assert (Path(folder) / "tank.odediscovery" / "fit.png").stat().st_size > 10_000
    assert run("reproduce", "--help") and run("--help")
    assert run("--version") == f"odediscovery {odediscovery.__version__}\n"
    assert run("doctor").endswith("all is well\n")
print(f"odediscovery {odediscovery.__version__} works: {found.splitlines()[0]}")
