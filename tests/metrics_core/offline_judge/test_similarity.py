"""Ground truth similarity by the offline judge: the examples of the document and of its successor, and our own."""

import json

import pytest

from answerkey.metrics_core import Sample, create
from tests.metrics_core.metrics.test_ground_truth_similarity import TEXTS, shares

LIST = "Here is a list of items to bring: "
DOCUMENT = {name: [text.replace("... ", LIST) for text in texts] for name, (*texts, _) in TEXTS.items()}
AMY = "What fruits does Amy like?"
OWN = [
    # The question decides what is the same.
    ("Who wrote it, and when?", "Ada Brown wrote it. It came out in 1851.", "Ada Brown, 1851", (2, 2, 2)),
    ("When was she born, and when did she die?", "Born in 1815, died in 1852.",
     "She was born in 1852 and died in 1815.", (2, 2, 0)),
    ("Who painted it?", "Leonardo da Vinci", "It was painted by Leonardo da Vinci in 1503.", (1, 2, 1)),
    ("How high is the tower?", "41 m", "It is 41 metres high.", (1, 1, 1)),
    ("How high is the tower?", "41 m", "It is 42 metres high.", (1, 1, 0)),
    ("What is 3 - 8?", "-5", "minus five", (1, 1, 1)),
    ("What is 3 - 8?", "-5", "5", (1, 1, 0)),
    ("When did the wall fall?", "on 9 November 1989", "November 9, 1989", (1, 1, 1)),
    ("Is the shop open?", "No", "The shop is not open.", (1, 1, 1)),
    ("Is the shop open?", "Yes.", "No, it is closed.", (1, 2, 0)),
    ("Are whales fish?", "No, whales are mammals.", "No.", (2, 1, 1)),
    ("Which colours?", "red, red and blue", "blue", (2, 1, 1)),
    ("What is the capital?", "Paris", "Paris. The capital is Paris.", (1, 1, 1)),
    ("What is the capital?", "Paris", "The capital is Paris. It has two million inhabitants.", (1, 2, 1)),
    ("Who wrote it?", "Ada Brown", "I am sorry, I do not know.", (1, 0, 0)),
    ("Какие инструменты есть у Лены?", "У Лены есть молоток и пила.", "Молоток, пила и клещи.", (2, 3, 2)),
    ("Какие страны называют странами Балтии?", "Эстония, Латвия и Литва",
     "К странам Балтии относятся Литва, Латвия и Эстония.", (3, 3, 3)),
    ("Из чего состоит вода?", "водород и кислород", "Вода состоит из водорода и кислорода.", (2, 2, 2)),
    ("Сколько лет Анне?", "96 лет", "Ей больше 95 лет.", (1, 1, 0)),
    ("Сколько лет Анне?", "96 лет", "Ей 96.", (1, 1, 1)),
    ("Какие машины любит Алексей?", "Алексей любит синие машины.", "Алексей любит все машины.", (1, 1, 0)),
    ("Столица и язык Франции?", "Столица Франции — Париж, а язык — французский.",
     "Столица — Париж, а язык — английский.", (2, 2, 1)),
    ("Кто открыл закон и в каком году?", "Дмитрий Менделеев, 1869",
     "Закон открыл Дмитрий Менделеев в 1869 году.", (2, 2, 2)),
    ("Кто написал роман?", "Лев Толстой", "К сожалению, я не знаю.", (1, 0, 0)),
]  # fmt: skip


@pytest.fixture(scope="module")
def metric():
    [made] = create(["ground_truth_similarity"])
    return made


def measured(metric, question, references, answer, **more):
    [found] = metric.measure([Sample("1", answer, references, question, **more)])
    return found


@pytest.mark.parametrize(
    ("question", "reference", "answer", "counts"),
    [*((*texts, TEXTS[name][3]) for name, texts in DOCUMENT.items()), *OWN],
)
def test_examples(metric, question, reference, answer, counts):
    found = measured(metric, question, reference, answer)
    details = found.details
    assert (details["n_reference"], details["n_answer"], details["n_matched"]) == counts, details["facts"]
    assert found.values == shares(*counts)
    assert details["abstained"] == (counts[1] == 0)


def test_a_wrong_value_in_the_same_slot_is_a_contradiction_and_another_item_is_none(metric):
    french = measured(metric, *DOCUMENT["fr-3"])
    assert french.reason == "1 of 2 facts match, 1 contradicted"
    assert [(row["id"], row["status"], row["with"]) for row in french.details["facts"]] == [
        ("r1.1", "matched", "a1"), ("r1.2", "contradicted", "a2"), ("a1", "matched", "r1.1"),
        ("a2", "contradicted", "r1.2"),
    ]  # fmt: skip
    assert measured(metric, *DOCUMENT["amy"]).reason == "1 of 3 facts match"
    assert measured(metric, "How high is it?", "41 m", "42 m").reason == "0 of 1 facts match, 1 contradicted"
    # Both can be true at once.
    assert measured(metric, *DOCUMENT["archie-3"]).reason == "0 of 1 facts match"


def test_facts_that_the_sample_brings_are_used_as_they_are(metric):
    facts = ["Amy likes apples.", "Amy likes apples and pears.", " "]
    found = measured(metric, AMY, "whatever", "Amy likes apples.", facts=facts)
    assert found.details["reference"] is None
    assert [row["fact"] for row in found.details["facts"]] == [
        "Amy likes apples.",
        "Amy likes apples and pears.",
        "Amy likes apples",
    ]
    assert found.values["similarity"] == 0.5
    none = measured(metric, AMY, [], "Amy likes apples.", facts=facts[:1])
    assert none.values["similarity"] == 1.0


def test_the_best_reference_counts_and_all_similarities_are_kept(metric):
    found = measured(metric, AMY, ["pears", "", "apples and pears"], "Amy likes apples and pears, too.")
    assert (found.details["reference"], found.details["similarities"]) == (2, [0.5, 1.0])


def test_an_answer_is_cut_as_finely_as_the_reference_on_the_same_matter(metric):
    found = measured(metric, "Where was it held?", "Russia", "It was held in Russia from June to July.")
    assert [(row["fact"], row["status"]) for row in found.details["facts"]] == [
        ("Russia", "matched"),
        ("… in Russia …", "matched"),
        ("held … from June to July", "extra"),
    ]
    # What describes the value itself stays with it.
    assert measured(metric, AMY, "apples", "red apples").values["similarity"] == 0.0


def test_texts_without_facts_are_undefined(metric):
    found = measured(metric, "Who?", "I do not know.", "Sorry, I cannot say.")
    assert (found.status, found.reason) == ("undefined", "no facts: neither the answer nor a reference states one")


def test_the_signature_names_the_judge_and_the_grammar(metric):
    name, version, judge, grammar, blank = metric.signature.split("|")
    assert (name, version, grammar, blank) == ("ground_truth_similarity", "v1", "grammar:2", "blank:zero")
    assert judge.startswith("judge:offline@")


def test_the_arithmetic_of_the_golden_file(metric, shared):
    """Every row of the table, with fruits for facts: the first ones are in both texts."""
    for row in json.loads((shared / "golden" / "ground_truth_similarity.json").read_text("utf-8"))["arithmetic"]:
        n_ref, n_answer, matched = row["n_ref"], row["n_resp"], row["matched"]
        ours = "; ".join(FRUITS[:n_ref]) or "I do not know."
        others = FRUITS[:matched] + FRUITS[10 : 10 + n_answer - matched]
        found = measured(metric, "Which fruits does Amy like?", ours, "; ".join(others) or "I cannot say.")
        assert found.values.get("similarity") == (None if row["gts"] is None else pytest.approx(row["gts"])), row


def test_the_first_two_hundred_facts_of_a_text_are_compared_and_that_is_out_of_depth(metric):
    many = "; ".join(f"book {number}" for number in range(1, 300))
    details = measured(metric, "Which books are there?", many, f"{many}; book 300").details
    assert (details["n_reference"], details["n_answer"], details["n_matched"]) == (200, 200, 200)
    assert details["out_of_depth"] == "the answer is longer than the 150 words that it was trained on"


FRUITS = [
    *("apples", "bananas", "cherries", "plums", "grapes", "lemons", "mangos", "figs", "melons", "pears"),
    *("papayas", "olives", "quinces", "dates", "limes", "kiwis", "peaches", "apricots", "guavas", "currants"),
]
