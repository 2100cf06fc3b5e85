"""Forms integrated for many sets of constants: solutions, derivatives and fits against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from odediscovery.data.series import TimeSeries
from odediscovery.laws.forms import read_form
from odediscovery.runtime.arrays import Array
from odediscovery.textbook.flow import FLOWS, Flow, rates_of
from odediscovery.textbook.registry import TEXTBOOK, TextbookLaw
from odediscovery.textbook.shooting import SHOOTING, Shooting

FORM = read_form("x' = -k*x", ["x"])
RATES = rates_of(FORM)


def decay(samples: int = 33, k: float = 0.7) -> Shooting:
    t = np.linspace(0.0, 4.0, samples)
    runs = [2.0 * np.exp(-k * t)[:, None], 3.0 * np.exp(-k * t)[:, None]]
    series = TimeSeries.from_arrays([t, t], runs, ["x"])
    return Shooting(series, np.array([[2.0], [3.0]]), [np.ones_like(run) for run in runs])


def test_a_curve_is_the_solution() -> None:
    shooting, starts = decay(), np.array([[2.0, 1.0]])  # [states, trajectories]
    curve = shooting.curve(RATES, np.array([1.3]), starts, 4)
    np.testing.assert_allclose(curve, starts * np.exp(-1.3 * shooting.times[:, None]), rtol=1e-6)


def test_a_step_over_several_samples_gives_those_between_by_a_cubic() -> None:
    shooting = decay(samples=257)
    begun = np.array([[2.0, 3.0]])
    exact = begun * np.exp(-0.7 * shooting.times[:, None])
    apart = [np.abs(shooting.curve(RATES, np.array([0.7]), begun, steps) - exact).max() for steps in (1 / 32, 1 / 8)]
    # The error of a cubic falls with the fourth power of the step, by 256 for a quarter of it.
    assert 1e-7 < apart[0] < 1e-3
    assert apart[0] / apart[1] == pytest.approx(256.0, rel=0.5)


@pytest.mark.parametrize(("steps", "accuracy"), [(4, 2e-5), (0.5, 5e-4)])
def test_slopes_are_those_of_the_closed_form(steps: float, accuracy: float) -> None:
    shooting, t = decay(), np.linspace(0.0, 4.0, 33)
    theta = np.array([0.7, 2.0, 3.0])
    sigma = np.full_like(shooting.values, 0.5)
    left, slopes, _ = shooting.linearised(RATES, 1, theta, sigma, steps)
    np.testing.assert_allclose(left, (shooting.left(RATES, 1, theta, steps) / sigma)[shooting.seen], atol=1e-10)
    fall, nothing = np.exp(-0.7 * t), np.zeros(33)
    by_k = np.column_stack([-2.0 * t * fall, -3.0 * t * fall]).ravel() / 0.5
    by_first = np.column_stack([fall, nothing]).ravel() / 0.5
    by_second = np.column_stack([nothing, fall]).ravel() / 0.5
    np.testing.assert_allclose(slopes, np.column_stack([by_k, by_first, by_second]), atol=accuracy)


@pytest.mark.parametrize("law", TEXTBOOK, ids=lambda law: law.name)
def test_a_trajectory_alone_goes_the_way_that_it_goes_among_others(law: TextbookLaw) -> None:
    form, _ = law.form([f"s{k}" for k in range(law.n_states)])
    constants = 0.3 + 0.1 * np.arange(len(form.names))
    starts = np.linspace(0.4, 0.9, law.n_states)[:, None] * np.ones(FLOWS.few + 1)
    times = np.linspace(0.0, 2.0, 9)[:, None] * np.ones(FLOWS.few + 1)

    def path(trajectories: int) -> Array:
        own = times[:, :trajectories]
        return Flow(rates_of(form), constants, own, 4, lambda _, c: c[:, None, None]).in_turn(starts[:, :trajectories])

    np.testing.assert_allclose(path(1)[..., 0], path(FLOWS.few + 1)[..., 0], rtol=1e-12)


def test_a_path_that_newtons_method_does_not_find_is_stepped_in_turn() -> None:
    # Growth that is explosive from a constant guess: x = 2 / (1 - 2 a t) ends at t = 1 / (2 a).
    rates, shooting = rates_of(read_form("x' = a*x^2", ["x"])), decay(samples=65)
    curve = shooting.curve(rates, np.array([0.11]), np.array([[2.0, 2.0]]), 16)
    np.testing.assert_allclose(curve[:, 0, 0], 2.0 / (1.0 - 0.22 * shooting.times[:, 0]), rtol=1e-6)


def test_a_path_that_has_ended_is_no_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    shooting, theta = decay(), np.array([0.7, 2.0, 3.0])
    sigma = np.ones_like(shooting.values)
    monkeypatch.setattr(Flow, "in_turn", None)  # nothing has to be stepped in turn
    ended = np.full((1, 33, 2), np.nan)
    left, *_ = shooting.linearised(RATES, 1, theta, sigma, 1.0, ended)
    np.testing.assert_allclose(left, 0.0, atol=1e-4)


def test_a_fit_finds_constants_and_starts() -> None:
    shooting = decay()
    found = shooting.fitted(RATES, np.array([0.2]), np.ones_like(shooting.values), 40, np.array([[1.0], [1.0]]))
    np.testing.assert_allclose(found.x, [0.7, 2.0, 3.0], rtol=1e-4)


def test_starts_alone_follow_the_data_best() -> None:
    shooting = decay()
    shooting.begun = np.array([[0.1], [9.0]])
    starts = shooting.nearest_starts(RATES, np.array([0.7]), np.ones_like(shooting.values))
    np.testing.assert_allclose(starts, [[2.0], [3.0]], rtol=1e-4)


def test_fast_laws_take_more_steps_than_slow_ones() -> None:
    shooting = decay(samples=17)
    slow, fast = (shooting.enough_steps(RATES, 1, np.array([k, 2.0, 3.0])) for k in (0.1, 20.0))
    assert slow == shooting.fewest_steps() == 1.0
    assert slow < fast <= SHOOTING.most_steps


def test_a_solution_that_has_ended_is_far_from_the_data_not_nowhere() -> None:
    form = read_form("x' = a*x^2", ["x"])
    shooting = decay(samples=17)
    left = shooting.left(rates_of(form), 1, np.array([5.0, 2.0, 3.0]), 1.0)
    assert np.isfinite(left).all()
    assert left[-1] == pytest.approx(SHOOTING.lost * shooting.spread[0])
