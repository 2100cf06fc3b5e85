"""Data and knowledge made dimensionless: the one value that every stage takes."""
