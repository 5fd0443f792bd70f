"""Steps of the pipeline: readers, validation, scoring, the warehouse."""
