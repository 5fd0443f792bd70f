"""The catalogue of metrics, and what it says to a wrong name."""

from dataclasses import replace

import pytest

from answerkey.metrics_core import METRICS, Options, create
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.options import JudgeOptions
from answerkey.metrics_core.llm.access import NO_ACCESS, Access
from answerkey.metrics_core.registry import workload


def test_the_catalogue_in_the_order_of_reports() -> None:
    assert {name: info.kind for name, info in METRICS.items()} == {
        "answer_correctness": "lexical",
        "rouge_l": "lexical",
        "token_overlap": "lexical",
        "bleu": "lexical",
        "chrf": "lexical",
        "exact_match": "lexical",
        "contains": "lexical",
        "semantic_similarity": "semantic",
        "meaning_match": "judge",
        "ground_truth_similarity": "judge",
    }
    assert all(info.summary and "\n" not in info.summary for info in METRICS.values())


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_goes_by_the_name_that_users_write(name: str) -> None:
    [metric] = create([name])
    assert metric.name == name
    assert metric.signature.startswith(f"{name}|v")
    asks = METRICS[name].kind == "judge"
    assert metric.needs == {"answer", "references"} | ({"question"} if asks else set())
    # Without any judge named, it is the offline one.
    assert ("|judge:offline@" in metric.signature) == asks
    names = [field.name for field in metric.fields]
    assert len(names) == len(set(names)) > 0
    assert all(field.description and field.low < field.high for field in metric.fields)


def test_the_offline_judge_is_work_for_this_machine() -> None:
    online = Options(judge=JudgeOptions(judges=("openai/a",)))
    assert {workload(name, Options()) for name in ("meaning_match", "ground_truth_similarity")} == {"semantic"}
    assert {workload(name, online) for name in ("meaning_match", "ground_truth_similarity")} == {"judge"}
    cascade = replace(online, judge=online.judge.model_copy(update={"cascade": 0.02}))
    assert (workload("meaning_match", cascade), workload("bleu", cascade)) == ("judge", "lexical")


def test_metrics_come_in_the_order_asked_for_and_once() -> None:
    assert [metric.name for metric in create(["chrf", "bleu", "chrf"])] == ["chrf", "bleu"]
    assert create([]) == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rogue_l", "metric 'rogue_l' is not known: did you mean rouge_l?"),
        ("answer-correctness", "metric 'answer-correctness' is not known: did you mean answer_correctness?"),
        ("BLEU", "metric 'BLEU' is not known: choose from answer_correctness, rouge_l, token_overlap, bleu, chrf, "),
        ("", "metric '' is not known: choose from "),
    ],
)
def test_an_unknown_name_is_answered_with_a_suggestion(name: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        create(["rouge_l", name])
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_the_default_options_change_nothing() -> None:
    assert Options() == Options(profile=None, blank_answer="zero")
    assert [m.signature for m in create(list(METRICS))] == [m.signature for m in create(list(METRICS), Options())]


def test_options_that_change_numbers_change_signatures() -> None:
    def signature(name: str, options: Options) -> str:
        [metric] = create([name], options)
        return metric.signature

    lexical = {
        signature("answer_correctness", options)
        for options in (
            Options(),
            Options(blank_answer="undefined"),
            Options(profile="continuous_eval_v0_2"),
            Options(profile="continuous_eval_v0_3"),
            Options(profile="continuous_eval_v0_3", blank_answer="undefined"),
        )
    }
    assert len(lexical) == 5
    # The profile belongs to the basket alone.
    assert signature("rouge_l", Options(profile="continuous_eval_v0_2")) == signature("rouge_l", Options())
    # A folder for embeddings is no part of a number.
    assert signature("rouge_l", Options(embedding_cache="x")) == signature("rouge_l", Options())


def test_options_of_judges_change_signatures_where_they_change_numbers() -> None:
    def signature(access: Access = NO_ACCESS, **changes: object) -> str:
        judge = JudgeOptions(**{"judges": ("openai/a",), **changes})  # type: ignore[arg-type]
        [metric] = create(["meaning_match"], Options(judge=judge, access=access))
        return metric.signature

    plain = signature()
    assert "|judge:openai/a|" in plain
    other = [
        signature(judges=("openai/b",)),
        signature(judges=("openai/a", "openai/b")),
        signature(judges=("openai/a@http://127.0.0.1:9/v1",)),
        signature(api_base="http://127.0.0.1:8/v1"),
        signature(repeats=3),
        signature(repeats=3, jury="mean"),
        signature(judges=()),
        signature(cascade=0.02),
        signature(cascade=0.05),
    ]
    assert len({plain, *other}) == 10
    same = signature(
        Access("k", ledger="x", run="y"), jury="mean", concurrency=2, timeout_s=1.0, deadline_s=2.0, max_calls=3,
        max_cost_usd=0.1,
    )  # fmt: skip
    assert same == plain
    assert signature(judges=()) == signature(judges=("offline",))
    assert signature(cascade=0.02).startswith(plain.rpartition("|blank:")[0] + "|first:offline@")
    assert "|cascade:0.02|" in signature(cascade=0.02)
