"""Score answers against answers known to be right: a pure library.

No files, no database, no orchestration; the network only through a model that the caller names.
"""

from answerkey.metrics_core.judges.options import JudgeOptions
from answerkey.metrics_core.llm.access import Access
from answerkey.metrics_core.measurement import Failed, Measurement, Scored, Skipped, Undefined, Usage
from answerkey.metrics_core.metric import Field, Metric, metric, option
from answerkey.metrics_core.registry import METRICS, create
from answerkey.metrics_core.sample import Sample

__all__ = [
    "METRICS",
    "Access",
    "Failed",
    "Field",
    "JudgeOptions",
    "Measurement",
    "Metric",
    "Sample",
    "Scored",
    "Skipped",
    "Undefined",
    "Usage",
    "create",
    "metric",
    "option",
]
