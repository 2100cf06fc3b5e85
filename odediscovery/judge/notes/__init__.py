"""Every message of the judge, in words: a function that returns a Note with its weight."""
