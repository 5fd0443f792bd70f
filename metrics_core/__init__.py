"""Score answers against answers known to be right: a pure library.

No files, no database, no orchestration; the network only through a model that the caller names.
"""
