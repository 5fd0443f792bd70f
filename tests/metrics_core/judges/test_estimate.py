"""What an estimate says, against what is then really asked."""

import json

import pytest

from answerkey import Sample
from answerkey.metrics_core.judges.cascade import trial_of
from answerkey.metrics_core.judges.check import checked, estimate_cost
from answerkey.metrics_core.judges.rubric import metric_of, read_rubric
from answerkey.metrics_core.llm.cost import Cost, total_usd
from answerkey.metrics_core.metrics.ground_truth_similarity import GroundTruthSimilarity
from answerkey.metrics_core.metrics.meaning_match import MeaningMatch
from tests.judge_server import agreeable, data_of
from tests.metrics_core.judges.asking import samples, setup

METRICS = [MeaningMatch, GroundTruthSimilarity]
PARIS, CAPITAL = ["Paris is the capital. It lies on the Seine."], "What is the capital?"
SAMPLES = [
    Sample("asked", "It is Paris. It is large.", PARIS, CAPITAL),
    Sample("the same again", "It is Paris. It is large.", PARIS, CAPITAL),
    Sample("another answer", "It is Lyon.", PARIS, CAPITAL),
    Sample("another reference", "It is Rome.", ["Rome is the capital.", "It is Rome indeed."], "And of Italy?"),
    Sample("facts of its own", "It is Bern.", ["Bern is."], "And of Switzerland?", facts=["The capital is Bern."]),
    Sample("equal but for form", "  paris is the capital. It lies on  the Seine.\n", PARIS, CAPITAL),
    Sample("blank", " ", PARIS, CAPITAL),
    Sample("without references", "It is Oslo.", [], "And of Norway?"),
]


def asking(metric, server, *models, **changes):
    return setup(*(f"openai/{model}@{server.url}" for model in models or ("judge",)), **changes).metric(metric)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("models", "repeats", "votes"),
    # References are taken apart by the first judge alone.
    [(("judge",), 3, 12), (("judge", "another"), 2, 16)],
)
def test_as_many_calls_are_made_as_were_estimated(metric, models, repeats, votes, judge_server, tmp_path):
    server = judge_server(agreeable)
    asked = asking(metric, server, *models, repeats=repeats, ledger=str(tmp_path / "home"))
    foreseen = estimate_cost(asked, SAMPLES)
    assert (foreseen.metric, foreseen.samples, foreseen.in_ledger) == (metric.name, 8, 0)
    assert foreseen.calls == votes + (3 if metric is GroundTruthSimilarity else 0)
    assert (server.n_requests, list(tmp_path.iterdir())) == (0, [])
    asked.measure(SAMPLES)
    assert server.n_requests == foreseen.calls
    nothing = {"calls": 0, "tokens_in": 0, "tokens_out": 0, "cost_usd": 0.0}
    assert estimate_cost(asked, SAMPLES) == Cost(metric.name, 8, in_ledger=foreseen.calls, **nothing)


def test_replies_that_could_not_be_read_are_asked_for_again(judge_server, tmp_path):
    metric = asking(MeaningMatch, judge_server(lambda _body: "I would rather not say."), ledger=str(tmp_path))
    metric.measure(SAMPLES[:1])
    assert estimate_cost(metric, SAMPLES[:1]).calls == 1


@pytest.mark.parametrize("metric", METRICS)
def test_tokens_and_cost_are_of_the_right_order(metric, judge_server):
    """The server counts four characters a token, which is about what a tokenizer makes of English."""
    asked = asking(metric, judge_server(agreeable), "gpt-4o-mini")
    foreseen = estimate_cost(asked, SAMPLES)
    usages = [one.usage for one in asked.measure(SAMPLES)]
    assert 0.6 < foreseen.tokens_in / sum(one.tokens_in for one in usages) < 1.6
    assert 0.3 < foreseen.tokens_out / sum(one.tokens_out for one in usages) < 5.0
    assert 0.4 < foreseen.cost_usd / sum(one.cost_usd for one in usages) < 3.0


def test_a_cost_is_unknown_as_soon_as_one_price_is(judge_server):
    server = judge_server(agreeable)
    known, unknown, both = (
        estimate_cost(asking(MeaningMatch, server, *models), SAMPLES)
        for models in (("gpt-4o-mini",), ("our-own",), ("gpt-4o-mini", "our-own"))
    )
    assert known.cost_usd > 0.0
    assert (unknown.cost_usd, both.cost_usd, unknown.calls, both.calls) == (None, None, 4, 8)
    assert total_usd([known, known]) == pytest.approx(2 * known.cost_usd)
    assert total_usd([known, unknown]) is None
    assert total_usd([]) == 0.0


def test_nothing_to_ask_costs_nothing(judge_server):
    metric = asking(MeaningMatch, judge_server(agreeable), "our-own")
    assert estimate_cost(metric, SAMPLES[5:]) == Cost("meaning_match", 3, 0, 0, 0, 0, 0.0)
    assert estimate_cost(metric, iter([])) == Cost("meaning_match", 0, 0, 0, 0, 0, 0.0)


NO_EXAMPLES = "{name: short, inputs: [answer], criterion: It is short., scale: yes/no}"


@pytest.mark.parametrize(
    ("rubric", "changes", "checks"),
    [
        # Four examples, of which one is a row too
        ("politeness", {}, 3),
        (NO_EXAMPLES, {}, 0),
        # Its rows lack the context, but for two
        ("faithfulness", {}, 3),
        ("politeness", {"repeats": 3}, 3),
    ],
    ids=["examples", "no examples", "rows without an input", "repeats"],
)
def test_a_rubric_asks_what_was_estimated(rubric, changes, checks, judge_server, tmp_path):
    metric = metric_of(read_rubric(rubric))
    label_by_answer = {one.sample.answer: one.verdict for one in metric.rubric.examples}
    first_label = metric.rubric.scale[0][0]

    def brain(body):
        data = data_of(body)
        return json.dumps({"reason": "It reads so.", "verdict": label_by_answer.get(data["answer"], first_label)})

    server = judge_server(brain)
    asked = asking(metric, server, ledger=str(tmp_path), check="auto", **changes)
    example = metric.rubric.examples[:1]
    rows = [*samples(12), *(one.sample for one in example), Sample("blank", " ", [], "What?", context=["Nothing."])]
    foreseen = estimate_cost(asked, rows)
    checked(asked, rows).measure(rows)
    assert (server.n_requests, foreseen.checks) == (foreseen.calls, checks)


def test_a_cascade_estimates_all_calls_and_how_many_less_it_may_take(judge_server):
    names = [f"{first}{last}" for first in "BDFGKLMNPRST" for last in ("alvik", "orund", "elmar", "intop", "umbra")]
    samples = [Sample(name, f"It is {name}.", [name], f"Which town is next to {name[::-1]}?") for name in names]
    found = estimate_cost(asking(MeaningMatch, judge_server(agreeable), "our-own", cascade=0.2), samples)
    assert (found.calls - found.checks, found.offline) == (60, 60 - len(trial_of(samples, 0.2).drawn))
