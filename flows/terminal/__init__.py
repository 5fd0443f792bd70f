"""What runs print for people, or as JSON for machines."""
