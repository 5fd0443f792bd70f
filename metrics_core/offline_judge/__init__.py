"""A judge without a language model: rules and a small trained model for pairs, and facts of a text."""
