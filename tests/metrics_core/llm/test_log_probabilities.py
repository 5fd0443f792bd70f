"""Log-probabilities of a reply: which tokens are its verdict's, and verdicts that are weighed by them."""

import json
import math
from dataclasses import replace

import pytest

from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.judges.judge_metric import check
from answerkey.metrics_core.judges.options import JudgeOptions
from answerkey.metrics_core.llm.log_probabilities import Token, probabilities, tokens_of, weights_of
from answerkey.metrics_core.measurement import Scored
from answerkey.metrics_core.metrics.ground_truth_similarity import GroundTruthSimilarity
from answerkey.metrics_core.metrics.meaning_match import MeaningMatch
from tests.judge_brains import spelled
from tests.judge_server import Reply, data_of
from tests.metrics_core.judges.asking import ask, failure, number_of, options, rows, samples, setup

YES_NO = ("yes", "no")
OPENED, CLOSED = '{"verdict": "', '"}'


def token(said, share=1.0, others=None):
    """A token with its probability, and those of what might have been said instead."""
    alternatives = tuple((text.encode(), math.log(one)) for text, one in (others or {}).items())
    return Token(said.encode() if isinstance(said, str) else said, math.log(share), alternatives)


def shares(*tokens, labels=YES_NO):
    """The probabilities of labels; a token that is certain is given as its text."""
    tokens = [token(one) if isinstance(one, str) else one for one in tokens]
    weights = weights_of(tokens, "verdict")
    return {label: round(one, 6) for label, one in probabilities(weights or "[]", labels).items()}


@pytest.mark.parametrize(
    "tokens",
    [
        # However a tokenizer cuts the same reply.
        [OPENED, token("yes", 0.75, {"no": 0.25}), CLOSED],
        ['{"verdict":', token(' "yes', 0.75, {' "no': 0.25}), CLOSED],
        ['{"verdict":', token(' "yes"}', 0.75, {' "no"}': 0.25})],
        [OPENED, token("y", 0.75, {"n": 0.25}), "es", CLOSED],
        [OPENED, " ", token("yes", 0.75, {"no": 0.25}), CLOSED],
        # The same label in several ways, and what is no label at all.
        [OPENED, token("Yes", 0.3, {"yes": 0.3, "NO": 0.15, "no": 0.05, "so": 0.2}), CLOSED],
        ['{"verdict":', token(' "yes', 0.75, {'"no': 0.125, ' "NO': 0.125}), CLOSED],
    ],
)
def test_a_label_gets_what_all_its_spellings_are_worth(tokens):
    assert shares(*tokens) == {"yes": 0.75, "no": 0.25}


@pytest.mark.parametrize("cut", range(1, 6))
def test_a_label_whose_tokens_end_within_a_character_is_read_whole(cut):
    said = "是的".encode()
    tokens = [OPENED, token(said[:cut], 0.75, {"否": 0.25}), token(said[cut:]), CLOSED]
    assert shares(*tokens, labels=("是的", "否")) == {"是的": 0.75, "否": 0.25}


def test_what_was_said_in_another_spelling_is_not_taken_for_its_alternatives():
    escaped = [OPENED, token("\\u0434", 0.9, {"нет": 0.1}), "\\u0430", CLOSED]
    assert shares(*escaped, labels=("да", "нет")) == {}


def test_labels_that_begin_alike_are_told_apart_where_they_part():
    labels = ("match", "mismatch", "match_in_part", "10", "1", "100")

    def found(*tokens):
        return {label: share for label, share in shares(*tokens, labels=labels).items() if share}

    words = found(OPENED, token("match", 0.8, {"mis": 0.2}), token('"', 0.75, {"_in": 0.25}), "}")
    assert words == {"match": 0.6, "mismatch": 0.2, "match_in_part": 0.2}
    numbers = found('{"verdict": ', token("1", 0.9, {"perhaps": 0.1}), token("0", 0.5, {"}": 0.5}), "}")
    assert numbers == {"10": 0.5, "1": 0.5}


@pytest.mark.parametrize(
    "reason",
    [
        r"It wrote \"verdict\": \"no\" into the answer.",
        r"{\"verdict\": \"no\"}",
        "verdict",
        "Ответ \U0001f600 верен: 日本",
        r"a backslash \\",
    ],
)
def test_it_is_the_verdict_that_counts_and_not_what_the_reason_quotes(reason):
    text = f'```json\n{{"reason": "{reason}", "nested": {{"verdict": "no"}}, "verdict": "yes"}}\n```'
    # Every token is a byte, but for the verdict: tokens end within characters.
    before, after = ([bytes([byte]) for byte in part.encode()] for part in text.rsplit("yes", 1))
    tokens = [token(byte, 1.0, {"no": 0.05}) for byte in before]
    tokens += [token("yes", 0.5, {"no": 0.25}), *map(token, after)]
    assert json.loads(weights_of(tokens, "verdict")) == [
        [["yes", math.log(0.5)], ["no", math.log(0.25)]],
        [['"', 0.0]],
    ]
    assert shares(*tokens) == {"yes": 0.666667, "no": 0.333333}


@pytest.mark.parametrize(
    "text", ["yes", '{"score": 1}', '{"verdict": {"is": "yes"}}', '{"verdict": ["yes"]}', '{"verdict": "ye', ""]
)
def test_a_reply_without_the_verdict_has_no_weights(text):
    assert weights_of([token(text)], "verdict") is None


def test_what_says_nothing_of_any_label_gives_no_probabilities():
    assert shares(OPENED, token("perhaps", 0.9), CLOSED) == {}
    assert probabilities("[]", YES_NO) == {}


@pytest.mark.parametrize(
    "logprobs",
    [
        None, "none", [], {}, {"content": None}, {"content": [None]}, {"content": [{"token": "a"}]},
        {"content": [{"token": "a", "logprob": "0"}]}, {"content": [{"token": "a", "logprob": math.nan}]},
        {"content": [{"token": "a", "logprob": True}]}, {"content": [{"logprob": -1.0}]},
        {"content": [{"token": 7, "logprob": -1.0, "bytes": [256]}]},
    ],
)  # fmt: skip
def test_what_is_no_list_of_tokens_is_none(logprobs):
    assert tokens_of(logprobs) == ()


def test_a_probability_is_at_most_one_and_a_broken_alternative_is_left_out():
    others = [{"token": "b", "logprob": -9999.0}, {"token": "c"}, None, {"token": "a", "logprob": 0.0}]
    [found] = tokens_of({"content": [{"token": "?", "bytes": [195], "logprob": 1e30, "top_logprobs": others}]})
    assert found == Token(b"\xc3", 0.0, ((b"b", -9999.0), (b"a", 0.0)))
    assert probabilities('[[["yes", -9999.0], ["no", -1.0]]]', YES_NO) == {"yes": 0.0, "no": 1.0}


@pytest.mark.parametrize("logprob", [-math.inf, -(10**400), -1e308], ids=["infinite", "no float", "a float"])
def test_a_log_probability_below_all_that_count_is_zero_and_stays_json(logprob):
    content = [
        {"token": OPENED, "logprob": 10**400},
        {"token": "yes", "logprob": -1, "top_logprobs": [{"token": "no", "logprob": logprob}]},
        {"token": CLOSED, "logprob": logprob},
    ]
    tokens = tokens_of({"content": content})
    assert shares(*tokens) == {"yes": 1.0, "no": 0.0}
    assert "Infinity" not in weights_of(tokens, "verdict")


def test_the_verdicts_of_meaning_match_are_told_apart_by_their_first_tokens():
    text = '{"reason": "a match", "rule": "alias", "verdict": "match"}'
    expected = {"match": 0.7, "mismatch": 0.2, "partial": 0.06, "multiple_alternatives": 0.04}
    first = {"match": 0.7, "mis": 0.2, "part": 0.06, "multiple": 0.04, "m": 0.0}
    found = shares(*tokens_of(spelled(text, {"match": first})), labels=tuple(MeaningMatch().labels))
    assert found == {**expected, "hedged": 0.0, "refusal": 0.0}


# Verdicts weighed by the log-probabilities of their tokens, from the server's answer to the score.


pytestmark = pytest.mark.usefixtures("first_call_made")

SURE = {"match": 0.7, "mis": 0.2, "part": 0.06, "multiple": 0.04}
NONE_SENT = "its replies come without the log-probabilities of tokens"


def weighed(instead=SURE, verdict="match"):
    """A judge that is of this opinion with these probabilities; its reason names the verdict as well."""
    reference = 1 if verdict == "match" else None
    rest = {"reference": reference, "rule": "factual_equivalence", "verdict": verdict}
    text = json.dumps({"reason": f'a "{verdict}"', **rest})
    return lambda _body: Reply(text, logprobs=spelled(text, {verdict.partition("_")[0]: instead}))


def judged(server, n=1, *, metric="meaning_match", **changes):
    return ask(samples(n), options(server, **{"log_probabilities": True, **changes}), metric)


def of_metric(metric, *, log_probabilities):
    return metric(judge=JudgeOptions(judges=["openai/m"], log_probabilities=log_probabilities))


def test_the_score_is_the_probability_of_a_match_and_it_is_paid_once(judge_server, tmp_path):
    server = judge_server(weighed())
    for from_ledger in (False, True):
        [found] = judged(server, model="openai/weighed", ledger=str(tmp_path))
        assert found.values == {"match": pytest.approx(0.7)}
        assert found.details["verdict"] == "match"
        assert found.details["weights"] == {
            "match": 0.7, "mismatch": 0.2, "partial": 0.06, "multiple_alternatives": 0.04,
        }  # fmt: skip
        assert found.from_ledger == from_ledger
    [request] = server.requests
    assert (request.body["logprobs"], request.body["top_logprobs"]) == (True, 5)
    [(stored, reply)] = rows(tmp_path, "weights, reply")
    # Of the reply's tokens, those of the verdict.
    assert [text for text, _ in json.loads(stored)[0]] == ["match", "mis", "part", "multiple"]
    assert json.loads(reply)["verdict"] == "match"


def test_where_it_is_not_asked_for_nothing_changes(judge_server, tmp_path):
    server = judge_server(weighed())
    [found] = judged(server, log_probabilities=False, ledger=str(tmp_path))
    assert (found.values, "weights" in found.details) == ({"match": 1.0}, False)
    assert not {"logprobs", "top_logprobs"} & server.requests[0].body.keys()
    assert rows(tmp_path, "weights") == [(None,)]
    plain, other = (of_metric(MeaningMatch, log_probabilities=on) for on in (False, True))
    assert other.signature == plain.signature.replace("|blank:", "|verdicts:weighed|blank:")
    assert [one.fields[0].binary for one in (plain, other)] == [True, False]
    # Nor for what cannot be weighed.
    plain, other = (of_metric(GroundTruthSimilarity, log_probabilities=on) for on in (False, True))
    assert (other.signature, other.fields) == (plain.signature, plain.fields)


def test_a_judge_that_was_not_sure_scores_what_its_verdict_is_worth(judge_server):
    [found] = judged(judge_server(weighed({"mis": 0.6, "match": 0.4}, "mismatch")))
    # The token that was said is the whole word, which is no alternative of its own here.
    assert found.values["match"] == pytest.approx(0.2, abs=0.01)


@pytest.mark.parametrize(
    ("scale", "said", "instead", "expected"),
    [
        ("1-5", '"4"', {"4": 0.5, "5": 0.25, "3": 0.25}, 0.75),
        ("0-10", '"10"', {"10": 0.75, "1": 0.25}, 1.0),
        ("yes/no", '"yes"', {"yes": 0.5, "Yes": 0.25, "no": 0.25}, 0.75),
        ("yes/no", "true", {"true": 0.75, "false": 0.25}, 0.75),
        ("{muddled: 0, plain: 0.4, clear: 1}", '"plain"', {"plain": 0.5, "clear": 0.25, "mud": 0.25}, 0.45),
    ],
)
def test_a_judge_of_ones_own_has_the_mean_of_its_scale(scale, said, instead, expected, judge_server, tmp_path):
    file = tmp_path / "clarity.yaml"
    file.write_text(f"name: clarity\ninputs: [answer]\ncriterion: The answer is clear.\nscale: {scale}\n")
    text = f'{{"reason": "so", "verdict": {said}}}'
    server = judge_server(lambda _: Reply(text, logprobs=spelled(text, {said.strip('"'): instead})))
    [found] = judged(server, metric=str(file))
    assert found.values == {"score": pytest.approx(expected, abs=1e-6)}


def test_a_server_that_sends_none_is_named_once_and_no_verdict_is_believed(judge_server, tmp_path):
    server = judge_server(lambda body: replace(weighed()(body), logprobs=None))
    found = judged(server, 20, ledger=str(tmp_path))
    # Those in flight when the first answer came.
    assert server.n_requests <= 2
    assert {failure(one).code for one in found} == {"no_log_probabilities"}
    assert {NONE_SENT} <= {failure(one).message for one in found} <= {
        NONE_SENT, f"not asked, since the judge is of no use here: {NONE_SENT}",
    }  # fmt: skip
    assert {code for (code,) in rows(tmp_path, "code")} == {"no_log_probabilities"}


def test_one_answer_without_them_among_others_fails_by_itself(judge_server):
    def forgetful(body):
        said = weighed()(body)
        return replace(said, logprobs=None) if number_of(body) == 3 else said

    server = judge_server(forgetful)
    found = judged(server, 8, concurrency=1)
    assert server.n_requests == 8
    assert [one.status for one in found] == ["scored"] * 3 + ["failed"] + ["scored"] * 4


def test_a_server_that_refuses_to_send_them_is_told_from_one_that_refuses_a_format(judge_server):
    server = judge_server(weighed(), refuse_parameters=["logprobs"])
    [found] = judged(server)
    assert failure(found).code == "no_log_probabilities"
    assert [request.fault for request in server.requests] == ["refused_parameter", None]
    assert server.requests[1].body["response_format"]["type"] == "json_schema"


TEXT = weighed()({}).text


@pytest.mark.parametrize(
    "logprobs",
    [
        # Of another text; and of none of the labels.
        spelled("A match.", {"match": {"match": 0.5, "no": 0.5}}),
        spelled(TEXT.replace('"match"', '"perhaps"'), {"perhaps": {"perhaps": 0.5, "surely": 0.5}}),
    ],
)
def test_a_verdict_that_its_log_probabilities_do_not_spell_fails(logprobs, judge_server):
    [found] = judged(judge_server(lambda _: Reply(TEXT, logprobs=logprobs)))
    assert failure(found).code == "no_weights"


def test_probes_are_about_the_nearest_verdict(judge_server):
    def unsure(body):
        right = data_of(body)["answer"].startswith("answer")
        return weighed({"match": 0.55, "mis": 0.45} if right else {"mis": 0.1, "match": 0.1})(body)

    found = judged(judge_server(unsure), 3, probes="always")
    # Every probe is called a match, half of them rightly.
    [(status, reason)] = {(one.status, one.reason) for one in found}
    assert (status, "right on" in reason, "of 9 probes" in reason) == ("skipped", True, True)
    metric = of_metric(MeaningMatch, log_probabilities=True)
    for score, nearest in ((0.0, 0.0), (0.49, 0.0), (0.5, 1.0), (0.93, 1.0)):
        assert metric.rounded(Scored({"match": score})) == Scored({"match": nearest})


def test_votes_that_are_weighed_are_never_a_tie(judge_server):
    [found] = judged(judge_server(weighed()), repeats=2)
    assert found.values == {"match": pytest.approx(0.7), "spread": pytest.approx(0.0)}


def test_a_provider_that_has_none_is_refused_before_anything_is_sent():
    asked = setup("anthropic/claude-sonnet-4-5", log_probabilities=True)
    with pytest.raises(UserError, match="sends no log-probabilities, so its verdicts cannot be weighed; leave"):
        check(asked.judge, "key")
    with pytest.raises(UserError, match="the offline judge sends no log-probabilities"):
        JudgeOptions(log_probabilities=True)
