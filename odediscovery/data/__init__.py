"""From a table to a `TimeSeries`: reading, controls that act on the system, noise and smoothing."""
