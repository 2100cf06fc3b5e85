"""Regress, prune and polish laws of a problem."""
