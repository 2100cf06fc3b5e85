"""The recipes of the paper: members trained, pruned and read as the study did."""
