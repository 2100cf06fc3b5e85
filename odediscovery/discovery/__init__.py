"""`discover()`: the stages in order."""
