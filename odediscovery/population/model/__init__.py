"""The mixed model of many groups: one structure, constants of each group's own, its likelihood."""
