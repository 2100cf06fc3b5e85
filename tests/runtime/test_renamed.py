"""Old public names work and warn."""

from __future__ import annotations

import numpy as np
import pytest

import odediscovery
from odediscovery.data.series import TimeSeries, Trajectory
from odediscovery.data.signals import Signal
from odediscovery.laws.equations import Equations

SIGNAL = Signal(np.array([0.0, 1.0]), np.array([[2.0], [2.0]]), np.array([True]))


def test_old_arguments_and_attributes() -> None:
    with pytest.warns(DeprecationWarning, match="'inputs' is now called 'controls'"):
        run = Trajectory(np.arange(2.0), np.ones((2, 1)), inputs=SIGNAL)  # type: ignore[call-arg]
    assert run.controls is SIGNAL
    with pytest.warns(DeprecationWarning, match="'inputs' is now called 'controls'"):
        assert run.inputs is SIGNAL  # type: ignore[attr-defined]
    with pytest.warns(DeprecationWarning, match="'drift' is now called 'slopes'"):
        assert SIGNAL.drift.tolist() == [[0.0]]  # type: ignore[attr-defined]
    with pytest.warns(DeprecationWarning):
        law = Equations.parse(["x"], {"x": "u"}, inputs=["u"])  # type: ignore[call-arg]
    with pytest.warns(DeprecationWarning):
        found = law.simulate([0.0], [0.0, 1.0], inputs=SIGNAL)  # type: ignore[call-arg]
    np.testing.assert_allclose(found[:, 0], [0.0, 2.0], rtol=1e-8)


def test_old_functions() -> None:
    series = TimeSeries.from_arrays(np.arange(4.0), np.arange(8.0).reshape(4, 2), ["x", "u"])
    with pytest.warns(DeprecationWarning, match="'with_inputs' is now called 'with_controls'"):
        assert odediscovery.with_inputs(series, ["u"]).controls == ("u",)
