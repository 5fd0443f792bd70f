"""The catalogue of metrics, what it says to a wrong name, and signatures that stay what they were."""

import re
from pathlib import Path

import pytest

from answerkey import METRICS, create
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.options import JudgeOptions
from answerkey.metrics_core.judges.rubric import read_rubric
from answerkey.metrics_core.metrics.words import RougeL
from answerkey.metrics_core.offline_judge import matcher
from answerkey.metrics_core.registry import entry_point_metrics
from tests.metrics_core.metrics_help import read_jsonl


def test_the_catalogue_in_the_order_of_reports():
    assert {name: cls.kind for name, cls in METRICS.items()} == {
        "answer_correctness": "lexical",
        "rouge_l": "lexical",
        "rouge": "lexical",
        "token_overlap": "lexical",
        "bleu": "lexical",
        "chrf": "lexical",
        "exact_match": "lexical",
        "contains": "lexical",
        "number": "lexical",
        "choice": "lexical",
        "json_equal": "lexical",
        "pattern": "lexical",
        "tool_calls": "lexical",
        "semantic_similarity": "semantic",
        "meaning_match": "judge",
        "ground_truth_similarity": "judge",
    }
    assert all(cls.described() and "\n" not in cls.described() for cls in METRICS.values())


@pytest.mark.parametrize("name", [name for name in METRICS if name != "tool_calls"])
def test_a_metric_goes_by_the_name_that_users_write(name):
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


def test_the_offline_judge_is_work_for_this_machine():
    def workloads(judge):
        return [metric.workload for metric in create(["meaning_match", "ground_truth_similarity", "bleu"], judge=judge)]

    online = JudgeOptions(judges=("openai/a",))
    assert workloads(JudgeOptions()) == ["offline", "offline", "lexical"]
    assert workloads(online) == ["judge", "judge", "lexical"]
    assert workloads(online.model_copy(update={"cascade": 0.02})) == ["judge", "judge", "lexical"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rogue_l", "metric 'rogue_l' is not known: did you mean rouge_l?"),
        ("answer-correctness", "metric 'answer-correctness' is not known: did you mean answer_correctness?"),
        ("BLEU", "metric 'BLEU' is not known: choose from answer_correctness, rouge_l, rouge, token_overlap, bleu, "),
        ("", "metric '' is not known: write NAME, or "),
    ],
)
def test_an_unknown_name_is_answered_with_a_suggestion(name, message):
    with pytest.raises(UserError) as caught:
        create(["rouge_l", name])
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("custom_metrics")
def test_a_spec_names_a_metric_its_options_and_another_name():
    texts = [
        "rouge_l",
        "lenient = custom_metrics:Politeness(threshold=.1, blank_answer=undefined)",
        "custom_metrics:Politeness",
        'semantic_similarity(models=[minilm, "use-multilingual"], aggregation=vote, threshold=none)',
    ]
    made = create(texts)
    assert [one.name for one in made] == ["rouge_l", "lenient", "politeness", "semantic_similarity"]
    signature = r"lenient\|v1\|code:custom_metrics:Politeness@[0-9a-f]{8}\|threshold:0\.1\|blank:undefined"
    assert re.fullmatch(signature, made[1].signature)
    assert made[3].fields[1].name == "similarity_minilm"
    assert [one.signature for one in create([one.spec for one in made])] == [one.signature for one in made]


def test_a_rubric_is_named_by_its_content_too():
    content = read_rubric("politeness").braces
    by_name, *by_content = create(["a=politeness", f"b={content}", f"c={content}(blank_answer=undefined)"])
    assert [one.rubric.text for one in by_content] == [by_name.rubric.text] * 2
    assert [(one.name, one.blank_answer) for one in by_content] == [("b", "zero"), ("c", "undefined")]
    assert [one.signature for one in create([one.spec for one in by_content])] == [one.signature for one in by_content]


def test_objects_classes_names_and_functions_stand_side_by_side(custom_metrics):
    made = create([RougeL(), "contains", custom_metrics.Politeness, custom_metrics.short, RougeL()])
    assert [one.name for one in made] == ["rouge_l", "contains", "politeness", "short"]


def test_two_different_metrics_cannot_share_a_name():
    with pytest.raises(UserError, match=r"two metrics are called 'rouge_l': give .* my_rouge_l=rouge_l"):
        create(["rouge_l", RougeL(blank_answer="undefined")])
    [one, other] = create(["rouge_l", "x=rouge_l(blank_answer=undefined)"])
    assert (one.name, other.name) == ("rouge_l", "x")


@pytest.mark.usefixtures("custom_metrics")
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            "custom_metrics:Politness",
            "metric 'custom_metrics:Politness': custom_metrics has no Politness; did",
        ),
        ("custom_metric:X", "metric 'custom_metric:X' cannot be loaded: ModuleNotFoundError: No module named"),
        ("custom_metrics:NOT_ONE", "custom_metrics:NOT_ONE is not a metric: expected a subclass of Metric, or a func"),
        ("custom_metrics:Politeness(threshold=2)", ".*: threshold is 2; it should be less than or equal to 1"),
        ("rouge_l(threshold=.5)", "metric rouge_l: option 'threshold' is not known: choose from blank_answer"),
        ("rouge_l(.5)", r"metric 'rouge_l\(.5\)': options are written \(name=value"),
        ("rouge_l(blank_answer=1+)", "metric 'rouge_l.*': options are written"),
        ("rouge_l(", r"metric 'rouge_l\(' is not known: write NAME, or"),
    ],
)
def test_a_spec_that_cannot_be_is_answered_in_one_line(spec, message):
    with pytest.raises(UserError, match=message) as caught:
        create([spec])
    assert "\n" not in str(caught.value)


def test_a_module_that_raises_is_one_line_too(tmp_path, monkeypatch):
    (tmp_path / "raising_module.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UserError, match="metric 'raising_module:X' cannot be loaded: ZeroDivisionError"):
        create(["raising_module:X"])


def test_an_option_by_keyword_goes_to_the_metrics_that_have_it_and_to_no_object():
    made = create(
        ["semantic_similarity", RougeL(), "contains(blank_answer=zero)"], threshold=0.5, blank_answer="undefined"
    )
    assert [one.blank_answer for one in made] == ["undefined", "zero", "zero"]
    with pytest.raises(UserError, match="option 'threshold' belongs to semantic_similarity, and none of"):
        create(["rouge_l"], threshold=0.5)
    with pytest.raises(UserError, match="option 'blank_anser' is not known: did you mean blank_answer"):
        create(["rouge_l"], blank_anser="zero")


def test_an_installed_package_offers_metrics(tmp_path, monkeypatch):
    (tmp_path / "offering.py").write_text("def offered(answer, references):\n    return 0.5\n")
    info = tmp_path / "offering-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: offering\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[answerkey.metrics]\noffered_one = offering:offered\nbleu = offering:x\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    entry_point_metrics.cache_clear()
    try:
        assert list(entry_point_metrics()) == ["offered_one"]
        [made] = create(["offered_one"])
        assert (made.name, made.spec) == ("offered", "offering:offered")
        with pytest.raises(UserError, match="did you mean offered_one"):
            create(["ofered_one"])
    finally:
        entry_point_metrics.cache_clear()


# Signatures are in every warehouse: the first version's texts, made by its code, are the texts of today.


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


CHANGED = {
    "offline@1:0b1693": matcher.signature(),
    "grammar:1": "grammar:5",
    "parser:1": "parser:2",
    "unicode1": "unicode2",
}
"""What was defined anew since the first version, and says so in the signature."""


def signed(first_version):
    """The signature of today for one of the first version."""
    for before, now in CHANGED.items():
        first_version = first_version.replace(before, now)
    return first_version


def test_every_signature_and_field_of_the_first_version_is_the_same():
    changed = [
        (case, now)
        for case in CASES
        if (now := made(case["metric"], case["options"])) != (signed(case["signature"]), case["fields"])
    ]
    assert changed == []
    assert sum("offline@1:0b1693" in case["signature"] for case in CASES) > 10
