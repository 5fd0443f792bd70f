"""Which registered releases are evaluated, and which not."""

import pytest

from answerkey.flows.evaluate_registered import evaluate_registered
from answerkey.flows.evaluate_release import evaluate_release
from answerkey.flows.parameters import Data, Scoring
from answerkey.metrics_core.errors import UserError
from answerkey.tasks.load.load import Source
from tests.tasks.staging_help import jsonl, query, registered


def test_on_a_home_with_nothing_in_it_there_is_nothing_to_do(tmp_path, caplog):
    assert evaluate_registered(home=str(tmp_path / "home")) == []
    assert caplog.messages == ["nothing to do: every registered release has a report"]
    assert list(tmp_path.iterdir()) == []


def test_what_is_registered_is_scored_from_the_warehouse_once_and_again_by_its_address(tmp_path, home):
    rows = [{"id": f"q{i}", "question": "?", "reference": "a", "answer": "ab"[i % 2], "lang": "en"} for i in range(4)]
    made = registered(home, Source(jsonl(tmp_path / "a.jsonl", rows), dataset="faq", release="new", slices=("lang",)))
    (tmp_path / "a.jsonl").unlink()
    scoring = Scoring(metrics=["exact_match"])
    assert evaluate_registered(scoring=scoring, home=str(home), page=False) == ["faq/new/v1"]
    assert evaluate_registered(scoring=scoring, home=str(home), page=False) == []
    again = evaluate_release(Data(answers=made.address), scoring, home=str(home), page=False)
    assert again == ["faq/new/v2"]
    found = query(home, "SELECT slice, mean, manifest ->> '$.parameters.data.answers' FROM reports "
                        "JOIN report_scores USING (report_id) ORDER BY ALL")  # fmt: skip
    assert found == [("all", 0.5, made.address)] * 2 + [("lang=en", 0.5, made.address)] * 2
    assert query(home, "SELECT report_id, attempts FROM registered") == [("faq/new/v1", 1)]
    assert query(home, "SELECT count(*) FROM answers") == [(4,)]
    with pytest.raises(UserError, match="0123: no such registered release"):
        evaluate_release(Data(answers="registered:0123"), scoring, home=str(home), page=False)


@pytest.mark.slow
def test_answers_that_were_registered_before_newer_ones_were_evaluated_stay_out_and_are_named(bare_cli, tmp_path, home):
    home, file = ["--home", home], tmp_path / "faq.csv"
    register = ["register-release", "p1", "--dataset", "faq", "--answers"]

    def with_answer(answer):
        file.write_text(f"id,question,reference,answer\nq1,Capital?,Paris,{answer}\n")
        return file

    assert bare_cli(*register, with_answer("Lyon"), *home).returncode == 0
    bare_cli("evaluate", with_answer("Paris"), "--release", "p1", "--metrics", "exact_match", "--no-page", *home)
    done = bare_cli("evaluate-registered", "--metrics", "exact_match", "--no-page", *home)
    assert done.returncode == 0, done.stderr
    assert "is left out, since the release has newer answers" in done.stderr
    assert "nothing to do: every registered release has a report" in done.stderr
    shown = bare_cli("report", "p1", *home).stdout
    assert "faq/p1/v1" in shown
    assert "exact_match.match   1.000" in shown
    # A rerun of what was evaluated before does not supersede what was registered since.
    assert bare_cli(*register, with_answer("Nice"), *home).returncode == 0
    bare_cli("rerun", "faq/p1/v1", "--metrics", "contains", *home)
    bare_cli("evaluate-registered", "--metrics", "exact_match", "--no-page", *home)
    assert "exact_match.match   0.000" in bare_cli("report", "p1", *home).stdout
