"""Metrics on the words of two texts."""
