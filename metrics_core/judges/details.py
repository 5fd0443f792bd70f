"""Names in the details of a measurement that others than its metric read."""

from __future__ import annotations

OUT_OF_DEPTH = "out_of_depth"
"""Why the offline matcher should not be trusted on this sample."""
DECIDED_BY = "decided_by"
"""In a cascade: `offline`, or `judge`."""
