"""Statements of users about their samples: what they mean, and what is refused."""

from __future__ import annotations

import pytest

from odediscovery.data.recorded.statements import break_times, detection_limit, dose_column, dose_factor, known_start
from odediscovery.errors import InputError


@pytest.mark.parametrize(
    ("text", "meant"),
    [("conc=-1.5e-3", ("conc", -1.5e-3)), ("gut = dose", ("gut", "dose")), ("gut = inf", ("gut", "inf"))],
)
def test_a_start_is_a_number_or_a_column(text: str, meant: tuple[str, object]) -> None:
    assert known_start(text) == meant


@pytest.mark.parametrize("text", ["", "conc", "= 3", "conc ="])
def test_a_start_needs_both_sides(text: str) -> None:
    with pytest.raises(InputError, match="--starts expects STATE"):
        known_start(text)


@pytest.mark.parametrize("text", ["virus", "virus = ", "virus = few", "virus = 0", "virus = -1", "virus = inf", "= 50"])
def test_a_limit_of_detection_is_a_number_above_zero(text: str) -> None:
    with pytest.raises(InputError, match="LIMIT above 0"):
        detection_limit(text)


def test_a_dose_may_have_a_factor_with_a_name() -> None:
    assert dose_column("conc = f * amount") == ("conc", "amount")
    assert dose_factor("conc = f * amount") == "f" and dose_factor("conc = amount") == ""
    for text in ("conc", "= amount", "conc = f*", "conc = 2*amount", "conc = a b*amount"):
        with pytest.raises(InputError, match="--doses expects"):
            dose_column(text)


def test_breaks_are_sorted_and_named_once() -> None:
    assert break_times("day = 41, 23, 41.0", "day") == [23.0, 41.0]
    for text in ("t = 23", "day = ", "day = 23, soon", "day = 23,", "23", "day = nan"):
        with pytest.raises(InputError, match='"day=23,41"'):
            break_times(text, "day")
