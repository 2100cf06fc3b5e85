"""Term stability: what is there comes back, what is an accident of the noise does not."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from problems import PREY, STARTS, series_of
from test_bands import fitted

from odediscovery.data.series import TimeSeries
from odediscovery.errors import FitError, InputError
from odediscovery.fitting.levenberg_marquardt import levenberg_marquardt
from odediscovery.fitting.residuals import LongResiduals
from odediscovery.fitting.windows import cut
from odediscovery.laws.power_sum import PowerSum
from odediscovery.networks.translate import chain_of
from odediscovery.problem.prepare import prepare
from odediscovery.result.discovery import Discovery
from odediscovery.result.front import FrontRow
from odediscovery.result.survival import Survival
from odediscovery.runtime.monitor import Monitor
from odediscovery.runtime.workers import Failure
from odediscovery.uncertainty import bootstrap as module
from odediscovery.uncertainty.bootstrap import bootstrap, richer, with_survival
from odediscovery.uncertainty.resampled import ResampledResiduals

TIMES = [np.linspace(0.0, 15.0, 31)]
# The true law and a constant that is not there.
MORE = PowerSum(np.hstack([PREY.coefficients, [[0.002], [0.0]]]), np.vstack([PREY.exponents, [0.0, 0.0]]))


def found_with(law: PowerSum, runs: int = 1, noise: float = 0.05) -> Discovery:
    starts = STARTS[0] * np.linspace(0.7, 1.3, runs)[:, None]
    series = series_of(PREY, starts, TIMES * runs, noise=noise)
    made = fitted(law, series, noise or 1e-4)
    row = FrontRow(made.equations, made.equations.complexity, 0.1, 0.9, 0.0, selected=True)
    return dataclasses.replace(made, front=(row,))


@pytest.mark.slow
def test_true_terms_survive_and_accidents_do_not() -> None:
    stable = bootstrap(found_with(PREY), 24, seed=1)
    there = PREY.coefficients != 0
    assert (stable.shares[there] > 0.9).all() and np.isnan(stable.shares[~there]).all()
    assert stable.same > 0.6
    doubtful = bootstrap(found_with(MORE), 24, seed=1)
    accident = MORE.coefficients == 0.002
    assert doubtful.shares[accident][0] < 0.5
    assert (doubtful.shares[:, :3][there] > 0.9).all()
    again = bootstrap(found_with(MORE), 24, seed=1)
    np.testing.assert_array_equal(again.shares, doubtful.shares)


@pytest.mark.slow
def test_any_number_of_processes_chooses_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BOOTSTRAP", dataclasses.replace(module.BOOTSTRAP, part=4))
    one, two = (bootstrap(found_with(MORE), 12, seed=1, jobs=jobs) for jobs in (1, 2))
    np.testing.assert_array_equal(one.shares, two.shares)
    assert one.same == two.same and one.others == two.others
    with pytest.raises(InputError, match="--jobs must be at least 1, got 0"):
        bootstrap(found_with(MORE), 12, jobs=0)


class Here:
    """A place for tasks that is this process; some of them, by their draws, end without a result every time."""

    def __init__(self, lost: Sequence[int] = (), monitor: Monitor | None = None) -> None:
        self.lost, self.monitor, self.ran = lost, monitor, 0

    def results(
        self, function: Callable[[Any], Any], tasks: Sequence[Any], limit: float = 0.0, stopping: object = None
    ) -> Iterator[tuple[int, Any]]:
        for number, task in enumerate(tasks):
            if self.monitor is not None and self.monitor.stopping():
                return
            self.ran += 1
            yield number, Failure("its process ended", 1.0) if task.seed[1] in self.lost else function(task)
            if self.monitor is not None:
                self.monitor.interrupt()


@pytest.mark.slow
def test_a_lost_part_costs_its_draws_only_and_a_stop_keeps_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BOOTSTRAP", dataclasses.replace(module.BOOTSTRAP, part=4))
    place = Here(lost=[1])
    found = bootstrap(found_with(MORE), 10, seed=1, backend=place)
    # Three parts, and the lost one is asked for once more.
    assert (found.draws, found.lacking, place.ran) == (6, "4 of 10 draws are lacking (its process ended)", 4)
    assert "have just these terms; 4 of 10 draws are lacking (its process ended)" in found.text(
        found.states, found.monomials
    )
    assert Survival.from_record(json.loads(json.dumps(found.record()))).lacking == found.lacking  # type: ignore[union-attr]
    with pytest.raises(FitError, match=r"the bootstrap could not be done: its process ended"):
        bootstrap(found_with(MORE), 4, seed=1, backend=Here(lost=[0]))
    monitor = Monitor()
    stopped = bootstrap(found_with(MORE), 10, seed=1, monitor=monitor, backend=Here(monitor=monitor))
    assert (stopped.draws, stopped.lacking) == (4, "6 of 10 draws are lacking (interrupted)")
    alone = bootstrap(found_with(MORE), 4, seed=1)
    np.testing.assert_array_equal(stopped.shares, alone.shares)


@pytest.mark.slow
def test_trajectories_can_be_drawn_where_there_are_enough() -> None:
    found = found_with(PREY, runs=6)
    stable = bootstrap(found, 12, kind="trajectories", seed=0)
    assert (stable.shares[PREY.coefficients != 0] > 0.9).all()
    assert stable.kind == "trajectories" and stable.draws == 12


@pytest.mark.slow
def test_members_with_data_of_their_own_are_fits_to_these_data() -> None:
    p = prepare(series_of(PREY, STARTS[:1], TIMES, noise=0.05))
    law = PREY.rescaled(p.scale.state, p.scale.time)
    weight = 1.0 / p.noise
    values = p.data.trajectories[0].values
    others = [values + 0.05 * np.random.default_rng(k).standard_normal(values.shape) for k in range(3)]
    series = [TimeSeries.from_arrays(p.data.trajectories[0].time, x) for x in others]
    own = [cut(s, p.smooth, weight, 10) for s in series]
    windows = cut(p.data, p.smooth, weight, 10)
    shift = np.stack(
        [
            np.concatenate(
                [
                    ((w.first - windows.first) * windows.first_weight).ravel(),
                    ((w.target - windows.target) * windows.weight).ravel(),
                ]
            )
            for w in own
        ]
    )
    nonnegative = np.ones(2, dtype=bool)
    chain = chain_of([law] * 3, p.nonnegative)
    together = LongResiduals(windows, chain, nonnegative)
    start = together.pack(chain.theta)
    drawn = ResampledResiduals(together, shift, np.ones_like(shift))
    labelled = np.hstack([start, [[2.0], [0.0], [1.0]]])
    free = np.hstack([chain.free, np.ones((3, together.n_starts), dtype=bool), np.zeros((3, 1), dtype=bool)])
    batch = levenberg_marquardt(drawn, labelled, free, 20)
    one = chain_of([law], p.nonnegative)
    for member, which in enumerate((2, 0, 1)):
        alone = LongResiduals(own[which], one, nonnegative)
        fit = levenberg_marquardt(alone, start[:1], free[:1, :-1], 20)
        np.testing.assert_allclose(batch.sum_of_squares[member], fit.sum_of_squares[0], rtol=1e-6)
        np.testing.assert_allclose(batch.unknowns[member, :-1], fit.unknowns[0], atol=1e-3)
        assert batch.unknowns[member, -1] == which


@pytest.mark.slow
def test_the_richer_law_has_all_monomials_everywhere_and_rivals_of_the_front() -> None:
    found = found_with(PREY)
    p = prepare(found.series)
    assert found.estimates is not None
    law = found.estimates.law
    wide = richer(p, found, law)
    assert wide.n_monomials == 3 and (wide.coefficients != 0).all()
    rival = found_with(MORE).front[0]
    wild = PowerSum(np.array([[1.0], [0.0]]), np.array([[9.0, 0.0]]))
    far = dataclasses.replace(
        rival,
        equations=type(rival.equations).from_power_sum(found.equations.states, wild),
        complexity=99,
        selected=False,
    )
    both = dataclasses.replace(found, front=(*found.front, dataclasses.replace(rival, selected=False), far))
    more = richer(p, both, law)
    assert more.n_monomials == 4
    np.testing.assert_array_equal(more.exponents[3], 0.0)
    np.testing.assert_array_equal(more.coefficients[:, 3] != 0, [True, False])


@pytest.mark.slow
def test_a_row_that_is_worse_and_lacks_a_term_is_no_rival() -> None:
    found = found_with(PREY)
    p, chosen = prepare(found.series), found.front[0]
    assert found.estimates is not None
    other = PowerSum(np.array([[1.0, 1.0], [1.0, 0.0]]), np.array([[2.0, 1.0], [1.0, 0.0]]))
    nothing = PowerSum(np.zeros((2, 0)), np.zeros((0, 2)))
    rows = [
        dataclasses.replace(
            chosen,
            equations=type(chosen.equations).from_power_sum(found.equations.states, law),
            complexity=99,
            criterion=chosen.criterion + 30.0,
            selected=False,
        )
        for law in (other, nothing)
    ]
    wide = richer(p, dataclasses.replace(found, front=(*found.front, *rows)), found.estimates.law)
    assert wide.n_monomials == 3


@pytest.mark.slow
def test_nothing_to_draw_is_said() -> None:
    found = found_with(PREY)
    with pytest.raises(InputError, match="at least 5 trajectories"):
        bootstrap(found, 5, kind="trajectories")
    with pytest.raises(InputError, match="residuals or trajectories"):
        bootstrap(found, 5, kind="samples")
    with pytest.raises(InputError, match="at least 1, got 0"):
        bootstrap(found, 0)
    with pytest.raises(InputError, match="no noise"):
        bootstrap(found_with(PREY, noise=0.0), 5)
    with pytest.raises(InputError, match="no covariance"):
        bootstrap(dataclasses.replace(found, estimates=None), 5)
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
