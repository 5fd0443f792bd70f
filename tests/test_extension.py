"""What it takes to add something: docs/developing.md lists the files, and each addition is made in a copy and run."""

import os
import re
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.kit.waiting import FAULT_S
from tests.test_wheel import copy_sources
from tests.warm_command import WarmCommand

PAGE = ROOT / "docs/developing.md"


class Copy:
    """A scratch copy of the project, and the files that a test has touched in it."""

    def __init__(self, folder: Path, warm: WarmCommand, test: str) -> None:
        self.folder, self.touched, self._warm, self._test = folder, list[str](), warm, test

    def add(self, file: str, text: str) -> None:
        assert not (self.folder / file).exists()
        (self.folder / file).write_text(text, encoding="utf-8")
        self.touched.append(file)

    def change(self, file: str, *changes: tuple[str, str]) -> None:
        text = (self.folder / file).read_text(encoding="utf-8")
        for old, new in changes:
            assert text.count(old) == 1, (file, old, text.count(old))
            text = text.replace(old, new)
        (self.folder / file).write_text(text, encoding="utf-8")
        self.touched.append(file)

    def run(self, *arguments: str) -> str:
        """What Python prints in the copy: `-c CODE`, or `-m MODULE ARGUMENTS`."""
        guard = os.environ["PYTHONPATH"].split(os.pathsep)[0]
        # No process that has imported the copy as another test had it is forked for this one.
        environment = {**os.environ, "COPIED_FOR": self._test, "COLUMNS": "200"}
        environment["PYTHONPATH"] = os.pathsep.join([str(self.folder), guard])
        module, *words = arguments[1:]
        if arguments[0] == "-c":
            script = self.folder / "script.py"
            script.write_text(module, encoding="utf-8")
            module = str(script)
        done = self._warm.run(module, words, self.folder, environment, FAULT_S)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """One copy for all: each test adds something of another kind, and what it imports is compiled once."""
    return copy_sources(tmp_path_factory.mktemp("copy"))


@pytest.fixture
def copy(sources, warm_command, request):
    return Copy(sources, warm_command, request.node.name)


@pytest.fixture
def listed():
    """The files that the page lists under a heading."""

    def files(heading):
        section = PAGE.read_text(encoding="utf-8").split(f"### {heading}\n")[1].split("\n#")[0]
        return re.findall(r"^- `([^`]+)`", section, re.MULTILINE)

    return files


METRIC = '''"""Same start: the answer begins as a reference does."""

from __future__ import annotations

from dataclasses import dataclass

from answerkey.metrics_core.measurement import Scored
from answerkey.metrics_core.metrics.words import MATCH, LexicalMetric, References, matched


@dataclass(frozen=True)
class SameStart(LexicalMetric):
    """1 where the first letters are the same."""

    name = "same_start"
    summary = "the answer begins as a reference does"
    fields = MATCH
    method = "letters:3"

    def compare(self, answer: str, references: References) -> Scored:
        """The first three letters of each."""
        return matched(next((i for i, reference in references if reference[:3] == answer[:3]), None))
'''


@pytest.mark.real
def test_a_lexical_metric(copy, listed):
    copy.add("metrics_core/metrics/same_start.py", METRIC)
    copy.change(
        "metrics_core/registry.py",
        ("from answerkey.metrics_core.metrics.semantic_sim", "from answerkey.metrics_core.metrics.same_start import "
         "SameStart\nfrom answerkey.metrics_core.metrics.semantic_sim"),
        ("        Contains,\n", "        Contains,\n        SameStart,\n"),
    )  # fmt: skip
    assert "same_start" in copy.run("-m", "answerkey.flows.cli", "metrics")
    code = (
        "from answerkey import Sample, evaluate; from answerkey.flows.parameters import Scoring; "
        "Scoring(metrics=['same_start']); "
        "print(evaluate([Sample('1', 'Paris!', ['Paris'])], ['same_start'])[0].values)"
    )
    assert copy.run("-c", code) == "{'match': 1.0}\n"
    assert len(copy.touched) <= 2
    code_files = [Path(file) for file in listed("A metric") if file.endswith(".py")]
    assert [file.parent for file in code_files] == [Path(file).parent for file in copy.touched]


SOURCE = """
def _read_yaml(file: Path, _work: Path, _notes: list[str]) -> Iterator[Raw]:
    import yaml

    for row, record in enumerate(yaml.safe_load(file.read_text(encoding="utf-8")), start=1):
        yield Raw(row, record)


_READERS:"""


@pytest.mark.real
def test_a_data_source(copy, listed):
    copy.change(
        "tasks/load/sources.py",
        ("\n_READERS:", SOURCE),
        ('    ".json": ', '    ".yaml": _read_yaml,\n    ".json": '),
    )
    (copy.folder / "a.yaml").write_text("- {id: 1, answer: Paris, reference: Paris}\n", encoding="utf-8")
    code = (
        "from pathlib import Path; from answerkey.tasks.load.load import Source, load; "
        "print(load(Source('a.yaml', release='r'), Path('work')).n_rows)"
    )
    assert copy.run("-c", code) == "1\n"
    assert copy.touched == listed("A data source")
