"""The staircase: its steps, what draws of one system are, its table and picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from odediscovery.bench.rows import COLUMNS, Row
from odediscovery.bench.suites.problems import load_suite
from odediscovery.bench.suites.protocol import training_data
from odediscovery.bench.suites.staircase import STEPS, Staircase, markdown, run_staircase, systems_named
from odediscovery.bench.suites.staircase_figure import staircase_figure
from odediscovery.cli import main
from odediscovery.data.series import TimeSeries
from odediscovery.errors import InputError
from odediscovery.laws.equations import Equations

TANK = (load_suite("fractional")["torricelli_inflow"],)


def true_if_exact(series: TimeSeries, _seconds: float, _seed: int) -> tuple[Equations, str]:
    """A method that finds the tank in exact values alone."""
    start = series.trajectories[0].values[0, 0]
    clean = start == TANK[0].starts[0, 0]
    return Equations.parse(series.states, {"h": "0.3 - 0.35*h**0.5" if clean else "0.3 - 0.35*h"}), "done"


def test_steps_are_those_of_noise_digits_and_solvers() -> None:
    assert len(STEPS) == 11 + 4 + 4
    everything = Staircase("fractional", TANK).studies()
    assert list(everything) == list(STEPS)
    assert {study.protocol.trajectories for study in everything.values()} == {2}
    some = Staircase("fractional", TANK, ("digits", "noise-1e-05", "euler-0.001"), 1, 3, 9.0).studies()
    assert list(some) == ["noise-1e-05", "digits-8", "digits-6", "digits-4", "digits-3", "euler-0.001"]
    assert all((s.protocol.seed, s.protocol.trajectories, s.max_seconds) == (3, 1, 9.0) for s in some.values())
    odebench = tuple(load_suite("odebench").values())
    assert {s.protocol.trajectories for s in Staircase("odebench", odebench).studies().values()} == {1}
    with pytest.raises(InputError, match="unknown step 'noise-2'"):
        Staircase("fractional", TANK, ("noise-2",)).studies()


def test_draws_of_a_system_have_noise_and_times_of_their_own() -> None:
    draws = systems_named("fsir", 5)
    assert [d.id for d in draws] == [f"fsir-{k}" for k in range(5)]
    assert draws[0].t_span == load_suite("classics")["fsir"].t_span
    spans = np.array([d.t_span[1] for d in draws]) / draws[0].t_span[1]
    assert len(np.unique(spans)) == 5 and np.abs(spans - 1.0).max() <= 0.05
    noisy = STEPS["noise-0.01"]
    first, second = (training_data(d, noisy).trajectories[0].values[0] for d in draws[:2])
    assert (first != second).all()
    assert len(systems_named("fractional")) == 25
    with pytest.raises(InputError, match=r"unknown suite or system 'sfir'.*fsir"):
        systems_named("sfir")
    with pytest.raises(InputError, match="--draws must be at least 1"):
        systems_named("fsir", 0)


def rows_of(exact: tuple[bool, ...], method: str) -> list[Row]:
    blank = dict.fromkeys(COLUMNS) | {"method": method, "seconds": 2.0, "equations": {"x": "-x"}}
    return [blank | {"id": str(k), "exact": hit} for k, hit in enumerate(exact)]


def test_the_table_has_a_line_for_each_step_and_the_picture_a_column_for_each_kind() -> None:
    ours, peer = rows_of((True, True), "ours"), rows_of((False, True), "pysindy")
    rows = {"noise-0": ours + peer, "digits-4": rows_of((True, False), "ours") + peer}
    said = markdown(Staircase("fractional", TANK), rows, "odediscovery bench staircase fractional")
    assert "| noise-0 | 2 of 2 | 100% | 2.0 | 2.0 | 1 of 2 | 50% | 2.0 | 2.0 |" in said
    assert "| 1 | digits-4 | x' = -x |" in said and "| 0 | " not in said
    figure = staircase_figure(rows)
    assert [axes.get_title(loc="left") for axes in figure.axes[:2]] == ["noise", "digits"]
    assert [line.get_label() for line in figure.axes[0].lines] == ["ours", "pysindy"]


@pytest.mark.slow
def test_steps_are_kept_and_not_run_again(tmp_path: Path) -> None:
    said = list[str]()
    stairs = Staircase("fractional", TANK, ("noise-0", "noise-0.1"))
    for _ in range(2):
        rows = run_staircase(stairs, {"ours": true_if_exact}, tmp_path, say=said.append)
        assert [[row["exact"] for row in own] for own in rows.values()] == [[True], [False]]
    assert len(said) == 2 + 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["noise-0", "noise-0.1"]


@pytest.mark.slow
def test_the_command_writes_table_and_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "stairs"
    begin = ["bench", "staircase", "torricelli", "--draws", "1", "--method", "ours", "--quiet", "--out", str(out)]
    assert main([*begin, "--steps", "noise-0"]) == 0
    assert "| noise-0 | 1 of 1 | 100% |" in capsys.readouterr().out
    assert (out / "staircase.png").read_bytes().startswith(b"\x89PNG") and (out / "summary.md").is_file()
    assert main([*begin, "--steps", "noise-7"]) == 2
    assert "unknown step 'noise-7'" in capsys.readouterr().err
