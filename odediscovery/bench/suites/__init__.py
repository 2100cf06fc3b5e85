"""Systems with a known answer, and how often it is found."""
