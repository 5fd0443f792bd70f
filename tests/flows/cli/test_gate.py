"""`answerkey gate` and `answerkey calibrate` as their users and CI systems start them."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.tasks.comparing_help import answer, release
from tests.tasks.gating_help import Made, warehouse
from tests.tasks.staging_help import query

ROOT = Path(__file__).resolve().parents[3]
Cli = Callable[..., subprocess.CompletedProcess[str]]
FIELD = "label.correct"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four releases with 500 right or wrong answers: two alike, one worse, one with failures; and a hostile name."""
    folder = tmp_path_factory.mktemp("gated")

    def scores(wrong: int, failed: int = 0) -> dict[str, float | str | None]:
        found: dict[str, float | str | None] = {f"q{i:03}": float(i >= wrong) for i in range(500)}
        return found | {f"q{i:03}": "failed" for i in range(400, 400 + failed)}

    names = {"old": scores(50), "same": scores(50), "worse": scores(150), "thin": scores(50, failed=40)}
    nasty = {"[red]<b>\x1b[2J\u202e": scores(55)}
    warehouse(folder, [Made(name, {FIELD: found}) for name, found in (names | nasty).items()])
    return folder


@pytest.mark.parametrize(
    ("new", "margin", "code", "outcome"),
    [
        ("same", 0.02, 0, "PASS"),
        ("worse", 0.02, 1, "FAIL"),
        ("same", 0.001, 3, "INCONCLUSIVE"),
        ("thin", 0.02, 4, "INCOMPLETE"),
    ],
)
def test_the_exit_code_is_the_verdict(
    bare_cli: Cli, home: Path, tmp_path: Path, new: str, margin: float, code: int, outcome: str
) -> None:
    xml = tmp_path / "gate.xml"
    result = bare_cli(
        "gate", "old", new, "--primary", FIELD, "--margin", margin, "--home", home, "--json", "-", "--junit", xml
    )
    assert result.returncode == code, result.stderr
    content = json.loads(result.stdout)
    assert (content["outcome"], content["exit_code"], content["old"]) == (outcome, code, "faq/old/v1")
    [suite] = ElementTree.parse(xml).getroot()
    assert [case.get("name") for case in suite.findall("testcase")] == content["policy"]
    assert int(suite.get("failures", "")) + int(suite.get("errors", "")) == sum(
        rule["outcome"] != "PASS" for rule in content["rules"]
    )


def test_a_policy_file_and_the_text(bare_cli: Cli, home: Path, tmp_path: Path) -> None:
    file, written = tmp_path / "gate.yaml", tmp_path / "verdict.json"
    file.write_text(f"primary: {FIELD}\nmargin: 0.05\nrules: [level {FIELD} >= 0.8]\n")
    result = bare_cli("gate", "faq/old/v1", "faq/same/v1", "--policy", file, "--home", home, "--json", written)
    assert result.returncode == 0, result.stderr
    first, *lines = result.stdout.splitlines()
    assert first.startswith("PASS  same may ship in place of old, all 3 rules hold: label.correct went")
    assert [line.split("  ")[0].strip() for line in lines if " PASS " in line] == [
        "label.correct >= -0.05", "level label.correct >= 0.8", "coverage >= 0.95",
    ]  # fmt: skip
    assert json.loads(written.read_text())["outcome"] == "PASS"


def test_looks_and_candidates_are_counted_and_kept(bare_cli: Cli, home: Path, tmp_path: Path) -> None:
    xml, file = tmp_path / "gate.xml", tmp_path / "gate.yaml"
    options = ("--primary", FIELD, "--margin", 0.05, "--looks", "repeated", "--home", home)
    result = bare_cli("gate", "old", "same", *options, "--json", "-", "--junit", xml)
    content = json.loads(result.stdout)
    assert (content["look"], content["candidates"], content["level"]) == (1, 1, 0.975)
    assert "97.5 % interval" in content["sentence"]
    assert content["sentence"].endswith(
        "This is look 1: intervals at 97.5 %, so that all looks together keep the error rate of one."
    )
    [suite] = ElementTree.parse(xml).getroot()
    kept = {one.get("name"): one.get("value") for one in suite.iter("property")}
    assert kept == {"look": "1", "candidates": "1", "level": "0.975"}
    file.write_text(f"primary: {FIELD}\nmargin: 0.05\n")
    reports = ("report", "same", "worse", "thin", "--baseline", "old", "--policy", file, "--home", home)
    found = json.loads(bare_cli(*reports, "--json").stdout)["verdicts"]
    assert [(one["look"], one["candidates"], one["level"]) for one in found] == [
        (1, 3, pytest.approx(1 - 0.05 / 3))
    ] * 3
    assert "98.3 % interval" in found[0]["sentence"]


def test_a_hostile_name_is_shown_and_does_nothing(bare_cli: Cli, home: Path) -> None:
    result = bare_cli("gate", "old", "[red]<b>\x1b[2J\u202e", "--primary", FIELD, "--margin", 0.05, "--home", home)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("PASS  [red]<b>�[2J� may ship")
    assert not {"\x1b", "\u202e"} & set(result.stdout)


def test_the_self_test_prints_rates_with_their_errors(bare_cli: Cli, home: Path) -> None:
    options = ("--primary", FIELD, "--margin", 0, "--home", home, "--self-test")
    result = bare_cli("gate", "old", "worse", *options)
    assert result.returncode == 0, result.stderr
    assert "The gate itself on simulated releases: 500 samples, drawn again and exchanged at random" in result.stdout
    [line] = [line for line in result.stdout.splitlines() if line.startswith("false alarms: ")]
    assert line.endswith(" % of equally good releases FAIL")
    assert float(line.split()[2]) < 5
    content = json.loads(bare_cli("gate", "old", "worse", *options, "--json", "-").stdout)
    assert [trial["name"] for trial in content["trials"]] == ["equal", "loss"]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "a gate needs a policy: --policy FILE, or --primary METRIC.FIELD --margin X"),
        (["--primary", FIELD], "options: margin: missing; write the loss of label.correct that does not matter"),
        (["--policy", "x.yaml", "--margin", "1"], "--policy and --margin: write the policy in the file or in options"),
        (["--policy", "none.yaml"], "none.yaml: No such file or directory"),
        (["--primary", FIELD, "--margin", "0.02", "--rule", "recall >= 1"], "options: rule 'recall >= 1': not underst"),
        (["--primary", FIELD, "--margin", "0.02", "--junit", "no/such/folder"], "no/such/folder: cannot be written"),
    ],
)
def test_bad_input_is_one_line_and_2(bare_cli: Cli, home: Path, arguments: list[str], line: str) -> None:
    result = bare_cli("gate", "old", "same", *arguments, "--home", home)
    assert (result.returncode, result.stdout) == (2, "")
    [found] = result.stderr.splitlines()
    assert found.startswith(f"answerkey: {line}")


def test_calibrate_prints_and_keeps(bare_cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "labels.csv"
    rows = [f"q{i},{'a' if i % 2 else 'b'},{int(i % 3 > 0)},{int(i % 4 > 0)}" for i in range(60)]
    file.write_text("\n".join(["id,release,label,verdict", *rows]))
    result = bare_cli("calibrate", "mine.match", "--labels", file, "--home", tmp_path / "home")
    assert result.returncode == 0, result.stderr
    assert [line.split()[:2] for line in result.stdout.splitlines() if "(" in line][1:] == [
        ["all", "60"], ["b", "30"], ["a", "30"],
    ]  # fmt: skip
    assert "signature: mine|stored" in result.stdout
    content = json.loads(
        bare_cli("calibrate", "mine.match", "--labels", file, "--home", tmp_path / "home", "--json").stdout
    )
    assert [part["release"] for part in content["calibrations"]] == [None, "b", "a"]
    refused = bare_cli("calibrate", "mine.match", "--map", "id=x", "--home", tmp_path / "home")
    assert refused.returncode == 2


def test_the_flow_keeps_a_calibration_and_shows_it(
    server: str, tmp_path: Path, ask: Callable[[str, object], list[dict[str, object]]]
) -> None:
    home = tmp_path / "home"
    scores = {f"q{i:03}": float(i % 3 > 0) for i in range(90)}
    labels = {f"q{i:03}": i % 4 > 0 for i in range(90)}
    warehouse(home, [Made("a", {"judge.match": scores}, labels=labels)])
    code = (
        "from answerkey.flows.calibrate_judge import calibrate_judge as f\n"
        f"print(f('judge.match', ['a'], home={str(home)!r}))"
    )
    environment = {**os.environ, "PREFECT_API_URL": server}
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.splitlines()[-1] == "judge|v1"
    assert [row[:2] for row in query(home, "SELECT release, n FROM calibrations ORDER BY release NULLS FIRST")] == [
        (None, 90), ("a", 90),
    ]  # fmt: skip
    [artifact] = ask("artifacts/filter", {"artifacts": {"key": {"any_": ["calibration-judge-match"]}}})
    assert [row["release"] for row in json.loads(str(artifact["data"]))] == ["all", "a"]


def test_the_verdict_stands_on_top_of_a_page(bare_cli: Cli, tmp_path: Path) -> None:
    home, policy = tmp_path / "home", tmp_path / "gate.yaml"
    for name, right in (("old", 50), ("new", 20)):
        release(home, name, [answer(i, "yes" if i < right else "no") for i in range(60)])
    policy.write_text("primary: exact_match.match\nmargin: 0.05\n")
    options = ("--policy", policy, "--home", home)
    result = bare_cli("gate", "old", "new", *options, "--html", tmp_path / "gate.html")
    assert result.returncode == 1, result.stderr
    page = (tmp_path / "gate.html").read_text(encoding="utf-8")
    assert "<title>d: FAIL, new</title>" in page
    assert "new must not ship in place of old: exact_match.match went from 0.833 to 0.333" in page
    result = bare_cli("report", "new", "--baseline", "old", *options, "--html", tmp_path / "report.html")
    assert (result.returncode, result.stdout) == (1, f"{tmp_path / 'report.html'}\n"), result.stderr
    assert "<title>d: FAIL, new</title>" in (tmp_path / "report.html").read_text(encoding="utf-8")
    result = bare_cli("report", "new", "--baseline", "old", *options)
    shown = result.stdout
    assert result.returncode == 1
    assert (
        shown.index("2 releases on d") < shown.index("d/old/v1 → d/new/v1: 60 samples") < shown.index("FAIL  new must")
    )
    missing = bare_cli("gate", "gone", "new", *options, "--html", tmp_path / "none.html")
    assert missing.returncode == 4
    assert "<title>d: INCOMPLETE, new</title>" in (tmp_path / "none.html").read_text(encoding="utf-8")
    for arguments, line in (
        (("gate", "old", "new", *options, "--html", "x", "--self-test"), "--html: a self-test has no verdict to write"),
        (("report", "old", "--baseline", "old", *options), "--baseline old: this is d/old/v1 itself; name a report"),
        (("report", "new", "--policy", policy, "--home", home), "--policy: a gate needs a release to compare with"),
    ):
        refused = bare_cli(*arguments)
        assert (refused.returncode, refused.stderr[: len(line) + 11]) == (2, f"answerkey: {line}")
