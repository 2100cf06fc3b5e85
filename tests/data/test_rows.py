"""Times that restart or repeat: trials, means, and what repeats tell of the noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from odediscovery.data.recorded.rows import repeat_noise, restarts
from odediscovery.data.series import TimeSeries, load_csv
from odediscovery.errors import InputError


def table(folder: Path, rows: list[tuple[float, ...]], header: str = "t,x") -> Path:
    path = folder / "d.csv"
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def read(folder: Path, rows: list[tuple[float, ...]], header: str = "t,x") -> TimeSeries:
    return load_csv(table(folder, rows, header))


def test_trials_without_a_group_column_are_trajectories(tmp_path: Path) -> None:
    series = read(tmp_path, [(t, x0 * 0.5**t) for x0 in (8.0, 2.0, 5.0) for t in (0.0, 1.0, 2.0, 3.0)])
    assert [(run.label, run.values[0, 0]) for run in series.trajectories] == [("1", 8.0), ("2", 2.0), ("3", 5.0)]
    assert series.messages == (
        "The time 't' restarts at line 6, 10: each restart begins a new trajectory, 3 in all; they are fitted side by "
        "side, never joined. A column that tells them apart can be named with --group.",
    )


@pytest.mark.parametrize(
    "times",
    [
        [0, 1, 3, 2, 4, 5],  # two rows swapped
        [0, 1, 2, 3, 4, 0],  # a slip at the end
        [5, 4, 3, 2, 1, 0],
        [0, 1, 2, 3, 2, 3, 4, 5],  # back to the end of what was
    ],
)
def test_times_that_just_go_back_are_refused(tmp_path: Path, times: list[float]) -> None:
    assert restarts(np.array(times, float)) == [0]
    with pytest.raises(InputError, match="goes back"):
        read(tmp_path, [(t, 1.0) for t in times])


def test_samples_at_one_time_are_their_mean_and_tell_the_noise(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    rows = [(t, 5.0 - t + 0.3 * e) for t in np.arange(0.0, 4.0, 0.5) for e in rng.standard_normal(4)]
    series = read(tmp_path, rows)
    (run,) = series.trajectories
    assert run.time.tolist() == np.arange(0.0, 4.0, 0.5).tolist()
    np.testing.assert_allclose(run.values[0, 0], np.mean([x for t, x in rows if t == 0.0]))
    # 24 degrees of freedom: the noise of one sample within 40 %, of a mean half of that.
    assert run.sigma is not None and np.ptp(run.sigma) == 0.0
    assert abs(run.sigma[0, 0] / 0.15 - 1.0) < 0.4
    assert "8 of 8 times were measured more than once: their means are fitted" in series.messages[0]


def test_noise_of_repeats_that_grows_with_the_state_is_seen_as_a_share() -> None:
    rng = np.random.default_rng(2)
    blocks = [m * (1.0 + 0.1 * rng.standard_normal((3, 1))) for m in np.geomspace(1.0, 300.0, 12)]
    (share,) = repeat_noise(blocks)
    assert -0.14 < share < -0.06
    (level,) = repeat_noise([m + 0.1 * rng.standard_normal((3, 1)) for m in np.geomspace(1.0, 300.0, 12)])
    assert 0.06 < level < 0.14
    assert np.isnan(repeat_noise([np.array([[1.0], [2.0]])])[0])  # one repeat tells nothing
