"""Laws pruned constant by constant on windows of the data."""
