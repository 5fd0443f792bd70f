"""Score answers against answers known to be right: a pure library.

No files, no database, no orchestration; the network only through a model that the caller names.
"""

from metrics_core.evaluate import evaluate
from metrics_core.judge.options import JudgeOptions
from metrics_core.measurement import Failed, Measurement, Scored, Skipped, Undefined, Usage
from metrics_core.metric import Field, Metric
from metrics_core.registry import METRICS, Options, create
from metrics_core.sample import Sample

__all__ = [
    "METRICS",
    "Failed",
    "Field",
    "JudgeOptions",
    "Measurement",
    "Metric",
    "Options",
    "Sample",
    "Scored",
    "Skipped",
    "Undefined",
    "Usage",
    "create",
    "evaluate",
]
