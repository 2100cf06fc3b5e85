"""The experiments of the papers, one file each: what was published beside what we get."""
