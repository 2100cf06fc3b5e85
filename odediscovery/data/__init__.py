"""From a table to a `TimeSeries`: reading, inputs that act on the system, noise and smoothing."""
