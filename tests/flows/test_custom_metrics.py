"""Metrics of a user's own, from the command line and from a form: scored in processes, compared, gated, drawn."""

import os
import shutil
import signal
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.flows.deployed_help import Deployed
from tests.judge_server import JudgeServer, data_of
from tests.kit.waiting import wait_until
from tests.tasks.staging_help import jsonl, query

METRICS = ROOT / "tests/metrics_core/data/custom_metrics.py"
SPECS = [
    "contains",
    "custom_metrics:Politeness(threshold=.3)",
    "rude=custom_metrics:Politeness(threshold=0)",
    "custom_metrics:Fragile",
    "custom_metrics:Batched",
    "custom_metrics:short(words=2)",
    "custom_metrics:first_letter",
    "offered",
]
RUBRIC = "{name: manners, field: rude, inputs: [answer], criterion: The answer is rude., scale: yes/no}"
N = 1_800


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder as of installed packages: a module with metrics, and a distribution that offers one."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copy(METRICS, folder)
    (folder / "offering.py").write_text("def ends_well(answer, references):\n    return answer.endswith('!')\n")
    info = folder / "offering-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: offering\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[answerkey.metrics]\noffered = offering:ends_well\n")
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("custom") / "home"


def path_of(site):
    return os.pathsep.join(filter(None, (str(site), str(ROOT), os.environ.get("PYTHONPATH"))))


def answers_file(folder, n=N):
    """Answers of two releases; the second is ruder, and says what the fragile metric cannot bear."""
    said = {"old": ["please yes please", "yes please", "boom"], "new": ["yes", "big", "nan", "none", "other"]}
    rows = [
        {
            "id": str(i),
            "release": release,
            "answer": texts[i % len(texts)] + (f" {i}" if i >= 40 else ""),
            "reference": "yes",
        }
        for release, texts in said.items()
        for i in range(n)
    ]
    return jsonl(folder / "polite.jsonl", rows)


@pytest.mark.real
def test_the_command_line_takes_them_and_processes_score_them(cli, bare_cli, site, home, tmp_path):
    path = path_of(site)
    policy = "{primary: politeness.share, margin: 0.1}"
    result = cli(
        "evaluate", answers_file(tmp_path), "--metrics", ",".join(SPECS), "--baseline", "old", "--policy", policy,
        "--min-coverage", "0.1", page=True, PYTHONPATH=path, code=1,
    )  # fmt: skip
    scores = dict(
        query(home, "SELECT metric || '.' || field, mean FROM report_scores WHERE slice = 'all' AND release = 'old'")
    )
    assert scores["politeness.polite"] == pytest.approx(2 / 3, abs=0.01)
    assert scores["rude.polite"] == 1.0
    assert set(scores) == {
        "contains.match", "politeness.polite", "politeness.share", "rude.polite", "rude.share", "fragile.grade",
        "batched.grade", "short.score", "first_letter.score", "ends_well.score",
    }  # fmt: skip
    failed = "SELECT DISTINCT reason FROM scores WHERE status = 'failed' AND metric = '{}'"
    reasons = {reason for (reason,) in query(home, failed.format("batched"))}
    assert reasons == {
        "exception: RuntimeError: cannot bear this", "invalid value: grade is 1.5, outside 0.0 to 1.0",
        "invalid value: values for grad; expected grade",
    }  # fmt: skip
    reasons = {reason for (reason,) in query(home, failed.format("fragile"))}
    assert reasons == {
        "exception: RuntimeError: cannot bear this", "invalid value: grade is 1.5, outside 0.0 to 1.0",
        "invalid value: grade is nan, outside 0.0 to 1.0", "invalid value: values for grad; expected grade",
    }  # fmt: skip
    assert "must not ship" in result.stdout
    [page] = (home / "pages").glob("[!_]*/*.html")
    assert "Whether an answer is polite, and how much of it is." in page.read_text(encoding="utf-8")
    listed = bare_cli("metrics", PYTHONPATH=path)
    assert "offered" in listed.stdout


CALLS = """\
from dataclasses import dataclass
from answerkey import Field, Metric

@dataclass(frozen=True)
class Calls(Metric):
    name, columns, needs = "calls", ("tools", "messages", "plan"), frozenset()
    fields = (Field("score", "Whether the calls were right."),)

    def score(self, sample):
        tools, messages, plan = (sample.columns[name] for name in self.columns)
        called = [call["name"] for turn in messages for call in turn.get("tool_calls", ())]
        return {expression}
"""


def test_an_edited_metric_scores_again_what_was_given_and_says_what_it_raised(
    bare_cli, tmp_path, own_home, monkeypatch
):
    monkeypatch.syspath_prepend(tmp_path)
    # An edit in the same second would not be seen
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    calls = [{"id": "c", "type": "function", "function": {"name": "find", "arguments": "{}"}}]
    messages = [{"role": "user", "content": "Where?"}, {"role": "assistant", "content": "Here.", "tool_calls": calls}]
    rows = [
        {"id": str(n), "answer": "Here.", "tools": tools, "plan": "[free", "messages": messages}
        for n, tools in enumerate([["find"], ["find", "ask"], ["ask"], ["find"]])
    ]
    file = jsonl(tmp_path / "chats.jsonl", rows)

    def scored(expression, **changes):
        (tmp_path / "calls_of.py").write_text(CALLS.replace("{expression}", expression))
        sys.modules.pop("calls_of", None)
        return bare_cli(
            "evaluate", file, "--metrics", "calls_of:Calls", "--dataset", "chats", "--release", "new",
            "--max-quarantined", "0", **changes
        ).stdout  # fmt: skip

    def means():
        return query(own_home, "SELECT report_id, mean FROM report_scores WHERE slice = 'all' ORDER BY report_id")

    scored("float(called == tools and plan == '[free')", code=0)
    assert means() == [("chats/new/v1", 0.5)]
    # Another source: all rows are scored again, and the scores of both are kept.
    scored("float(called[0] in tools)", code=0)
    assert means() == [("chats/new/v1", 0.5), ("chats/new/v2", 0.75)]
    without_score = " ".join(scored("tools['find'] if tools == ['ask'] else 8").split())
    assert "calls: 4 of 4 not scored: 3 invalid value (score is 8.0, outside 0.0 to 1.0), 1 exception (TypeError: " in (
        without_score
    )
    assert "list indices must be integers or slices, not str" in without_score


@pytest.fixture
def judge():
    with JudgeServer(lambda _body: '{"reason": "So it reads.", "verdict": "no"}') as server:
        yield server


@pytest.fixture
def served(server, site, tmp_path):
    """The flow on a server, with a process that runs it where the module is installed."""
    entrypoint = "flows/evaluate_release.py:evaluate_release"
    flow = f"prefect.flow.from_source(source={str(ROOT)!r}, entrypoint={entrypoint!r})"
    code = f"import prefect; {flow}.serve(name='own-metrics')"
    environment = {**os.environ, "PREFECT_API_URL": server, "PYTHONPATH": path_of(site), "JUDGE_KEY": "none"}
    with (tmp_path / "serve.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", code], cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True
        )
    yield
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.real
@pytest.mark.usefixtures("served")
def test_the_form_of_a_server_takes_them(server, judge, tmp_path, own_home):
    deployed = Deployed(server, tmp_path)
    named = {"deployments": {"name": {"any_": ["own-metrics"]}}}
    wait_until(lambda: deployed.ask("POST", "deployments/filter", named), "the deployment")
    rubric = tmp_path / "manners.yaml"
    rubric.write_text(RUBRIC)
    parameters = {
        "data": {"answers": str(answers_file(tmp_path, 6))},
        "scoring": {
            "metrics": [],
            "own_metrics": [
                "custom_metrics:Politeness(threshold=.3)", "x=custom_metrics:short", "custom_metrics:first_letter",
                str(rubric),
            ],
        },
        "judging": {"judges": [f"openai/m@{judge.url}"], "key_from": "env:JUDGE_KEY"},
        "home": str(own_home), "page": False,
    }  # fmt: skip
    run = deployed.wait(deployed.start("own-metrics", parameters))
    assert run["state_type"] == "COMPLETED", run["state"]["message"]
    fields = query(own_home, "SELECT DISTINCT metric, field FROM report_scores ORDER BY ALL")
    assert fields == [
        ("first_letter", "score"), ("manners", "rude"), ("politeness", "polite"), ("politeness", "share"),
        ("x", "score"),
    ]  # fmt: skip
    assert query(own_home, "SELECT DISTINCT prompt LIKE 'manners@%' FROM judge_calls") == [(True,)]
    assert {data_of(request.body)["answer"] for request in judge.requests} == set(
        said for (said,) in query(own_home, "SELECT DISTINCT answer FROM answers")
    )
