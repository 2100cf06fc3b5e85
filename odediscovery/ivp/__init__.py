"""Solvers of initial value problems x' = f(t, x) for any function f, independent of laws."""
