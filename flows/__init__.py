"""What a user starts: flows, their parameters and the command line."""
