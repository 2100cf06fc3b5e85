"""A law that somebody wrote down, with constants of each group's own."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from odediscovery import TimeSeries, fit_constants, settings_for
from odediscovery.command.cli import main
from odediscovery.errors import InputError
from odediscovery.laws.equations import read_form
from odediscovery.population.written import written_law
from odediscovery.result.discovery import Discovery, head

T = np.linspace(0.0, 10.0, 15)
DATA = Path(__file__).parents[2] / "data"


def growth(power: float, groups: int = 8) -> tuple[TimeSeries, np.ndarray]:
    """n' = r n - n^p in closed form, where r varies by a fifth and n comes to rest at r^(1/(p - 1))."""
    rng = np.random.default_rng(4)
    z = rng.standard_normal(groups)
    r = np.exp(0.2 * (z - z.mean()) / z.std())
    # u = n^(1 - p) is linear: u' = -(p - 1) (r u - 1).
    u = 1.0 / r + (0.05 ** (1.0 - power) - 1.0 / r) * np.exp(-(power - 1.0) * np.outer(T, r))
    values = u ** (1.0 / (1.0 - power)) + 0.004 * rng.standard_normal(u.shape)
    labels = [f"w{g}" for g in range(groups)]
    return TimeSeries.from_arrays([T] * groups, list(values.T), ["n"], labels=labels), r


def test_terms_of_a_form_and_the_products_of_their_constants() -> None:
    law = written_law(read_form("n' = r*n*(1 - (n/K)^v)", ["n"]))
    assert [{str(s) for s in one.free_symbols} for one in law.constants] == [{"r"}, {"r", "K", "v"}]
    assert law.names == {0: "r"}
    assert [str(one) for one in law.exponents] == ["v + 1"] and law.structure.free == ((1, 0),)
    assert [entry.sign for entry in law.structure.entries] == [1, -1]
    flow = written_law(read_form(["gut' = -ka*gut", "conc' = ka*gut - ke*conc"], ["gut", "conc"]))
    assert flow.names == {0: "ka", 1: "ke"} and flow.structure.n_constants == 2


@pytest.mark.parametrize(
    ("law", "message"),
    [
        ("n' = r*n/(1 + b*n)", r"expected sums of products of powers, got 1/\(b\*n \+ 1\) in the equation of n"),
        ("n' = r*n - 0.1*n", r"expected a constant in every term, got -0.1\*n in the equation of n; give it a name"),
        ("n' = r*n - r*K*n^2 + K*n^3", "got 2 constants in K, r, K"),
        ("n' = a*n^p - b*n^p", "the equation of n has two terms alike; write them as one"),
    ],
)
def test_what_is_no_mixed_model_is_refused(law: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        written_law(read_form(law, ["n"]))


@pytest.mark.slow
def test_the_spread_of_a_constant_and_the_exponent_of_all_are_found() -> None:
    series, r = growth(1.3)
    found = fit_constants(series, "n' = r*n - q*n^p", settings_for(vary="auto"))
    population = found.population
    assert population is not None and population.written and head(found) == "constants fitted"
    varying = {one.name: one for one in population.constants if one.varies}
    assert list(varying) == ["r"]
    assert np.corrcoef(np.log(varying["r"].values), np.log(r))[0, 1] > 0.95
    assert varying["r"].sd_log == pytest.approx(0.2, rel=0.35)
    told = re.search(r"the exponent p = ([\d.]+)\((\d+)\) is one for all groups", " ".join(found.messages))
    assert told and float(told[1]) == pytest.approx(1.3, abs=0.06)
    assert any(message.startswith("comes to rest at n = ") for message in found.messages)


@pytest.mark.slow
def test_an_unmeasured_state_needs_starts_of_all_constants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Theophylline, as nlme has it: ke 0.0859, ka 1.593 with sd_log 0.644."""
    monkeypatch.chdir(tmp_path)
    Path("law.txt").write_text("gut' = -ka*gut\nconc' = ka*gut - ke*conc\n", encoding="utf-8")
    call = ["fit-constants", str(DATA / "theoph.csv"), "--group", "subject", "--states", "conc", "--law", "law.txt"]
    call += ["--hidden-states", "gut", "--starts", "gut = dose_mg_per_kg", "--starts", "conc = 0", "--vary", "auto"]
    assert main(call) == 2
    assert "every constant needs a start" in capsys.readouterr().err
    assert main([*call, "--start", "ka=1", "--start", "ke=0.1", "--out", "found"]) == 0
    out = capsys.readouterr().out
    assert "conc' = ka*gut - 0.0859(45)*conc" in out and "ka = 1.59(31), log-normal over groups" in out
    kept = Discovery.load("found")
    assert kept.population is not None and kept.population.written and head(kept) == "constants fitted"
    assert kept.r2 == pytest.approx(0.9487, abs=5e-4)
    assert main(["fit-constants", str(DATA / "theoph.csv"), "--law", "law.txt", "--starts", "conc = 0"]) == 2
    assert "they need --vary" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        (dict(template=["logistic"]), "--template"),
        (dict(tries=["n' = r*n"]), "--try"),
        (dict(recipe="neural"), "--recipe"),
    ],
)
def test_what_the_search_of_groups_does_not_hear_is_refused(asked: dict[str, object], named: str) -> None:
    recipe = str(asked.pop("recipe", "default"))
    with pytest.raises(InputError, match=f"{named} is not yet possible beside --vary"):
        settings_for(recipe, vary="auto", **asked).checked()
