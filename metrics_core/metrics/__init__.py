"""The metrics of this package, one per module."""
