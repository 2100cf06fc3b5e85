"""Laws of flows between compartments, for unmeasured and dosed states."""
