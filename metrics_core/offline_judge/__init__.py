"""A judge without a language model: rules and a small trained model for pairs, and a grammar that splits facts."""
