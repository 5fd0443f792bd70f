"""Score samples and data frames in memory, compare and decide: the library for notebooks, scripts and tests."""

from answerkey.tasks.notebook.result import Result, Results
from answerkey.tasks.notebook.score import evaluate

__all__ = ["Result", "Results", "evaluate"]
