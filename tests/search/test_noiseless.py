"""Coarse sampling looks like noise until a law leaves nothing."""

from __future__ import annotations

import numpy as np
import pytest
from problems import growth

from odediscovery import simulate_system
from odediscovery.problem.prepare import prepare
from odediscovery.runtime.monitor import Monitor
from odediscovery.search import noiseless
from odediscovery.search.noiseless import detect_noiseless


@pytest.mark.slow
def test_coarse_samples_of_an_exact_law_have_no_noise() -> None:
    p = prepare(simulate_system("lorenz", samples=200, until=10.0))
    found = detect_noiseless(p, Monitor())
    assert found.exact is not None and not found.noise.any() and found.clean


def test_no_library_is_fitted_where_samples_show_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("nothing says that there is no noise")

    monkeypatch.setattr(noiseless, "fit_library", fail)
    p = prepare(growth(np.linspace(0.0, 20.0, 80), 0.03))
    assert detect_noiseless(p, Monitor()) is p
