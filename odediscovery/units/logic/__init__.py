"""Logical Neural Networks: formulas of connectives, bounds of truth, omnidirectional inference, learning."""
