"""What the data do not tell of unmeasured states is told to the reader."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from odediscovery import Monitor, TimeSeries, settings_for
from odediscovery.judge.criterion import CRITERION
from odediscovery.judge.verdict import Verdict
from odediscovery.problem.pose import pose_known, with_known_states
from odediscovery.search.flows.contest import Competed, compete
from odediscovery.search.flows.notes import flow_notes


@pytest.fixture(scope="module")
def won() -> Competed:
    """a' = -0.8 a, b' = 0.8 a - 0.3 b with a unmeasured, b in a little noise."""
    t, random = np.linspace(0.0, 12.0, 30), np.random.default_rng(0)
    b = 3.7 * np.exp(-0.3 * t) - 3.2 * np.exp(-0.8 * t) + 0.005 * random.standard_normal(30)
    settings = settings_for(hidden_states=["a"])
    series, known = with_known_states(TimeSeries.from_arrays(t, b, ["b"]), settings)
    return compete(pose_known(series, known, settings), known, settings, Monitor())


@pytest.mark.long
def test_start_and_scale_of_an_unmeasured_state_are_told(won: Competed) -> None:
    notes = flow_notes(won, ["b", "a"])
    assert notes[0].startswith("a was not measured: its start is fitted, ")
    assert any(note.startswith("nothing tells the scale of a: what passes between it and b") for note in notes)


@pytest.mark.long
@pytest.mark.slow
def test_other_laws_that_fit_as_well_are_shown_and_worse_ones_are_not(won: Competed) -> None:
    best = won.verdict.best
    rows, structures = [best, best, best], [won.structures[won.verdict.chosen]] * 3
    for k, more in ((1, 0.5), (2, 2.0)):
        rows[k] = dataclasses.replace(best, criterion=best.criterion + more * CRITERION.no_evidence)
    rivals = dataclasses.replace(won, verdict=Verdict(won.verdict.p, tuple(rows), 0), structures=structures, twins=[])
    shown = [note for note in flow_notes(rivals, ["b", "a"]) if note.startswith("other flows fit about as well: ")]
    assert len(shown) == 1 and "b' = " in shown[0]
    twins = dataclasses.replace(rivals, twins=[best])
    assert sum("the same flows with other constants" in note for note in flow_notes(twins, ["b", "a"])) == 1
