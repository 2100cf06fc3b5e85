"""The search: a table of moves, the loop that makes them, and the sources of laws."""
