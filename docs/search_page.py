"""Prints the page of the search: textbook laws, families and moves, from the code that tries them.

What each move is worth comes from the kept rows of `odediscovery bench moves`.
"""

from pathlib import Path

from odediscovery.bench.moves import WHOLE, worth
from odediscovery.bench.rows import read_rows
from odediscovery.discovery.discover import changes_table
from odediscovery.search.search import families_table, moves_table
from odediscovery.textbook.registry import table

KEPT = Path(__file__).parents[1] / "data" / "results" / "bench" / "moves-noise-1"


def evidence() -> str:
    """What random laws come to without each move, as Markdown."""
    rows, _ = read_rows(KEPT)
    whole = [row for row in rows if row["method"] == WHOLE]
    lines = [f"| {name} | {' | '.join(cells)} |" for name, cells in worth(rows).items()]
    return "\n".join(
        [
            f"{len(whole)} fits, half of them in 1 % noise; {sum(row['exact'] for row in whole)} exact with all moves.",
            "",
            "| without | fits that make it | exact | laws that change | time |",
            "| --- | --- | --- | --- | --- |",
            *lines,
        ]
    )


print(f"""# The search

Laws are tried from simple to rich. These tables are printed from the code.

## Textbook laws

x, y, z and v are the states, in any order; other names are constants, which are fitted.

{table()}

## Families

A family is a form of laws.

{families_table()}

## Moves

A move proposes laws, which are pruned. Moves are made in this order, each under its condition, until one of them ends
the search.

{moves_table()}

### What each is worth

Random laws of a seed that nobody had looked at, fitted without one move. Moves that no fit makes are left out.

{evidence()}

## Changes

The best candidates are fitted to whole trajectories and ranked by the criterion. Then, in this order:

{changes_table()}""")
