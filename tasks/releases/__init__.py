"""Releases: register, export and generate answers."""
