"""Term stability: what is there comes back, what is an accident of the noise does not."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from listening import Here
from problems import PREY, STARTS, series_of
from test_bands import fitted

from odediscovery.errors import FitError, InputError
from odediscovery.laws.power_sum import PowerSum
from odediscovery.result.discovery import Discovery
from odediscovery.result.survival import Survival
from odediscovery.runtime.monitor import Monitor
from odediscovery.uncertainty.bootstrap import bootstrap, with_survival

TIMES = [np.linspace(0.0, 15.0, 31)]
# The true law and a constant that is not there.
MORE = PowerSum(np.hstack([PREY.coefficients, [[0.002], [0.0]]]), np.vstack([PREY.exponents, [0.0, 0.0]]))


def found_with(law: PowerSum, runs: int = 1, noise: float = 0.05) -> Discovery:
    starts = STARTS[0] * np.linspace(0.7, 1.3, runs)[:, None]
    return fitted(law, series_of(PREY, starts, TIMES * runs, noise=noise))


@pytest.fixture(scope="module")
def doubtful() -> Discovery:
    """A law with a term that is an accident."""
    return found_with(MORE)


@pytest.mark.slow
def test_true_terms_survive_and_accidents_do_not(doubtful: Discovery) -> None:
    stable = bootstrap(found_with(PREY), 24, seed=1)
    there = PREY.coefficients != 0
    assert (stable.shares[there] > 0.9).all() and np.isnan(stable.shares[~there]).all()
    assert stable.same > 0.6
    survival = bootstrap(doubtful, 24, seed=1)
    assert survival.shares[MORE.coefficients == 0.002][0] < 0.5
    assert (survival.shares[:, :3][there] > 0.9).all()


@pytest.mark.slow
def test_any_number_of_processes_chooses_the_same(doubtful: Discovery) -> None:
    one, two = (bootstrap(doubtful, 60, seed=1, jobs=jobs) for jobs in (1, 2))  # two parts
    np.testing.assert_array_equal(one.shares, two.shares)
    assert one.same == two.same and one.others == two.others
    with pytest.raises(InputError, match="--jobs must be at least 1, got 0"):
        bootstrap(doubtful, 60, jobs=0)


@pytest.mark.slow
def test_a_lost_part_costs_its_draws_only_and_a_stop_keeps_what_is_there(doubtful: Discovery) -> None:
    place = Here(lambda part: part.seed[1] == 0)
    found = bootstrap(doubtful, 60, seed=1, backend=place)
    # Two parts, and the lost one is asked for once more.
    lacking = "50 of 60 draws are lacking (its process ended)"
    assert (found.draws, found.lacking, place.ran) == (10, lacking, 3)
    assert f"have just these terms; {lacking}" in found.text(found.states, found.monomials)
    assert Survival.from_record(json.loads(json.dumps(found.record()))).lacking == found.lacking  # type: ignore[union-attr]
    with pytest.raises(FitError, match=r"the bootstrap could not be done: its process ended"):
        bootstrap(doubtful, 4, seed=1, backend=place)
    monitor = Monitor()
    stopped = bootstrap(doubtful, 51, seed=1, monitor=monitor, backend=Here(lambda part: False, monitor, 1))
    assert (stopped.draws, stopped.lacking) == (50, "1 of 51 draws are lacking (interrupted)")
    alone = bootstrap(doubtful, 50, seed=1)
    np.testing.assert_array_equal(stopped.shares, alone.shares)


@pytest.mark.slow
def test_nothing_to_draw_is_said() -> None:
    found = found_with(PREY)
    for wrong, draws, kind, says in (
        (found, 5, "trajectories", "at least 5 trajectories"),
        (found, 5, "samples", "residuals or trajectories"),
        (found, 0, "residuals", "at least 1, got 0"),
        (found_with(PREY, noise=0.0), 5, "residuals", "no noise"),
        (dataclasses.replace(found, estimates=None), 5, "residuals", "no covariance"),
    ):
        with pytest.raises(InputError, match=says):
            bootstrap(wrong, draws, kind=kind)
    stopped = Monitor()
    stopped.interrupt()
    with pytest.raises(FitError, match="interrupted"):
        bootstrap(found, 5, monitor=stopped)
    assert with_survival(found, 5, stopped).messages[-1].startswith("no bootstrap: the bootstrap")


def test_stability_is_printed_and_kept(tmp_path: Path) -> None:
    shares = np.where(PREY.coefficients != 0, 0.9, np.nan)
    survival = Survival("residuals", 40, shares, 0.75, (("x1", "x0^2", 0.1),))
    found = dataclasses.replace(found_with(PREY), survival=survival)
    assert found.stability_text().splitlines() == [
        "40 bootstrap fits (residuals drawn): 75% have just these terms",
        "  x0': x0 90%, x0*x1 90%",
        "  x1': x0*x1 90%, x1 90% (also x0^2 10%)",
    ]
    found.save(tmp_path / "found")
    document = json.loads((tmp_path / "found" / "result.json").read_text("utf-8"))
    assert [term["stability"] for term in document["terms"]] == [0.9] * 4
    assert document["bootstrap"]["draws"] == 40
    after = Discovery.load(tmp_path / "found")
    assert after.as_dict() == found.as_dict()
    assert after.stability_text() == found.stability_text()
    assert dataclasses.replace(found, survival=None).stability_text() == ""


def test_a_bootstrap_that_was_asked_for_is_not_ended_by_the_time_of_the_fit() -> None:
    spent = Monitor()
    spent.spend(0.0)
    found = with_survival(found_with(PREY, noise=0.02), 5, spent)
    assert found.survival is not None and not found.survival.lacking
