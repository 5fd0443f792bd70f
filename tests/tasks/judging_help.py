"""A judge that goes by the words, and the options to ask it."""

import json

from answerkey.metrics_core.judges.options import JudgeOptions
from answerkey.metrics_core.llm.access import Access
from tests.judge_brains import data_of, sentences

MODEL = "openai/some-model"


def judged(url, **changes):
    """Options that ask one model at `url`, without a check."""
    access = Access(**{name: changes.pop(name) for name in ("ledger", "run") if name in changes})
    return dict(judge=JudgeOptions(**{"judges": (f"{MODEL}@{url}",), "check": "never", **changes}), access=access)


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
