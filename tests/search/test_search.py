"""The search: noise that is none, evidence of samples, its tables and its vocabulary."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from problems import LOGISTIC, growth
from scipy.integrate import solve_ivp

from odediscovery import Monitor, Settings, TimeSeries, discover, load_csv, simulate_system
from odediscovery.errors import InputError
from odediscovery.families import FAMILIES
from odediscovery.judge.criterion import Verdict, judge_on
from odediscovery.laws.power_sum import PowerSum, all_free
from odediscovery.laws.records import Candidate, Origin, Polished
from odediscovery.problem.problem import Problem, prepare
from odediscovery.runtime.monitor import OUT_OF_MEMORY
from odediscovery.search import moves
from odediscovery.search.moves import Proposal, Pruning, Search
from odediscovery.search.refinement import count_independent, detect_noiseless, refined, sigma_of
from odediscovery.search.search import MOVES, families_table, moves_table, vocabulary
from odediscovery.settings import settings_for
from odediscovery.solve.sensitivities import residuals
from odediscovery.stages.prune import NoRoomError


@pytest.mark.slow
def test_coarse_samples_of_an_exact_law_have_no_noise() -> None:
    p = prepare(simulate_system("lorenz", samples=200, until=10.0))
    found = detect_noiseless(p, Monitor())
    assert found.exact is not None and not found.noise.any() and found.clean


def test_noise_that_samples_show_stays() -> None:
    p = prepare(growth(np.linspace(0.0, 20.0, 80), 0.03))
    assert detect_noiseless(p, Monitor()) is p


def fitted(p: Problem) -> Polished:
    """Logistic growth at the maximum of the likelihood."""
    law = LOGISTIC.rescaled(p.scale.state, p.scale.time)
    return refined(p, law, all_free(law), p.initial, sigma_of(p))


@pytest.mark.parametrize(("smooth", "fewer"), [(0.0, False), (0.02, True)])
def test_samples_of_a_smooth_error_are_not_independent(smooth: float, fewer: bool) -> None:
    times = np.linspace(0.0, 20.0, 100)
    p = prepare(growth(times, 1e-3))
    shift = smooth * np.sin(times)[:, None] / p.scale.state
    off = dataclasses.replace(p.data.trajectories[0], values=p.data.trajectories[0].values + shift)
    p = dataclasses.replace(p, data=dataclasses.replace(p.data, trajectories=(off,)))
    before = Verdict.of(p, [judge_on(p, fitted(p), Origin(0))])
    after = count_independent(before)
    assert (after is not before) is fewer
    if fewer:
        assert after.p.independent is not None and (after.p.independent < 0.2).all()
        assert after.best.criterion > before.best.criterion  # less is certain


def test_a_law_that_follows_even_a_smooth_error_does_not_hide_its_memory() -> None:
    times = np.linspace(0.0, 20.0, 100)
    p = prepare(growth(times, 1e-4))
    nearest = fitted(p)
    p = dataclasses.replace(p, noise=p.noise / 5.0)
    rows = [judge_on(p, nearest, Origin(0))]
    # What it leaves is more than noise, but has no memory.
    assert count_independent(Verdict.of(p, rows)).p.independent is None
    a, *others = nearest.law.constants
    slow, wrong = (dataclasses.replace(nearest, law=nearest.law.with_constants(f * a, *others)) for f in (1.0003, 1.3))
    for other, fewer in ((slow, True), (wrong, False)):
        left = np.concatenate(residuals(other.law, p.data, other.initial))
        other = dataclasses.replace(other, squares=(left**2).sum(axis=0))
        after = count_independent(Verdict.of(p, [*rows, judge_on(p, other, Origin(1))]))
        share = after.p.independent
        assert share is None if not fewer else share is not None and (share < 0.5).all()


def test_the_error_of_our_own_solver_takes_no_evidence_away() -> None:
    """Without noise it made a law that explains half of the data win."""
    p = prepare(growth(np.linspace(0.0, 40.0, 300), 0.0))
    found = fitted(p)
    a, *others = found.law.constants
    smooth = dataclasses.replace(found, law=found.law.with_constants(1.000001 * a, *others))
    before = Verdict.of(p, [judge_on(p, smooth, Origin(0))])
    assert p.clean and count_independent(before) is before


@pytest.mark.long
def test_the_error_of_a_solver_is_no_structure() -> None:
    """What scipy's solver leaves at its usual tolerance was told as sums of quotients."""
    tolerance = 1e-3
    times = np.linspace(0.0, 20.0, 60)
    level = solve_ivp(lambda _, h: 0.3 - 0.35 * h**0.5, (0.0, 20.0), [4.0], t_eval=times, rtol=tolerance).y[0]
    found = discover(TimeSeries.from_arrays(times, level), Settings(seed=0, members=0), Monitor())
    law = found.equations.power_sum
    assert law is not None and sorted(law.exponents.ravel().tolist()) == [0.0, 0.5]
    assert np.sort(law.coefficients.ravel()) == pytest.approx([-0.35, 0.3], rel=2e-3)


@pytest.mark.long
def test_the_law_behind_the_published_points_is_found() -> None:
    """The solver of the Julia code left 7e-4 there, which terms such as I^11 R^12 follow."""
    found = discover(load_csv(Path(__file__).parents[1] / "files" / "julia_fsir_trajectory.csv"), Settings(seed=0))
    law = found.equations.power_sum
    assert found.outcome == "converged" and law is not None
    assert sorted(law.exponents.tolist()) == [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0]]
    assert np.count_nonzero(law.coefficients) == 6


LAW = PowerSum(np.array([[0.1, -0.1]]), np.array([[1.0], [2.0]]))


@pytest.fixture
def at() -> Search:
    return Search(prepare(simulate_system("logistic")), settings_for(), Monitor())


def test_laws_stay_as_they_came_only_where_there_is_no_memory(at: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    # Laws that all blow up leave none, which is no lack of memory.
    monkeypatch.setattr(moves, "prune_laws", lambda *_, **__: [])
    assert Pruning("to the end").candidates(at, Proposal([LAW])) == [] and not at.monitor.log

    def full(*_: object, **__: object) -> list[Candidate]:
        raise NoRoomError

    monkeypatch.setattr(moves, "prune_laws", full)
    assert [c.law for c in Pruning("to the end").candidates(at, Proposal([LAW]))] == [LAW]
    assert at.monitor.log[-1]["event"] == OUT_OF_MEMORY


@pytest.mark.parametrize(
    ("table", "place", "expected"),
    [(families_table(), 0, FAMILIES), (moves_table(), 1, MOVES)],
    ids=["families", "moves"],
)
def test_every_family_and_every_move_has_a_row_in_its_order(table: str, place: int, expected: tuple) -> None:
    head, line, *rows = ([cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines())
    assert set("".join(line)) == {"-"} and {len(row) for row in rows} == {len(head)}
    names = [row[place] for row in rows]
    assert names == [one.name for one in expected] and len(set(names)) == len(names)


def names(*given):
    return [family.name for family in vocabulary(given).families]


def test_families_by_name_and_by_what_is_left_out():
    assert vocabulary([]).families == FAMILIES and vocabulary([]).textbook
    assert vocabulary(["textbook"]).families == () and "sums" not in names("no-sums")
    assert names("powers,sums") == names("sums", "powers") == ["powers", "sums"]
    left = names("no-functions, no-sums")
    assert {"powers", "trigonometric", "hill functions"} <= set(left)
    assert left == [family.name for family in FAMILIES if family.name not in ("functions", "sums")]
    assert names("sums-of-exponentials") == ["sums of exponentials"]
    assert vocabulary(["no-textbook"]).textbook is False
    assert vocabulary(["powers"]).functions == frozenset() and not vocabulary(["powers"]).has_sums


def test_unknown_and_empty_vocabularies():
    with pytest.raises(InputError, match="powers"):
        vocabulary(["power"])
    with pytest.raises(InputError, match="nothing to try"):
        vocabulary(["textbook,no-textbook"])
