"""Signatures are in every warehouse: the first version's texts, made by its code, are the texts of today.

All but those of semantic similarity, which has got a field and calls an option by another name.
"""

from pathlib import Path

from answerkey.metrics_core import METRICS, JudgeOptions, create
from answerkey.metrics_core.offline_judge import matcher
from tests.metrics_core.metrics_help import read_jsonl

CASES = read_jsonl(Path(__file__).parent / "data/signatures_v1.jsonl")


def made(metric, options):
    """The signature and the names of the fields of a metric with these options, in JSON's types."""
    given = {
        name.replace("embedding_models", "models"): tuple(value) if isinstance(value, list) else value
        for name, value in options.items()
    }
    if "judge" in given:
        judge = {name: tuple(value) if isinstance(value, list) else value for name, value in given["judge"].items()}
        given["judge"] = JudgeOptions(**judge)
    [one] = create([metric], given)
    signature = one.signature.replace("semantic_similarity|v2|", "semantic_similarity|v1|")
    return signature, [field.name for field in one.fields if field.name != "calibrated"]


FIRST_EDITION = "offline@1:0b1693"
GRAMMAR = "grammar:1"
"""The offline judge of the first version, and how it split facts. Others say so in the signature."""


def test_every_signature_and_field_of_the_first_version_is_the_same():
    changed = [
        (case, now)
        for case in CASES
        if (now := made(case["metric"], case["options"]))
        != (case["signature"].replace(FIRST_EDITION, matcher.signature()).replace(GRAMMAR, "grammar:2"), case["fields"])
    ]
    assert changed == []
    assert sum(FIRST_EDITION in case["signature"] for case in CASES) > 10


def test_every_metric_and_option_is_among_them():
    assert {case["metric"] for case in CASES} == set(METRICS) - {"rouge"}  # which came later
    assert len({case["signature"] for case in CASES}) > 80
    options = {name for case in CASES for name in (*case["options"], *case["options"].get("judge", ()))}
    assert options >= {
        "profile", "blank_answer", "embedding_models", "aggregation", "threshold", "tolerance", "judges", "api_base",
        "jury", "repeats", "cascade",
    }  # fmt: skip
