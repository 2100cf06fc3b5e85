"""The main line: a chain of arithmetic units is trained, pruned and read as equations."""
