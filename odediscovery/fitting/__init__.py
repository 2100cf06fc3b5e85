"""Least squares on windows of consecutive samples, batched over members, for training and pruning."""
