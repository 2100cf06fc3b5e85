"""`VectorField`, a chain of units, and the way from a network to a law and back."""
