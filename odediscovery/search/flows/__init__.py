"""Laws of flows between compartments, for unmeasured states."""
