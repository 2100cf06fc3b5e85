"""What does each rung of the search give? Random laws, with and without noise, fitted without one of them.

First all fits are made with the whole search, and each row notes which rungs were climbed. A fit that does
not climb a rung cannot change without it, so only the others are repeated, once for each rung. A search is
data: one without a rung is the same data shortened. Rungs go by "strategy: rung"; two of one name in one
strategy are one idea on two occasions, and go together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from odediscovery.bench.random_laws import random_systems
from odediscovery.bench.rows import Row, Study, Task, timed
from odediscovery.bench.scores import score
from odediscovery.bench.summary import by, count, in_short, table, total_seconds
from odediscovery.bench.systems import Protocol, SuiteSystem, training_data
from odediscovery.discovery.discover import discover
from odediscovery.errors import unknown_name
from odediscovery.laws.systems import simulate_system
from odediscovery.search import strategies
from odediscovery.search.rungs import Climb, Proposal, Proposer, Rung, Strategy
from odediscovery.settings import settings_for

# Equations count as changed where they differ in so many digits.
DIGITS = 3
# The method of the rows of the whole search; of the others it is the rung that is left out.
WHOLE = "whole search"
COLUMNS = ("id", "method", "failed", "exact", "seconds", "equations", "climbed")
HEADER = ("rung", "fits that climb it", "exact without it", "changed", "time", "what it proposes")


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
def left_out(name: str) -> Iterator[None]:
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


@dataclass(frozen=True)
class RungFit(Task):
    """One random law with one noise, by the whole search or without a rung."""

    system: SuiteSystem
    protocol: Protocol
    max_seconds: float

    def known(self) -> Row:
        return {"exact": False, "climbed": []}

    def fill(self, row: Row) -> None:
        series = training_data(self.system, self.protocol)
        _warm_up()
        settings = settings_for(seed=self.protocol.seed, max_seconds=self.max_seconds)
        with left_out(self.method), watched_rungs() as climbed:
            try:
                with timed(row):
                    found = discover(series, settings).equations
            finally:
                row["climbed"] = sorted(climbed)
        row["equations"] = found.texts()
        row["exact"] = score(found, self.system, self.protocol).exact


@cache
def _warm_up() -> None:
    """A fit that does not count: the first one of a process also pays for what is loaded on first use."""
    discover(simulate_system("logistic"), settings_for(members=0))


def run_rungs(
    folder: Path,
    *,
    names: Sequence[str] | None = None,
    sigma: float = 0.02,
    each: int = 3,
    seed: int = 0,
    max_seconds: float = 60.0,
    **where: Any,
) -> list[Row]:
    """Make the fits that are not yet in `folder`; all rows, those of the whole search first.

    Args:
        names: rungs, as "strategy: rung", or strategies (default: all).
        sigma: noise of the noisy fits, see `Protocol`.
        each: so many random laws of each family.
        max_seconds: limit of a fit, in seconds of the processor.

    Raises:
        InputError: an option is out of range, or the folder holds something else.
    """
    known = {name: name.partition(":")[0] for name in rungs()}
    for name in names or ():
        if name not in known and name not in known.values():
            raise unknown_name("rung", name, [*dict.fromkeys(known.values()), *known])
    chosen = [name for name, strategy in known.items() if names is None or {name, strategy} & set(names)]
    protocols = [Protocol(noise, seed=seed).checked() for noise in dict.fromkeys((0.0, sigma))]
    settings_for(seed=seed, max_seconds=max_seconds)
    fits = [
        RungFit(f"{system.id}, sigma {protocol.sigma:g}", WHOLE, system, protocol, max_seconds)
        for system in random_systems(seed, each=each)
        for protocol in protocols
    ]
    shared = {"measure": "rungs", "sigma": sigma, "each": each, "seed": seed, "max_seconds": max_seconds}

    def study(tasks: Sequence[RungFit]) -> Study:
        return Study("rungs", shared, COLUMNS, tasks, max_seconds)

    climbed = {row["id"]: row["climbed"] for row in study(fits).run(folder, **where) if row["method"] == WHOLE}
    without = [replace(fit, method=name) for name in chosen for fit in fits if name in climbed.get(fit.id, ())]
    rows = study([*fits, *without]).run(folder, **where)
    return sorted(rows, key=lambda row: [WHOLE, *known].index(row["method"]))


def markdown(rows: Sequence[Row], command: str) -> str:
    """What all fits come to without each rung."""
    groups = by(rows, "method")
    whole = {row["id"]: row for row in groups.pop(WHOLE)}
    known, lines = rungs(), []
    for name, own in groups.items():
        fits = whole | {row["id"]: row for row in own}
        changed = sum(_law(row) != _law(whole[row["id"]]) for row in own)
        time = sum(row["seconds"] for row in fits.values()) / max(sum(row["seconds"] for row in whole.values()), 1e-9)
        cells = str(count(list(fits.values()), "exact")), str(changed), f"{time:.2f}"
        lines.append((name, str(len(own)), *cells, known[name].proposes.says))
    return (
        f"# rungs\n\n`{command}`\n\n{len(whole)} fits, {count(list(whole.values()), 'exact')} exact with the whole "
        f"search, {total_seconds(list(whole.values()))} s of the processor. Changed: equations that "
        f"differ within {DIGITS} digits. Time is that of all fits, in units of the whole search. Rungs that no fit "
        f"climbs are left out.\n\n{table(HEADER, lines)}\n"
    )


def _law(row: Row) -> str:
    return str(row["failed"]) if row["equations"] is None else in_short(row["equations"], DIGITS)
