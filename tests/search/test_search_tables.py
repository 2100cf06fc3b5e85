"""The printed tables of the search hold every family and every rung, in their order."""

from __future__ import annotations

from odediscovery.families import FAMILIES
from odediscovery.search.neural import NEURAL
from odediscovery.search.strategies import CLOSING, STRATEGIES
from odediscovery.search.table import families_table, strategies_table


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_every_family_has_a_row_in_its_order() -> None:
    head, line, *rows = families_table().splitlines()
    assert cells(head)[0] == "family" and set(line) <= set("| -")
    assert [cells(row)[0] for row in rows] == [family.name for family in FAMILIES]
    assert {len(cells(row)) for row in rows} == {len(cells(head))}


def test_every_strategy_has_a_table_with_its_rungs_in_their_order() -> None:
    tables = strategies_table().split("**")[1:]
    assert tables[::2] == [strategy.name for strategy in (*STRATEGIES, CLOSING, *NEURAL)]
    for strategy, table in zip((*STRATEGIES, CLOSING, *NEURAL), tables[1::2], strict=True):
        rows = [cells(line) for line in table.splitlines() if line.startswith("| ") and "---" not in line][1:]
        assert [row[:2] for row in rows] == [[str(i), r.name] for i, r in enumerate(strategy.rungs, start=1)]
