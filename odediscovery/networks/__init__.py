"""`VectorField`, a chain of units, and the conversion of networks to laws and back."""
