"""Scoring logged traces by rules: what a rule is, which traces it takes, and what became of each of them."""
