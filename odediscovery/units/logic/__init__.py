"""Logical Neural Networks: formulas of connectives, bounds of truth, inference in all directions, learning."""
