"""The experiments of the papers, those of one kind in a file."""
