"""What Prefect is told of a run, what happens where it cannot be told, and where a page is put."""

import logging
import re
import unicodedata
from dataclasses import replace

import httpx
from hypothesis import example, given
from hypothesis import strategies as st

from answerkey.metrics_core.policy_file import parse_policy
from answerkey.tasks.gate.verdicts import ReleaseVerdict
from answerkey.tasks.publish import artifacts, events
from answerkey.tasks.publish.artifacts import artifact_key, file_name, notify_api
from answerkey.tasks.publish.tables import scores_of
from tests.tasks.publish.page.page_help import FIELDS, VERDICT, report
from tests.tasks.staging_help import run


def test_a_score_has_both_ends_of_its_interval_and_its_clusters():
    made = report("a", (0.5, None, 0.3))
    assert scores_of([made], FIELDS).records()[:2] == [
        {"metric": "rouge_l.recall", "mean": "0.500", "95 % interval": "0.400 to 0.600", "scored/total": "10/10"},
        {"metric": "rouge_l.f1", "mean": "–", "95 % interval": "–", "scored/total": "10/10"},
    ]
    clustered = replace(made, scores=tuple(replace(score, n_clusters=3, n_failed=1) for score in made.scores))
    assert [(row["clusters"], row["failed"]) for row in scores_of([clustered], FIELDS).records()] == [("3", "1")] * 3


def test_a_plain_name_is_that_of_the_file_and_no_name_leaves_the_folder_or_is_that_of_another():
    assert [file_name(name) for name in ("gpt-4", "GPT_4.1", "модель")] == ["gpt-4", "GPT_4.1", "модель"]
    odd = [
        "..",
        ".",
        "",
        "a/b",
        "a b",
        "a-b",
        "../../etc",
        "x" * 300,
        "x" * 301,
        "\x00",
        "я" * 99,
        "\ud800",
        "a\n",
        ".hidden",
        "-",
    ]
    found = [file_name(name) for name in odd]
    assert len(set(found)) == len(odd)
    assert all(name and name[0] != "." and not {"/", "\x00"} & {*name} and len(name.encode()) < 100 for name in found)


def test_no_artifact_is_that_of_another_release():
    named = [
        ("faqru", "модель-а"), ("faqru", "модель-б"), ("faqru", unicodedata.normalize("NFD", "модель-й")),
        ("faqru", "модель-й"), ("faq", "gpt-4.1"), ("faq", "gpt-4-1"), ("faq", "GPT-4-1"), ("faq", "gpt-4-1-"),
        ("faq-gpt", "4-1"), ("faq", ""), ("faq",), ("", "faq"), ("faq", "模型"), ("faq", "x" * 300), ("faq", "x" * 301),
        ("faq-gpt-4-1",),
    ]  # fmt: skip
    keys = [artifact_key("scores", *names) for names in named]
    assert len(set(keys)) == len(named)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", key) and len(key) < 120 for key in keys)
    assert (keys[5], keys[10]) == ("scores-faq-gpt-4-1", "scores-faq")


_NAMES = st.text("аб-.aA ", max_size=4)


@example([["a-a"], ["a", "a"]])
@given(
    st.lists(st.lists(_NAMES, min_size=1, max_size=2), unique_by=tuple, min_size=2)
    | st.lists(st.lists(_NAMES, min_size=4, max_size=4), unique_by=tuple, min_size=2)
)
def test_names_have_one_key_and_keys_one_list_of_names(named):
    assert len({artifact_key("k", *names) for names in named}) == len(named)


def test_a_server_that_is_away_is_told_of_once(caplog, monkeypatch):
    # A run of Prefect would wait for its own server first.
    monkeypatch.setattr(artifacts, "within_run", lambda: True)

    def refused():
        httpx.get("http://127.0.0.1:9/api", trust_env=False)

    with caplog.at_level(logging.WARNING, logger="answerkey"):
        assert [notify_api("of a", refused), notify_api("of b", refused), notify_api("of c", lambda: 3)] == [
            None,
            None,
            3,
        ]
        assert notify_api("of d", refused) is None
        # It is there, but does not take this.
        assert notify_api("of e", lambda: {}["e"]) is None
    assert [line.split(" (")[0] for line in caplog.messages] == [
        "the Prefect server was not told of a, nor anything else until it answers again",
        "the Prefect server was not told of d, nor anything else until it answers again",
        "the Prefect server was not told of e",
    ]


def test_events_announce_verdicts_and_partial_reports(home, monkeypatch):
    rows = [{"id": f"{i}", "reference": "yes", "answer": "yes", "release": name} for i in range(4) for name in "ab"]
    completed = run(home, rows, ["exact_match"], failing={"exact_match"})
    sent = []
    monkeypatch.setattr(events, "emit", lambda *one: sent.append(one) or True)
    monkeypatch.setattr(events, "on_server", lambda: True)
    gated = ReleaseVerdict(
        completed.ids[0],
        completed.ids[1],
        parse_policy({"primary": "exact_match.match", "margin": 0.02}, "x"),
        replace(VERDICT.verdict, basis="judge"),
    )
    assert events.announce(home, completed.ids[1:], [gated]) == [
        "answerkey.gate.failed",
        "answerkey.run.incomplete",
    ]
    about = {"dataset": "d", "release": "b", "report": "d/b/v1"}
    assert sent == [
        (
            "answerkey.gate.failed", "answerkey.release.d.b",
            {**about, "baseline": "d/a/v1", "outcome": "FAIL", "sentence": "New loses more than the margin.",
             "basis": "judge"},
        ),
        (
            "answerkey.run.incomplete", "answerkey.release.d.b",
            about | {"status": "PARTIAL", "message": "exact_match: 4 of 4 not scored: 4 task_failed"},
        ),
    ]  # fmt: skip
