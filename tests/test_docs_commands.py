"""Every command line of the documents, run where `make evaluate` has run, with models on loopback.

What cannot be run here is listed with the reason, and its commands and options are checked against the parser.
"""

import csv
import gzip
import json
import os
import re
import shlex
import shutil

import pytest
import yaml

from answerkey.flows.cli.main import make_app
from tests.conftest import ROOT
from tests.judge_brains import agreeable, data_of, parrot
from tests.judge_server import UNTESTED, JudgeServer
from tests.kit.processes import finished
from tests.kit.waiting import FAULT_S

OWN_SERVER = "http://127.0.0.1:8080/v1"
NOT_RUN = {
    r"make evaluate(?: NEW=v\d)?$|make serve$|make test$": "the fixture does the first; the others take long",
    r"uv |pip install |pipx |uvx |make setup$": "installs everything anew; tests/test_wheel.py installs the wheel",
    r"\. \.venv/bin/activate$|python3 -m venv ": "the commands run in that environment",
    r"export ": "the fixture sets what the commands need",
    r"answerkey view$": "does not end; tests/flows/cli/test_view.py starts it",
    r"answerkey label (?!.*--draw-only)": "does not end; tests/tasks/publish/page/test_label_page.py starts it",
    r"answerkey evaluate evouna_nq_dev.jsonl ": "a public data set, for which the page says where it is",
    r"answerkey evaluate answers.csv --map ": "shows how columns of other names are mapped",
    r"answerkey calibrate bem.match ": "verdicts of another judge on that data set",
    r"(ANSWERKEY_HOME=\S+ )?sh deployments/deploy.sh": "needs a server; tests/flows/test_deployments.py has one",
    r"answerkey register-release aurora-2 ": "tells a server; tests/flows/test_deployments.py has one",
    r"answerkey gate gpt-4 gpt-5 .*--keep$": "tests/flows/test_evaluate_release_gated.py keeps a gate",
    r"prefect ": "servers and settings of others, which the tests of deployments start",
    r"python -m answerkey.flows.prefect_server$": "does not end; tests/flows/test_prefect_server.py starts it",
    r"curl ": "sends an event to a server with a password",
    r"docker compose |cd deployments/cluster$|mkdir -m 700 secrets|chmod 644 secrets/": "needs Docker",
    r"pg_dump |pg_restore |createdb |aws ": "programs of PostgreSQL and of S3, on servers that are not there",
}
"""Lines, as they begin, and why they are not run here."""


def blocks(document):
    """The shell blocks of a document, each with the text block that follows it, if one does."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return re.findall(r"```(?:sh|bash)\n(.*?)```(?:\n\n```text\n(.*?)```)?", text, re.DOTALL)


def lines(block):
    """The command lines of a block, each whole and without its comment."""
    found = [line for line in block.replace("\\\n", " ").splitlines() if line.strip() and not line.startswith("#")]
    return [re.split(r"\s{2,}#|(?<=\S) # ", line)[0].strip() for line in found]


def can_run(line):
    return not any(re.match(beginning, line) for beginning in NOT_RUN)


def commands(document):
    """What of a document can be run."""
    return list(filter(can_run, every_line(document)))


def every_line(document):
    return [line for block, _ in blocks(document) for line in lines(block)]


@pytest.fixture(scope="module")
def judge():
    with JudgeServer(obliging) as server:
        yield server


def obliging(body):
    """What a model says: an answer to a question, yes to prompts of ours, and no to a rubric where it is rude."""
    try:
        data = data_of(body)
    except ValueError:
        return parrot(body)
    if "first" in data:
        return json.dumps({"reason": "It says more.", "verdict": max(("first", "second"), key=lambda name: data[name])})
    if "references" in data or "reference" in data:
        return agreeable(body)
    rude = any(word in data["answer"] for word in ("fool", "Read the door"))
    return json.dumps({"reason": "So it reads.", "verdict": "no" if rude else "yes"})


@pytest.fixture(scope="module")
def answerkey(warm_command, judge):
    def run(folder, arguments):
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("ANSWERKEY_")}
        environment = {**inherited, "OPENAI_API_KEY": "k", "OPENAI_API_BASE": judge.url, "COLUMNS": "100"}
        arguments = [one.replace(OWN_SERVER, judge.url) for one in arguments]
        if arguments[0] == "evaluate" and "--judge" in arguments and "--config" not in arguments:
            # The check would stop a judge that says yes to whatever it is asked.
            arguments += UNTESTED
        return warm_command.run("answerkey.flows.cli", arguments, folder, environment, FAULT_S)

    return run


@pytest.fixture(scope="module")
def evaluated(answerkey, tmp_path_factory):
    """A folder with the examples, and the home that an evaluation of the museum and `make evaluate` leave."""
    folder = tmp_path_factory.mktemp("evaluated")
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    for words in (["evaluate", "examples/museum.csv"], make_evaluate("v2")):
        process = answerkey(folder, words)
        assert process.returncode == 0, process.stderr
    return folder


def make_evaluate(release):
    """The words of the command of `make evaluate NEW=release`."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    [recipe] = re.findall(r"answerkey (evaluate examples.*?)\$\(ARGS\)", makefile, re.DOTALL)
    return shlex.split(recipe.replace("\\\n", " ").replace("$(NEW)", release))


@pytest.mark.real
@pytest.mark.parametrize(("release", "exit_code"), [("v2", 0), ("v3", 1), ("v4", 3)])
def test_the_releases_of_the_help_desk_are_decided_as_their_readme_says(answerkey, place, release, exit_code):
    process = answerkey(place, [*make_evaluate(release), "--json"])

    assert process.returncode == exit_code
    [verdict] = json.loads(process.stdout)["verdicts"]
    readme = (ROOT / "examples/README.md").read_text(encoding="utf-8")
    [row] = [line for line in readme.splitlines() if line.startswith(f"| NEW={release} |")]
    assert f"| {verdict['outcome']} |" in row
    primary = verdict["rules"][0]
    assert f"{primary['value']:+.3f}, {primary['low']:+.3f} to {primary['high']:+.3f}" in row


@pytest.fixture
def place(evaluated, tmp_path):
    return shutil.copytree(evaluated, tmp_path / "place")


def check(answerkey, folder, line):
    """Run a line; a gate may say what it likes, all others succeed. Returns what it printed."""
    line = line.replace("/backups/", f"{folder}-backups/")
    if not line.startswith("answerkey "):
        return finished(["bash", "-ec", line], cwd=folder, check=True).stdout
    process = answerkey(folder, shlex.split(line)[1:])
    decides = " gate " in line or "--policy" in line
    assert process.returncode in ((0, 1, 3, 4) if decides else (0,)), f"{line}\n{process.stdout}{process.stderr}"
    assert "Traceback" not in process.stderr, f"{line}\n{process.stderr}"
    return process.stdout


@pytest.mark.real
def test_the_commands_of_the_readme_run(answerkey, place):
    command_lines = commands("README.md")
    assert len(command_lines) == 5
    for line in command_lines:
        check(answerkey, place, line)


@pytest.mark.real
def test_the_readme_shows_what_a_first_run_prints(answerkey, place):
    [text] = re.findall(r"```text\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    printed = " ".join(answerkey(place, make_evaluate("v2")).stdout.split())
    for part in text.split("\n\n"):
        assert " ".join(part.split()) in printed


@pytest.mark.real
def test_the_tutorial_prints_what_stands_there(answerkey, place):
    shown = 0
    for block, text in blocks("docs/tutorial.md"):
        printed = "".join(check(answerkey, place, line) for line in filter(can_run, lines(block)))
        if text:
            shown += 1
            # Long lines are broken in the document, and "…" stands for what it leaves out.
            for part in text.split("…"):
                assert " ".join(part.split()) in " ".join(printed.split())
    assert shown == 5
    assert (place / "report.html").is_file()


@pytest.mark.nightly
def test_the_job_for_github_actions_runs(answerkey, place):
    job, gitlab = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/ci.md").read_text(encoding="utf-8"), re.DOTALL)
    inputs = yaml.safe_load(job)["jobs"]["gate"]["steps"][1]["with"]
    action = yaml.safe_load((ROOT / "deployments/github-action/action.yml").read_text(encoding="utf-8"))
    steps = action["runs"]["steps"]
    assert inputs.keys() == {name for name, about in action["inputs"].items() if about.get("required")}
    rows = (place / "examples/museum.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    (place / "evaluation").mkdir()
    for name, release in (("released", "old"), ("candidate", "new")):
        own = [line.replace(f",{release},", ",") for line in rows[1:] if f",{release}," in line]
        content = rows[0].replace("release,", "") + "".join(own)
        (place / f"evaluation/{name}.csv").write_text(content, encoding="utf-8")
    on_gitlab = yaml.safe_load(gitlab)["gate"]["script"]
    policy = "primary: meaning_match.match\nmargin: 0.1\n"
    (place / "evaluation/gate.yaml").write_text(policy, encoding="utf-8")
    asked = [line for step in steps if "run" in step for line in lines(step["run"]) if line.startswith("answerkey ")]
    assert [line.split()[1] for line in asked] == ["evaluate", "evaluate", "gate"]
    for line in asked:
        given = re.sub(r"\$([A-Z]+)\b", lambda name: inputs.get(name[1].lower(), ""), line)
        check(answerkey, place, given)
        # The job for GitLab asks the same, but for the comment.
        words = [
            word for word in shlex.split(given.replace("--output gate.md", "")) if word not in ("--quiet", "--link")
        ]
        assert any(shlex.split(one) == [word for word in words if "/actions/" not in word] for one in on_gitlab), words
    comment = (place / "gate.md").read_text(encoding="utf-8").splitlines()
    assert comment[0] == "## PASS: candidate in place of released" and len(comment) <= 40
    assert (place / "gate.xml").is_file()
    assert (place / "gate.html").is_file()


PAGES = (
    "backup", "calibrating", "comparing", "data", "expectations", "gate", "generating", "how_many_questions", "install",
    "judge", "judge_calls", "labelling", "migrating", "own_judge", "pairwise", "rag",
    "reports", "traces", "warehouse",
)  # fmt: skip


@pytest.mark.nightly
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run(answerkey, place, page):
    bring_files(place, page)
    command_lines = commands(f"docs/{page}.md")
    assert command_lines
    for line in command_lines:
        check(answerkey, place, line)


def bring_files(place, page):
    """The files that a page speaks of as the reader's own."""
    text = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")
    yamls = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    if page == "expectations":
        (place / "suite.yaml").write_text(yamls[0], encoding="utf-8")
    museum = list(csv.DictReader((place / "examples/museum.csv").read_text(encoding="utf-8").splitlines()))
    if page == "data":
        [rows] = re.findall(r"```csv\n(.*?)```", text, re.DOTALL)
        (place / "answers.csv").write_text(rows, encoding="utf-8")
        (place / "questions.csv").write_text("id,question,reference\nq1,When does the museum open?,10 am\n")
    if page == "pairwise":
        both = [{**row, "release": {"old": "gpt-4", "new": "gpt-5"}[row["release"]]} for row in museum]
        (place / "both.jsonl").write_text("".join(json.dumps(row) + "\n" for row in both), encoding="utf-8")
    if page == "rag":
        [row] = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
        (place / "rag.jsonl").write_text(json.dumps(json.loads(row)) + "\n", encoding="utf-8")
    if page == "migrating":
        real = ROOT / "tests/tasks/load/files/real/museum"
        (place / "out.json").write_bytes(gzip.decompress((real / "promptfoo.json.gz").read_bytes()))
        shutil.copytree(real / "inspect", place / "logs")
    if page == "own_judge":
        (place / "judges").mkdir()
        (place / "judges/politeness.yaml").write_text(yamls[0], encoding="utf-8")
        labels = [f"{row['id']},{row['release']},{turn % 2}\n" for turn, row in enumerate(museum)]
        (place / "labels.csv").write_text("id,release,label\n" + "".join(labels), encoding="utf-8")
    with (place / "examples/helpdesk/v2.csv").open(encoding="utf-8", newline="") as file:
        labels = [f"{row['id']},{row['correct']}\n" for row in csv.DictReader(file) if row["correct"]]
    (place / "people.csv").write_text("id,label\n" + "".join(labels), encoding="utf-8")


DOCUMENTS = (
    "README.md",
    *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))),
    "deployments/README.md",
)
RUN = {"README.md", "docs/tutorial.md", *(f"docs/{page}.md" for page in PAGES)}
"""Documents whose command lines are run above."""


def test_what_is_not_run_is_there_and_so_are_the_tests_that_run_it_elsewhere():
    found = [line for document in DOCUMENTS for line in every_line(document)]
    for beginnings, reason in NOT_RUN.items():
        assert all(any(re.match(one, line) for line in found) for one in beginnings.split("|")), beginnings
        assert [file for file in re.findall(r"tests/[\w/]+\.py", reason) if not (ROOT / file).is_file()] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_command_line_is_run_or_it_is_said_why_not(document):
    others = [line for line in every_line(document) if not can_run(line)]
    assert document in RUN or others == every_line(document)
    for line in others:
        if line.startswith("answerkey "):
            make_app().parse_args(shlex.split(line)[1:], print_error=False, exit_on_error=False)


@pytest.mark.parametrize("document", [*DOCUMENTS, "docs/make_schema.py", "docs/site_pages.py"])
def test_commands_in_sentences_are_there_with_their_options(document):
    text, app = (ROOT / document).read_text(encoding="utf-8"), make_app()
    for command in re.findall(r"`answerkey ([a-z][^`]*)`", text):
        words = command.split()
        chain, apps, _ = app.parse_commands(words)
        assert chain, command
        names = {name for argument in apps[-1].assemble_argument_collection() for name in argument.names}
        assert {word.split("=")[0] for word in words if word.startswith("--")} <= {*names, "--help"}, command
