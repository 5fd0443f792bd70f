"""The steps of the pipeline, one folder per box of the diagram, and the warehouse."""
