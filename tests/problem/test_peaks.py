"""Clear maxima are counted as scipy counts them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import find_peaks

from odediscovery.problem.peaks import count_peaks


@pytest.mark.parametrize("digits", [1])
@pytest.mark.parametrize("kind", ["noise", "walk", "cycles"])
def test_as_many_as_scipy_finds_of_any_prominence(kind: str, digits: int) -> None:
    random = np.random.default_rng(0)
    for size in (0, 1, 2, 3, 10, 200):
        noise = random.standard_normal(size)
        values = {"noise": noise, "walk": noise.cumsum(), "cycles": 3.0 * np.sin(np.arange(size)) + 0.3 * noise}[kind]
        values = np.round(values, digits)
        for prominence in (0.0, 0.1, 0.5, 1.0, 2.0, 5.0, np.inf):
            assert count_peaks(values, prominence) == len(find_peaks(values, prominence=prominence)[0])


def test_the_end_of_a_rise_is_no_maximum() -> None:
    assert count_peaks(np.arange(5.0), 0.0) == 0
    assert count_peaks(np.array([2.0, 2.0, 1.0]), 0.0) == 0
