"""The files of other tools: each format is recognised by its shape, and read as rows with our columns."""
