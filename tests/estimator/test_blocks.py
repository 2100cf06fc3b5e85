"""What an estimator is given, as trajectories."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from odediscovery.data.trajectories import real_numbers
from odediscovery.errors import InputError
from odediscovery.estimator.blocks import Run, columns_of, paired, read_runs


class Frame(dict[str, list[float]]):
    """Columns of a DataFrame, for which this needs no pandas."""

    @property
    def columns(self) -> list[str]:
        return list(self)

    def __len__(self) -> int:
        return len(next(iter(self.values())))


FRAME = Frame(time=[0.0, 2.0], S=[1.0, 3.0], I=[5.0, 7.0])


def read_run(x: Any, t: Any, states: list[str] | None, interval: float | None) -> Run:
    (run,), _, _ = read_runs(x, t, states, interval)
    return run


def test_a_frame_brings_its_times_and_columns() -> None:
    run = read_run(FRAME, None, None, None)
    assert (run.time.tolist(), run.values.tolist(), run.column) == ([0.0, 2.0], [[1.0, 5.0], [3.0, 7.0]], "time")
    assert read_run(FRAME, None, ["I"], None).values.tolist() == [[5.0], [7.0]]
    assert columns_of(FRAME, ["time"]) == (["time"], None)


def test_an_array_takes_times_or_an_interval() -> None:
    values = np.array([[1.0], [2.0], [4.0]])
    assert read_run(values, 0.5, None, None).time.tolist() == [0.0, 0.5, 1.0]
    assert read_run(values, None, None, 2.0).time.tolist() == [0.0, 2.0, 4.0]
    assert read_run(values, [0, 1, 3], None, None).time.tolist() == [0.0, 1.0, 3.0]


def test_lists_are_paired_with_their_times() -> None:
    blocks = [np.zeros((2, 1)), np.ones((3, 1))]
    assert paired(blocks, 0.1)[1] == [0.1, 0.1]
    assert paired(blocks, [0.1, 0.2])[1] == [0.1, 0.2]
    assert len(paired(np.zeros((2, 1)), None)[0]) == len(paired([[1.0], [2.0]], None)[0]) == 1


@pytest.mark.parametrize(
    "x, t, message",
    [
        (FRAME, [0.0, 1.0], "expected times once"),
        (np.zeros((3, 1)), None, "expected the times of X"),
        (np.zeros((3, 1)), -1.0, "positive sample interval"),
        (np.zeros((3, 1)), [0.0, 1.0], "expected 3 times"),
        (np.zeros(3), 1.0, "expected an array"),
        (np.zeros((3, 0)), 1.0, "0 feature"),
        (np.array([[np.inf]]), 1.0, "got infinity"),
        (np.array([["a"]]), 1.0, "array of real numbers"),
        (np.array([[1j]]), 1.0, "Complex data not supported"),
    ],
)
def test_mistakes_say_what_to_give(x: Any, t: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_run(x, t, None, None)


def test_mistakes_of_lists_and_sparse_arrays() -> None:
    with pytest.raises(InputError, match="at least one trajectory"):
        paired([], None)
    with pytest.raises(InputError, match="one entry for each of 2 trajectories, got 1"):
        paired([np.zeros((2, 1))] * 2, [0.1])
    with pytest.raises(InputError, match="dense array"):
        real_numbers(csr_array(np.eye(2)), "X")
    with pytest.raises(InputError, match="column"):
        columns_of(FRAME, ["R"])
