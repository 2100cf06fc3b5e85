"""Train, grow, prune, polish: each takes a problem and laws, and returns laws."""
