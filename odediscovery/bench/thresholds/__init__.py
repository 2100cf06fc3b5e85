"""Thresholds halved and doubled, rungs left out: what depends on each, in a battery of systems."""
