"""Old public names work and warn."""

from __future__ import annotations

import numpy as np
import pytest

import odediscovery
from odediscovery.data.series import TimeSeries, Trajectory
from odediscovery.data.signals import Signal
from odediscovery.laws.equations import Equations
from odediscovery.runtime.renamed import old_name, with_old_names

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


def test_new_names_do_not_warn_and_old_ones_name_the_new() -> None:
    @with_old_names(size="width")
    def double(width: int) -> int:
        return 2 * width

    assert double(3) == double(width=3) == 6
    with pytest.warns(DeprecationWarning, match="^'size' is now called 'width'$") as caught:
        assert double(size=3) == 6  # type: ignore[call-arg]
    assert caught[0].filename == __file__
    with pytest.warns(DeprecationWarning, match="^'twice' is now called 'double'$"):
        assert old_name("twice", double)(4) == 8
    with pytest.raises(TypeError):
        double(breadth=3)  # type: ignore[call-arg]
