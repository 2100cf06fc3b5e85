"""Known starts, limits of detection and cumulative counts: the right constants come out, mistakes are told."""

from __future__ import annotations

import numpy as np
import pytest

from odediscovery import discover, settings_for
from odediscovery.data.recorded import Recorded
from odediscovery.data.series import TimeSeries, with_controls
from odediscovery.errors import InputError
from odediscovery.problem.problem import with_recorded
from odediscovery.settings import Settings

QUICK = {"library": ("textbook",), "members": 0}


def epidemic(seed: int) -> TimeSeries:
    """A logistic epidemic of which each day's new cases are counted: rate 0.2, size 5000."""
    t = np.arange(0.0, 60.0)
    curve = 5000.0 / (1.0 + 249.0 * np.exp(-0.2 * t))
    counts = np.cumsum(np.append(20.0, np.random.default_rng(seed).poisson(np.diff(curve))))
    return TimeSeries.from_arrays(t, counts, ["cases"])


def constant(found: object, place: int = 0) -> tuple[float, float]:
    row = found.constants.iloc[place]  # type: ignore[attr-defined]
    return float(row["value"]), float(row["standard_error"])


@pytest.mark.slow
def test_increments_of_cumulative_counts_have_honest_errors() -> None:
    """Noise that adds up is no noise about the curve: as that it promises errors several times too small."""
    off, errors = [], []
    for seed in range(3):
        found = discover(epidemic(seed), settings_for(cumulative=("cases",), **QUICK))
        assert found.name == "logistic growth" and found.outcome == "converged"
        value, error = constant(found)
        off.append((value - 0.2) / error)
        errors.append(error)
    assert np.sqrt(np.mean(np.square(off))) < 2.0
    plain = [constant(discover(epidemic(seed), settings_for(**QUICK)))[1] for seed in range(3)]
    assert np.mean(errors) > 1.5 * np.mean(plain)


@pytest.mark.slow
def test_values_below_a_limit_only_hold_the_curve_down() -> None:
    rng = np.random.default_rng(4)
    t = np.arange(0.0, 10.0, 0.4)
    values = 40.0 * np.exp(-0.5 * t) + 0.5 * rng.standard_normal(len(t))
    series = TimeSeries.from_arrays(t, np.where(values < 3.0, 0.0, values), ["virus"])
    found = discover(series, settings_for(censored=("virus=3",), **QUICK))
    value, error = constant(found)
    assert found.name == "exponential decay" and abs(value + 0.5) < 2.5 * error < 0.1
    assert any("values of virus lie below the limit 3" in note for note in found.messages)
    taken = constant(discover(series, settings_for(**QUICK)))
    assert abs(taken[0] + 0.5) > abs(value + 0.5)


@pytest.mark.slow
def test_a_known_start_is_kept_by_every_law() -> None:
    t = np.arange(0.0, 10.0, 0.5)
    values = 8.0 * np.exp(-0.4 * t) + 0.3 * np.random.default_rng(5).standard_normal(len(t))
    series = TimeSeries.from_arrays(t, values, ["x"])
    found = discover(series, settings_for(starts=("x=8",), **QUICK))
    free = discover(series, settings_for(**QUICK))
    assert found.initial_values[0, 0] == 8.0 != free.initial_values[0, 0]
    assert constant(found)[1] < constant(free)[1]  # what is known is not estimated
    assert abs(constant(found)[0] + 0.4) < 3.0 * constant(found)[1]
    assert all(row.initial_values is None or row.initial_values[0, 0] == 8.0 for row in found.front)


def test_a_column_may_hold_the_starts() -> None:
    t = np.arange(0.0, 6.0)
    blocks = [np.column_stack([dose * np.exp(-0.3 * t), np.full(6, dose)]) for dose in (4.0, 9.0)]
    series = with_controls(TimeSeries.from_arrays([t, t], blocks, ["x", "dose"]), held=["dose"])
    known = with_recorded(series, Settings(starts=("x = dose",)))
    assert known.controls == () and [run.known_start.tolist() for run in known.trajectories] == [[4.0], [9.0]]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"starts": ("x",)}, "--starts expects STATE = NUMBER, COLUMN or measured"),
        ({"starts": ("x=dose",)}, "unknown column of groups 'dose'"),
        ({"censored": ("x=0",)}, "expects STATE = LIMIT above 0"),
        ({"cumulative": ("x",)}, "'x' falls from 3 to 2 at time 3: expected a cumulative count"),
    ],
)
def test_mistakes_are_told(options: dict[str, tuple[str, ...]], reason: str) -> None:
    series = TimeSeries.from_arrays([0, 1, 2, 3], [1.0, 2.0, 3.0, 2.0], ["x"])
    with pytest.raises(InputError) as caught:
        with_recorded(series, Settings(**options))  # type: ignore[arg-type]
    assert reason in str(caught.value) and "\n" not in str(caught.value)


def test_slopes_of_what_was_recorded_are_those_of_its_values() -> None:
    rng = np.random.default_rng(6)
    x, dx = rng.uniform(0.0, 4.0, (8, 2)), rng.standard_normal((8, 2, 3))
    seen = np.ones((8, 2), bool)
    seen[3, 1] = False
    limit = np.full((8, 2), np.nan)
    limit[5:, 0] = 2.0
    one = Recorded(np.full(2, np.nan), limit, seen, np.array([False, True]))
    h = 1e-7
    moved = (one.observed(x[..., None] + h * dx) - one.observed(x)[..., None]) / h
    np.testing.assert_allclose(moved[seen], one.linearised(dx, x)[seen], atol=1e-6)
    left = one.observed(x) - one.observed(x - 1.0)
    np.testing.assert_allclose(one.summed(left)[seen[:, 1], 1], 1.0)
    assert one.part(slice(2, None)).start.tolist() != one.start.tolist() or np.isnan(one.start).all()
