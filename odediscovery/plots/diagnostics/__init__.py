"""Pictures for a critical reader: what is left, what each term does, where a law rests, how groups differ."""
