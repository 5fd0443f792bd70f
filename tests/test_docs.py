"""What the documents promise: their examples run and print what stands there, and their links lead somewhere."""

import contextlib
import io
import os
import re
import subprocess
import sys
from typing import get_args

import numpy as np
import pytest
import yaml

from answerkey import JudgeOptions, Sample, evaluate
from answerkey.flows.cli.tables import print_funnels
from answerkey.metrics_core.decide.policy import ALL, RuleKind
from answerkey.metrics_core.decide.power import needed_to_pass
from answerkey.metrics_core.judges.rubric import SHIPPED, read_rubric
from answerkey.metrics_core.llm.access import Access
from answerkey.metrics_core.policy_file import KEYS
from answerkey.metrics_core.registry import METRICS
from answerkey.tasks.gate.gate import read_policy
from answerkey.tasks.gate.verdicts import EXIT_CODES
from answerkey.tasks.publish.events import GATE_EVENTS, RUN_INCOMPLETE
from answerkey.tasks.traces.condition import parse_condition
from answerkey.tasks.traces.rules import KEYS as KEYS_OF_RULES
from answerkey.tasks.traces.rules import load_rules
from tests.conftest import ROOT
from tests.flows.deployed_help import CHROMIUM, in_a_browser
from tests.judge_server import JudgeServer
from tests.kit.processes import finished
from tests.kit.serving import served
from tests.tasks.publish.page.browser_help import barriers
from tests.tasks.staging_help import query
from tests.tasks.traces.tracing_help import run

DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "deployments/README.md",
]


def test_the_library_example_prints_what_stands_there():
    text = (ROOT / "docs/library.md").read_text(encoding="utf-8")
    code = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0]
    [expected] = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    assert printed.getvalue() == expected


def test_the_tutorial_on_custom_metrics_runs_and_prints_what_stands_there(tmp_path):
    text = (ROOT / "docs/custom_metrics.md").read_text(encoding="utf-8")
    code, expected = (re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL) for kind in ("python", "text"))
    script = tmp_path / "tutorial.py"
    script.write_text("".join(code), encoding="utf-8")
    process = finished([sys.executable, str(script)], check=True)
    assert process.stdout == "".join(expected)


def test_the_rubric_in_the_page_on_judges_of_your_own_judges(tmp_path):
    text = (ROOT / "docs/own_judge.md").read_text(encoding="utf-8")
    [rubric] = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    reference = (ROOT / "docs/rubric_file.md").read_text(encoding="utf-8")
    for number, other in enumerate(re.findall(r"```yaml\n(.*?)```", reference, re.DOTALL)):
        file = tmp_path / f"{number}.yaml"
        file.write_text(other, encoding="utf-8")
        assert len(read_rubric(str(file)).criteria) == 3
    file = tmp_path / "politeness.yaml"
    file.write_text(rubric, encoding="utf-8")
    with JudgeServer(lambda _body: '{"reason": "It snubs.", "verdict": "no"}') as server:
        judge = JudgeOptions(judges=("openai/gpt-4o-mini",), api_base=server.url)
        sample = Sample("1", "Read it.", question="When?")
        [measurement] = evaluate([sample], [str(file)], judge=judge, access=Access(api_key="k"))
    assert (dict(measurement.values), measurement.reason) == ({"polite": 0.0}, "It snubs.")
    [element] = re.findall(r"`(politeness\|v1\|.*?)`", text)
    plain = [re.sub("@[^|]*|prompt:[0-9a-f]+", "", signature) for signature in (measurement.signature, element)]
    assert plain[0] == plain[1]
    assert [name for name in SHIPPED if f"| `{name}` |" not in text] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files(document):
    targets = re.findall(r"\]\(([^)#:]+)\)", document.read_text(encoding="utf-8"))
    assert [target for target in targets if not (document.parent / target).exists()] == []


def test_every_test_that_the_page_on_threats_names_is_there():
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs/threats.md").read_text(encoding="utf-8")))
    files = [file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("test_*.py")]
    there = {name for text in files for name in re.findall(r"^ *(?:async )?def (test_\w+)\(", text, re.MULTILINE)}
    assert len(named) >= 50
    assert named - there == set()


def test_every_metric_is_described():
    text = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    assert [name for name in METRICS if f"| `{name}` |" not in text] == []


def test_the_table_of_deployments_is_the_file():
    text = (ROOT / "deployments/README.md").read_text(encoding="utf-8")
    content = yaml.safe_load((ROOT / "deployments/prefect.yaml").read_text(encoding="utf-8"))
    listed = re.findall(r"^\| `([a-z-]+)` \|", text, re.MULTILINE)
    assert sorted(listed) == sorted(deployment["name"] for deployment in content["deployments"])


def test_the_policy_of_the_document_is_a_policy_and_every_kind_of_rule_is_there():
    text = (ROOT / "docs/policy.md").read_text(encoding="utf-8")
    [example] = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    policy = read_policy(example)
    assert {rule.kind for rule in policy.rules} == set(get_args(RuleKind))
    assert any(rule.slice != ALL for rule in policy.rules)
    assert list(yaml.safe_load(example)) == list(KEYS)
    [line] = re.findall(r"`(\{primary: [^`]*\})`", text)
    assert read_policy(line).primary.text == "meaning_match.match >= -0.02"


def test_equal_releases_pass_at_the_margins_of_the_page_with_a_power_of_80_percent():
    text = (ROOT / "docs/how_many_questions.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) % \| (.*) \|$", text, re.MULTILINE)
    for share, margins in rows:
        changes = np.repeat([1.0, -1.0, 0.0], [50 * int(share), 50 * int(share), 10_000 - 100 * int(share)])
        for margin, n in zip(map(float, margins.split(" | ")), (50, 200, 1000), strict=True):
            needed = needed_to_pass(changes, None, -margin, 0.0, binary=True, bounds=(-1, 1))
            assert needed == pytest.approx(n, rel=0.25)
    assert len(rows) == 4


def test_the_exit_codes_and_events_of_the_document_are_those_of_the_code():
    codes = dict(
        re.findall(r"^\| (\d) \| ([A-Z]+) \|", (ROOT / "docs/gate.md").read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert {name: int(code) for code, name in codes.items()} == EXIT_CODES
    text = (ROOT / "docs/policy.md").read_text(encoding="utf-8")
    first, *others = re.findall(r"`(answerkey\.gate\.\w+|\.\w+)`", text)
    named = {first, *(first.rpartition(".")[0] + other for other in others)}
    assert named == set(GATE_EVENTS.values())
    assert f"`{RUN_INCOMPLETE}`" in text


PAGE = (ROOT / "docs/traces.md").read_text(encoding="utf-8")
RULE_PAGE = (ROOT / "docs/trace_rule.md").read_text(encoding="utf-8")


def block(kind):
    [element] = re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)
    return str(element)


def test_the_rule_and_the_conditions_can_be_read_and_every_key_is_there(tmp_path):
    (tmp_path / "rule.yaml").write_text(block("yaml"), encoding="utf-8")
    [read] = load_rules([str(tmp_path / "rule.yaml")])
    assert (read.name, read.sampling, len(read.where), read.judge["max_calls"]) == ("faq-meaning", 0.1, 3, 500)
    shown = set(re.findall(r"^([a-z_]+):", block("yaml"), re.MULTILINE)) | set(re.findall(r"`([a-z_]+)`", RULE_PAGE))
    assert set(KEYS_OF_RULES) - shown == set()
    conditions = re.findall(r"`([^`]+)`", RULE_PAGE.split("| to select traces |")[1].split("\n\n")[0])
    assert len(conditions) > 10
    assert all(parse_condition(condition).columns for condition in conditions)


def test_the_table_is_what_the_examples_give_and_the_queries_run(tmp_path, capsys):
    [rule] = load_rules([str(ROOT / "examples/rules")], ["faq-words"])
    print_funnels([run(tmp_path, rule)], as_json=False)
    assert block("text").strip("\n") in capsys.readouterr().out
    for one in filter(str.strip, block("sql").split(";")):
        assert query(tmp_path, one)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The address of the built site."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "-q", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=True)
    with served(folder) as address:
        yield address


SEARCHED = {
    "hallucination": "rag",
    "pairwise": "pairwise",
    "sample size": "how_many_questions",
    "rate limit": "judge_calls",
    "dag": "deployments",
    "workflow": "deployments",
    "schedule": "prefect_runs",
    "rerun": "reports",
    "gate": "gate",
    "precision": "metrics",
}
SEEN = [
    (1400, "light", "index"),
    (1400, "dark", "python"),
    (390, "light", "error_rates"),
    (390, "dark", "custom_metrics"),
    (390, "light", "404"),
]


@pytest.mark.nightly
@pytest.mark.skipif(not CHROMIUM.exists(), reason=f"no Chromium at {CHROMIUM}")
def test_the_site_has_no_barriers_and_its_search_finds_what_people_ask_for(site):
    with in_a_browser() as page:
        for width, scheme, name in SEEN:
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)
            page.goto(f"{site}/{name}.html")
            assert barriers(page) == [], (width, scheme, name)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (width, name)
        found = page.request.get(f"{site}/search/search_index.json").json()["docs"]
        for words, expected in SEARCHED.items():
            texts = [f"{entry['title']} {entry['text']}" for entry in found if entry["location"].startswith(expected)]
            assert any(words in text.lower() for text in texts), words
        assert "- [Install](install.md): " in page.request.get(f"{site}/llms.txt").text()
        assert page.request.get(f"{site}/install.md").text().startswith("# Install")


PER_PAGE = 950
"""Words of a page that is read from its beginning: 900, and a sentence more before it has to be cut."""


def test_no_page_outside_of_the_reference_is_long():
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    outside = {"index.md": "README.md", "deployments.md": "deployments/README.md", "changelog.md": "CHANGELOG.md"}
    names = re.findall(r"'([\w/]+\.md)'", str([part for part in nav if "Reference" not in part]))
    lengths = {
        name: len(re.findall(r"\S*\w\S*", (ROOT / outside.get(name, f"docs/{name}")).read_text(encoding="utf-8")))
        for name in names
    }
    assert len(lengths) > 30
    assert {name: words for name, words in lengths.items() if words > PER_PAGE} == {}
