"""Two releases before judges that are not the same for both, or decide nothing: the gate must not pass on it."""

import functools
import json
import re

import pytest

from answerkey import Sample
from answerkey.metrics_core.metrics.meaning_match import MeaningMatch
from tests.judge_server import UNTESTED, Body, JudgeServer, data_of
from tests.tasks.staging_help import jsonl, query

N = 100
FIELD = "meaning_match.match"


def verdict(*, match):
    said = {"verdict": "match", "reference": 1} if match else {"verdict": "mismatch", "reference": None}
    return json.dumps({"reason": "So it reads.", "rule": "factual_equivalence", **said})


def strict(body):
    """A question of the check is judged by its answer, any other answer is right where it says so."""
    data = data_of(body)
    if "Which city" not in data["question"]:
        return verdict(match=(data["answer"], data["question"]) in right_in_the_check())
    stated = data["references"][0]["text"] in data["answer"] and not data["answer"].startswith("It is not ")
    return verdict(match=stated or "right" in data["answer"])


@functools.cache
def right_in_the_check():
    known = MeaningMatch().known_answers(())
    return {(question.sample.answer, question.sample.question) for question in known if question.least == 1.0}


def lenient(body):
    """The same, but takes whatever sounds sure for right."""
    return verdict(match=True) if "surely" in data_of(body)["answer"] else strict(body)


def rows(release, *, right, sure=0, n=N):
    """Of `n` answers the first `right` ones are right, and the next `sure` ones are wrong and sound sure."""
    kinds = ["right"] * right + ["surely"] * sure + ["wrong"] * (n - right - sure)
    return [
        {"id": f"q{i:03}", "release": release, "question": f"Which city is {i}?", "references": [f"City {i}"]}
        | {"answer": f"It is {kind} {i}."}
        for i, kind in enumerate(kinds)
    ]


class Outage:
    """Whether a server refuses every call."""

    def __init__(self) -> None:
        self.now = False

    def __call__(self, _number: int, _body: Body) -> str | None:
        return "unauthorized" if self.now else None


@pytest.fixture
def judges():
    outage = Outage()
    with JudgeServer(strict, faults=outage) as named, JudgeServer(lenient) as fallback:
        yield named, fallback, outage


def words(result):
    return " ".join((result.stdout + result.stderr).split())


@pytest.mark.nightly
def test_an_outage_of_the_judge_between_two_releases_is_no_pass(bare_cli, judges, tmp_path, home):
    named, fallback, outage = judges
    judge = ("--judge", f"openai/a@{named.url}", "--fallbacks", f"openai/b@{fallback.url}")
    common = ("--dataset", "d", "--metrics", "meaning_match", *UNTESTED, *judge)
    bare_cli("evaluate", jsonl(tmp_path / "fa.jsonl", rows("fa", right=75)), *common, code=0)
    # A third of the right answers are made wrong, which the fallback does not see.
    outage.now = True
    new = bare_cli("evaluate", jsonl(tmp_path / "fb.jsonl", rows("fb", right=50, sure=25)), *common, code=0)
    counted = "meaning_match: 25 of 100 answers were judged by the fallback openai/b@"
    assert counted in words(new)
    assert query(tmp_path / "home", "SELECT status, message IS NULL FROM reports ORDER BY version, release") == [
        ("COMPLETE", True), ("COMPLETE", False),
    ]  # fmt: skip

    compared = bare_cli("compare", "fa", "fb")
    assert "meaning_match is not compared: judged by other judges: fallbacks judged 25 of 100 answers of" in words(
        compared
    )
    gated = bare_cli("gate", "fa", "fb", "--primary", FIELD, "--margin", "0.03")
    assert (gated.returncode, "INCOMPLETE" in gated.stdout) == (4, True), gated.stdout
    assert "fallbacks judged 25 of 100 answers of fb; ask the named judges again with answerkey rerun d/fb/v1" in words(
        gated
    )

    # While the judge is away, a rerun asks nobody in vain and keeps what the fallback said.
    before = fallback.n_requests
    process = bare_cli("rerun", "fb", "--only-failed")
    assert (counted in words(process), fallback.n_requests) == (True, before)
    # Once it is back, its verdicts replace those of the fallback, and the loss shows.
    outage.now = False
    asked = named.n_requests
    process = bare_cli("rerun", "fb", "--only-failed")
    assert process.returncode == 0 and "judged by the fallback" not in words(process), words(process)
    assert 25 <= named.n_requests - asked <= 25 + 3
    gated = bare_cli("gate", "fa", "fb", "--primary", FIELD, "--margin", "0.03")
    assert (gated.returncode, gated.stdout.startswith("FAIL")) == (1, True), gated.stdout


@pytest.mark.nightly
def test_two_judges_that_differ_give_bounds_and_no_mean_alone(bare_cli, tmp_path, home):
    file = jsonl(tmp_path / "a.jsonl", rows("r", right=50, sure=25))
    with JudgeServer(strict) as one, JudgeServer(lenient) as other:
        result = bare_cli(
            "evaluate", file, "--metrics", "meaning_match", "--judge",
            f"openai/a@{one.url},openai/b@{other.url}", *UNTESTED,
        )  # fmt: skip
    text = words(result)
    assert "2 votes on each answer can be a tie, which is no score; ask for an odd number of votes" in text
    assert "25 of 100 not scored: 25 tie (over all of them, the mean is 0.500 to 0.750)" in text
    assert "PARTIAL" in text


@pytest.mark.nightly
def test_a_judge_that_gives_all_long_answers_one_score_is_named(bare_cli, tmp_path, home):
    def long(release, right):
        return [{**row, "answer": f"{row['answer']} {'So it goes. ' * 20}"} for row in rows(release, right=right)]

    file = jsonl(
        tmp_path / "a.jsonl", [*long("old", N), *long("new", N - 2), *rows("short", right=N), *long("mixed", 80)]
    )
    home = ("--home", home)
    with JudgeServer(strict) as server:
        result = bare_cli("evaluate", file, "--metrics", "meaning_match", "--judge", f"openai/a@{server.url}", *home)
    assert result.returncode == 0, result.stderr
    text = words(result)
    for n in (100, 98):
        assert f"the judge gave 1.000 to {n} of the 100 answers of 200 characters or more" in text
    assert text.count("the judge gave 1.000") == 2
    assert "new: meaning_match: the judge gave 1.000 to 98" in words(bare_cli("compare", "old", "new", *home))


def test_a_judge_that_changed_under_its_name_between_two_releases_is_no_pass(bare_cli, tmp_path, home):
    samples = [Sample(row["id"], "", row["references"], row["question"]) for row in rows("any", right=N)]
    questions = MeaningMatch().known_answers(samples)
    is_right = {(question.sample.question, question.sample.answer): question.least == 1.0 for question in questions}

    def judge(wrong_on, brain):
        """As often wrong on the questions of the check as is tolerated, each time on others."""

        def of_body(body):
            data = data_of(body)
            pair = data["question"], data["answer"]
            if pair not in is_right:
                return brain(body)
            return verdict(match=is_right[pair] != (data["answer"] in wrong_on))

        return of_body

    def evaluate(release, ending="", **kinds):
        answers = [row | {"answer": f"{row['answer']}{ending}"} for row in rows(release, **kinds)]
        file = jsonl(tmp_path / f"{release}.jsonl", answers)
        options = ("--judge", f"openai/a@{server.url}", "--dataset", "d", "--metrics", "meaning_match")
        return words(bare_cli("evaluate", file, *options, code=0))

    def gated(old, new):
        result = bare_cli("gate", old, new, "--primary", FIELD, "--margin", "0.03")
        return result.stdout.split()[0], words(result)

    another_model = "another model may answer under its name"
    changed = "a judge changed under its name, and some of the scores are from before and some from after"
    with JudgeServer(judge((), strict)) as server:
        assert another_model not in evaluate("fa", right=75)
        server.brain = judge([question.sample.answer for question in questions[:16:4]], lenient)
        assert another_model in evaluate("fb", right=50, sure=25)
        outcome, text = gated("fa", "fb")
        assert (outcome, changed in text) == ("INCOMPLETE", True), text
        assert changed in words(bare_cli("compare", "fa", "fb"))
        # Answers that were all judged by what it is now
        assert another_model not in evaluate("fc", ending=" So it is.", right=50, sure=25)
        assert another_model not in evaluate("fd", ending=" So it is.", right=40, sure=35)
        assert gated("fc", "fd")[0] == "INCONCLUSIVE"


def test_a_call_that_a_cascade_saved_is_counted_once(bare_cli, tmp_path, home):
    """Two releases give the same answers, one of them twice; the next run takes what is known."""
    answers = [
        {"id": f"{n}", "question": f"Which town is by lake {n}?", "answer": f"It is {name}.", "reference": name}
        for n, name in enumerate(first + last for first in TOWNS for last in ("bin", "dal", "fosa", "garen", "hulia"))
    ]
    both = [row | {"release": release} for release in ("old", "new") for row in answers]
    with JudgeServer(lambda _body: verdict(match=True)) as server:
        judge = ("--judge", f"openai/a@{server.url}", "--cascade", "0.1", "--metrics", "meaning_match", *UNTESTED)

        def calls_saved(rows):
            result = bare_cli("evaluate", jsonl(tmp_path / "towns.jsonl", rows), *judge, code=0)
            return int(re.search(r"(\d+) calls saved: the offline judge decided", words(result))[1])

        saved = calls_saved([*both, both[-1] | {"id": "again"}])
        assert saved == len(answers) - server.n_requests > 0
        assert calls_saved(both) == 0


TOWNS = [f"{first}{last}" for first in ("Bra", "Dro", "Fel", "Gul", "Kor", "Mir") for last in ("na", "lo", "si", "te")]
