"""A home with two data sets, three releases, a comparison, a verdict, and calls to a judge."""

from answerkey.metrics_core.policy_file import parse_policy
from answerkey.tasks.compare.compare import compare
from answerkey.tasks.gate.gate import gate
from answerkey.tasks.load.load import Source
from answerkey.tasks.warehouse.home import Home
from tests.tasks.staging_help import jsonl, run

HOSTILE = "<b>new</b> & co"
METRICS = ["exact_match", "token_overlap"]


def made_home(folder):
    """`faq` has the releases old and HOSTILE with a verdict on the latter, `other` has one; all is published."""
    home = Home(folder / "home")
    for name, right in (("old", 3), (HOSTILE, 5)):
        rows = [
            {"id": str(n), "release": name, "question": f"question {n}", "reference": "yes it is",
             "answer": "yes it is" if n < right else f"no, {n} is not"}
            for n in range(6)
        ]  # fmt: skip
        run(home, Source(jsonl(folder / f"{right}.jsonl", rows), dataset="faq"), METRICS)
    rows = [{"id": "1", "release": "only", "question": "?", "reference": "a", "answer": "a"}]
    run(home, Source(jsonl(folder / "other.jsonl", rows), dataset="other"), METRICS)
    compare(home, "faq/old/v1", NEW)
    with home.warehouse.writing() as warehouse:
        warehouse.execute(
            "INSERT INTO judge_calls (call_id, request_key, judge, prompt, run, kind, attempt, format, status, "
            "started_at, tokens_in, tokens_out, cost_usd) "
            "SELECT n::VARCHAR, n::VARCHAR, if(n < 3, 'openai/small', 'local/own'), 'meaning_match v1', 'run', 'ask', "
            "1, 'text', if(n = 0, 'error', 'usable'), TIMESTAMP '2026-01-02 03:04:05', 100, 10, "
            "if(n < 3, 0.5, NULL) FROM range(5) t(n)"
        )
    home.warehouse.publish()
    return home


NEW = f"faq/{HOSTILE}/v1"


def decide(home):
    """Let a gate decide about the two releases; returns the outcome. Nothing is published."""
    policy = parse_policy({"primary": "exact_match.match", "margin": 0.02}, "policy")
    return gate(home, "faq/old/v1", NEW, policy).verdict.outcome
