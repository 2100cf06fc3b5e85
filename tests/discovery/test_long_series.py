"""Thousands of noisy samples: laws are sought in fewer, or in runs, and judged on all of them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from odediscovery import Discovery, TimeSeries, discover, settings_for
from odediscovery.laws.systems import simulate_system


def left_by(found: Discovery, row: int) -> float:
    """Mean square that a row of the front leaves of all samples, from the starts that it says."""
    equations, series = found.front[row].equations, found.series
    runs = zip(found.front[row].initial_values, series.trajectories, strict=True)
    return float(np.mean(np.concatenate([equations.simulate(x0, run.time) - run.values for x0, run in runs]) ** 2))


@pytest.mark.long
def test_an_oscillator_that_is_searched_in_runs_is_found() -> None:
    t = np.linspace(0.0, 200.0, 1500)

    def rates(_: float, x: list[float]) -> list[float]:
        return [x[1], (1.0 - x[0] ** 2) * x[1] - x[0]]

    clean = [solve_ivp(rates, (0.0, 200.0), x0, t_eval=t, rtol=1e-8).y.T for x0 in ([1.0, 0.5], [2.0, 1.0])]
    random = np.random.default_rng(0)
    values = [x + 0.03 * random.standard_normal(x.shape) for x in clean]
    # Within the default time a slow machine would not come to judge all samples.
    found = discover(TimeSeries.from_arrays([t, t], values, ["x", "v"]), settings_for(max_seconds=600))
    assert found.outcome == "converged" and len(found.series.trajectories) == 2
    terms = {term for text in found.equations.texts().values() for term in ("x**2", "v") if term in text}
    assert terms == {"x**2", "v"} and found.equations.complexity == 10


@pytest.mark.slow
def test_all_rows_of_the_front_are_judged_on_all_samples() -> None:
    found = discover(simulate_system("logistic", samples=3000, noise=0.02), settings_for(max_seconds=60))
    assert any("laws were sought in 300 of the 3000 samples" in message for message in found.messages)
    scores = np.array([row.criterion for row in found.front])
    mse = np.array([row.mse for row in found.front])
    assert len(mse) > 1
    assert [left_by(found, i) for i in range(len(mse))] == pytest.approx(mse.tolist(), rel=1e-3)
    # The criterion is n ln(mse + variance of the noise) and the price of a few constants.
    behind = 3000 * np.log((mse + mse.min()) / (2.0 * mse.min()))
    np.testing.assert_allclose(scores - scores.min(), behind, rtol=0.02, atol=80.0)
