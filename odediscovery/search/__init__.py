"""The search as data: rungs and strategies, one driver that climbs them, and where laws come from."""
