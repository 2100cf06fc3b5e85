"""The experiments of the seminar, the slides and the report that look at one property of a unit."""
