"""Ground truth similarity, asked over HTTP with scripted facts: examples, references, repairs, juries."""

import itertools
import json

import pytest

from answerkey import Sample, Undefined
from answerkey.metrics_core.judges.facts import DECOMPOSE, MATCH
from tests.judge_server import data_of
from tests.metrics_core.judges.asking import asked_with
from tests.metrics_core.judges.asking import judged as measured
from tests.metrics_core.judges.test_facts import DOCUMENT, reply_of

# The document's examples, and their facts in the reference, in the answer, and matched. `DOCUMENT` has these facts.
FRANCE = (
    "What is the capital of France, and what is the primary language spoken there?",
    "The capital of France is Paris, and the primary spoken language is French.",
)
ARCHIE = (
    "What is the age of Archie White, the oldest new graduate in Britain as of July 16, 2021?",
    "96 years old.",
)
HIKE = (
    "Give me a checklist to prepare for my hiking trip to the mountains.",
    "You should bring your a water bottle, hiking shoes and sunscreen.",
)
TEXTS = {
    "fr-1": (*FRANCE, "Paris is the capital of France, and the most spoken language is French.", (2, 2, 2)),
    "fr-2": (*FRANCE, "The capital of France is Paris.", (2, 1, 1)),
    "fr-3": (*FRANCE, "The capital of France is Paris, and the most spoken language is English.", (2, 2, 1)),
    "amy": (
        "What fruits does Amy like?",
        "Amy likes apples and bananas.",
        "Amy likes apples, berries and plums.",
        (2, 3, 1),
    ),
    "archie-1": (*ARCHIE, "Archie White's age is 96.", (1, 1, 1)),
    "archie-2": (*ARCHIE, "He is 96.", (1, 1, 1)),
    "archie-3": (*ARCHIE, "He is more than 95 years old.", (1, 1, 0)),
    "alex": ("What cars does Alex like?", "Alex likes blue cars.", "Alex likes all cars.", (1, 1, 0)),
    "hike-1": (*HIKE, "Here is a list of items to bring: 1) hiking shoes; 2) a water bottle.", (3, 2, 2)),
    "hike-2": (*HIKE, "... 1) backpack with food; 2) hiking shoes; 3) a water bottle.", (3, 3, 2)),
    "hike-3": (*HIKE, "... 1) backpack with food; 2) hiking shoes; 3) a water bottle; 4) sunscreen.", (3, 4, 3)),
}
FIELDS = ("similarity", "fact_precision", "fact_recall", "fact_f1")


def judged(server, *samples, **options):
    return measured(server, "ground_truth_similarity", *samples, **options)


def facts_reply(facts):
    return json.dumps({"facts": list(facts)})


def shares(n_reference, n_answer, matched):
    """The values of the metric by its definition."""
    precision, recall = (matched / n if n else 0.0 for n in (n_answer, n_reference))
    f1 = 2 * matched / (n_reference + n_answer)
    return dict(zip(FIELDS, map(pytest.approx, (min(precision, recall), precision, recall, f1)), strict=True))


def examiner(body):
    """Finds the document's example by its question, and by its reference or its answer."""
    data = data_of(body)
    for name, (question, reference, answer, _) in TEXTS.items():
        facts, answer_facts, links = DOCUMENT[name]
        if data["question"] == question and data.get("reference") == reference:
            return facts_reply(facts)
        if data["question"] == question and data.get("answer") == answer:
            assert [fact["fact"] for fact in data["references"][0]["facts"]] == facts
            return reply_of(answer_facts, links)
    raise AssertionError(f"no example of the document: {data}")


def spelled(body):
    """An honest judge of texts like "a, b": each part is a fact, equal facts are equivalent, "not b" denies "b"."""
    data = data_of(body)
    if "reference" in data:
        return facts_reply(parts(data["reference"]))
    facts = parts(data["answer"])
    ids = {f"a{n}": fact for n, fact in enumerate(facts, 1)}
    rows = [
        {
            "id": fact["id"],
            "equivalent": [name for name, text in ids.items() if text == fact["fact"]],
            "contradicted_by": [name for name, text in ids.items() if text == f"not {fact['fact']}"],
        }
        for reference in data["references"]
        for fact in reference["facts"]
    ]
    answer_facts = [{"id": name, "fact": text} for name, text in ids.items()]
    return json.dumps({"answer_facts": answer_facts, "reference_facts": rows, "abstained": not facts})


def parts(text):
    """The facts of a text; one that begins with a question mark has none."""
    return [] if text.startswith("?") else text.split(", ")


def by_model(**brains):
    """A brain for several judges."""
    return lambda body: brains[body["model"]](body)


# The document


def test_the_documents_examples(judge_server):
    server = judge_server(examiner)
    samples = [Sample(name, answer, [right], question) for name, (question, right, answer, _) in TEXTS.items()]
    for measurement in judged(server, *samples):
        counts = tuple(measurement.details[name] for name in ("n_reference", "n_answer", "n_matched"))
        assert counts == TEXTS[measurement.sample_id][3], measurement.sample_id
        assert measurement.values == shares(*counts)
        facts, answer_facts, _ = DOCUMENT[measurement.sample_id]
        rows = measurement.details["facts"]
        assert [row["fact"] for row in rows] == [*facts, *answer_facts]
        assert [row["side"] for row in rows] == ["reference"] * len(facts) + ["answer"] * len(answer_facts)
        assert [row["status"] for row in rows].count("matched") == 2 * measurement.details["n_matched"]
        assert (measurement.details["reference"], measurement.details["abstained"]) == (0, False)
    assert len(asked_with(server, "reference")) == 5, "each of the five references is taken apart once"
    assert len(asked_with(server, "answer")) == len(TEXTS)


def test_the_documents_examples_are_the_golden_ones(shared):
    golden = json.loads((shared / "golden" / "ground_truth_similarity.json").read_text("utf-8"))
    before = []
    for case in [*golden["ground_truth_similarity"], *golden["reference_fact_recall"]]:
        texts = [case["question"], case["reference"], case["response"]]
        before = [old if new == "(same)" else new for new, old in itertools.zip_longest(texts, before)]
        *texts, (n_reference, n_answer, matched) = TEXTS[case["id"]]
        assert texts == before
        assert (n_reference, matched) == (case["n_ref"], case["matched"])
        assert shares(n_reference, n_answer, matched)["similarity"] == case.get("gts", case.get("gts_if_computed"))


# What is asked


def test_both_requests(judge_server):
    server = judge_server(spelled)
    judged(server, Sample("1", "b, c", ["a, b", " ", "c"], "Which?"))
    decompositions, [match] = asked_with(server, "reference"), asked_with(server, "answer")
    assert sorted(data_of(body)["reference"] for body in decompositions) == ["a, b", "c"]
    assert [data_of(body)["question"] for body in decompositions] == ["Which?"] * 2
    for body, prompt in ((decompositions[0], DECOMPOSE), (match, MATCH)):
        assert body["messages"][0] == {"role": "system", "content": prompt.text}
        assert body["response_format"]["json_schema"]["schema"] == prompt.schema
    assert data_of(match) == {
        "question": "Which?",
        "references": [
            {"facts": [{"id": "r1.1", "fact": "a"}, {"id": "r1.2", "fact": "b"}]},
            {"facts": [{"id": "r2.1", "fact": "c"}]},
        ],
        "answer": "b, c",
    }


@pytest.mark.parametrize("at_once", [True, False])
def test_a_reference_is_taken_apart_once_for_all_releases(at_once, judge_server, tmp_path):
    server = judge_server(spelled, latency=0.02)
    releases = [
        [Sample(f"{release} {n}", f"a{n}, {release}", [f"a{n}, b"], f"q{n}") for n in range(5)]
        for release in ("one", "two")
    ]
    runs = [[*releases[0], *releases[1]]] if at_once else releases
    found = [one for run in runs for one in judged(server, *run, ledger=str(tmp_path))]
    assert [one.values["similarity"] for one in found] == [0.5] * 10
    assert len(asked_with(server, "reference")) == 5
    assert len(asked_with(server, "answer")) == 10
    assert [len(one.requests) for one in found] == [2] * 10
    for one, two in zip(found[:5], found[5:], strict=True):
        assert one.requests[0] == two.requests[0]
        assert one.requests[1] != two.requests[1]
    # Nothing is left to be asked.
    again = judged(server, *releases[1], ledger=str(tmp_path))
    assert server.n_requests == 15
    assert all(one.from_ledger and one.usage.tokens_in == 0 for one in again)
    assert [one.outcome for one in again] == [one.outcome for one in found[5:]]


def test_the_same_reference_to_another_question_is_another_text(judge_server):
    server = judge_server(spelled)
    judged(server, Sample("1", "b", ["a"], "q1"), Sample("2", "b", ["a"], "q2"))
    assert sorted(data_of(body)["question"] for body in asked_with(server, "reference")) == ["q1", "q2"]


def test_facts_of_the_data_set_are_used_as_they_are(judge_server):
    server = judge_server(spelled)
    samples = [
        Sample("with", "a, c", ["whatever it says"], "q", ["a", "b", " ", "B", "c"]),
        Sample("without", "a", [], "q", ["a", "b"]),
        Sample("blank facts", "a", ["a, b"], "q", ["", " "]),
    ]
    found = judged(server, *samples)
    assert [entry.values["similarity"] for entry in found] == [pytest.approx(2 / 3), 0.5, 0.5]
    assert [entry.details["reference"] for entry in found] == [None, None, 0]
    facts = [row["fact"] for row in found[0].details["facts"] if row["side"] == "reference"]
    assert facts == ["a", "b", "c"], "blank ones and those that differ in form only count once"
    assert [data_of(body)["reference"] for body in asked_with(server, "reference")] == ["a, b"]


# References and abstentions


def test_the_best_reference_gives_all_numbers_whatever_the_order(judge_server):
    server = judge_server(spelled)
    similarities = {"x, y, z": 0.0, "": None, "a, b, c, d": 0.5, "a, b, z": pytest.approx(2 / 3), "? nothing": 0.0}
    samples = [Sample("1", "a, b, not c", order, "q") for order in itertools.permutations(similarities)]
    for found, sample in zip(judged(server, *samples), samples, strict=True):
        assert found.values == dict.fromkeys(FIELDS, pytest.approx(2 / 3))
        assert sample.references[found.details["reference"]] == "a, b, z"
        usable = [text for text in sample.references if text]
        assert found.details["similarities"] == [similarities[text] for text in usable]
        ids = {row["id"].split(".")[0] for row in found.details["facts"] if row["side"] == "reference"}
        assert ids == {f"r{usable.index('a, b, z') + 1}"}
    assert len(asked_with(server, "reference")) == 4


@pytest.mark.parametrize("order", [["a, x", "a"], ["a", "a, x"]])
def test_of_equally_similar_references_no_order_makes_another_number(judge_server, order):
    # One fact of two, and one of one: both are half of the larger number.
    [measurement] = judged(judge_server(spelled), Sample("1", "a, b", order, "q"))
    assert measurement.details["similarities"] == [0.5, 0.5]
    assert measurement.values == dict(zip(FIELDS, (0.5, 0.5, 1.0, pytest.approx(2 / 3)), strict=True))
    assert order[measurement.details["reference"]] == "a"


def test_abstentions_and_references_without_facts(judge_server):
    samples = [("? I do not know.", "a, b"), ("a", "? no idea"), ("? I do not know.", "? no idea")]
    abstained, extra, nothing = judged(
        judge_server(spelled), *(Sample(answer, answer, [reference], "q") for answer, reference in samples)
    )
    assert abstained.values == extra.values == dict.fromkeys(FIELDS, 0.0)
    assert (abstained.reason, abstained.details["abstained"]) == ("the answer abstains", True)
    assert [row["status"] for row in abstained.details["facts"]] == ["missing", "missing"]
    assert extra.details["facts"] == [{"side": "answer", "id": "a1", "fact": "a", "status": "extra", "with": None}]
    assert nothing.outcome == Undefined("no facts: neither the answer nor a reference states one")


# What the judge must not do; judges/test_facts.py has every way in which a reply does not add up.

ROW = {"equivalent": [], "contradicted_by": []}
REPLY = {
    "answer_facts": [{"id": "a1", "fact": "a"}, {"id": "a2", "fact": "c"}],
    "reference_facts": [{"id": "r1.1", **ROW, "equivalent": ["a1"]}, {"id": "r1.2", **ROW}],
    "abstained": False,
}


@pytest.mark.parametrize("always", [False, True], ids=["once", "always"])
@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ({"reference_facts": REPLY["reference_facts"][:1]}, "ids", "reference_facts lacks r1.2"),
        ({"abstained": True}, "inconsistent", "abstained is true although answer_facts holds facts"),
    ],
)
def test_bookkeeping_that_does_not_add_up_is_repaired_once(changes, code, message, always, judge_server):
    def misled(body):
        repaired = len(body["messages"]) > 2 and not always
        return spelled(body) if "reference" in data_of(body) or repaired else json.dumps({**REPLY, **changes})

    server = judge_server(misled)
    [measurement] = judged(server, Sample("1", "a, c", ["a, b"], "q"))
    first, second = (body["messages"] for body in asked_with(server, "answer"))
    assert second[:2] == first
    assert second[3]["content"].startswith(f"This reply cannot be used: {message}")
    if always:
        assert (measurement.outcome.code, measurement.outcome.attempts) == (code, 3), (
            "one decomposition, two comparisons"
        )
        assert measurement.outcome.message.startswith(message)
    else:
        assert measurement.values["similarity"] == 0.5


def test_facts_that_cannot_be_read_fail_every_answer_to_them(judge_server):
    server = judge_server(lambda body: '{"facts": "a"}' if "reference" in data_of(body) else spelled(body))
    samples = [Sample("1", "b", ["a"], "q"), Sample("2", "c", ["a"], "q"), Sample("3", "c", [], "q", ["d"])]
    *failed, third = judged(server, *samples)
    assert [one.reason for one in failed] == ["unreadable: facts must be a list of texts"] * 2
    assert third.values["similarity"] == 0.0
    assert len(asked_with(server, "answer")) == 1


# Juries and repeats; judges/test_votes.py has every combination of votes.


def blind(*unseen):
    """A judge that takes these facts of an answer for others."""

    def brain(body):
        reply = json.loads(spelled(body))
        for row in reply.get("reference_facts", []):
            names = {fact["id"]: fact["fact"] for fact in reply["answer_facts"]}
            row["equivalent"] = [name for name in row["equivalent"] if names[name] not in unseen]
        return json.dumps(reply)

    return brain


def wild(_body):
    return "Half of it, I think."


SAMPLE = Sample("1", "a, b, c, d", ["a, b, c, d, e, f, g, h"], "q")
FULL, HALF, NONE = spelled, blind("a", "b"), blind("a", "b", "c", "d")  # 0.5, 0.25 and 0 similar


@pytest.mark.parametrize(
    ("judges", "missing"),
    [
        ({"x": FULL, "y": NONE, "z": wild}, "1 of 3 votes are missing; openai/z@127.0.0.1:"),
        ({"x": wild, "y": FULL, "z": FULL}, "3 of 3 votes are missing;"),  # the first one cannot take apart
    ],
)
def test_votes_that_are_missing_where_they_matter(judges, missing, judge_server):
    server = judge_server(by_model(**judges))
    [measurement] = judged(server, SAMPLE, models=tuple(judges), jury="majority")
    assert measurement.outcome.code == "missing_votes"
    assert measurement.outcome.message.startswith(missing)
    assert bool(asked_with(server, "answer")) == (judges["x"] is FULL)


def test_repeats_compare_anew_and_take_apart_once(judge_server):
    server = judge_server(lambda body: (HALF if body["seed"] == 1 else FULL)(body))
    [measurement] = judged(server, SAMPLE, repeats=3)
    assert (measurement.values["similarity"], measurement.values["spread"]) == (0.5, 0.25)
    assert [(row["repeat"], row["vote"]) for row in measurement.details["votes"]] == [(0, 0.5), (1, 0.25), (2, 0.5)]
    assert [body["seed"] for body in asked_with(server, "reference")] == [0]
    assert sorted(body["seed"] for body in asked_with(server, "answer")) == [0, 1, 2]
    assert len(set(measurement.requests)) == 4
