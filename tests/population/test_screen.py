"""Terms of every equation on the integral form of all groups."""

from __future__ import annotations

import numpy as np

from odediscovery.data.series import TimeSeries
from odediscovery.population.pose import pose_groups
from odediscovery.population.screen import screen
from odediscovery.settings import settings_for


def test_a_group_without_a_value_of_a_state_leaves_its_terms_to_the_others() -> None:
    """Two of six groups say nothing of y' = a x - b y."""
    t, starts = np.linspace(0.0, 6.0, 15), np.linspace(1.0, 2.0, 6)
    runs = [np.stack([k * np.exp(-t), k * t * np.exp(-t)], axis=1) for k in starts]
    for run in runs[:2]:
        run[:, 1] = np.nan
    _, measured = pose_groups(TimeSeries.from_arrays([t] * 6, runs, ["x", "y"]), settings_for(vary="auto"))
    found = {frozenset(one.terms): one for one in screen(measured, whole=False)[1]}
    true = found[frozenset({(1, (1.0, 0.0)), (-1, (0.0, 1.0))})]
    np.testing.assert_allclose(true.coefficients, 1.0, rtol=0.1)
