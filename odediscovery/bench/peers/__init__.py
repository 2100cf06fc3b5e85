"""Other packages, and plain code, on the same task."""
