"""Files as other tools write them, with the same three questions and answers in each.

The shapes are those of the tools; what is asked and answered is ours. Each lies in a folder of `exports/`.
"""

from dataclasses import dataclass
from pathlib import Path

import yaml

FOLDER = Path(__file__).with_name("exports")
QUESTIONS = (
    "How many moons does Mars have?",
    "Which metal is liquid in a warm room?",
    "Which mountain is the highest of the Alps?",
)
RIGHT = ("Two", "Mercury", "Mont Blanc")
ANSWERS = ("Mars has two moons", "Mercury", "The Matterhorn, at 4,478 m")


@dataclass(frozen=True)
class Export:
    """A file of a tool. `says` is part of the line that tells what it was recognised as.

    `releases` are those in the file; where there are none, a user has to name one.
    """

    name: str
    file: str
    says: str
    releases: tuple[str, ...] = ()
    references: str | None = None
    context: tuple[str, ...] = ()
    questions: bool = True

    @property
    def content(self) -> bytes:
        return (FOLDER / self.name / self.file).read_bytes()


EXPORTS = [Export(name, **about) for name, about in yaml.safe_load((FOLDER / "index.yaml").read_text()).items()]
