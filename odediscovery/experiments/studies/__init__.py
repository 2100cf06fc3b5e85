"""The experiments of the papers, one file for each kind."""
