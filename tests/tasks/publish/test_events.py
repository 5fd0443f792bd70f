"""What automations learn of a run."""

from dataclasses import replace

from answerkey.metrics_core.gate.policy import parse_policy
from answerkey.tasks.gate.verdicts import ReleaseVerdict
from answerkey.tasks.load.load import Source
from answerkey.tasks.publish import events
from answerkey.tasks.warehouse.home import Home
from tests.tasks.publish.page.page_help import VERDICT
from tests.tasks.staging_help import jsonl, run


def test_events_announce_verdicts_and_partial_reports(tmp_path, monkeypatch):
    rows = [{"id": f"{i}", "reference": "yes", "answer": "yes", "release": name} for i in range(4) for name in "ab"]
    done = run(tmp_path, Source(jsonl(tmp_path / "d.jsonl", rows)), ["exact_match"], failing={"exact_match"})
    sent = []
    monkeypatch.setattr(events, "emit", lambda *one: sent.append(one) or True)
    gated = ReleaseVerdict(
        done.ids[0],
        done.ids[1],
        parse_policy({"primary": "exact_match.match", "margin": 0.02}, "x"),
        replace(VERDICT.verdict, basis="judge"),
    )
    assert events.announce(Home(tmp_path), done.ids[1:], [gated]) == [
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
            about | {"status": "PARTIAL", "message": "exact_match: 4 of 4 not scored: 4 task"},
        ),
    ]  # fmt: skip
