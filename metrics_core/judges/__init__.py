"""Metrics that ask a language model for a verdict, and what stands between the two."""
