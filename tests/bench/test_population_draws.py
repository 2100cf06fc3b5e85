"""Draws of simulated populations: what is simulated, how it is scored, what is kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from odediscovery.bench.populations import (
    APART,
    COLUMNS,
    PEERS,
    SIMPLE,
    TOGETHER,
    simulate,
    study,
    summary,
    summary_of_peers,
)
from odediscovery.bench.rows import blank, filled
from odediscovery.errors import InputError
from odediscovery.runtime.workers import Failure

DESIGN: dict[str, Any] = {
    "id": "cups",
    "states": ["x"],
    "terms": {"x": [{"constant": "k", "sign": -1, "powers": {"x": 1.0}}]},
    "constants": {"k": {"mean": 0.5, "sd_log": 0.3}},
    "initial": {"x": {"mean": 2.0, "sd_log": 0.2}},
    "groups": 8,
    "held_out": 3,
    "samples": [10, 10],
    "t_end": 6.0,
    "times": "even",
    "early": 1.0,
    "noise": {"kind": "additive", "relative": 0.01},
    "seed": 5,
    "expert": {"heldout_r2": {"mixed": 0.99}},
}


def written(path: Path) -> Path:
    path.write_text(json.dumps({"designs": [DESIGN]}))
    return path


class Counted:
    """A place for tasks that fits nothing: every second draw is right, the first one is lost."""

    def __init__(self) -> None:
        self.draws: list[int] = []

    def results(
        self, function: Callable[[Any], Any], tasks: Sequence[Any], limit: float = 0.0, stopping: object = None
    ) -> Iterator[tuple[int, Any]]:
        for number, task in enumerate(tasks):
            draw = task.known["draw"]
            self.draws.append(draw)
            said = {"said": [[True, draw != 3]], "figures": 2, "figures_right": 2, "figures_within": 1}
            near = {"error_mixed": 0.1, "error_apart": 0.2, "r2_heldout": 0.9, "heldout_right": draw == 1}
            right = {"exact": True, "varies": draw != 3, **said, **near} if draw % 2 else {}
            yield number, Failure("killed", 1.0) if draw == 0 else {**blank(task, COLUMNS), "seconds": 2.0, **right}


def test_a_draw_has_the_mean_and_the_spread_of_its_design() -> None:
    series, later, truth = simulate(DESIGN, 1)
    assert (len(series.trajectories), len(later.trajectories)) == (8, 3)
    assert np.log(truth["k"]).mean() == pytest.approx(np.log(0.5))
    assert np.log(truth["k"]).std() == pytest.approx(0.3)
    run = series.trajectories[2]
    exact = run.values[0, 0] * np.exp(-truth["k"][2] * run.time)
    assert np.abs(run.values[:, 0] - exact).max() < 0.1


def test_draws_are_kept_and_gone_on_with(tmp_path: Path) -> None:
    path, folder = written(tmp_path / "designs.json"), tmp_path / "rows"
    place = Counted()
    assert len(study(path, 2).run(folder, backend=place)) == 2
    rows = study(path, 4).run(folder, backend=place)
    assert place.draws == [0, 1, 2, 3]
    assert [row["failed"] for row in rows] == ["killed", None, None, None]
    text = summary(rows)
    assert "| cups | 2/4 | 1/2 | 4/4 | 2/4 | 2/2 (0.500) | 0.900 | 2.0 |" in text
    assert "precision 1.000, recall 0.500" in text
    assert "1 of 2 draws" in text
    with pytest.raises(InputError, match="there are cups"):
        study(path, 1, ["dogs"])
    with pytest.raises(InputError):
        study(path, 1, max_seconds=7.0).run(folder, backend=place)


@pytest.mark.long
def test_a_draw_is_scored_against_its_truth(tmp_path: Path) -> None:
    (task,) = study(written(tmp_path / "designs.json"), 1, max_seconds=120.0).tasks
    row = filled(task, COLUMNS)
    assert row["exact"]
    assert row["said"] == [(True, True)]
    assert row["figures_right"] == row["figures"] == 2
    assert row["error_mixed"] < 0.1
    assert row["heldout_right"]


@pytest.mark.long
@pytest.mark.slow
def test_separate_fits_find_the_decay_that_pysindy_with_shared_constants_predicts_worse(tmp_path: Path) -> None:
    pytest.importorskip("pysindy")
    peers = study(written(tmp_path / "designs.json"), 1, peers=True)
    rows = peers.run(tmp_path / "peers")
    assert rows == peers.run(tmp_path / "peers") and [row["method"] for row in rows] == list(PEERS)
    together, apart, simple = (next(row for row in rows if row["method"] == m) for m in (TOGETHER, APART, SIMPLE))
    assert simple["groups"] == DESIGN["groups"]
    assert simple["groups_exact"] > simple["groups"] / 2  # ten samples of some groups look like another law
    assert simple["r2"] > 0.99
    assert together["r2"] < simple["r2"]
    assert together["r2_heldout"] is not None
    assert apart["groups_exact"] <= DESIGN["groups"]
    assert "| cups | pysindy, all groups |" in summary_of_peers([together, apart, simple])
