"""Statements that contradict the data."""

from __future__ import annotations

import numpy as np
import pytest

from odediscovery.data.controls import append_controls, with_controls
from odediscovery.data.series import TimeSeries
from odediscovery.errors import InputError
from odediscovery.knowledge.checks import check_known, check_signs
from odediscovery.knowledge.constraints import knowledge

SERIES = append_controls(
    with_controls(TimeSeries.from_arrays(np.arange(4.0), np.arange(8.0).reshape(4, 2), ["x", "u"]), ["u"])
)


@pytest.mark.parametrize(
    ("statements", "message"),
    [({"known": ["u' = 1"]}, "u' is given, but u is an input"), ({"conserve": ["x + u"]}, "contains u, but u is an")],
)
def test_controls_have_no_equation(statements: dict[str, list[str]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_known(knowledge(SERIES.states, **statements), SERIES)  # type: ignore[arg-type]
    check_known(knowledge(SERIES.states, known=["x' = u"]), SERIES)


def test_fractional_powers_of_negative_states_are_refused() -> None:
    given = knowledge(["x", "y"], known=["x' = y**0.5"])
    check_signs(given, given.rescaled(np.array([2.0, 3.0]), 1.0))
    with pytest.raises(InputError, match=r"x' is known with a fractional power of y, which is negative in the data"):
        check_signs(given, given.rescaled(np.array([2.0, -3.0]), 1.0))
    of_minus = knowledge(["x", "y"], known=["x' = (-y)**0.5"])
    check_signs(of_minus, of_minus.rescaled(np.array([2.0, -3.0]), 1.0))
