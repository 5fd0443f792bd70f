"""What is written wrongly is one line on standard error that says what to write, with exit code 2; nothing starts."""

import json
import shlex
from pathlib import Path

import pytest

from tests.flows.conftest import ROOT
from tests.tasks.comparing_help import answer, releases
from tests.tasks.staging_help import query

KEY = "sk-0123456789abcdef0123456789abcdef"
NOWHERE = "http://127.0.0.1:9/v1"
GATE = "gate old same --primary label.correct --margin"
JUDGE = 'judge "Who?" "Ada Brown" "Ada did."'
GENERATE = f"generate --dataset QUESTIONS --release r --model openai/x@{NOWHERE}"
RULES = "score-traces RULES --rule words"
PLACES = "say where the key is (env:NAME, secret:BLOCK or variable:NAME); never give the key itself"
NO_PRICE = "its price is not known, so its cost cannot be limited; name the price (price), or limit the calls instead"
NO_JUDGE = "none of the metrics needs a judge; add meaning_match or ground_truth_similarity"
SAMPLES = "--samples: not with --html, whose page has all"
CASES = {
    "evalute a.csv": "evalute: there is no such command; did you mean evaluate?",
    "report --lst": "--lst: there is no such option; did you mean --list?",
    "report --policies x": "--policies: there is no such option; did you mean --policy?",
    "evaluate": "FILE is missing; see `answerkey evaluate --help`",
    "serve --port many": "--port many: write a whole number",
    "serve --database mysql://me:secret@x/y": "--database: give postgresql+asyncpg://USER@HOST/NAME",
    "evaluate nowhere.csv": "nowhere.csv: there is no such file; in its folder there is ",
    "evaluate ANSWERS --references gone.jsonl": "gone.jsonl: there is no such file; in its folder there is ",
    "evaluate ANSWERS --metrics rouge_ll": "metric 'rouge_ll' is not known: did you mean rouge_l?",
    "evaluate ANSWERS --metrics rouge_l --threshold 0.5": "--threshold: none of these metrics has such an option",
    "evaluate ANSWERS --map idx=a": "--map idx=a: 'idx' is not a key; choose from id, question, answer, references, ",
    "evaluate ANSWERS --map id": "--map id: write KEY=PATH, for instance id=meta.question_id",
    "evaluate ANSWERS --config '{scoring: {profile: v9}}'": "--config:1: scoring.profile: choose from "
    "default, continuous_eval_v0_2, continuous_eval_v0_3",
    "evaluate ANSWERS --config '{scoring: {aggregation: best}}'": "--config:1: scoring.aggregation: choose "
    "from mean, median, min, max, vote, consensus",
    "evaluate ANSWERS --threshold 1.5": "--threshold 1.5: must be less than or equal to 1",
    "evaluate ANSWERS --dataset a/b": "--dataset 'a/b': use letters, digits, dots, dashes and underscores",
    "evaluate ANSWERS --min-coverage 1.5": "--min-coverage 1.5: must be less than or equal to 1",
    "evaluate ANSWERS --policy gone.yaml": "--policy: a gate needs a release to compare with; name one with --baseline",
    "evaluate ANSWERS --baseline a --policy gone.yaml": f"{ROOT}/gone.yaml: No such file or directory",
    "evaluate ANSWERS --baseline a --policy POLICY": "POLICY:1: margin: missing; write the largest loss of exact_match",
    "evaluate ANSWERS --metrics exact_match --baseline a --policy CERTAIN": "policy: rule 'level exact_match.match >= "
    "1': no release could pass, since exact_match.match is 0 to 1; write a floor between 0 and 1",
    f"{GATE} 0.1 --rule 'level label.correct >= 1'": "policy: rule 'level label.correct >= 1': no release could pass, ",
    f"{GATE} 0.1 --rule 'kappa label.correct >= 1'": "options: rule 'kappa label.correct >= 1': no judge could pass: ",
    "evaluate --config CONFIG": "CONFIG:2: judging.reapets: there is no such field; did you mean repeats?",
    "evaluate ANSWERS --cascade 0.02": "cascade needs a judge to ask where the offline one is undecided, like ",
    "evaluate ANSWERS --judge openai/x": "judge openai/x: no key; set OPENAI_API_KEY or ANSWERKEY_JUDGE_KEY, ",
    f"evaluate ANSWERS --judge openai/x --judge-key-from {KEY}": f"--judge-key-from: {PLACES}",
    f"evaluate ANSWERS --judge openai/x@{NOWHERE} --max-cost 1": f"judge openai/x@127.0.0.1:9/v1: {NO_PRICE}",
    "evaluate ANSWERS --judge openai/x --metrics contains": f"--judge: {NO_JUDGE}",
    "evaluate ANSWERS --dry-run --metrics bleu": f"--dry-run: {NO_JUDGE}",
    f"evaluate ANSWERS --metrics preference --judge openai/m@{NOWHERE}": "preference: it compares with the answers of "
    "a baseline",
    "generate": "--dataset is missing; see `answerkey generate --help`",
    f"{GENERATE} --template '{{topic}}: {{question}}'": "template: QUESTIONS has no column 'topic' with a text; there "
    "are question, id, lang",
    f"{GENERATE} --template '{{question'": "template: { near '{question' names no column; write {question}, and {{ or "
    "}} for a brace",
    f"{GENERATE} --key-from {KEY}": f"--key-from: {PLACES}",
    f"{GENERATE} --temperature -1": "--temperature -1.0: must be greater than or equal to 0",
    "evaluate ANSWERS --jury best": "--jury: set judging.jury in the file of --config",
    f"generate --dataset x --release r --model {KEY}": "--model: write PROVIDER/MODEL or PROVIDER/MODEL@http://address",
    f"{JUDGE} --judge nobody/x": "judge 'nobody/x': litellm knows no such provider; write PROVIDER/MODEL, ",
    f"{JUDGE} --judge offline,openai/x": "the offline judge cannot be part of a jury; name only the others",
    "evaluate ANSWERS --judge openai/x --cascade 0.5": "--cascade 0.5: must be less than 0.5",
    f"{JUDGE} --judge {KEY}": "--judge: write PROVIDER/MODEL or PROVIDER/MODEL@http://address, ",
    f"{JUDGE} --judge openai/x --judge-key-from env:NO_KEY": "the judge's key is not in env:NO_KEY: export NO_KEY",
    f"{JUDGE} --judge openai/x --judge-key-from secret:k": "the judge's key is not in secret:k: there is no Prefect ",
    f"{JUDGE} --judge openai/x --judge-base http://u:{KEY}@h/v1": "--judge-base: write the address of a server, ",
    f"{JUDGE} --judge openai/x --config '{{judging: {{jury: best}}}}'": "--config:1: judging.jury: choose "
    "from majority, unanimous, mean",
    f"{JUDGE} --metric bleu": "--metric bleu: choose from meaning_match, ground_truth_similarity",
    f"{JUDGE} --rubric RUBRIC": "RUBRIC:5: criterium: a rubric has no such key; did you mean criterion?",
    f"{RULES} --since yesterday": "--since yesterday: String should match pattern",
    f"{RULES}": "RULES:4: metric: metric 'blue' is not known: did you mean bleu?",
    "report nope": "nope: no such report or release in HOME; `answerkey report --list` shows them",
    "report --samples -1": "--samples -1: give a count",
    "report new --samples 1 --baseline old": SAMPLES,
    "report new --html HOME/pages/mine.html": "HOME/pages/mine.html: answerkey writes and removes the pages in "
    "HOME/pages; name another folder",
    "report old --baseline old": "--baseline old: this is d/old/v1 itself; name a report to compare with it",
    "report new --policy POLICY": "--policy: a gate needs a release to compare with; name one with --baseline",
    "compare old gone": "gone: no such report or release in HOME; ",
    "compare old old": "d/old/v1: a report cannot be compared with itself",
    "compare old new --fields f": "f: these reports have label.correct, exact_match.match, contains.match",
    "history label": "label: the reports in HOME ",
    "history": "history: name a METRIC.FIELD, for instance label.correct, or a rule with --rule",
    "gate old same": "a gate needs a policy: --policy FILE, or --primary METRIC.FIELD --margin X",
    "gate old same --primary label.correct": "options: margin: missing; write the largest loss of label.correct that",
    "gate old same --policy x.yaml --margin 1": "--policy and --margin: write the policy in the file or in options",
    "gate old same --policy none.yaml": "none.yaml: No such file or directory",
    "gate old same --primary exact.match --margin .1": "exact.match: neither report has such a field; did you mean "
    "exact_match.match?",
    f"{GATE} 0.02 --rule 'recall >= 1'": "options: rule 'recall >= 1': not underst",
    f"{GATE} 5": "policy: margin 5: a release that is far worse would pass, since label",
    f"{GATE} 0.02 --output no/such/folder": "--output no/such/folder: name the file .json, .xml, .html or .md",
    "gate old same --policy TWICE": "TWICE:3: margin: ",
    "calibrate mine.match --map id=x": "--map names columns of a labels file; give --labels FILE as well",
    "calibrate exact_match.match --learn 2": "--learn N: how many examples to choose, 1 to 50, for the rubric that",
    "calibrate exact_match.match --learn 2 --rubric refusal --out no/b.yaml": "no/b.yaml: cannot be written: its "
    "folder is missing or read-only",
    "calibrate exact_match.match --rubric refusal": "--rubric and --out go with --learn N: how many examples",
    "calibrate exact_match.match --judge openai/m": "--judge and --dry-run go with --learn",
    "warehouse forget d": "forget: name a sample, a release, or both for one answer",
    "warehouse maintain --older-than -1": "--older-than: write a number of days, from 1",
    "view --to HOME/site": "--to HOME/site: this is in the home; give a folder outside of it",
    "view --to HOME/answerkey.duckdb": "--to HOME/answerkey.duckdb: this is a file; give a folder",
}  # fmt: skip
WITHOUT_HOME = "evalute"


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """The home with three releases, and the files that the commands name."""
    folder = tmp_path_factory.mktemp("messages")
    rights = {"old": 20, "new": 30, "same": 20}
    rows = {name: [answer(i, "yes" if i < n else "no", i < n) for i in range(40)] for name, n in rights.items()}
    releases(folder / "home", rows, ("exact_match", "contains"))
    (folder / "home/pages").mkdir()
    files = {
        "ANSWERS": ("faq.jsonl", json.dumps({"id": "1", "answer": "a", "reference": "a", "release": "r"})),
        "QUESTIONS": ("q.jsonl", json.dumps({"id": "1", "question": "Who?", "reference": "a", "lang": "en"})),
        "POLICY": ("gate.yaml", "primary: exact_match.match\n"),
        "CERTAIN": ("certain.yaml", "primary: exact_match.match\nmargin: 0.1\nrules: [level exact_match.match >= 1]\n"),
        "TWICE": ("twice.yaml", "primary: exact_match.match\nmargin: 0.02\nmargin: 0.5\n"),
        "CONFIG": ("answerkey.yaml", "data: {answers: examples/answers.jsonl}\njudging: {reapets: 3}\n"),
        "RUBRIC": ("bad.yaml", "name: x\ninputs: [answer]\nscale: yes/no\ncriterion: Fine.\ncriterium: Fine.\n"),
        "RULES": ("rules.yaml", f"name: words\nsource: {folder}/faq.jsonl\nmapping: {{answer: answer, references: "
                  "reference}\nmetric: blue\n"),
    }  # fmt: skip
    for name, text in files.values():
        (folder / name).write_text(text)
    return {"HOME": str(folder / "home")} | {place: str(folder / name) for place, (name, _) in files.items()}


@pytest.mark.parametrize("command", CASES)
def test_it_is_said_in_one_line_what_is_wrong(places, refusal, command):
    line = CASES[command]
    for place, path in places.items():
        command, line = command.replace(place, path), line.replace(place, path)
    home = [] if command.startswith(WITHOUT_HOME) else ["--home", places["HOME"]]
    assert refusal(*shlex.split(command), *home)[: len(line)] == line
    flows = "('evaluate-release', 'score-traces')"
    assert query(Path(places["HOME"]), f"SELECT flow, message FROM runs WHERE flow IN {flows}") == []


@pytest.mark.parametrize(
    "command",
    [
        f"evaluate ANSWERS --api-key {KEY}",
        f"evaluate ANSWERS --judge-key={KEY}",
        f"evaluate ANSWERS --{KEY}",
        f"evaluate ANSWERS {KEY}",
        f"evaluate ANSWERS --judge {KEY}",
        f"evaluate ANSWERS --judge-base http://me:{KEY}@host/v1",
        f"evaluate ANSWERS --repeats {KEY}",
        f"evaluate ANSWERS --config '{{judging: {{jury: {KEY}}}}}'",
        f"rerun faq/a/v1 --judge-key-from {KEY}",
        KEY,
    ],
)
def test_a_pasted_key_is_not_repeated(places, refusal, command):
    assert KEY[:10] not in refusal(*shlex.split(command.replace("ANSWERS", places["ANSWERS"])))


@pytest.mark.parametrize("command", ["report", "gate a b --primary f.g --margin 0.1", "view", "warehouse maintain"])
def test_a_home_without_a_warehouse(refusal, tmp_path, command):
    assert refusal(*shlex.split(command), "--home", tmp_path / "none").startswith(
        f"{tmp_path}/none: no warehouse here yet"
    )
    assert list(tmp_path.iterdir()) == []
