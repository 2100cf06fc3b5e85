"""The laws that a scientist tries first: a registry, and their fast fit to whole trajectories."""
