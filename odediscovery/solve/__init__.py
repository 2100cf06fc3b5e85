"""Initial value problems, their sensitivities and adjoints: one door to each solver."""
