"""Standard deviations that a user gives, in every form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from odediscovery.data.deviations import array_deviations, check_deviations, with_levels
from odediscovery.errors import InputError

NAN = np.nan


def test_only_observed_values_need_one() -> None:
    found = check_deviations(np.array([0.1, NAN, -1.0]), np.array([5.0, NAN, NAN]), ["a", "b", "c"], "S")
    np.testing.assert_array_equal(found, [0.1, NAN, NAN])


@pytest.mark.parametrize(("sigma", "got"), [(NAN, "none"), (0.0, "0"), (-2.0, "-2"), (np.inf, "inf")])
def test_a_wrong_one_is_named(sigma: float, got: str) -> None:
    with pytest.raises(InputError, match=rf"line 7: expected a positive standard deviation of the 'S' .* got {got};"):
        check_deviations(np.array([sigma]), np.array([1.0]), ["line 7"], "S")


def test_one_level_for_all_values_of_a_state() -> None:
    values = [np.array([[1.0, 2.0], [NAN, 4.0]])]
    (found,) = with_levels([np.full((2, 2), NAN)], values, ["S", "I"], {"S": 0.5})
    np.testing.assert_array_equal(found, [[0.5, NAN], [NAN, NAN]])


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        ({"Q": 1.0}, "unknown state with a noise level 'Q'"),
        ({"S": 0.0}, "noise level of 'S': expected a positive number in its unit, got 0.0"),
        ({"S": "1"}, "noise level of 'S': expected a positive number in its unit, got '1'"),
        ({"I": 1.0}, "state 'I' has both standard deviations and a noise level"),
    ],
)
def test_levels_that_do_not_fit(noise: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        with_levels([np.array([[NAN, 0.1]])], [np.ones((1, 2))], ["S", "I"], noise)


def test_arrays_keep_what_is_unknown_and_the_callers_values() -> None:
    given = np.array([[0.1, NAN], [0.2, NAN]])
    values = np.array([[1.0, 2.0], [NAN, 3.0]])
    (found,) = array_deviations([given], [values], [""], ["S", "I"])
    np.testing.assert_array_equal(found, [[0.1, NAN], [NAN, NAN]])
    assert given[1, 0] == 0.2
    (none,) = array_deviations([None], [values], [""], ["S", "I"])
    assert np.isnan(none).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "1 trajectories, but 0 arrays of standard deviations"),
        ([["a"]], "sigma should be arrays of numbers"),
        ([[0.1, 0.2, 0.3]], r"expected arrays shaped like the values \(2, 1\), got \(3, 1\)"),
        ([[0.1, 0.0]], "sample 1 of trajectory 'b', state 'S': expected a positive standard deviation"),
    ],
)
def test_arrays_that_do_not_fit(given: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        array_deviations(given, [np.ones((2, 1))], ["b"], ["S"])
