"""A judge that goes by the words, and the options to ask it."""

import json

from answerkey.metrics_core.gate.policy import parse_policy
from answerkey.metrics_core.judges.options import JudgeOptions
from answerkey.metrics_core.llm.access import Access
from answerkey.tasks.compare.compare import compare
from answerkey.tasks.gate.calibrate import calibrate, store_calibration
from answerkey.tasks.gate.gate import gate
from answerkey.tasks.load.load import Source
from answerkey.tasks.reports.commit import finish_run, start_run
from answerkey.tasks.validate.contract import Contract
from answerkey.tasks.warehouse.home import Home
from tests.judge_brains import data_of, sentences
from tests.judge_server import JudgeServer
from tests.tasks.staging_help import jsonl, registered, run

MODEL = "openai/some-model"


def judged(url, **changes):
    """Options that ask one model at `url`, without probes."""
    access = Access(**{name: changes.pop(name) for name in ("ledger", "run") if name in changes})
    return dict(judge=JudgeOptions(**{"judges": (f"{MODEL}@{url}",), "probes": "never", **changes}), access=access)


def wordy(body):
    """Answers with the word "wrong" match nothing. Facts are sentences: equal ones match, those that begin with the
    same word contradict each other."""
    data = data_of(body)
    if "reference" in data:
        return json.dumps({"facts": sentences(data["reference"])})
    if "facts" in data["references"][0]:
        return json.dumps(_compared(data["references"], sentences(data["answer"])))
    verdict = "mismatch" if "wrong" in data["answer"] else "match"
    reference = None if verdict == "mismatch" else 1
    reason = f"I say {verdict}."
    return json.dumps({"reason": reason, "verdict": verdict, "rule": "factual_equivalence", "reference": reference})


def _compared(references, facts):
    ids = {f"a{number}": fact for number, fact in enumerate(facts, 1)}
    rows = []
    for fact in (fact for reference in references for fact in reference["facts"]):
        same = [name for name, said in ids.items() if said == fact["fact"]]
        against = [
            name for name, said in ids.items() if name not in same and said.split()[0] == fact["fact"].split()[0]
        ]
        rows.append({"id": fact["id"], "equivalent": same, "contradicted_by": against})
    answer = [{"id": name, "fact": fact} for name, fact in ids.items()]
    return {"answer_facts": answer, "reference_facts": rows, "abstained": not facts}


def judged_home(folder):
    """A home with two registered and judged releases, their comparison, calibration and verdict; of an older code.

    Each of the two reports has 8 answers; a ninth row of each release is in quarantine.
    """
    home = Home(folder)
    paths = {"label": "label"}
    with JudgeServer(wordy) as server:
        for release in ("first", "second"):
            rows = [
                {
                    "id": f"c{i}", "question": f"What is {i}?", "reference": f"it is {i}",
                    "lang": "de" if i % 2 else "en",
                    "answer": f"it is {i}" if i % 3 else f"wrong, says {release}", "label": i % 3 > 0,
                }
                for i in range(8)
            ]  # fmt: skip
            file = jsonl(folder.parent / f"{release}.jsonl", [*rows, {**rows[0], "id": None}])
            source = Source(file, dataset="capitals", release=release, paths=paths, slices=("lang",))
            registered(home, source)
            start_run(home, release, "flow", "capitals", {})
            metrics, options = ("exact_match", "meaning_match"), judged(server.url)
            run(home, source, metrics, options=options, contract=Contract(max_quarantined=1.0))
            finish_run(home, release, "complete")
    with home.warehouse.writing() as warehouse:
        warehouse.execute('UPDATE reports SET manifest = json_merge_patch(manifest, \'{"code": "another"}\')')
    pair = ("capitals/first/v1", "capitals/second/v1")
    compare(home, *pair)
    store_calibration(home, calibrate(home, "exact_match.match", reports=pair))
    gate(home, *pair, parse_policy({"primary": "exact_match.match", "margin": 0.05}, "test"))
    return home
