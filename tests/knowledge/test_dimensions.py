"""Units of constants, of terms and of names, and statements whose units do not go together."""

from __future__ import annotations

import numpy as np
import pytest

from odediscovery import Equations, InputError, TimeSeries, discover, settings_for
from odediscovery.knowledge.constraints import knowledge
from odediscovery.knowledge.dimensions import check_dimensions, joined, read_unit, unit_text, units_of_constants
from odediscovery.knowledge.named_units import units_of_names


@pytest.mark.parametrize(
    ("written", "powers"),
    [
        ("g/L", {"g": 1, "L": -1}),
        ("kg*m^2/s**3", {"kg": 1, "m": 2, "s": -3}),
        ("L/(g h)", {"L": 1, "g": -1, "h": -1}),
        ("1/days", {"day": -1}),
        ("10^3 cells", {"(10^3 cells)": 1}),
    ],
)
def test_units_are_read_as_powers_of_words(written: str, powers: dict[str, float]) -> None:
    assert read_unit(written) == powers
    again = unit_text(read_unit(written))
    assert again is not None
    assert len(joined((read_unit(again), 1.0), (read_unit(written), -1.0))) <= (2 if "10" in written else 0)


def test_a_coefficient_has_the_unit_that_its_term_lacks() -> None:
    law = Equations.parse(
        ["S", "I"], {"S": "-0.1*S**0.5*I", "I": "0.1*I + 2"}, units={"S": "g/L", "I": "mol", "t": "h"}
    )
    found = units_of_constants(law)
    assert [unit for unit in found["S"] if unit != "1"] == ["g^0.5/(L^0.5 h mol)"]
    assert {unit for unit in found["I"]} == {"1/h", "mol/h", "1"}


def test_units_of_named_constants_follow_from_the_form() -> None:
    lines = ["prey' = r*prey*(1 - prey/K) - a*prey*pred/(1 + b*prey)", "pred' = e*prey*pred - m*pred"]
    units = {"prey": "g", "pred": "kg", "t": "days"}
    found = units_of_names(lines, ["r", "K", "a", "b", "e", "m"], ["prey", "pred"], "t", units)
    assert found == ["1/day", "g", "1/(day kg)", "1/g", "1/(day g)", "1/day"]
    assert units_of_names(["x' = k*x^p"], ["k", "p"], ["x"], "t", {"x": "g", "t": "h"}) == [None, "1"]
    assert units_of_names(["x' = x + k"], ["k"], ["x"], "t", {"x": "g", "t": "h"}) == [None]


@pytest.mark.slow
def test_statements_whose_units_differ_are_refused() -> None:
    pytest.importorskip("pint")
    fall = knowledge(["h", "v"], known=["h' = -v"])
    check_dimensions(fall, "t", {"h": "m", "v": "m/s", "t": "s"})
    check_dimensions(fall, "t", {"h": "km", "v": "m/ms", "t": "s"})
    check_dimensions(fall, "t", {"h": "m", "t": "s"})
    with pytest.raises(InputError, match=r"km/h, where the equation has m/s: write the factor 0\.2777777778"):
        check_dimensions(fall, "t", {"h": "m", "v": "km/h", "t": "s"})
    with pytest.raises(InputError, match="no units of the same kind"):
        check_dimensions(fall, "t", {"h": "m", "v": "kg", "t": "s"})
    with pytest.raises(InputError, match="a conserved sum has a state of unit kg, where another has g: write the fac"):
        check_dimensions(knowledge(["S", "I"], conserve=["S + I"]), "t", {"S": "g", "I": "kg"})
    # A number that was written may have any unit.
    check_dimensions(knowledge(["v", "h"], known=["v' = 9.81 + ?"]), "t", {"v": "m/s", "t": "s"})


def test_a_fit_refuses_a_statement_that_its_units_contradict() -> None:
    pytest.importorskip("pint")
    t = np.linspace(0, 2, 20)
    series = TimeSeries.from_arrays(
        t, np.column_stack([20 - 5 * t**2, 10 * t]), ["h", "v"], units={"h": "m", "v": "km/h", "t": "s"}
    )
    with pytest.raises(InputError, match="write the factor"):
        discover(series, settings_for(known=["h' = -v"], members=0))
