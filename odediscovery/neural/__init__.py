"""Training, pruning and reading of a chain of arithmetic units as equations."""
