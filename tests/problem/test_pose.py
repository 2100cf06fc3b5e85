"""What a user knows enters the problem, and the laws between the stages."""

from __future__ import annotations

import numpy as np
import pytest
from problems import PREY, STARTS, series_of

from odediscovery.errors import InputError
from odediscovery.laws.cost import all_free
from odediscovery.problem.impose import apply_knowledge, apply_knowledge_to_fit, fixed_mask, in_user_units
from odediscovery.problem.pose import pose
from odediscovery.settings import settings_for

SERIES = series_of(PREY, STARTS, [np.linspace(0.0, 8.0, 33)] * 2)


def test_what_is_known_is_imposed_and_exact_in_the_users_units() -> None:
    series, p, _ = pose(SERIES, settings_for(known=["x0' = 0.6*x0 + ?"]))
    assert series.states == SERIES.states
    off = PREY.rescaled(p.scale.state, p.scale.time)
    off = off.with_constants(off.coefficients * 1.01, *off.constants[1:])
    imposed = apply_knowledge(p, off)
    found = in_user_units(p, imposed)
    gain = int(np.flatnonzero((found.exponents == [1.0, 0.0]).all(axis=1))[0])
    assert found.coefficients[0, gain] == 0.6
    held, _ = fixed_mask(p, imposed) or (None, None)
    assert held is not None and held.sum() == 1
    law, free = apply_knowledge_to_fit(p, off, all_free(off))
    assert free[0].sum() == np.count_nonzero(law.coefficients) - 1


def test_a_state_that_does_not_exist_is_named() -> None:
    with pytest.raises(InputError, match="z"):
        pose(SERIES, settings_for(known=["z' = 1"]))
