"""Similarity of meaning: sentence embeddings and their cosine."""
