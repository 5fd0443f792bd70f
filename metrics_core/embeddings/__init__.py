"""Sentence embeddings: models by name, chunking, batches, a cache on disk, the cosine."""
