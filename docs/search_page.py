"""Prints the page of the search: textbook laws, families and strategies, from the code that tries them."""

from odediscovery.search.table import families_table, strategies_table
from odediscovery.textbook.registry import table

print(f"""# The search

Laws are tried from simple to rich. A family is a form of laws; a strategy is a list of rungs, which
are tried in order. These tables are printed from the code.

## Textbook laws

x, y, z and v are the states of the data, in any order; all other names are constants, which are fitted.

{table()}

## Families

{families_table()}

## Strategies

Candidates of one strategy are fitted on the same windows, so they can be compared. The results of an
earlier strategy are only proposals to a later one.

{strategies_table()}""")
