"""Initial value problems with their sensitivities and adjoints: the interfaces to the solvers."""
