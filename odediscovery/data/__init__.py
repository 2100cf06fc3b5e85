"""From a table to a `TimeSeries`: reading, controls, noise and smoothing."""
