"""Prints the page of the search: textbook laws, families and strategies, from the code that tries them."""

from odediscovery.search.table import families_table, strategies_table
from odediscovery.textbook.registry import table


def of_rungs(tables: str) -> str:
    """Tables of strategies with two of their columns, the rung and what it proposes.

    >>> print(of_rungs("**clean**\\n\\n|  | rung | when | proposes |\\n| 1 | few powers | always | small sums |"))
    **clean**
    <BLANKLINE>
    | rung | proposes |
    | few powers | small sums |
    """
    lines = []
    for line in tables.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if "rung" in cells:
            columns = [cells.index("rung"), cells.index("proposes")]
        lines.append("| " + " | ".join(cells[i] for i in columns) + " |" if line.startswith("|") else line)
    return "\n".join(lines)


if __name__ == "__main__":
    print(f"""# The search

Laws are tried from simple to rich, in strategies of several rungs. These tables are printed from the code.

## Textbook laws

x, y, z and v are the states, in any order; other names are constants, which are fitted.

{table()}

## Families

A family is a form of laws.

{families_table()}

## Strategies

Rungs are tried in order. A strategy fits all candidates on the same windows and takes those of an earlier one as
proposals.

{of_rungs(strategies_table())}""")
