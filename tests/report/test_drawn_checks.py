"""What a critical reader asks for, drawn: which states and terms, and nothing where there is too little."""

from __future__ import annotations

import numpy as np
import pytest
from faces import discovery

from odediscovery import Discovery, Equations, TimeSeries, fit_constants
from odediscovery.plots.diagnostics.resting import Resting
from odediscovery.report.checks import (
    MAX_STATES,
    _text_ticks,
    correlation_drawing,
    groups_of,
    resting_rows,
    state_checks,
)
from odediscovery.report.drawing import panel

T = np.linspace(0.0, 8.0, 40)


@pytest.fixture(scope="module")
def filled() -> Discovery:
    """x' = 2 - 0.5 x in noise."""
    noise = 0.05 * np.random.default_rng(3).standard_normal(len(T))
    series = TimeSeries.from_arrays(T, 4.0 * (1.0 - np.exp(-0.5 * T)) + noise, ["x"])
    return fit_constants(series, Equations.parse(["x"], {"x": "2.0 - 0.5*x"}), exponents=False)


def test_a_single_state_has_its_terms_and_residuals_but_no_rate(filled: Discovery) -> None:
    (one,) = state_checks(filled)
    assert one.state == "x" and len(one.terms) == 2
    assert one.rates is None  # it stands among the portraits
    for drawn, label in ((one.contributions, "the terms of x over time"), (one.normal, "normal plot of x")):
        assert drawn is not None and drawn.startswith("<svg") and label in drawn
    assert one.autocorrelation is not None


@pytest.mark.slow
def test_several_states_are_drawn_in_their_order_up_to_a_limit() -> None:
    found = discovery()
    checks = state_checks(found)
    assert [one.state for one in checks] == list(found.equations.states)[:MAX_STATES]
    assert all(one.rates is not None for one in checks)


def test_correlations_are_of_the_fitted_constants(filled: Discovery) -> None:
    drawn = correlation_drawing(filled)
    assert drawn is not None and len(drawn.names) == 2
    assert "correlations of the constants" in drawn.svg
    assert correlation_drawing(discovery()) is None


def test_resting_points_are_typeset() -> None:
    (row,) = resting_rows(discovery(), [Resting((-4.0, 1.5e-7), "stable node", True)])
    assert [str(cell) for cell in row[0]] == ["\N{MINUS SIGN}4", "1.5\xa0\N{MULTIPLICATION SIGN}\xa010<sup>−7</sup>"]
    assert row[1] == "stable node"


def test_without_groups_none_are_drawn() -> None:
    assert groups_of(discovery()) is None


def test_labels_that_would_run_into_each_other_are_thinned() -> None:
    for count, left in ((10, 10), (36, 36), (37, 19), (100, 34)):
        _, (axes,) = panel()
        axes.set_yticks(range(count), [f"g{k}" for k in range(count)])
        _text_ticks(axes)
        texts = [label.get_text() for label in axes.get_yticklabels()]
        assert len(texts) == left and texts[0] == "g0"
