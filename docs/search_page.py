"""Prints the page of the search: textbook laws, families and strategies, from the code that tries them."""

from odediscovery.search.table import families_table, strategies_table
from odediscovery.textbook.registry import table

print(f"""# The search

Laws are looked for from simple to rich. A family says what laws may look like; a strategy is a list
of rungs, and one driver climbs them in their order. These tables are printed from the code.

## Textbook laws

x, y, z and v are the states of the data, in any order; all other names are constants, which are fitted.

{table()}

## Families

{families_table()}

## Strategies

Candidates of one strategy are found on the same windows, and so compare with each other. What an
earlier strategy found only proposes laws to a later one.

{strategies_table()}""")
