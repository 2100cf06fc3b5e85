"""The value that travels behind the search."""

from __future__ import annotations

import dataclasses

import numpy as np
from problems import LOGISTIC, growth

from odediscovery.judge.criterion import judge
from odediscovery.judge.verdict import Verdict
from odediscovery.laws.cost import all_free
from odediscovery.problem.prepare import prepare
from odediscovery.stages.polish.polish import polish
from odediscovery.stages.values import Origin


def test_the_smallest_criterion_is_claimed_and_its_row_can_be_replaced() -> None:
    p = prepare(growth(np.linspace(0.0, 10.0, 30), 0.0))
    law = LOGISTIC.rescaled(p.scale.state, p.scale.time)
    found = polish(
        law, p.data, p.initial, p.floor, floor=p.floor, nonnegative=p.nonnegative, free=all_free(law), most=0
    )
    row = judge(found, p.floor, Origin(0))
    rows = [dataclasses.replace(row, criterion=c, origin=Origin(i)) for i, c in enumerate((3.0, -1.0, 2.0))]
    verdict = Verdict.of(p, rows)
    assert (verdict.chosen, verdict.best.origin) == (1, Origin(1))
    changed = verdict.with_best(dataclasses.replace(row, criterion=7.0, origin=Origin(9)))
    assert [r.origin.law for r in changed.rows] == [0, 9, 2] and changed.chosen == 1
    assert [r.origin.law for r in verdict.rows] == [0, 1, 2]
