"""Which law is claimed: criterion, residual tests, doubt, stability, identifiability."""
