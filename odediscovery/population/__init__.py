"""One law for many groups, and the variation of its constants between groups."""
