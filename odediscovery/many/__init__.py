"""Thousands of series, each with its own law: blocks of a table, tasks and a summary."""
