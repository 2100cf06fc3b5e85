"""The recipes of the paper: members trained and read as in the study."""
