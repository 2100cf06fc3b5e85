"""Constants of a given form: right, with honest errors; exponents that nobody can tell are told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from odediscovery import Discovery, Equations, FitError, InputError, TimeSeries, fit_constants, settings_for
from odediscovery.judge.residual_tests import autocorrelation_inflation

FALL = {"h": "-v", "v": "9.81 - 0.3*v**1.4"}
KNOWN = settings_for(known=["h' = -v", "v' = 9.81 + ?"])


def falling(drag: dict[str, str], last: float, noise: float, seed: int = 0) -> TimeSeries:
    t = np.linspace(0.0, last, 45)
    values = Equations.parse(["h", "v"], drag).simulate([50.0, 0.5], t)
    values = values + noise * np.random.default_rng(seed).standard_normal(values.shape)
    return TimeSeries.from_arrays(t, values, ["h", "v"])


def power(found: Discovery) -> dict[str, Any]:
    entries = found.as_dict()["constants"]["v"]
    return next(c for c in entries if c["kind"] == "exponent")


@pytest.mark.slow
def test_the_constants_come_out_and_what_is_known_stays() -> None:
    start = Equations.parse(["h", "v"], {"h": "-v", "v": "9.81 - 0.1*v**1.2"})
    inside = 0
    for seed in range(10):
        found = fit_constants(falling(FALL, 3.0, 0.05, seed), start, KNOWN)
        low, high = power(found)["interval"]
        inside += low <= 1.4 <= high
        assert high - low < 0.2
        assert found.equations.texts()["h"] == "-v" and "9.81 " in found.equations.texts()["v"]
        assert not any("known only" in m for m in found.messages)
    assert inside >= 8


@pytest.mark.slow
def test_a_drag_too_small_for_its_power_to_be_told_is_said_to_be() -> None:
    small = falling({"h": "-v", "v": "9.81 - 0.004*v**1.4"}, 3.0, 0.3)
    (note,) = (
        m
        for m in fit_constants(small, Equations.parse(["h", "v"], FALL), KNOWN).messages
        if "known only to lie between" in m
    )
    assert note.startswith("the exponent of v in the term v^") and " of v' " in note
    # A held one is fitted again to see.
    held = Equations.parse(["h", "v"], {"h": "-v", "v": "9.81 - 0.1*v**2"})
    told = settings_for(known=["h' = -v", "v' = 9.81 + ?"], integer_exponents=True)
    assert not any("known only" in m for m in fit_constants(small, held, told).messages)


def test_memory_in_the_residuals_widens_intervals() -> None:
    def remembering(r: float) -> NDArray[np.float64]:
        steps = np.random.default_rng(1).standard_normal((4000, 1))
        for k in range(1, len(steps)):
            steps[k] += r * steps[k - 1]
        return steps

    assert autocorrelation_inflation([remembering(0.0)]) == pytest.approx(1.0, abs=0.05)
    assert autocorrelation_inflation([remembering(0.6)]) == pytest.approx(2.0, rel=0.1)
    assert autocorrelation_inflation([-np.ones((3, 1)) * [[1.0], [-1.0], [1.0]]]) == 1.0
    assert np.isfinite(autocorrelation_inflation([np.ones((10_000, 1))]))
    # Its mean varies as that says: standard error of many means against that of one draw.
    draws = remembering(0.6).reshape(100, 40)
    naive = draws.std() / np.sqrt(40)
    assert draws.mean(axis=1).std() == pytest.approx(2.0 * naive, rel=0.2)


def test_forms_that_do_not_fit_end_in_one_line() -> None:
    series = falling(FALL, 3.0, 0.05)
    with pytest.raises(InputError, match="expected equations of h, v"):
        fit_constants(series, Equations.parse(["v"], {"v": "1"}))
    with pytest.raises(InputError, match="sums of products of powers"):
        fit_constants(series, Equations.parse(["h", "v"], {"h": "-v", "v": "sin(v)"}))
    with pytest.raises(FitError, match="start from nearer ones"):
        fit_constants(series, Equations.parse(["h", "v"], {"h": "-v", "v": "v**4"}), KNOWN)
