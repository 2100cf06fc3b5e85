"""Laws grown term by term on the integral form."""
