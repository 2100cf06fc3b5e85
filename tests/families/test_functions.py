"""Functions of a state, as numpy, math and sympy know them."""

from __future__ import annotations

import numpy as np
import pytest
import sympy

from odediscovery.families.base import StateFunction
from odediscovery.families.functions import COS, EXP, FUNCTIONS, LOG, SIN, TRIGONOMETRIC

Z = np.linspace(0.2, 2.0, 10)


@pytest.mark.parametrize("function", [SIN, COS, EXP, LOG], ids=lambda f: f.name)
def test_slopes_are_those_of_the_values(function: StateFunction) -> None:
    h = 1e-6
    slopes = (function.value(Z + h) - function.value(Z - h)) / (2.0 * h)
    assert function.derivative(Z) == pytest.approx(slopes, rel=1e-8)


@pytest.mark.parametrize("function", [SIN, COS, EXP, LOG], ids=lambda f: f.name)
def test_numpy_math_and_sympy_agree(function: StateFunction) -> None:
    of_sympy = [float(getattr(sympy, function.name)(z)) for z in Z]
    assert function.value(Z) == pytest.approx(of_sympy, rel=1e-12)
    assert [function.plain(z) for z in Z] == pytest.approx(of_sympy, rel=1e-12)


def test_an_argument_that_must_be_positive_is_never_zero() -> None:
    assert np.isfinite(LOG.value(np.array([0.0, -1.0]))).all()
    assert np.isfinite(LOG.plain(0.0))


def test_sines_are_dearer_for_amounts_than_for_angles_and_functions_dearest() -> None:
    assert TRIGONOMETRIC.richness < TRIGONOMETRIC.richness_of_amounts < FUNCTIONS.richness
