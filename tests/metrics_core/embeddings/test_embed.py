"""From texts to vectors: chunks and batches, kept between runs and processes."""

import logging
import sqlite3
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey import Sample
from answerkey.metrics_core.embeddings.cache import FILE_NAME, EmbeddingCache
from answerkey.metrics_core.embeddings.embed import chunk, pack, readable
from answerkey.metrics_core.embeddings.encoder import Embedded
from answerkey.metrics_core.metrics.semantic_similarity import SemanticSimilarity
from tests.kit.waiting import FAULT_S
from tests.metrics_core.encoders import BagOfWords
from tests.metrics_core.metrics_help import ROOT


def characters(limit):
    return lambda part: len(part) <= limit


@pytest.mark.parametrize(
    ("text", "limit", "parts"),
    [
        ("It is 3.14. Not 5!", 11, ["It is 3.14.", "Not 5!"]),
        ('He said "no." Then he left.', 14, ['He said "no."', "Then he left."]),
        ("今日は。明日も！", 4, ["今日は。", "明日も！"]),
        ("هل هذا صحيح؟ نعم.", 13, ["هل هذا صحيح؟", "نعم."]),
        ("a bb ccc dddd. e", 8, ["a bb ccc", "dddd. e"]),
        ("abcdefgh", 3, ["abc", "def", "gh"]),
        ("  one  ", 10, ["one"]),
    ],
)
def test_cuts(text, limit, parts):
    assert pack(text, characters(limit)) == parts


@given(st.text("ab .!?。\nЖ؟", min_size=1, max_size=200), st.integers(1, 30))
def test_nothing_is_lost_and_everything_fits(text, limit):
    parts = pack(text, characters(limit))
    assert all(part and len(part) <= limit for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())


def test_a_character_that_does_not_fit_is_a_part_of_its_own():
    assert pack("ab", lambda _: False) == ["a", "b"]


def test_thousands_of_sentences_are_cut_into_full_parts():
    text = "This is a sentence of some words. " * 7500
    parts = chunk(text, str.split, 254)
    assert sum(part.weight for part in parts) == 52_500
    assert {part.weight for part in parts[:-1]} == {252}


@pytest.mark.parametrize(
    ("text", "pieces", "expected"),
    [
        ("Paris 🙂", ["▁Paris", "▁", None], True),
        ("🙂", ["▁", None], False),
        ("!!!", ["!", "!", "!"], True),
        ("ქართული.", ["▁", None, None, "."], False),
        ("ქართული 2024", [None, "2024"], False),
        ("ქა 2024", [None, "2024"], True),
        ("\u200b", [], False),
    ],
)
def test_readable(text, pieces, expected):
    assert readable(text, pieces) is expected


# The embedding cache: same numbers, several processes, damage.


SAMPLES = [Sample(str(i), f"answer {i}", ["answer", f"{i % 3}"]) for i in range(30)]


def values(model, folder=None, samples=SAMPLES):
    metric = SemanticSimilarity([model], embedding_cache=folder and str(folder))
    return [(measurement.values, measurement.details) for measurement in metric.measure(samples)]


def test_a_second_call_encodes_nothing_and_gives_the_same(tmp_path):
    fresh, again = values(BagOfWords()), BagOfWords()
    assert values(BagOfWords(), tmp_path / "new") == values(again, tmp_path / "new") == fresh
    assert again.calls == []


def test_only_new_texts_are_encoded(tmp_path):
    values(BagOfWords(), tmp_path, SAMPLES[:10])
    model = BagOfWords()
    values(model, tmp_path, SAMPLES[:12])
    assert sorted(text for call in model.calls for text in call) == ["answer 10", "answer 11"]


def test_chunks_are_noted_from_the_cache_too(tmp_path):
    for _ in range(2):
        model = BagOfWords(max_pieces=2)
        [(_, details)] = values(model, tmp_path, [Sample("1", "one two three four five", ["six"])])
        assert details["chunks"] == {"bag": {"answer": 3}}
    assert model.calls == []


@pytest.mark.parametrize("change", [{"name": "other"}, {"revision": "2"}, {"max_pieces": 5}])
def test_another_model_revision_or_limit_shares_nothing(tmp_path, change):
    values(BagOfWords(), tmp_path, SAMPLES[:1])
    model = BagOfWords()
    vars(model).update(change)
    values(model, tmp_path, SAMPLES[:1])
    assert [sorted(call) for call in model.calls] == [["0", "answer", "answer 0"]]


def test_vectors_come_back_bit_for_bit(tmp_path):
    rng = np.random.default_rng(1)
    known = {f"текст {i}": Embedded(rng.normal(size=384).astype(np.float32), i) for i in range(1203)}
    cache = EmbeddingCache(tmp_path)
    cache.put(BagOfWords(), known)
    found = cache.get(BagOfWords(), [*known, "unknown"])
    assert found.keys() == known.keys()
    assert all(found[text].vector.tobytes() == known[text].vector.tobytes() for text in known)
    assert all(found[text].chunks == known[text].chunks for text in known)


def test_the_first_embedding_of_a_text_stays(tmp_path):
    # Batches differ in the last bits; a number that was reported is not to change on the next run.
    cache = EmbeddingCache(tmp_path)
    cache.put(BagOfWords(), {"a": Embedded(np.array([1, 2], np.float32))})
    cache.put(BagOfWords(), {"a": Embedded(np.array([3, 4], np.float32))})
    assert cache.get(BagOfWords(), ["a"])["a"].vector.tolist() == [1, 2]


@pytest.mark.parametrize("damage", ["not a database", "a folder"])
def test_a_damaged_cache_is_reported_and_costs_no_row(tmp_path, damage, caplog):
    if damage == "a folder":
        (tmp_path / FILE_NAME).mkdir()
    else:
        (tmp_path / FILE_NAME).write_text(damage * 100)
    with caplog.at_level(logging.WARNING):
        found = values(BagOfWords(), tmp_path)
    assert found == values(BagOfWords())
    for what in ("read", "written"):
        assert f"embedding cache {tmp_path / FILE_NAME} cannot be {what}" in caplog.text


WRITER = """
import sys
import numpy as np
from pathlib import Path
from answerkey.metrics_core.embeddings.cache import EmbeddingCache
from answerkey.metrics_core.embeddings.encoder import Embedded

class Model:
    name, revision, max_pieces = "m", "1", 10

cache, start, batches = EmbeddingCache(Path(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
for i in range(start, start + batches):  # 50 texts a transaction
    cache.put(Model(), {f"{i} {j}": Embedded(np.array([i, j], np.float32)) for j in range(50)})
"""


def start_writer(folder, start, batches):
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), str(start), str(batches)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert writer.stdout.readline() == "ready\n"
    return writer


def test_a_killed_process_leaves_whole_batches(tmp_path):
    writer = start_writer(tmp_path, 0, 5000)
    writer.stdin.write("go\n")
    writer.stdin.flush()
    while not (tmp_path / FILE_NAME).exists() or _count(tmp_path) < 100:
        assert writer.poll() is None
    writer.kill()
    writer.communicate()
    count = _count(tmp_path)
    assert 100 <= count < 5000 * 50
    assert count % 50 == 0
    with sqlite3.connect(tmp_path / FILE_NAME) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def _count(folder):
    with sqlite3.connect(folder / FILE_NAME, timeout=FAULT_S) as db:
        if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'embeddings'").fetchone():
            return 0
        return int(db.execute("SELECT count(*) FROM embeddings").fetchone()[0])
