"""Prints the page of the search: textbook laws, families and moves, from the code that tries them."""

from odediscovery.discovery.discover import changes_table
from odediscovery.search.search import families_table, moves_table
from odediscovery.textbook.registry import table

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
the search; those at the end are made last, however it ended.

{moves_table()}

## Changes

The best candidates are fitted to whole trajectories and ranked by the criterion. Then, in this order:

{changes_table()}""")
