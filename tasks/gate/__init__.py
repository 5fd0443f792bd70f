"""Gate: may the release ship? And calibration, whether a judge can be trusted with the question."""
