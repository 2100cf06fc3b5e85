"""The time of fits and of layers."""
