"""Laws as numbers (`PowerSum`) and as sympy expressions (`Equations`): parsing, printing, penalties."""
