"""Facts: what is read from a reply, what is refused and with which message, the matching and the shares."""

import json
import re
from importlib import resources

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.metrics_core.judges.facts import (
    DECOMPOSE,
    MATCH,
    match_fields,
    merged,
    one_to_one,
    read_facts,
    read_matches,
    rows,
)
from answerkey.metrics_core.judges.prompt import load_prompt
from answerkey.metrics_core.llm import untrusted
from answerkey.metrics_core.llm.reply import Unreadable

# One way to take the document's examples apart: facts of the reference, of the answer, and what a judge says of them.
PARIS, FRENCH = "The capital of France is Paris.", "The primary language of France is French."
APPLES, BANANAS = "Amy likes apples.", "Amy likes bananas."
AGE = "Archie White is 96 years old."
BOTTLE, SHOES, CREAM, FOOD = "Bring a bottle.", "Bring hiking shoes.", "Bring sunscreen.", "Bring a backpack with food."
DOCUMENT = {
    "fr-1": ([PARIS, FRENCH], [PARIS, FRENCH], "r1.1=a1 r1.2=a2"),
    "fr-2": ([PARIS, FRENCH], [PARIS], "r1.1=a1 r1.2"),
    "fr-3": ([PARIS, FRENCH], [PARIS, "It is English."], "r1.1=a1 r1.2!a2"),
    "amy": ([APPLES, BANANAS], [APPLES, "Amy likes berries.", "Amy likes plums."], "r1.1=a1 r1.2"),
    "archie-1": ([AGE], ["Archie White's age is 96."], "r1.1=a1"),
    "archie-2": ([AGE], ["He is 96."], "r1.1=a1"),
    "archie-3": ([AGE], ["He is more than 95 years old."], "r1.1"),
    "alex": (["Alex likes blue cars."], ["Alex likes all cars."], "r1.1"),
    "hike-1": ([BOTTLE, SHOES, CREAM], [SHOES, BOTTLE], "r1.1=a2 r1.2=a1 r1.3"),
    "hike-2": ([BOTTLE, SHOES, CREAM], [FOOD, SHOES, BOTTLE], "r1.1=a3 r1.2=a2 r1.3"),
    "hike-3": ([BOTTLE, SHOES, CREAM], [FOOD, SHOES, BOTTLE, CREAM], "r1.1=a3 r1.2=a2 r1.3=a4"),
}


def reply_of(answer_facts, links, abstained=False):
    """A judge's reply with the answer facts a1, a2, ... and the reference facts in `links`.

    "r1.1=a1,a2!a3 r1.2" says that r1.1 is equivalent to a1 and a2 and contradicted by a3, and r1.2 is neither.
    """
    reference_facts = []
    for link in links.split():
        name, same, other = re.fullmatch(r"([^=!]+)(?:=([^!]+))?(?:!(.+))?", link).groups("")
        lists = (same.split(",") if same else [], other.split(",") if other else [])
        reference_facts.append({"id": name, "equivalent": lists[0], "contradicted_by": lists[1]})
    answers = [{"id": f"a{n}", "fact": fact} for n, fact in enumerate(answer_facts, 1)]
    return json.dumps({"answer_facts": answers, "reference_facts": reference_facts, "abstained": abstained})


def compared(answer_facts, links, reference_facts):
    [comparison] = read_matches(reply_of(answer_facts, links), [reference_facts]).by_reference
    return comparison


def ids(comparison, status):
    """The ids of the facts with this status."""
    found = rows(comparison, ["?"] * comparison.n_reference, ["?"] * comparison.n_answer)
    return [row["id"] for row in found if row["status"] == status]


def refusal(reply, references):
    """Why a reply cannot be used; it is always worth a repair."""
    with pytest.raises(Unreadable) as caught:
        read_matches(json.dumps(reply) if isinstance(reply, dict) else reply, references)
    assert caught.value.repairable
    return caught.value.code, caught.value.message


# What becomes of facts


@pytest.mark.parametrize(
    ("answer", "links", "pairs"),
    [
        # An equivalent fact that another one took is extra, and one of the reference is not matched twice.
        (["A", "B"], "r1.1=a2,a1 r1.2", [("r1.1", "a1")]),
        (["A"], "r1.1=a1 r1.2=a1", [("r1.1", "a1")]),
        # A fact moves on where the first choice would cost a match.
        (["A", "B"], "r1.1=a1,a2 r1.2=a1", [("r1.1", "a2"), ("r1.2", "a1")]),
    ],
)
def test_facts_are_matched_one_to_one(answer, links, pairs):
    comparison = compared(answer, links, ["F", "G"])
    assert list(comparison.pairs) == pairs
    assert len(ids(comparison, "extra")) == len(answer) - len(pairs)


def test_facts_that_differ_only_in_form_are_one_with_all_links():
    reply = reply_of(["Paris  is nice", "Other", "PARIS is nice", " "], "r1.1=a2 r1.2=a3 r1.3!a1")
    matches = read_matches(reply, [["F", "G", "H"]])
    [comparison] = matches.by_reference
    assert matches.answer_facts == ("Paris is nice", "Other")
    assert (comparison.pairs, comparison.contradicted) == ((("r1.1", "a2"), ("r1.2", "a1")), (("r1.3", "a1"),))
    assert merged(["Ёлка", "", "b", "елка", "\u200b", "B "]) == ("Ёлка", "b")
    assert merged(["It is 5", "It is -5", "It is not 5"]) == ("It is 5", "It is -5", "It is not 5")


# What is refused


def test_read_facts():
    assert read_facts('{"facts": []}') == ()
    assert read_facts('```json\n{"facts": ["One  fact.", " ", "one fact.", "Не 5."]}\n```') == ("One fact.", "Не 5.")
    assert read_facts(r'{"Facts": ["At \theta.", "\frac{1}{2}", "\\rho \(x\)",]}') == (
        r"At \theta.",
        r"\frac{1}{2}",
        r"\rho \(x\)",
    )
    assert read_facts('{"facts": ["half \\ud83d of a pair", "\\ud83d\\ude42"]}') == ("half \ufffd of a pair", "🙂")
    for reply in ('{"facts": ["a", 5]}', '{"facts": "a"}', '{"facts": null}', '{"fact": []}'):
        with pytest.raises(Unreadable, match=r"^facts must be a list of texts$") as caught:
            read_facts(reply)
        assert (caught.value.code, caught.value.repairable) == ("unreadable", True)


TWO, GOOD = [["F", "G"]], reply_of(["A", "B"], "r1.1=a1 r1.2!a2")


@pytest.mark.parametrize(
    ("answer", "links", "message"),
    [
        ("AB", "r1.1", "reference_facts lacks r1.2"),
        ("AB", "r1.1=a1 r1.2!a2 r1.3", "reference_facts names unknown r1.3"),
        ("A", "r1.1 r2.2", "reference_facts names unknown r2.2; reference_facts lacks r1.2"),
        ("AB", "r1.1 r1.2 r1.1", "reference_facts names more than once r1.1"),
        ("A", "r1.1=a1 r1.2!a2", "contradicted_by of r1.2 names unknown a2"),
        ("A", "r1.1=a1 r1.2=r1.1", "equivalent of r1.2 names unknown r1.1"),
        ("A", "r1.1=a1 r1.2=a1,a1", "equivalent of r1.2 names more than once a1"),
        ("AB", "r1.1=a1!a2,a1 r1.2", "r1.1 is both equivalent to and contradicted by a1"),
        ("Aa", "r1.1=a1!a2 r1.2", "r1.1 is both equivalent to and contradicted by a1, a2"),
        (
            "A", "r1.1=a7 r9.1",
            "reference_facts names unknown r9.1; reference_facts lacks r1.2; equivalent of r1.1 names unknown a7",
        ),
        ("A", "r1.1=a1 r1.2!obey-the-answer,a5", "contradicted_by of r1.2 names unknown a5 and 1 other id"),
        (
            "A", "r1.1=a1 r1.2=" + ",".join(f"a{n}" for n in range(5, 15)),
            "equivalent of r1.2 names unknown a5, a6, a7, a8, a9, a10, a11, a12 and 2 other ids",
        ),
    ],
)  # fmt: skip
def test_ids_that_do_not_add_up_are_named(answer, links, message):
    assert refusal(reply_of(answer, links), TWO) == ("ids", message)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ("a1", "answer_facts names more than once a1"),
        ("a02", "answer_facts names unknown a02; answer_facts lacks a2"),
    ],
)
def test_answer_facts_must_be_numbered(second, message):
    reply = json.loads(reply_of(["A", "B"], "r1.1 r1.2"))
    reply["answer_facts"][1]["id"] = second
    assert refusal(reply, TWO) == ("ids", message)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["abstained"], "false", "abstained must be true or false"),
        (["answer_facts"], {}, "answer_facts must be a list of objects"),
        (["answer_facts", 0], "A", "answer_facts must be a list of objects"),
        (["answer_facts", 0, "id"], 1, "id must be a text everywhere"),
        (["answer_facts", 0, "fact"], None, "fact must be a text everywhere"),
        (["reference_facts", 0, "equivalent"], "a1", "equivalent must be a list of texts"),
    ],
)
def test_wrong_types_are_unreadable(path, value, message):
    reply = inner = json.loads(GOOD)
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    assert refusal(reply, TWO) == ("unreadable", message)


# Laws


def largest(choices, taken=frozenset()):
    """The size of a largest matching, by trying all."""
    if not choices:
        return 0
    sizes = [1 + largest(choices[1:], taken | {choice}) for choice in choices[0] if choice not in taken]
    return max([*sizes, largest(choices[1:], taken)])


@given(st.lists(st.lists(st.integers(0, 4), unique=True, max_size=5).map(sorted), max_size=5))
def test_the_matching_is_a_largest_one(choices):
    found = one_to_one(choices)
    assert all(choice in choices[position] for position, choice in found.items())
    assert len(set(found.values())) == len(found) == largest(choices)


def test_a_path_through_every_fact_is_found_without_recursion():
    # Each fact takes the choice that the next one needs; the last one moves all of them, 2,000 deep.
    size = 2_000
    choices = [[n, n + 1] for n in range(size)] + [[0]]
    assert one_to_one(choices) == {**{n: n + 1 for n in range(size)}, size: 0}


@st.composite
def cases(draw):
    """The facts of one to three references and a reply about them whose bookkeeping is right."""
    sizes = draw(st.lists(st.integers(0, 4), min_size=1, max_size=3))
    n_answer = draw(st.integers(0, 5))
    kinds = st.sampled_from(["equivalent", "contradicted_by", "neither"])
    reference_facts = []
    for reference, size in enumerate(sizes, 1):
        for n in range(1, size + 1):
            row = {"id": f"r{reference}.{n}", "equivalent": [], "contradicted_by": []}
            for answer in range(1, n_answer + 1):
                row.get(draw(kinds), []).append(f"a{answer}")
            reference_facts.append(row)
    reply = json.loads(reply_of([f"Answer fact {n}" for n in range(1, n_answer + 1)], ""))
    return [[f"Fact {n}" for n in range(size)] for size in sizes], reply | {"reference_facts": reference_facts}


@given(cases())
def test_shares_are_those_of_their_definitions_and_every_fact_has_one_status(case):
    facts, reply = case
    matches = read_matches(json.dumps(reply), facts)
    for comparison, reference in zip(matches.by_reference, facts, strict=True):
        n_reference, n_answer, matched = comparison.n_reference, comparison.n_answer, len(comparison.pairs)
        shares = tuple(comparison.shares.values())
        if not n_reference and not n_answer:
            assert not shares
            continue
        assert shares == (
            matched / max(n_reference, n_answer),
            matched / n_answer if n_answer else 0.0,
            matched / n_reference if n_reference else 0.0,
            pytest.approx(2 * matched / (n_reference + n_answer)),
        )
        statuses = [(row["side"], row["status"]) for row in rows(comparison, reference, matches.answer_facts)]
        assert statuses.count(("reference", "matched")) == statuses.count(("answer", "matched")) == matched
        contradicted = {name for link in comparison.contradicted for name in link} - set(sum(comparison.pairs, ()))
        alone = len(statuses) - 2 * matched - len(contradicted)
        assert statuses.count(("reference", "missing")) + statuses.count(("answer", "extra")) == alone
        assert len(statuses) == n_reference + n_answer


@given(cases(), st.randoms(use_true_random=False))
def test_the_order_of_the_lists_changes_nothing(case, generator):
    facts, reply = case
    before = read_matches(json.dumps(reply), facts)
    for row in reply["reference_facts"]:
        generator.shuffle(row["equivalent"])
        generator.shuffle(row["contradicted_by"])
    for entries in (reply["answer_facts"], reply["reference_facts"]):
        generator.shuffle(entries)
    assert read_matches(json.dumps(reply), facts) == before


# Prompts


def test_a_version_follows_text_and_schema():
    assert load_prompt("decompose", DECOMPOSE.schema) == DECOMPOSE
    assert load_prompt("decompose", MATCH.schema).version != DECOMPOSE.version
    assert load_prompt("match_facts", DECOMPOSE.schema).version not in (DECOMPOSE.version, MATCH.version)
    assert [len(prompt.version) for prompt in (DECOMPOSE, MATCH)] == [6, 6]
    with pytest.raises(FileNotFoundError):
        load_prompt("no_such_prompt", {})
    # They are in a package, so that they are installed.
    assert resources.files("answerkey.metrics_core.judges.prompts").joinpath("__init__.py").is_file()


def test_both_prompts_say_the_same_about_what_a_fact_is():
    sections = [prompt.text.split("## What a fact is")[1].split("\n## ")[0] for prompt in (DECOMPOSE, MATCH)]
    assert sections[0] == sections[1]
    assert len(sections[0]) > 1_000


def closed(schema):
    """Whether a strict server takes the schema: every object closed, every field required."""
    if schema["type"] == "object":
        properties = schema["properties"]
        strict = schema["additionalProperties"] is False and schema["required"] == list(properties)
        return strict and all(map(closed, properties.values()))
    return closed(schema["items"]) if schema["type"] == "array" else schema["type"] in ("string", "boolean")


def test_schemas_are_strict():
    assert closed(DECOMPOSE.schema)
    assert closed(MATCH.schema)


def test_the_examples_in_the_prompts_are_right_themselves():
    def examples(prompt):
        """The reply's form, and pairs of what is asked and what is replied."""
        form, *objects = [json.loads(line) for line in prompt.text.splitlines() if line.startswith("{")]
        return list(form), zip(objects[::2], objects[1::2], strict=True)

    form, pairs = examples(DECOMPOSE)
    assert form == ["facts"]
    for material, reply in pairs:
        assert sorted(material) == ["question", "reference"]
        assert read_facts(json.dumps(reply)) == tuple(reply["facts"])
    form, pairs = examples(MATCH)
    assert form == ["answer_facts", "reference_facts", "abstained"]
    similarities = []
    for material, reply in pairs:
        facts = [[fact["fact"] for fact in reference["facts"]] for reference in material["references"]]
        assert material == match_fields(material["question"], facts, material["answer"])
        assert json.loads(untrusted.fenced(material).splitlines()[1]) == material
        matches = read_matches(json.dumps(reply), facts)
        similarities.append([comparison.shares["similarity"] for comparison in matches.by_reference])
    assert similarities == [[1 / 3], [0.0, 1.0], [0.0]]
