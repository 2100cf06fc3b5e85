"""What the engine finds and prints, kept: nothing may change it without a reason."""
