"""One law for many groups, and how its constants differ from group to group."""
