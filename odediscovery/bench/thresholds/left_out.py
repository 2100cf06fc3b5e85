"""Rungs of the search left out for a while, and a watch on which of them are climbed.

A search is data, so one without a rung is the same data shortened. Rungs go by "strategy: rung"; two of
one name in one strategy are one idea on two occasions, and go together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from odediscovery.search import strategies
from odediscovery.search.rungs import Climb, Proposal, Proposer, Rung, Strategy


def rungs() -> dict[str, Rung]:
    """The rungs of the search by their names, in the order in which they are climbed.

    >>> list(rungs())[:2]
    ['clean: plain exact law', 'clean: exact law']
    """
    return {name_of(s, r): r for s in (*strategies.STRATEGIES, strategies.CLOSING) for r in s.rungs}


def name_of(strategy: Strategy, rung: Rung) -> str:
    """The name of a rung among those of all strategies."""
    return f"{strategy.name}: {rung.name}"


@contextmanager
def left_out(name: str, _factor: float = 0.0) -> Iterator[None]:
    """The search without the rungs of a name within the block."""
    with _changed_rungs(lambda strategy, rung: None if name_of(strategy, rung) == name else rung):
        yield


@contextmanager
def watched_rungs() -> Iterator[set[str]]:
    """The names of rungs that are climbed within the block."""
    found: set[str] = set()

    def noted(strategy: Strategy, rung: Rung) -> Rung:
        def laws(at: Climb) -> Iterator[Proposal]:
            found.add(name_of(strategy, rung))
            return rung.proposes.laws(at)

        return replace(rung, proposes=Proposer(rung.proposes.says, laws))

    with _changed_rungs(noted):
        yield found


@contextmanager
def _changed_rungs(change: Callable[[Strategy, Rung], Rung | None]) -> Iterator[None]:
    """The search with other rungs, or without those that become None, within the block."""
    before = strategies.STRATEGIES, strategies.CLOSING

    def changed(s: Strategy) -> Strategy:
        return replace(s, rungs=tuple(r for r in (change(s, rung) for rung in s.rungs) if r is not None))

    try:
        strategies.STRATEGIES, strategies.CLOSING = tuple(map(changed, before[0])), changed(before[1])
        yield
    finally:
        strategies.STRATEGIES, strategies.CLOSING = before
