"""A law as numbers (`PowerSum`) and as sympy (`Equations`): parsed, printed, priced."""
