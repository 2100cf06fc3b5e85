"""Random laws that their samples identify: systems that nobody tuned the search to."""
