"""Which name means which model, and what revision it has."""

import os
from pathlib import Path

import pytest

from answerkey import Sample
from answerkey.metrics_core.embeddings.encoder import EncoderError
from answerkey.metrics_core.embeddings.models import field_suffixes, folder_revision, identify, is_api
from answerkey.metrics_core.errors import UserError
from answerkey.metrics_core.metrics.semantic_similarity import SemanticSimilarity


@pytest.fixture
def model_folder(tmp_path):
    folder = tmp_path / "My Model"
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text("ref")
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "README.md").write_text("words")
    return folder


@pytest.mark.parametrize(
    ("name", "kind", "label", "revision"),
    [
        ("minilm", "embedded", "minilm", "53aa5117"),
        ("use-multilingual", "embedded", "use-multilingual", "0db566fd"),
        ("openai/text-embedding-3-small", "api", "openai/text-embedding-3-small", "api"),
        ("litellm:ollama/nomic-embed-text", "api", "ollama/nomic-embed-text", "api"),
    ],
)
def test_known_names(name, kind, label, revision):
    model = identify(name)
    assert (model.kind, model.label, model.revision) == (kind, label, revision)
    assert is_api(name) is (kind == "api")


def test_a_folder_is_called_by_its_name_and_content(model_folder):
    model = identify(str(model_folder))
    assert (model.kind, model.label, model.target) == ("folder", "My Model", str(model_folder))
    signature = SemanticSimilarity([str(model_folder)]).signature
    assert f"|models:My_Model@{model.revision}|" in signature


def test_a_folder_comes_before_a_provider(model_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model_folder.rename(tmp_path / "openai")
    (tmp_path / "openai" / "mine").mkdir()
    assert identify("openai/mine").kind == "folder"
    assert not is_api("openai/mine")


def test_retrained_weights_are_another_revision(model_folder):
    before = folder_revision(model_folder)
    os.utime(model_folder / "config.json", (1, 1))
    (model_folder / "README.md").write_text("other words")
    (model_folder / ".git" / "HEAD").write_text("other")
    assert folder_revision(model_folder) == before
    (model_folder / "model.safetensors").write_bytes(b"WEIGHTS")
    assert folder_revision(model_folder) != before


def test_a_model_in_the_hugging_face_cache_has_its_commit_as_revision(tmp_path, monkeypatch):
    commit = "0123456789abcdef0123456789abcdef01234567"
    repository = tmp_path / "models--sentence-transformers--some-model"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(commit)
    (repository / "snapshots" / commit).mkdir(parents=True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    for name in ("sentence-transformers/some-model", "some-model"):
        model = identify(name)
        assert (model.kind, model.label, model.revision) == (
            "folder",
            "sentence-transformers/some-model",
            "01234567",
        )
        assert Path(model.target) == repository / "snapshots" / commit


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "acme/no-such-model",
            "embedding model 'acme/no-such-model' is neither minilm nor use-multilingual, nor a folder, nor "
            "in the Hugging Face cache, and a run downloads nothing: fetch it once with: "
            "hf download acme/no-such-model",
        ),
        ("minlm", "did you mean minilm? Otherwise fetch it once with: hf download"),
        ("./no/such/folder", "embedding model './no/such/folder': there is no such folder"),
        ("a/b/c", "embedding model 'a/b/c' is neither"),
        ("not a name!", "embedding model 'not a name!' is neither"),
    ],
)
def test_a_model_that_is_not_there_is_bad_input_with_a_remedy(name, expected):
    with pytest.raises(UserError) as caught:
        SemanticSimilarity([name]).measure([Sample("1", "a", ["b"])])
    assert isinstance(caught.value, EncoderError)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("names", "suffixes"),
    [
        (["minilm", "use-multilingual"], ["minilm", "use_multilingual"]),
        (["BAAI/bge-m3", "models/own/"], ["bge_m3", "own"]),
        (["a/base", "b/base"], ["a_base", "b_base"]),
        (["litellm:openai/text-embedding-3-small"], ["text_embedding_3_small"]),
        (["модель"], ["model"]),
    ],
)
def test_field_suffixes(names, suffixes):
    assert field_suffixes(names) == suffixes
