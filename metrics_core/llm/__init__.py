"""Asking language models, judges and models under test alike: requests, replies, rate limits and the ledger."""
