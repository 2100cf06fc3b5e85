"""Time and memory, beside peers and against size."""
