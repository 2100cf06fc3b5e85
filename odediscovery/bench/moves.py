"""Ablation of the moves of the search: random laws, with and without noise, fitted without one of the moves.

All fits are first made with the whole search, and each row records its moves. A fit that did not use a move cannot
change without it, so only the others are repeated, once for each move.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from odediscovery.bench.random_laws import random_systems
from odediscovery.bench.rows import Row, Study, Task, fit_into
from odediscovery.bench.scores import score
from odediscovery.bench.summary import by, count, in_short, table, total_seconds
from odediscovery.bench.systems import Protocol, SuiteSystem, chosen, training_data
from odediscovery.discovery.discover import discover
from odediscovery.laws.systems import simulate_system
from odediscovery.search import search
from odediscovery.search.moves import Move, Proposal, Search
from odediscovery.settings import settings_for

# The method in rows of the whole search; in other rows it is the omitted move.
WHOLE = "whole search"
COLUMNS = ("id", "method", "failed", "exact", "seconds", "equations", "made")


def moves() -> dict[str, Move]:
    """The moves of the search by name, in order."""
    return {move.name: move for move in search.MOVES}


@contextmanager
def search_without(name: str) -> Iterator[set[str]]:
    """Omit a move of the search within a context, and record the names of the moves made there."""
    before, made = search.MOVES, set[str]()

    def noted(move: Move) -> Move:
        def laws(at: Search) -> Iterator[Proposal]:
            made.add(move.name)
            return move.laws(at)

        return replace(move, laws=laws)

    try:
        search.MOVES = tuple(noted(move) for move in before if move.name != name)
        yield made
    finally:
        search.MOVES = before


def fit(system: SuiteSystem, protocol: Protocol, max_seconds: float, row: Row) -> None:
    """Fit one random law at one level of noise, by the whole search or without a move."""
    series = training_data(system, protocol)
    _warm_up()
    with search_without(row["method"]) as made:
        try:
            found = fit_into(row, series, settings_for(seed=protocol.seed, max_seconds=max_seconds))
        finally:
            row["made"] = sorted(made)
    row["exact"] = score(found.equations, system, protocol).exact


@cache
def _warm_up() -> None:
    """Make an uncounted fit, since the first one of a process includes the loading of libraries."""
    discover(simulate_system("logistic"), settings_for(members=0))


def run_moves(
    folder: Path,
    *,
    names: Sequence[str] | None = None,
    sigma: float = 0.02,
    each: int = 3,
    seed: int = 0,
    max_seconds: float = 60.0,
    **where: Any,
) -> list[Row]:
    """Make the fits that are not yet in `folder`, and return all rows, those of the whole search first."""
    known = moves()
    left_out = [move.name for move in chosen(known, names, "move")]
    protocols = [Protocol(noise, seed=seed) for noise in dict.fromkeys((0.0, sigma))]
    fits = []
    for system, protocol in itertools.product(random_systems(seed, each=each), protocols):
        fill, blank = partial(fit, system, protocol, max_seconds), {"exact": False, "made": []}
        fits.append(Task(f"{system.id}, sigma {protocol.sigma:g}", WHOLE, fill, blank))
    shared = {"measure": "moves", "sigma": sigma, "each": each, "seed": seed, "max_seconds": max_seconds}

    def study(tasks: Sequence[Task]) -> Study:
        return Study("moves", shared, COLUMNS, tasks, max_seconds)

    made = {row["id"]: row["made"] for row in study(fits).run(folder, **where) if row["method"] == WHOLE}
    without = [replace(fit, method=name) for name in left_out for fit in fits if name in made.get(fit.id, ())]
    rows, order = study([*fits, *without]).run(folder, **where), [WHOLE, *known]
    # A kept folder may hold moves that there no longer are.
    return sorted((row for row in rows if row["method"] in order), key=lambda row: order.index(row["method"]))


def worth(rows: Sequence[Row]) -> dict[str, tuple[str, ...]]:
    """Effect of omitting each move that there still is: fits that use it, exact ones, changed laws, total time."""
    groups, known = by(rows, "method"), moves()
    whole = {row["id"]: row for row in groups[WHOLE]}
    before, found = max(sum(row["seconds"] for row in whole.values()), 1e-9), dict[str, tuple[str, ...]]()
    for name, own in ((name, own) for name, own in groups.items() if name in known):
        fits = whole | {row["id"]: row for row in own}
        changed = sum(_law(row) != _law(whole[row["id"]]) for row in own)
        time = sum(row["seconds"] for row in fits.values()) / before
        found[name] = str(len(own)), str(count(list(fits.values()), "exact")), str(changed), f"{time:.2f}"
    return found


def markdown(rows: Sequence[Row], command: str) -> str:
    """Write the table of the effects of omitting each move."""
    whole, known = by(rows, "method")[WHOLE], moves()
    header = ("move", "fits that make it", "exact without it", "changed", "time", "what it proposes")
    lines = [(name, *cells, known[name].says) for name, cells in worth(rows).items()]
    return (
        f"# moves\n\n`{command}`\n\n{len(whole)} fits, {count(whole, 'exact')} exact with the whole "
        f"search, {total_seconds(whole)} s of the processor. Changed: equations that "
        f"differ within 3 digits. Time is that of all fits, in units of the whole search. Moves that no fit "
        f"makes are left out.\n\n{table(header, lines)}\n"
    )


def _law(row: Row) -> str:
    return str(row["failed"]) if row["equations"] is None else in_short(row["equations"], digits=3)
