"""Chaotic systems by the protocol of the pysindy benchmark, beside its own methods."""
