"""Measured series beside the models that people use for them."""
