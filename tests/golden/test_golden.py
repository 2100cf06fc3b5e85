"""A part of the golden file that takes less than a minute; `make golden` replays all of it."""

from __future__ import annotations

from typing import Any

import pytest

import golden.replay
from golden.compare import differences
from golden.replay import RECORD, names, read, replay

# Of most parts some that take a few seconds.
REPLAYED = (
    "fractional/clean/von_bertalanffy",
    "fractional/clean/radiating_body",
    "fractional/clean/kepler_radial",
    "fractional/noise-0.02/theta_logistic",
    "odebench/clean/3",
    "odebench/clean/25",
    "classics/clean/fsir",
    "classics/clean/sir",
    "random-53001/clean/mass-action-0",
    "random-53002/digits-4/oscillators-1",
    "series/measured/yeast",
    "textbook/gaps/exponential-48",
    "lawless/white-noise/0",
    "told/known/lotka-volterra",
    "told/constant/x",
    "command/help",
)


@pytest.mark.parametrize("name", [*REPLAYED, pytest.param("command/mistakes", marks=pytest.mark.long)])
def test_what_was_found_is_found_again(name: str, leisure: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(golden.replay, "LIMIT", leisure * golden.replay.LIMIT)
    assert differences(read(RECORD)[name], replay(name)) == []


def test_every_case_is_kept() -> None:
    assert list(read(RECORD)) == names()


ROW: dict[str, Any] = {
    "input": 1,
    "outcome": "converged",
    "equations": {"x": "0.5*x - 2*y"},
    "messages": ["rests at 3"],
}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"input": 2}, "another input"),
        ({"outcome": "poor-fit"}, "outcome"),
        ({"equations": {"x": "0.5*x"}}, "x' = "),
        ({"equations": {"x": "0.51*x - 2*y"}}, "x' = "),
        ({"equations": {}}, "x' = "),
        ({"messages": []}, "note gone: rests at #"),
        ({"failed": "FitError"}, "failed"),
    ],
)
def test_a_difference_is_named(change: dict[str, Any], says: str) -> None:
    (found,) = differences(ROW, ROW | change)
    assert found.startswith(says)


def test_order_of_terms_and_the_fourth_digit_are_no_difference() -> None:
    same = {"equations": {"x": "-2.0001*y + 0.5*x"}, "messages": ["rests at 4"]}
    assert differences(ROW, ROW | same) == []
