"""Compare: two reports, paired by sample."""
