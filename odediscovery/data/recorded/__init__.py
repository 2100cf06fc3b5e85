"""What people have: columns computed from columns, times that restart or repeat, counts, starts, doses, breaks."""
