"""Made-up series of textbook laws: their faults are in the data, and the verdict knows the truth."""

from __future__ import annotations

import numpy as np
import pytest

from odediscovery.bench.draws.draw import Draw
from odediscovery.bench.rows import Row, filled
from odediscovery.bench.series.textbook import FAULTS, TRUTHS, TextbookDraws, equations_of, made

DRAWS = TextbookDraws()


def fitted(draw: int) -> Row:
    return filled(Draw(str(draw), "ours", DRAWS, draw), DRAWS.study(1).columns)


def test_every_law_has_every_fault_twice_in_120_draws() -> None:
    cases = [DRAWS.case(draw) for draw in range(120)]
    assert {cases.count((truth, fault)) for truth in TRUTHS for fault in FAULTS} == {2}
    for truth in TRUTHS:
        t = np.linspace(0.0, truth.until, truth.samples)
        assert np.isfinite(equations_of(truth).simulate(np.array(truth.start), t)).all(), truth.law


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_in_the_data(fault: str) -> None:
    truth = TRUTHS[2]
    (run,) = made(truth, fault, np.random.default_rng(1)).trajectories
    x = equations_of(truth).simulate(np.array(truth.start), run.time)
    off = np.abs(run.values - x) / x.std()
    if fault == "counts":
        assert (run.values == np.round(run.values)).all() and off.max() > 0.0
    elif fault == "rounded":
        assert (run.values % 10.0 == 0.0).all()
    elif fault == "outliers":
        assert off.max() > 0.2 and np.median(off) < 0.05
    elif fault == "gaps":
        assert len(run.time) < truth.samples and np.diff(run.time).max() > truth.until / 6.0
    else:
        assert 0.01 < off.max() < 0.12


@pytest.mark.slow
def test_a_draw_has_a_verdict_and_its_constants_are_counted() -> None:
    row = fitted(2)
    assert (row["law"], row["fault"], row["failed"]) == ("logistic", "counts", None)
    assert row["verdict"] == "right" and row["within"][1] == 2
    epidemic = fitted(8 + 12)  # its constants are shared by equations, so they are named
    assert epidemic["verdict"] == "right" and epidemic["within"][0] > 0
    table = DRAWS.markdown([row, epidemic])
    assert "| logistic | 1 | 1 |" in table and "| all | 2 | 2 |" in table
