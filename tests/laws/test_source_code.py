"""Printed source code computes the law, whatever the columns are called."""

from __future__ import annotations

import numpy as np
import pytest

from odediscovery.laws.equations import Equations


def test_python_computes_the_law_with_columns_called_like_its_own_names() -> None:
    law = Equations.parse(["np", "y"], {"np": "-np*y", "y": "2*y**0.5 - t"}, controls=["t"])
    source = law.python()
    assert source.splitlines()[3:6] == ["def rates(t, y_):", "    np_, y = y_", "    return np.array(["]
    space: dict[str, object] = {}
    exec(source, space)
    rates = space["rates"]
    assert callable(rates)
    assert rates(3.0, np.array([5.0, 4.0])).tolist() == pytest.approx([-20.0, 1.0])


def test_julia_takes_controls_from_its_parameter() -> None:
    law = Equations.parse(["u", "end"], {"u": "w*end", "end": "-u**2"}, controls=["w"])
    lines = law.julia().splitlines()
    assert lines[0] == "function rates!(du, u, p, t)" and lines[-1] == "end"
    assert lines[1] == "    w, = p(t)  # the inputs at this time" and lines[2] == "    u_, end_ = u"
    assert "du[2] = -u_^2" in lines[4]
