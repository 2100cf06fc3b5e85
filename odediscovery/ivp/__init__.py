"""Solvers of initial value problems x' = f(t, x) for any function f; they know nothing of laws."""
