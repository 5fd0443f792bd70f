"""Intervals, tests, power, agreement and corrected means, as pure functions of arrays and sums."""
