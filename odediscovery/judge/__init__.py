"""Which law is claimed: criterion, residual tests, doubt, remarks."""
