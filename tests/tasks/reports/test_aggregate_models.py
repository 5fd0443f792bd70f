"""Which models answered for a judge: in the manifest, on the page where they were several, and between two reports."""

from itertools import count

import pytest

from answerkey.tasks.compare.compare import compare
from answerkey.tasks.publish.page.build import build_page
from answerkey.tasks.publish.page.markdown import as_markdown
from answerkey.tasks.reports.report import read_reports
from answerkey.tasks.warehouse.home import Home
from tests.judge_server import JudgeServer, Reply
from tests.tasks.judging_help import MODEL, judged, wordy
from tests.tasks.staging_help import run


def rows(release):
    return [
        {"id": f"q{i:02}", "question": f"Q{i}?", "answer": f"It is {i}, says {release}.", "release": release}
        | {"references": [f"It is {i}."]}
        for i in range(12)
    ]


@pytest.mark.slow
def test_models_that_answered_are_recorded_and_a_change_is_told(tmp_path):
    served = count()

    def changing(body):
        """The provider moves its name to another model after nine answers about the old release."""
        return Reply(wordy(body), model="m-2026-05" if next(served) < 9 else "m-2026-08")

    home = Home(tmp_path)
    with JudgeServer(changing) as server:
        asked = judged(server.url, concurrency=1)
        label = f"{MODEL}@127.0.0.1:{server.port}/v1"
        old = run(tmp_path, rows("old"), ["meaning_match"], options=asked)
        new = run(tmp_path, rows("new"), ["meaning_match"], options=asked)
    before, after = (one.reports[0].report_id for one in (old, new))
    noted = [
        report.manifest["judge"]["answered"]["meaning_match"][label] for report in read_reports(home, [before, after])
    ]
    fingerprints = {"fp_judge_server": 12}
    assert noted == [
        {"models": {"m-2026-05": 9, "m-2026-08": 3}, "fingerprints": fingerprints},
        {"models": {"m-2026-08": 12}, "fingerprints": fingerprints},
    ]
    page = as_markdown(build_page(home, [before]))
    assert "A judge was several models within one report: its scores mix theirs" in page
    assert f"several models answered for {label}: m-2026-05 (9 replies), m-2026-08 (3 replies)" in page
    assert "A judge was several models" not in as_markdown(build_page(home, [after]))
    told = f"meaning_match: for the judge {label}, m-2026-05, m-2026-08 answered before and m-2026-08 does now"
    assert told in compare(home, before, after).warnings
