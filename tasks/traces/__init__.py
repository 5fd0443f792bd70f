"""Traces: score logged traces by rules, and account for each of them."""
