"""The release gate: policy, evidence, verdict, and the simulation of its error rates."""
