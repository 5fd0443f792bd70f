"""Load: read files, URLs and tables, map their columns, and stage the rows."""
