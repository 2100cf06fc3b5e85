"""Constants at the maximum of the likelihood, with errors, and simple where the data allow."""
