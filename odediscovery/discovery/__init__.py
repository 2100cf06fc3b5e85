"""`discover()`: the stages in their order."""
