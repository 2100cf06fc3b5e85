"""The driver: rungs in their order, each seeing what became of its proposals, until one ends."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest

from odediscovery import simulate_system
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.runtime.monitor import OUT_OF_MEMORY, Monitor
from odediscovery.search import rungs
from odediscovery.search.rungs import ALWAYS, Climb, Proposal, Proposer, Pruning, Rung, Strategy, climb
from odediscovery.settings import settings_for
from odediscovery.stages.prune.paths import NoRoomError
from odediscovery.stages.values import Candidate

AS_GROWN = Pruning("not at all", as_grown=True)
LAW = PowerSum(np.array([[0.1, -0.1]]), np.array([[1.0], [2.0]]))


@pytest.fixture
def at() -> Climb:
    return Climb(prepare(simulate_system("logistic")), settings_for(), Monitor())


def proposing(count: int, heard: list[int]) -> Proposer:
    def laws(at: Climb) -> Iterator[Proposal]:
        for _ in range(count):
            yield Proposal([LAW])
            heard.append(len(at.new))

    return Proposer("a law again and again", laws)


def strategy(*rungs: Rung) -> Strategy:
    return Strategy("test", "for tests", ALWAYS, rungs)


def test_a_proposer_sees_what_became_of_each_proposal(at: Climb) -> None:
    heard: list[int] = []
    assert not climb(strategy(Rung("a", ALWAYS, proposing(3, heard), AS_GROWN)), at)
    assert heard == [1, 1, 1] and len(at.candidates) == 3


def test_out_of_time_only_late_rungs_are_climbed_once_there_is_something(at: Climb) -> None:
    at.monitor = Monitor(max_seconds=1e3, started=time.monotonic() - 1001.0)
    rungs = [Rung("a", ALWAYS, proposing(1, []), AS_GROWN, late=late) for late in (False, False, True)]
    assert not climb(strategy(*rungs), at)
    assert len(at.candidates) == 2


def test_laws_stay_as_they_came_only_where_there_is_no_memory(at: Climb, monkeypatch: pytest.MonkeyPatch) -> None:
    # Laws that all blow up leave none, which is no lack of memory.
    monkeypatch.setattr(rungs, "prune_laws", lambda *_, **__: [])
    assert Pruning("to the end").candidates(at, Proposal([LAW])) == [] and not at.monitor.log

    def full(*_: object, **__: object) -> list[Candidate]:
        raise NoRoomError

    monkeypatch.setattr(rungs, "prune_laws", full)
    assert [c.law for c in Pruning("to the end").candidates(at, Proposal([LAW]))] == [LAW]
    assert at.monitor.log[-1]["event"] == OUT_OF_MEMORY
