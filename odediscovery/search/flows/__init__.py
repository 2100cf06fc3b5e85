"""Laws of flows between compartments, for states that nobody measured."""
