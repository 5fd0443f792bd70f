"""What an estimate says, against what is then really asked."""

import sqlite3
from collections.abc import Callable

import pytest

from answerkey.metrics_core import Sample
from answerkey.metrics_core.judges.estimate import estimate_cost
from answerkey.metrics_core.llm.cost import Cost, total_usd
from answerkey.metrics_core.llm.ledger import FILE
from answerkey.metrics_core.metrics.ground_truth_similarity import GroundTruthSimilarity
from answerkey.metrics_core.metrics.meaning_match import MeaningMatch
from tests.judge_server import JudgeServer, agreeable
from tests.metrics_core.judges.asking import setup

Serve = Callable[..., JudgeServer]
METRICS = [MeaningMatch, GroundTruthSimilarity]

PARIS = ["Paris is the capital. It lies on the Seine."]
SAMPLES = [
    Sample("asked", "It is Paris. It is large.", PARIS, "What is the capital?"),
    Sample("the same again", "It is Paris. It is large.", PARIS, "What is the capital?"),
    Sample("another answer", "It is Lyon.", PARIS, "What is the capital?"),
    Sample("another reference", "It is Rome.", ["Rome is the capital.", "It is Rome indeed."], "And of Italy?"),
    Sample("facts of its own", "It is Bern.", ["Bern is."], "And of Switzerland?", facts=["The capital is Bern."]),
    Sample("equal but for form", "  paris is the capital. It lies on  the Seine.\n", PARIS, "What is the capital?"),
    Sample("blank", " ", PARIS, "What is the capital?"),
    Sample("without references", "It is Oslo.", [], "And of Norway?"),
]


def options(server, *models, **changes):
    return setup(*(f"openai/{model}@{server.url}" for model in models or ("judge",)), **changes)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("models", "repeats", "calls"),
    [
        (("judge",), 1, {"meaning_match": 4, "ground_truth_similarity": 3 + 4}),
        (("judge",), 3, {"meaning_match": 12, "ground_truth_similarity": 3 + 12}),
        # References are taken apart by the first judge alone.
        (("judge", "another"), 2, {"meaning_match": 16, "ground_truth_similarity": 3 + 16}),
    ],
)
def test_as_many_calls_are_made_as_were_estimated(
    metric, models, repeats, calls, judge_server,
    tmp_path,
):  # fmt: skip
    server = judge_server(agreeable)
    asked = options(server, *models, repeats=repeats, ledger=str(tmp_path / "home")).metric(metric)
    foreseen = estimate_cost(asked, SAMPLES)
    assert (foreseen.metric, foreseen.samples, foreseen.in_ledger) == (metric.name, 8, 0)
    assert foreseen.calls == calls[metric.name]
    assert (server.n_requests, list(tmp_path.iterdir())) == (0, [])
    asked.measure(SAMPLES)
    assert server.n_requests == foreseen.calls
    again = estimate_cost(asked, SAMPLES)
    nothing = {"calls": 0, "tokens_in": 0, "tokens_out": 0, "cost_usd": 0.0}
    assert again == Cost(metric.name, 8, in_ledger=foreseen.calls, **nothing)


def test_what_the_ledger_has_is_not_estimated(judge_server, tmp_path):
    server = judge_server(agreeable)
    metric = options(server, ledger=str(tmp_path)).metric(GroundTruthSimilarity)
    metric.measure(SAMPLES[:1])
    assert server.n_requests == 2
    before = sqlite3.connect(tmp_path / FILE).execute("SELECT * FROM answerkey_calls").fetchall()
    foreseen = estimate_cost(metric, SAMPLES)
    assert (foreseen.calls, foreseen.in_ledger) == (5, 2)
    assert sqlite3.connect(tmp_path / FILE).execute("SELECT * FROM answerkey_calls").fetchall() == before
    metric.measure(SAMPLES)
    assert server.n_requests == 7


def test_replies_that_could_not_be_read_are_asked_for_again(judge_server, tmp_path):
    server = judge_server(lambda _body: "I would rather not say.")
    metric = options(server, ledger=str(tmp_path)).metric(MeaningMatch)
    metric.measure(SAMPLES[:1])
    assert estimate_cost(metric, SAMPLES[:1]).calls == 1


@pytest.mark.parametrize("metric", METRICS)
def test_tokens_and_cost_are_of_the_right_order(metric, judge_server):
    """The server counts four characters a token, which is about what a tokenizer makes of English."""
    server = judge_server(agreeable)
    asked = options(server, "gpt-4o-mini").metric(metric)
    foreseen = estimate_cost(asked, SAMPLES)
    found = asked.measure(SAMPLES)
    tokens_in = sum(one.usage.tokens_in for one in found)
    tokens_out = sum(one.usage.tokens_out for one in found)
    cost = sum(one.usage.cost_usd or 0.0 for one in found)
    assert foreseen.cost_usd is not None
    assert 0.6 < foreseen.tokens_in / tokens_in < 1.6
    assert 0.3 < foreseen.tokens_out / tokens_out < 5.0
    assert 0.4 < foreseen.cost_usd / cost < 3.0


def test_a_cost_is_unknown_as_soon_as_one_price_is(judge_server):
    server = judge_server(agreeable)
    known = estimate_cost(options(server, "gpt-4o-mini").metric(MeaningMatch), SAMPLES)
    unknown = estimate_cost(options(server, "our-own").metric(MeaningMatch), SAMPLES)
    both = estimate_cost(options(server, "gpt-4o-mini", "our-own").metric(MeaningMatch), SAMPLES)
    assert known.cost_usd is not None
    assert known.cost_usd > 0.0
    assert (unknown.cost_usd, both.cost_usd) == (None, None)
    assert (unknown.calls, both.calls) == (4, 8)
    assert total_usd([known, known]) == pytest.approx(2 * known.cost_usd)
    assert total_usd([known, unknown]) is None
    assert total_usd([]) == 0.0


def test_nothing_to_ask_costs_nothing(judge_server):
    metric = options(judge_server(agreeable), "our-own").metric(MeaningMatch)
    assert estimate_cost(metric, SAMPLES[5:]) == Cost("meaning_match", 3, 0, 0, 0, 0, 0.0)
    assert estimate_cost(metric, iter([])) == Cost("meaning_match", 0, 0, 0, 0, 0, 0.0)


def test_a_cascade_estimates_only_what_would_be_asked(judge_server):
    asked = options(judge_server(agreeable), "our-own")

    def cascade(accepted):
        return MeaningMatch(asked.judge.model_copy(update={"cascade": accepted}), access=asked.access)

    whole = estimate_cost(asked.metric(MeaningMatch), SAMPLES)
    none = estimate_cost(cascade(1e-9), SAMPLES)
    assert none == whole
    found = estimate_cost(cascade(0.05), SAMPLES)
    # Five answers need judging, and two of them are equal: four requests. The offline judge leaves those two open, and
    # one more.
    assert (whole.calls, whole.offline) == (4, 0)
    assert (found.calls, found.offline, found.cost_usd) == (2, 2, None)
