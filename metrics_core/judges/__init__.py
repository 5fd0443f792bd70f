"""Metrics scored by judges: options, prompts, votes, facts, calibration and cost estimates."""
