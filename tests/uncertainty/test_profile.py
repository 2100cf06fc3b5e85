"""Profile likelihood: its ends are where a fit that holds the constant says."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest
from listening import Here
from problems import LOGISTIC, PREY, TWINS, logistic
from scipy.optimize import curve_fit
from scipy.special import stdtrit
from test_bands import fitted, measured

from odediscovery.errors import InputError
from odediscovery.result.discovery import Discovery
from odediscovery.result.profiled import Profile
from odediscovery.runtime.monitor import Monitor
from odediscovery.uncertainty.profile import profile, profiles, with_profiles

TIMES = np.linspace(0.0, 12.0, 25)


@pytest.fixture(scope="module")
def prey() -> Discovery:
    return fitted(PREY, measured(PREY, np.array([1.5, 0.8]), TIMES, 0.02, 1))


@pytest.mark.slow
def test_ends_are_where_the_sum_of_squares_has_grown_by_t_squared() -> None:
    found = fitted(LOGISTIC, measured(LOGISTIC, np.array([0.1]), TIMES, 0.05, 3))
    y = found.series.trajectories[0].values[:, 0]

    def left(r: float | None) -> float:
        """Sum of squares at a rate, or the least of all."""
        if r is None:
            best, _ = curve_fit(logistic, TIMES, y, (0.5, 0.5, 0.1))
            return float(np.sum((logistic(TIMES, *best) - y) ** 2))
        at, _ = curve_fit(lambda t, c, n0: logistic(t, r, c, n0), TIMES, y, (r, 0.1))
        return float(np.sum((logistic(TIMES, r, *at) - y) ** 2))

    told = profile(found, "coefficient", 0, "x0")
    least, student = left(None), float(stdtrit(22, 0.975))
    for end in (told.low, told.high):
        assert (left(end) - least) / (least / 22) == pytest.approx(student**2, rel=0.03)
    assert told.low < 0.5 < told.high
    # It is no parabola: the interval is not symmetric, unlike that of the standard error.
    assert abs((told.high - told.value) / (told.value - told.low) - 1.0) > 0.02


@pytest.mark.slow
def test_a_constant_that_the_data_do_not_tell_has_no_end() -> None:
    found = fitted(TWINS, measured(TWINS, np.array([0.1]), TIMES, 0.02, 0))
    told = profile(found, "coefficient", 0, "x0")
    assert (told.low, told.high) == (-math.inf, math.inf)


@pytest.mark.slow
def test_any_number_of_processes_profiles_the_same_and_the_result_keeps_it(prey: Discovery, tmp_path: Path) -> None:
    found = prey
    told, missing = profiles(found)
    assert [(one.kind, one.monomial, one.of) for one in told] == [
        ("coefficient", 0, "x0"),
        ("coefficient", 1, "x0"),
        ("coefficient", 1, "x1"),
        ("coefficient", 2, "x1"),
    ]
    assert told[0] == profile(found, "coefficient", 0, "x0") and not missing
    assert profiles(found, jobs=2) == (told, ())
    kept = with_profiles(found, Monitor())
    assert kept.profiles == told and kept.messages == found.messages
    kept.save(tmp_path / "kept")
    again = Discovery.load(tmp_path / "kept")
    assert again.profiles == told and again.as_dict() == kept.as_dict()
    assert "95 % intervals by profile likelihood\n  x0 in x0': " in again.summary()
    document = json.loads((tmp_path / "kept" / "result.json").read_text("utf-8"))
    assert document["profiles"][0]["interval"] == [told[0].low, told[0].high]
    assert "profiles" not in found.as_dict()
    for wrong in ({"monomial": 3}, {"of": "x9"}, {"kind": "power"}, {"interval": [9.0, None]}):
        with pytest.raises(InputError, match="'profiles' should "):
            Profile.from_record(told[0].record() | wrong, found.equations)


@pytest.mark.slow
def test_a_lost_constant_costs_no_other_and_a_stop_keeps_what_is_there(prey: Discovery) -> None:
    monitor = Monitor()
    told = with_profiles(prey, monitor, Here(lambda one: (one.monomial, one.of) == (0, "x0"), monitor, 2))
    assert [(one.monomial, one.of) for one in told.profiles] == [(1, "x0")]
    assert told.messages[-3:] == tuple(
        f"no profile of {name}: stopped (interrupted)" for name in ("x0 in x0'", "x0*x1 in x1'", "x1 in x1'")
    )
    assert with_profiles(prey, monitor).profiles == ()
    none = dataclasses.replace(prey, estimates=None)
    assert with_profiles(none, Monitor()).messages[-1].startswith("no profiles: this result has no covariance")


def test_what_cannot_be_profiled_is_said(prey: Discovery) -> None:
    for arguments, said in (
        (("coefficient", 7, "x0"), "numbered from 0 to 2, got 7"),
        (("coefficient", 0, "x9"), "x9"),
        (("constant", 0, "x0"), "constant"),
        (("exponent", 0, "x0"), "was not fitted"),
        (("coefficient", 2, "x0"), "was not fitted"),
    ):
        with pytest.raises(InputError, match=said):
            profile(prey, *arguments)
    with pytest.raises(InputError, match="no covariance"):
        profile(dataclasses.replace(prey, estimates=None), "coefficient", 0, "x0")
