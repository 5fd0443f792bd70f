"""The release gate: policy, evidence and verdict."""
