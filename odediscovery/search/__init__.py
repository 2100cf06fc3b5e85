"""The search as data: a table of moves, one loop that makes them, and where laws come from."""
