"""What it takes to add something: docs/developing.md lists the files, and each addition is made in a copy and run."""

import json
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
        section = PAGE.read_text(encoding="utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
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
        "from answerkey.metrics_core import Sample, evaluate; from answerkey.flows.parameters import Scoring; "
        "Scoring(metrics=['same_start']); "
        "print(evaluate([Sample('1', 'Paris!', ['Paris'])], ['same_start'])[0].values)"
    )
    assert copy.run("-c", code) == "{'match': 1.0}\n"
    assert len(copy.touched) <= 2
    assert [Path(file).parent for file in listed("A metric")] == [Path(file).parent for file in copy.touched]


SHOW = """
import json
from prefect.utilities.callables import parameter_schema
from answerkey.flows.evaluate_release import evaluate_release
from answerkey.flows.parameters import Judging, Limits, Scoring
from answerkey.flows.rerun_report import Rerunning, again
from answerkey.flows.command_line import command_line

judging = Judging(judges=["openai/a"], tone="stern")
scoring = Scoring(metrics=["contains", "meaning_match"], edges=3)
forms = {"scoring": scoring, "judging": judging, "limits": Limits()}
parameters = {name: form.model_dump() for name, form in forms.items()}
definitions = parameter_schema(evaluate_release.fn).model_dump()["definitions"]
contains, _ = scoring.create()
rerun_scoring, rerun_judging, _ = again({"parameters": parameters}, Rerunning(report="r"))
print(json.dumps({
    "library": [judging.options().tone, contains.edges],
    "signature": contains.signature,
    "forms": [definitions["Judging"]["properties"]["tone"], definitions["Scoring"]["properties"]["edges"]],
    "manifest": [parameters["judging"]["tone"], parameters["scoring"]["edges"]],
    "rerun": [rerun_judging.tone, rerun_scoring.edges],
    "command": command_line({"data": {"answers": "a.csv"}, **parameters}),
}))
"""


@pytest.mark.nightly
def test_an_option_of_the_judge_and_one_of_a_metric(copy, listed):
    field = '    tone: str = Field("plain", title="Tone", description="How the judge speaks.")\n'
    place = "    jury: Annotated[Jury, NO_OPTION] = Field("
    copy.change("metrics_core/judges/options.py", (place, field + place))
    field = '    edges: int = option(0, title="Edges", description="Words left out at either end.", ge=0)\n\n'
    place = '    name = "contains"\n'
    below = "from answerkey.metrics_core.metric import NO_REFERENCE, Field, Metric, blank_outcome\n"
    copy.change(
        "metrics_core/metrics/words.py", (below, below.replace("outcome", "outcome, option")), (place, field + place)
    )
    for command in ("evaluate", "generate", "evaluate-registered"):
        page = copy.run("-m", "answerkey.flows.cli", command, "--help")
        assert "--tone TEXT" in page and "--edges" not in page, command
    shown = json.loads(copy.run("-c", SHOW))
    assert shown["library"] == shown["manifest"] == shown["rerun"] == ["stern", 3]
    assert "edges:3" in shown["signature"]
    about = [(one["title"], one["description"], one["default"], type(one["position"])) for one in shown["forms"]]
    assert about == [
        ("Tone", "How the judge speaks.", "plain", int), ("Edges", "Words left out at either end.", 0, int)
    ]  # fmt: skip
    assert shown["forms"][1]["minimum"] == 0
    assert "--tone stern" in shown["command"] and '"edges": 3' in shown["command"]
    assert copy.touched[:1] == listed("An option of the judge")
    assert [Path(file).parent for file in listed("An option of a metric")] == [Path("metrics_core/metrics")]


SOURCE = """
def _read_yaml(file: Path, _work: Path) -> Iterator[Raw]:
    import yaml

    for row, record in enumerate(yaml.safe_load(file.read_text(encoding="utf-8")), start=1):
        yield Raw(row, record)


_READERS:"""


def test_a_data_source(copy, listed):
    copy.change(
        "tasks/load/sources.py",
        ("\n_READERS:", SOURCE),
        ("    **dict.fromkeys(CSV, read_csv),\n", '    **dict.fromkeys(CSV, read_csv),\n    ".yaml": _read_yaml,\n'),
    )
    (copy.folder / "a.yaml").write_text("- {id: 1, answer: Paris, reference: Paris}\n", encoding="utf-8")
    code = (
        "from pathlib import Path; from answerkey.tasks.load.load import Source, load; "
        "print(load(Source('a.yaml', release='r'), Path('work')).n_rows)"
    )
    assert copy.run("-c", code) == "1\n"
    assert copy.touched == listed("A data source")


FLOW = '''"""Count the reports of a home."""

from __future__ import annotations

from answerkey.flows.prefect_or_local import flow
from answerkey.tasks.reports.report import list_reports
from answerkey.tasks.warehouse.home import Home


@flow(name="count-reports", description="How many reports there are.", flow_run_name="count")
def count_reports(home: str = ".answerkey") -> int:
    """How many reports there are in a home."""
    place = Home.parse(home)
    return len(list_reports(place)) if place.warehouse.exists() else 0
'''
DEPLOYMENT = """
  - name: count-reports
    entrypoint: flows/count_reports.py:count_reports
    tags: [answerkey]
    parameters: {home: .answerkey}
    work_pool: *pool
"""


@pytest.mark.nightly
def test_a_flow(copy, listed):
    copy.add("flows/count_reports.py", FLOW)
    text = (copy.folder / "deployments/prefect.yaml").read_text(encoding="utf-8")
    copy.change("deployments/prefect.yaml", (text, text.rstrip() + "\n" + DEPLOYMENT))
    code = (
        "from answerkey.flows import environment; from answerkey.tasks.warehouse.home import Home; "
        "environment.use_kept_server(Home.parse('.answerkey')); "
        "import yaml; from pathlib import Path; from prefect.flows import load_flow_from_entrypoint as load; "
        "one = yaml.safe_load(Path('deployments/prefect.yaml').read_text())['deployments'][-1]; "
        "print('reports:', load(one['entrypoint'])(**one['parameters']))"
    )
    assert copy.run("-c", code).splitlines()[-1] == "reports: 0"
    assert len(copy.touched) <= 3
    assert [Path(file).parent for file in listed("A flow")] == [Path(file).parent for file in copy.touched]
