"""Score answers against answers known to be right, and decide whether a release may ship.

The packages `flows`, `tasks`, `metrics_core`, `deployments` and `examples` are the folders of those names at the top of
the repository. They are inside this package because whoever installs answerkey beside their own Prefect project has
packages called `flows` and `tasks` already.

>>> from answerkey import Sample, evaluate
>>> evaluate([Sample("1", "It is Paris.", ["Paris"])], ["contains"])[0].values
{'match': 1.0}
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from answerkey.metrics_core.judges.options import JudgeOptions
    from answerkey.metrics_core.llm.access import Access
    from answerkey.metrics_core.measurement import Failed, Measurement, Scored, Skipped, Undefined, Usage
    from answerkey.metrics_core.metric import Field, Metric, metric, option
    from answerkey.metrics_core.registry import METRICS, create
    from answerkey.metrics_core.sample import Sample
    from answerkey.tasks.notebook import Result, Results, evaluate

    __version__: str

__all__ = [
    "METRICS",
    "Access",
    "Failed",
    "Field",
    "JudgeOptions",
    "Measurement",
    "Metric",
    "Result",
    "Results",
    "Sample",
    "Scored",
    "Skipped",
    "Undefined",
    "Usage",
    "__version__",
    "create",
    "evaluate",
    "metric",
    "option",
]

_NAMES = {
    "metrics_core.judges.options": ("JudgeOptions",),
    "metrics_core.llm.access": ("Access",),
    "metrics_core.measurement": ("Failed", "Measurement", "Scored", "Skipped", "Undefined", "Usage"),
    "metrics_core.metric": ("Field", "Metric", "metric", "option"),
    "metrics_core.registry": ("METRICS", "create"),
    "metrics_core.sample": ("Sample",),
    "tasks.notebook": ("Result", "Results", "evaluate"),
}
"""The public names by module."""


def __getattr__(name: str) -> Any:
    # Only when something is used: the command line starts by importing this module.
    if name == "__version__":
        from importlib.metadata import version

        return version("answerkey")
    for module, names in _NAMES.items():
        if name in names:
            return getattr(import_module(f"answerkey.{module}"), name)
    raise AttributeError(f"module 'answerkey' has no attribute {name!r}")
