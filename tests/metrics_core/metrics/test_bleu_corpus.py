"""Corpus BLEU from the statistics that metric `bleu` leaves in its details."""

import json

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU

from answerkey.metrics_core import Sample, evaluate
from answerkey.metrics_core.metrics.bleu import corpus_bleu
from answerkey.metrics_core.text import normalise

TEXTS = st.lists(st.sampled_from([*"abcde", "-5", "3.14", "не", "A,", "d."]), min_size=1, max_size=9).map(" ".join)


def summed(samples):
    """The statistics of `samples`, as the report adds them up."""
    return np.sum([measurement.details["stats"] for measurement in evaluate(samples, ["bleu"])], axis=0)


def read(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.slow
def test_the_21_systems_of_the_e2e_challenge(shared):
    folder = shared / "data" / "e2e_nlg"
    references = {row["id"]: row["references"] for row in read(folder / "e2e_references.jsonl")}
    published = json.loads((folder / "e2e_bleu_rouge.json").read_text(encoding="utf-8"))["systems"]
    systems = {}
    for row in read(folder / "e2e_outputs.jsonl"):
        sample = Sample(row["id"], row["answer"], references[row["meta"]["question_id"]])
        systems.setdefault(row["model"], []).append(sample)
    assert [len(samples) for samples in systems.values()] == [630] * 21
    assert {name: round(float(corpus_bleu(summed(samples))), 4) for name, samples in systems.items()} == {
        name: system["bleu_published_and_reproduced"] for name, system in published.items()
    }


@pytest.mark.slow
@given(st.data(), st.integers(1, 3))
def test_corpus_bleu_is_sacrebleus(data, n_references):
    rows = data.draw(st.lists(st.tuples(TEXTS, *[TEXTS] * n_references), min_size=1, max_size=8))
    streams = [list(column) for column in zip(*rows, strict=True)]
    oracle = BLEU(lowercase=True).corpus_score(streams[0], streams[1:])
    stats = summed(Sample(str(i), answer, references) for i, (answer, *references) in enumerate(rows))
    assert stats.tolist() == [oracle.sys_len, oracle.ref_len, *oracle.counts, *oracle.totals]
    assert corpus_bleu(stats) == pytest.approx(min(1.0, oracle.score / 100), rel=0, abs=1e-12)


@given(st.lists(st.tuples(TEXTS | st.just(""), TEXTS), min_size=2, max_size=6))
def test_missing_answers_count_in_the_brevity_penalty(rows):
    assume(any(answer for answer, _ in rows))
    oracle = BLEU(lowercase=True).corpus_score([answer for answer, _ in rows], [[text for _, text in rows]])
    stats = summed(Sample(str(i), answer or None, [text]) for i, (answer, text) in enumerate(rows))
    assert corpus_bleu(stats) == pytest.approx(min(1.0, oracle.score / 100), rel=0, abs=1e-12)


def test_a_release_that_says_nothing_scores_zero():
    assert corpus_bleu(summed([Sample("1", None, ["a b"]), Sample("2", "", ["c"])])) == 0
    # Without a single run of four words the plain definition has nothing to multiply.
    assert corpus_bleu(summed([Sample("1", "a b c", ["a b c"])])) == 0


def test_sentences_are_lower_cased_and_normalised_first():
    assert normalise("A “B” c D.") == 'a "b" c d.'
    assert corpus_bleu(summed([Sample("1", "A “B” c D.", ['a "b" C d.'])])) == 1
