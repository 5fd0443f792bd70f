"""The rubrics of this package as files; `answerkey.metrics_core.judges.rubric` reads them."""
