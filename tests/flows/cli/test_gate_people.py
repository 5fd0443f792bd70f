"""What a verdict rests on, at the command line: human labels, a judge that they correct, or a judge alone."""

import html
import json
import re
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from answerkey.tasks.warehouse.home import Home
from tests.tasks.comparing_help import answer
from tests.tasks.comparing_help import releases as evaluated
from tests.tasks.gating_help import Made, warehouse
from tests.tasks.staging_help import check_whole, query

MATCH, LABEL = "meaning_match.match", "label.correct"
OFFLINE = {"meaning_match": "meaning_match|v1|judge:offline@1"}
EXIT = {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 3, "INCOMPLETE": 4}
PLAIN = f"{{primary: {MATCH}, margin: 0.02}}"
RANDOM = f"{{primary: {MATCH}, margin: 0.02, labels: random}}"


def drawn(n, of, seed=1):
    return np.isin(np.arange(of), np.random.default_rng(seed).choice(of, n, replace=False))


def column(values, there=None):
    return {f"q{i:04}": float(value) if there is None or there[i] else None for i, value in enumerate(values.tolist())}


def releases(home, truth, judge, labelled):
    """Two releases with a judge's scores and, for the samples `labelled`, the labels of people; None: no labels."""
    made = []
    for name, right, score in zip(("old", "new"), truth, judge, strict=True):
        labels = {} if labelled is None else {LABEL: column(right, labelled)}
        made.append(Made(name, {MATCH: column(score)} | labels, signatures=OFFLINE))
    warehouse(home, made)


def decided(cli, home, *options, policy=PLAIN):
    process = cli("gate", "old", "new", "--policy", policy, "--json", *options, "--home", str(home))
    assert process.stdout, process.stderr
    found: dict[str, Any] = json.loads(process.stdout)
    assert process.returncode == EXIT[found["outcome"]]
    return found


RIGHT, FOREIGN = "The capital is Paris", "Столица этой страны город Париж"
OTHER = {RIGHT: "Paris is the capital", FOREIGN: "Париж столица этой страны"}
SAME = "meaning_match.match went from 1.000 to 1.000 (+0.000, 95 % interval -0.010 to +0.010, 400 samples)"
UNDECIDED = f"It cannot be decided whether new may ship: {MATCH} (+0.000) decides nothing, because"
CASES: dict[str, tuple[int, str, str, str, str, str]] = {
    "people": (
        400, RIGHT, PLAIN, "FAIL", "people",
        "new must not ship in place of old: human labels went from 1.000 to 0.900 (-0.100, 95 % interval -0.134 to "
        "-0.071, 400 samples, all with labels in both releases; meaning_match.match says +0.000); it lost more than "
        "the 0.02 that is tolerated.",
    ),
    "people and judge": (
        150, RIGHT, RANDOM, "FAIL", "people and judge", "new must not ship in place of old: human labels differ by -0.",
    ),
    "judge in depth": (
        0, RIGHT, PLAIN, "PASS", "judge",
        f"new may ship in place of old: {SAME}; a loss of 0.02 or more is ruled out. "
        "This rests on the judge alone; no person has checked it.",
    ),
    "judge out of depth": (
        0, FOREIGN, PLAIN, "INCOMPLETE", "judge",
        f"{UNDECIDED} the judge flags 400 of 400 verdicts on old and 400 of 400 on new as outside its training data "
        "(400 in a script that it was not trained on)",
    ),
    "contradiction": (
        150, RIGHT, PLAIN, "INCOMPLETE", "judge",
        f"{UNDECIDED} people contradict it: in the labels of 150 samples the difference is -0.",
    ),
}  # fmt: skip
"""Labelled samples, the text of the old answers, policy, outcome, basis, sentence. People find 40 new ones wrong."""
MORE_CASES = {"people and judge", "contradiction", "judge out of depth"}


def test_how_many_labels_would_do_is_counted_in_labels_not_in_samples(cli, tmp_path):
    rng = np.random.default_rng(2)
    old = (rng.random(400) < 0.8).astype(float)
    truth = old, np.clip(old + rng.choice([-1, 0, 1], 400, p=[0.08, 0.84, 0.08]), 0, 1)
    releases(tmp_path, truth, [np.where(rng.random(400) < 0.15, 1 - right, right) for right in truth], drawn(60, 400))
    verdict = decided(cli, tmp_path, policy=RANDOM.replace("0.02", "0.05"))
    assert (verdict["outcome"], verdict["basis"]) == ("INCONCLUSIVE", "people and judge")
    # Fewer than there are samples, and more than have labels.
    assert verdict["sentence"].endswith(
        "a loss of 0.05 or more is not ruled out, and about 320 labels would rule it out with a power of 80 % if both "
        "releases are equally good."
    )


def pair(home, labelled, text):
    known = drawn(labelled, 400)
    rows = {
        name: [
            answer(i, OTHER[text] if i < wrong else text, i >= wrong if known[i] else None)
            | {"references": ["Париж" if text == FOREIGN else "Paris"]}
            for i in range(400)
        ]
        for name, wrong in (("old", 0), ("new", 40))
    }
    evaluated(home, rows, ("meaning_match",))


@pytest.mark.parametrize(
    "case", [pytest.param(name, marks=pytest.mark.nightly) if name in MORE_CASES else name for name in CASES]
)
def test_a_verdict_names_its_basis_everywhere(bare_cli, tmp_path, case):
    labelled, text, policy, outcome, basis, sentence = CASES[case]
    pair(tmp_path, labelled, text)
    files = {kind: tmp_path / f"gate.{kind}" for kind in ("md", "html", "xml", "json")}
    options = [word for file in files.values() for word in ("--output", str(file))]
    process = bare_cli("gate", "old", "new", "--policy", policy, *options, "--home", str(tmp_path))
    content = json.loads(files["json"].read_text(encoding="utf-8"))
    assert process.returncode == EXIT[outcome]
    assert (content["outcome"], content["basis"], content["sentence"][: len(sentence)]) == (outcome, basis, sentence)
    suite = ElementTree.parse(files["xml"]).getroot()[0]
    assert {element.get("name"): element.get("value") for element in suite.iter("property")}["basis"] == basis
    words = {"judge": "the judge alone", "people": "human labels"}.get(basis, "human labels, which correct the judge")
    assert f"- Basis: {words}\n" in files["md"].read_text(encoding="utf-8")
    assert f"Basis: <strong>{words}</strong>" in files["html"].read_text(encoding="utf-8")
    [first] = re.findall(r'<p class="sentence">(.*?)</p>', files["html"].read_text(encoding="utf-8"))
    plain = re.sub("<.*?>", "", html.unescape(first)).translate({0x2212: "-", 0xA0: " "})
    assert plain.startswith(sentence)
    rows = query(tmp_path, "SELECT outcome, basis, policy->>'labels', len(notes) FROM verdicts")
    assert rows == [(outcome, basis, "random" if policy == RANDOM else None, len(content["notes"]))]
    assert f"\nbasis: {words}\n" in process.stdout
    check_whole(Home(tmp_path))
    depth = next(rule for rule in content["rules"] if rule["rule"] == f"in depth {MATCH} >= 0.5")
    assert (depth["value"], depth["outcome"]) == ((0, "INCOMPLETE") if text == FOREIGN else (1, "PASS"))


def test_a_judge_out_of_its_depth_fails_nothing_either(bare_cli, tmp_path):
    scores = np.repeat([1.0, 0.0], [350, 150])
    depth = {"out_of_depth": {"meaning_match": {"of": 500, "why": {"longer than it was trained on": 260}}}}
    made = [
        Made(name, {MATCH: column(values)}, signatures=OFFLINE, judge=judge)
        for name, values, judge in (("old", np.ones(500), {}), ("new", scores, depth))
    ]
    warehouse(tmp_path, made)
    assert decided(bare_cli, tmp_path)["outcome"] == "INCOMPLETE"
    # Half of the verdicts may be flagged, and a policy may say otherwise.
    policy = f"{{primary: {MATCH}, margin: 0.02, rules: [in depth {MATCH} >= 0.4]}}"
    verdict = decided(bare_cli, tmp_path, policy=policy)
    assert verdict["outcome"] == "FAIL"
    assert (
        " The judge flags 0 of 500 verdicts on old and 260 of 500 on new as outside its training data."
        in (verdict["sentence"])
    )


def lenient_releases(home, labels, seed=0):
    """A new release that is 5 points worse, and a judge whose leniency with it hides the loss; random labels."""
    rng = np.random.default_rng(seed)
    old = (rng.random(1000) < 0.8).astype(float)
    new = np.where(rng.random(1000) < np.where(old == 1, 0.09 / 0.8, 0.04 / 0.2), 1 - old, old)
    judge = [
        np.where(right == 1, rng.random(1000) < 0.97, rng.random(1000) < fooled).astype(float)
        for right, fooled in ((old, 0.15), (new, 0.40))
    ]
    releases(home, (old, new), (judge[0], judge[1]), drawn(labels, 1000) if labels else None)


@pytest.mark.nightly
def test_a_judge_that_is_lenient_with_the_new_release_is_not_believed(bare_cli, tmp_path):
    for labels, policy, outcome in ((0, PLAIN, "PASS"), (400, PLAIN, "INCOMPLETE"), (400, RANDOM, "INCONCLUSIVE")):
        home = tmp_path / f"{labels}{outcome}"
        lenient_releases(home, labels)
        assert decided(bare_cli, home, policy=policy)["outcome"] == outcome
    # A policy may ask for room: the judge's bias was allowed to differ by this much.
    careful = f"{{primary: {MATCH}, margin: 0.02, judge_bias: 0.05}}"
    verdict = decided(bare_cli, tmp_path / "0PASS", policy=careful)
    assert verdict["outcome"] == "INCONCLUSIVE"
    assert "a loss of 0.02 or more is ruled out, but not by the 0.05 more that the policy wants" in verdict["sentence"]


@pytest.mark.nightly
def test_labels_that_were_picked_are_found_out(bare_cli, tmp_path):
    old = np.repeat([1.0, 0.0], [480, 120])
    new = old.copy()
    new[:30] = 0
    picked = drawn(190, 600) & (old == new)
    releases(tmp_path, (old, new), (old, new), picked)
    policy = f"{{primary: {LABEL}, margin: 0.04}}"
    n = int(picked.sum())
    for extra, outcome in (("", "INCOMPLETE"), (", labels: random", "INCOMPLETE"), (", labels: chosen", "PASS")):
        verdict = decided(bare_cli, tmp_path, policy=policy.replace("}", f"{extra}}}"))
        assert verdict["outcome"] == outcome, extra
        assert any(note.startswith(f"{n} of 600 samples have labels in both releases") for note in verdict["notes"])
        unlike = (
            f"{MATCH} went from {old[picked].mean():.3f} to {new[picked].mean():.3f} on the samples with labels, and"
        )
        assert unlike in " ".join([verdict["sentence"], *verdict["notes"]])
    # Of a random part nothing of the kind is said.
    releases(tmp_path / "drawn", (old, new), (old, new), drawn(190, 600))
    assert "are not like the others" not in json.dumps(decided(bare_cli, tmp_path / "drawn", policy=policy))


def test_the_headline_of_a_comparison_names_what_people_found(bare_cli, tmp_path):
    right = np.ones(1000)
    worse = right.copy()
    worse[:100] = 0
    releases(tmp_path, (right, worse), (right, right), drawn(300, 1000))
    lines = bare_cli("compare", "old", "new", "--home", str(tmp_path)).stdout.splitlines()
    headline = " ".join(line.strip() for line in lines)
    assert "By human labels, faq/new/v1 is worse than faq/old/v1: -0." in headline
    assert "No difference between faq/new/v1 and faq/old/v1 is shown: meaning_match.match" in headline
