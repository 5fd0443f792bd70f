"""The prompts as files, one system message each; `metrics_core.judge.prompt` reads them."""
