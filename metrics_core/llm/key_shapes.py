"""How keys look, by which one that was pasted into some other place is recognised before anything stores it."""

from __future__ import annotations

import re

from pydantic import AfterValidator

_SHAPES = (
    # OpenAI, Anthropic, OpenRouter, Langfuse, Stripe, Cerebras
    r"(?:sk|pk|rk|csk)[-_][A-Za-z0-9_-]{8,}",
    # GitHub, GitLab
    r"gh[a-z]_[A-Za-z0-9]{8,}",
    r"github_pat_[A-Za-z0-9_]{8,}",
    r"glpat-[A-Za-z0-9_-]{8,}",
    # AWS, Google
    r"A[KS]IA[A-Z0-9]{8,}",
    r"AIza[A-Za-z0-9_-]{16,}",
    r"ya29\.[A-Za-z0-9_-]{8,}",
    # Slack, Hugging Face, Groq, Replicate, Together, Fireworks, LangSmith, npm
    r"xox[a-z]-[A-Za-z0-9-]{8,}",
    r"(?:hf|gsk|r8|tgp|fw|lsv2|npm)_[A-Za-z0-9_]{16,}",
    # xAI, Perplexity, NVIDIA, PyPI
    r"(?:xai|pplx|nvapi|pypi)-[A-Za-z0-9_-]{16,}",
    # JSON Web Tokens
    r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
    # Others: letters of both cases and digits, with nothing between them
    r"(?=[A-Za-z]*[0-9])(?=[a-z0-9]*[A-Z])(?=[A-Z0-9]*[a-z])[A-Za-z0-9]{24,}",
)
KEY_SHAPE = rf"(?:^|[^A-Za-z0-9])(?:{'|'.join(_SHAPES)})"
"""For Python and for JavaScript, by which forms check before a server stores."""


def holds_key(text: str) -> bool:
    """Whether a part of a text looks like a key.

    >>> holds_key("http://127.0.0.1:8080/v1/sk-0123456789"), holds_key("http://sk-eu.example/v1")
    (True, False)
    """
    return re.search(KEY_SHAPE, text) is not None


def _without_key(text: str) -> str:
    if holds_key(text):
        raise ValueError(
            "a part of it looks like a key, and what is written here is stored; name the place where the key is, an "
            "environment variable or a Secret block of Prefect"
        )
    return text


NoKey = AfterValidator(_without_key)
"""For the annotation of a text: no part of it looks like a key. The message does not repeat it."""
