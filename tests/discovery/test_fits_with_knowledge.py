"""What the user knows holds in the equations that are found."""

from __future__ import annotations

import numpy as np
import pytest
import sympy
from problems import solved

from odediscovery import Discovery, InputError, TimeSeries, discover, settings_for
from odediscovery.laws.power_sum import PowerSum
from odediscovery.laws.systems import simulate_system

T = np.linspace(0.0, 6.0, 61)


def noisy(law: PowerSum, start: list[float], states: list[str], noise: float) -> TimeSeries:
    x = solved(law, np.array(start), T)
    x = x + noise * x.std(axis=0) * np.random.default_rng(1).standard_normal(x.shape)
    return TimeSeries.from_arrays(T, x, states)


def terms(found: Discovery, state: str) -> dict[sympy.Expr, float]:
    """Coefficients of an equation by what they multiply."""
    side = sympy.expand(found.equations.right_hand_sides[found.equations.states.index(state)])
    return {k: float(v) for k, v in side.as_coefficients_dict().items()}


def fall() -> TimeSeries:
    # h' = -v, v' = 9.81 - 0.05 v^2
    law = PowerSum(np.array([[-1.0, 0.0, 0.0], [0.0, 9.81, -0.05]]), np.array([[0.0, 1.0], [0.0, 0.0], [0.0, 2.0]]))
    return noisy(law, [120.0, 0.5], ["h", "v"], 0.01)


@pytest.mark.slow
def test_known_sides_are_printed_as_they_were_given() -> None:
    found = discover(fall(), settings_for(known=["h' = -v", "v' = 9.81 + ?"], members=4))
    _, v = found.equations.symbols
    assert terms(found, "h") == {v: -1.0}
    assert terms(found, "v")[sympy.S.One] == 9.81
    assert terms(found, "v")[v**2] == pytest.approx(-0.05, rel=0.05)
    assert len(terms(found, "v")) == 2
    assert any("h' = -v is given" in m for m in found.messages)


@pytest.mark.slow
def test_a_conserved_sum_is_kept_exactly() -> None:
    series = simulate_system("sir", noise=0.02, seed=2)
    states = series.states
    found = discover(series, settings_for(conserve=[" + ".join(states)], members=4))
    total = sympy.expand(sum(found.equations.right_hand_sides))
    assert max((abs(float(c)) for c in total.as_coefficients_dict().values()), default=0.0) < 1e-15
    x = found.simulate()
    assert np.ptp(x.sum(axis=1)) < 1e-6 * x.max()
    assert found.outcome == "converged" and found.r2 > 0.98


def test_mistakes_are_told_before_the_fit() -> None:
    for option, text, said in (
        ("known", "h' = -speed", "speed"),
        ("known", "h = -v", "'"),
        ("conserve", "h * v", "h"),
        ("forbid", "h; v", ":"),
        ("bounds", "exponents 2..1", "2"),
    ):
        value = text if option == "bounds" else [text]
        with pytest.raises(InputError) as raised:
            discover(fall(), settings_for(**{option: value}))
        assert said in str(raised.value)
    with pytest.raises(InputError, match="default"):
        settings_for("paper", known=["h' = -v"])
