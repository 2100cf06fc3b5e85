"""What people have: computed columns, digits, times that restart, repeat or are rounded, counts, starts, doses."""
