"""Measurements of the project itself: how often it is right, how fast it is. Never tests."""
