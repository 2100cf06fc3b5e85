"""The laws that a scientist writes down first: a registry, and their fit to whole trajectories in a moment."""
