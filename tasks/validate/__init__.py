"""Validate: the data contract, checked by Great Expectations; rows that break it go to quarantine."""
