"""The order in which laws are looked for."""
