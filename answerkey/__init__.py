"""Score answers against answers known to be right, and decide whether a release may ship.

The packages `flows`, `tasks`, `metrics_core`, `deployments` and `examples` are the folders of those names at the top of
the repository. They are inside this package because whoever installs answerkey beside their own Prefect project has
packages called `flows` and `tasks` already.

>>> from answerkey import Sample, evaluate
>>> evaluate([Sample("1", "It is Paris.", ["Paris"])], ["contains"])[0].values
{'match': 1.0}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.metadata import version

    from answerkey.metrics_core import (
        METRICS,
        Access,
        Failed,
        Field,
        JudgeOptions,
        Measurement,
        Metric,
        Sample,
        Scored,
        Skipped,
        Undefined,
        Usage,
        create,
        metric,
        option,
    )
    from answerkey.tasks.notebook import Result, Results, evaluate

    __version__ = version("answerkey")

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


def __getattr__(name: str) -> Any:
    # Only when something is used: the command line starts by importing this module.
    if name == "__version__":
        from importlib.metadata import version

        return version("answerkey")
    if name not in __all__:
        raise AttributeError(f"module 'answerkey' has no attribute {name!r}")
    from answerkey import metrics_core

    if name in metrics_core.__all__:
        return getattr(metrics_core, name)
    from answerkey.tasks import notebook

    return getattr(notebook, name)
