"""Thresholds halved and doubled: what depends on each, in a battery of systems."""
