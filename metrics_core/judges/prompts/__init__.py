"""The prompts as files, one system message each; `answerkey.metrics_core.judges.prompt` reads them."""
