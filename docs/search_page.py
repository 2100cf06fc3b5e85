"""Prints the page of the search: its families and strategies, from the code that climbs them."""

from odediscovery.search.table import families_table, strategies_table

print(f"""# The search

Laws are looked for from simple to rich. A family says what laws may look like; a strategy is a list
of rungs, and one driver climbs them in their order. These tables are printed from the code.

## Families

{families_table()}

## Strategies

Candidates of one strategy are found on the same windows, and so compare with each other. What an
earlier strategy found only proposes laws to a later one.

{strategies_table()}""")
