"""The objective (windows of consecutive samples) and its optimisers, batched over members."""
