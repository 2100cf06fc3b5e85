"""Random laws: reproducible, identified by their samples, and scored by what their suite's scorer calls exact."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from odediscovery.bench import moves as of
from odediscovery.bench.moves import WHOLE, moves, run_moves, search_without
from odediscovery.bench.moves import markdown as moves_markdown
from odediscovery.bench.random_families import Builder, Draft, Term
from odediscovery.bench.random_laws import (
    FAMILIES,
    is_identifiable,
    is_whole,
    markdown,
    random_system,
    random_systems,
    standard_errors,
)
from odediscovery.bench.scores import score
from odediscovery.bench.suites import COLUMNS, study_of
from odediscovery.bench.systems import Protocol, SuiteSystem, load_suite, training_data, true_trajectory
from odediscovery.cli import main
from odediscovery.data.series import TimeSeries
from odediscovery.errors import InputError
from odediscovery.laws.equations import Equations
from odediscovery.search import search

# x' = 1 - 0.5 x from three starts: both constants are seen.
LINEAR = Draft(1, (Term(0, 1.0, "1"), Term(0, -0.5, "x0**a")), {"a": 1.0}, np.array([[0.1], [6.0], [4.0]]), 6.0, 40)


# The first letters of a hash of twenty drafts of a family: kept rows are of these laws, and a changed range, or
# another order of draws, makes others of the same names.
DRAWN = {
    "power-sums": "bbaecbac263c",
    "mass-action": "6ac04dffa8cb",
    "lotka-volterra": "05ef3485e3ba",
    "oscillators": "eccecc38dcdc",
    "saturating": "6a79550dda06",
    "trigonometric": "86b336710ba9",
    "compartments": "8beff9ca59a6",
}


@pytest.mark.parametrize("family", DRAWN)
def test_laws_are_those_of_kept_rows(family: str) -> None:
    drawn = []
    for seed in range(20):
        draft = FAMILIES[family](np.random.default_rng(seed))
        terms = [(term.state, term.coefficient, term.shape) for term in draft.terms]
        drawn.append((terms, dict(draft.inner), draft.starts.tolist(), draft.span, draft.samples))
    assert hashlib.sha256(repr(drawn).encode()).hexdigest()[:12] == DRAWN[family]


def test_units_change_no_course() -> None:
    # x' = 1 - x^0.5 y, y' = x^0.5 y - y in any units, on its own time.
    courses = []
    for seed in (1, 2):
        b = Builder(np.random.default_rng(seed), 2, "own")
        b.add(0, 1.0)
        b.add(0, -1.0, {0: 0.5, 1: 1})
        b.add(1, float(b.units[0] ** 0 * 1.0), {0: 0.5, 1: 1})
        b.add(1, -1.0, {1: 1})
        draft = b.draft(np.array([[1.0, 2.0]]), 3.0)
        course = draft.equations().simulate(draft.starts[0], np.linspace(0.0, 3.0 * b.time, 7))
        courses.append(course / b.units)
    assert courses[0] == pytest.approx(courses[1], rel=0.03)


@pytest.fixture(scope="module", params=FAMILIES)
def system(request: pytest.FixtureRequest) -> SuiteSystem:
    """The first system of each family."""
    return random_system(0, request.param, 0)


@pytest.mark.long
def test_a_system_depends_on_seed_family_and_number_alone(system: SuiteSystem) -> None:
    family = system.representation
    random_system.cache_clear()
    again = random_systems(0, [family], 1)[0]
    assert again.equations.texts() == system.equations.texts() and again.t_span == system.t_span
    np.testing.assert_array_equal(again.starts, system.starts)
    assert random_systems(0, ids=[f"{family}-0"])[0] is again
    assert again.id == f"{family}-0" and again.trainable == 2


@pytest.mark.long
def test_every_state_moves_and_the_truth_gets_full_marks(system: SuiteSystem) -> None:
    for start in range(3):
        values = true_trajectory(system, start)
        assert (values.std(axis=0) > 0).all() and np.isfinite(values).all()
    given = score(system.equations, system, Protocol(trajectories=2))
    assert given.exact and given.coef and given.gen > 0.9999
    faster = {name: f"1.3*({text})" for name, text in system.equations.texts().items()}
    other = score(Equations.parse(system.states, faster), system, Protocol(trajectories=2))
    assert other.exact and not other.coef
    more = {name: f"{text} + 0.01*x0**2.5" for name, text in system.equations.texts().items()}
    assert not score(Equations.parse(system.states, more), system, Protocol(trajectories=2)).exact


def test_standard_errors_are_those_of_least_squares() -> None:
    noise, times = np.full((2, 1), 0.02), np.linspace(0.0, 6.0, 40)
    errors = standard_errors(LINEAR, LINEAR.starts[:2], noise)
    e = np.exp(-0.5 * times)
    columns = []
    for k in range(2):
        # x = 2 + (x0 - 2) exp(-t/2): slopes by the inflow, the rate, and the starts.
        x0 = LINEAR.starts[k, 0]
        rate = -(2.0 / 0.5) * (1 - e) - (x0 - 2.0) * times * e
        own = [(1 - e) / 0.5, -rate, np.zeros(40), np.zeros(40)]
        own[2 + k] = e
        columns.append(np.stack(own, axis=1))
    jacobian = np.concatenate(columns) / 0.02
    without_exponent = np.sqrt(np.diag(np.linalg.inv(jacobian.T @ jacobian)))[:2]
    fixed = Draft(1, (Term(0, 1.0, "1"), Term(0, -0.5, "x0")), {}, LINEAR.starts, 6.0, 40)
    np.testing.assert_allclose(standard_errors(fixed, LINEAR.starts[:2], noise), without_exponent, rtol=1e-3)
    # An exponent that has to be found too takes from what is known of the others.
    assert (errors[:2] > without_exponent).all() and errors[2] < 0.05


@pytest.mark.parametrize(
    ("terms", "why"),
    [
        ((Term(0, 1.0, "1"), Term(0, -0.5, "x0"), Term(0, -0.0001, "x0**2")), "a term without effect"),
        ((Term(0, 1.0, "1"), Term(0, -0.5, "x0"), Term(0, -0.5, "x0**1.05")), "two terms that are alike"),
        ((Term(0, 1.0, "1"), Term(0, 0.5, "x0**3")), "a solution that blows up"),
        ((Term(0, 1.0, "1"), Term(0, -60.0, "x0")), "over before the second sample"),
        ((Term(0, -0.5, "x0"),), "one term alone"),
    ],
)
def test_what_samples_cannot_tell_is_not_asked_for(terms: tuple[Term, ...], why: str) -> None:
    assert is_identifiable(LINEAR)
    assert not is_identifiable(Draft(1, terms, {}, LINEAR.starts, 6.0, 40)), why


def test_a_law_hangs_together() -> None:
    starts = np.ones((3, 2))
    apart = (Term(0, -1.0, "x0"), Term(1, -1.0, "x1"))
    assert not is_whole(Draft(2, apart, {}, starts, 1.0, 40))
    assert is_whole(Draft(2, (*apart, Term(1, 1.0, "x0")), {}, starts, 1.0, 40))
    assert not is_whole(Draft(2, (Term(0, 1.0, "1"), Term(1, -1.0, "x0*x1")), {}, starts, 1.0, 40))


def test_mistakes_name_what_exists() -> None:
    with pytest.raises(InputError, match=r"unknown family 'powers': .*power-sums"):
        random_systems(0, ["powers"])
    with pytest.raises(InputError, match="--ids expects FAMILY-NUMBER"):
        random_systems(0, ids=["power-sums"])
    with pytest.raises(InputError, match="--each at least 1"):
        random_systems(0, each=0)


@pytest.mark.slow
def test_the_report_shows_both_laws_of_what_was_missed(tmp_path: Path) -> None:
    systems = random_systems(0, ["compartments", "trigonometric"], 1)
    study = study_of("random", Protocol(0.0, 0.0, 2, 0, 4), 9.0, {}, systems=systems)
    blank = dict.fromkeys(COLUMNS) | {"method": "ours", "failed": None, "outcome": "converged", "seconds": 2.0}
    texts = [system.equations.texts() for system in systems]
    rows = [
        blank | {"id": s.id, "representation": s.representation, "exact": e, "coef": e, "equations": t}
        for s, e, t in zip(systems, (True, False), texts, strict=True)
    ]
    said = markdown(study.shared, rows, systems)
    assert "`odediscovery bench random --sigma 0 --trajectories 2 --seed 0 --digits 4 --max-seconds 9`" in said
    assert "| trigonometric | 1 of 1 | 100% |" in said and "| all | 1 of 2 | 50% |" in said
    assert said.count("    true:  x0' = ") == said.count("    found: x0' = ") == 1


def resting(series: TimeSeries, _seconds: float, _seed: int) -> tuple[Equations, str]:
    """A method that finds that nothing moves."""
    return Equations.parse(series.states, dict.fromkeys(series.states, "0")), "done"


@pytest.mark.slow
def test_systems_travel_to_processes_and_are_not_run_again(tmp_path: Path) -> None:
    systems, said = random_systems(0, ["trigonometric"], 2), list[str]()
    study = study_of("random", Protocol(0.01, trajectories=2), 180.0, {"resting": resting}, systems=systems)
    for _ in range(2):
        rows = study.run(tmp_path, say=said.append)
        assert [row["id"] for row in rows] == ["trigonometric-0", "trigonometric-1"]
        assert not any(row["failed"] or row["exact"] for row in rows)
    assert len(said) == 2


@pytest.mark.slow
def test_the_command_prints_a_line_for_each_family(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "rows")
    assert main(["bench", "random", "--family", "compartments", "--each", "1", "--out", out, "--quiet"]) == 0
    assert "| compartments | 1 of 1 | 100% |" in capsys.readouterr().out
    assert main(["bench", "random", "--family", "linear"]) == 2
    assert "unknown family 'linear'" in capsys.readouterr().err


# What is done to the true values


def test_values_are_rounded_to_significant_digits() -> None:
    system = random_system(0, "compartments", 0)
    clean, rough = (training_data(system, Protocol(digits=d)).trajectories[0].values for d in (None, 4))
    assert (rough != clean).any()
    np.testing.assert_allclose(rough, clean, rtol=5.1e-4)
    assert all(float(f"{v:.3e}") == v for v in rough.ravel().tolist())


# The search without one of its moves


def test_a_move_is_left_out_for_a_while_and_the_others_are_noted_once_laws_are_asked_of_them() -> None:
    before, every = search.MOVES, list(moves())
    with search_without("swapped monomials") as made:
        assert list(moves()) == [name for name in every if name != "swapped monomials"]
        assert made == set()
        search.MOVES[1].laws(None)  # type: ignore[arg-type] (a generator: nobody reads the search yet)
        assert made == {"exact law"}
    with pytest.raises(ZeroDivisionError), search_without("few products"):
        raise ZeroDivisionError
    assert search.MOVES is before


@pytest.mark.slow
def test_only_what_makes_a_move_is_fitted_without_it(
    here: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logistic growth is a textbook law; without its move another one finds it."""

    def one_law(_seed: int, each: int) -> list[SuiteSystem]:
        return [load_suite("classics")["logistic"]][:each]

    monkeypatch.setattr(of, "random_systems", one_law)
    rows = run_moves(tmp_path, sigma=0.01, each=1)
    clean, noisy = (row for row in rows if row["method"] == WHOLE)
    assert clean["exact"] and clean["made"] and noisy["made"]
    again = {(row["id"], row["method"]) for row in rows} - {(row["id"], WHOLE) for row in (clean, noisy)}
    assert again == {(row["id"], name) for row in (clean, noisy) for name in row["made"]}
    assert all(row["method"] not in row["made"] for row in rows)
    count, text = len(here), moves_markdown(rows, "odediscovery bench moves")
    assert text.startswith("# moves") and f"| {clean['made'][0]} | " in text and "2 fits" in text
    # The same command goes on and has nothing left to do.
    assert run_moves(tmp_path, sigma=0.01, each=1) == rows and len(here) == count
    with pytest.raises(InputError, match="unknown move"):
        run_moves(tmp_path, names=["nothing"])
    with pytest.raises(InputError, match="--sigma"):
        run_moves(tmp_path / "other", sigma=-1.0)
    assert not (tmp_path / "other").exists()
