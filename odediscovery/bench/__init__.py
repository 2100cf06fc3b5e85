"""Benchmarks of the project, not tests: how often it is right, and how fast it is."""
