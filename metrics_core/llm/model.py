"""A model, its address and its key: `PROVIDER/MODEL@ADDRESS`; and how keys look.

By its shape, a key that was pasted into some other place is recognised before anything stores it.
"""

from __future__ import annotations

import os
import re
import socket
import time
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from urllib.parse import urlsplit

from pydantic import AfterValidator

from answerkey.metrics_core.errors import UserError

_LOCAL = frozenset(
    (
        *("docker_model_runner", "hosted_vllm", "lemonade", "llamafile", "lm_studio", "ollama", "ollama_chat"),
        *("oobabooga", "petals", "triton", "vllm", "xinference"),
    )
)
"""What litellm calls servers of the user's own, some of which have an address by default."""
_CONNECT_S = 5.0
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

_KEY_PLACES = "put the key into an environment variable, or a Secret block of Prefect"


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


@dataclass(frozen=True, slots=True)
class ModelRef:
    """A model at an address. The key opens it and is not part of it.

    Attributes:
        model: as litellm names it, for instance `openai/gpt-4o-mini`.
        api_base: the address of an OpenAI-compatible server; empty: the provider's own.
        api_key: None: what litellm finds in the environment.
        price: dollars per token of what is asked and of what is replied, by the user's word; None: by litellm's tables.
    """

    model: str
    api_base: str = ""
    api_key: str | None = field(default=None, compare=False)
    price: tuple[float, float] | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        return f"ModelRef({self.label})"

    @classmethod
    def parse(
        cls, text: str, *, api_base: str = "", api_key: str | None = None, noun: str = "model", or_else: str = ""
    ) -> ModelRef:
        """Read `PROVIDER/MODEL` or `PROVIDER/MODEL@ADDRESS`. No message repeats what may be a secret.

        Args:
            text: as users write it.
            api_base: the address if the text has none; empty: the provider's own.
            api_key: see `with_key`.
            noun: what messages call the model.
            or_else: what could stand in place of a model, for the message.

        Raises:
            UserError: the model name, address or key is malformed, or the name or address holds a key.

        >>> ModelRef.parse("openai/qwen2.5@http://127.0.0.1:8080/v1")
        ModelRef(openai/qwen2.5@127.0.0.1:8080/v1)
        """
        # Model names may contain an @ of their own; an address begins with its scheme.
        model, *addresses = re.split(r"@(?=https?://)", text.strip(), maxsplit=1, flags=re.IGNORECASE)
        provider, _, name = model.partition("/")
        if holds_key(model):
            raise UserError(f"{noun}: a part of its name looks like a key, and names are stored; {_KEY_PLACES}")
        if not provider or not name or "://" in model:
            # Only the provider is shown: an address on its own may contain a password.
            hint = f", or {or_else}" if or_else else ""
            raise UserError(f"{noun} {provider!r}: write PROVIDER/MODEL, for instance openai/gpt-4o-mini{hint}")
        address = addresses[0] if addresses else api_base or provider_address(model)
        try:
            parts = urlsplit(address)
            # Reading the port validates it.
            is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_address = False
        if address and not is_address:
            # Not shown: it may contain a password.
            raise UserError(f"{noun} {model}: its address is malformed; write it like http://127.0.0.1:8080/v1")
        if holds_key(address):
            raise UserError(
                f"{noun} {model}: a part of its address looks like a key, and addresses are stored; {_KEY_PLACES}"
            )
        return cls(model, address.rstrip("/")).with_key(api_key, noun)

    def with_key(self, api_key: str | None, noun: str = "model") -> ModelRef:
        """Return this model with another key. White space around the key is dropped; a blank key is None.

        Raises:
            UserError: the key contains a character that no key has.
        """
        # A key read from a file often ends with a line break, which no header can carry.
        key = (api_key or "").strip() or None
        if key and not (key.isascii() and key.isprintable()):
            raise UserError(f"{noun} {self.model}: its key contains an impossible character; copy it again")
        return replace(self, api_key=key)

    @property
    def hosted(self) -> bool:
        """Whether a provider serves it at its own address, with room for many calls at once."""
        return not self.api_base and self.model.partition("/")[0] not in _LOCAL

    @property
    def label(self) -> str:
        """`openai/gpt-4o-mini`, or `openai/qwen2.5@127.0.0.1:8080/v1`: safe to show and part of signatures.

        An address can carry a password or a key; neither is in the label.
        """
        return _label(self.model, self.api_base)


@cache
def _label(model: str, api_base: str) -> str:
    name = model
    if api_base:
        parts = urlsplit(api_base)
        host = parts.hostname or ""
        host = f"[{host}]" if ":" in host else host
        port = f":{parts.port}" if parts.port else ""
        name = f"{model}@{host}{port}{parts.path}"
    return re.sub(r"[|,\s]", "_", name)


def check_reachable(models: Iterable[ModelRef]) -> None:
    """Connect to the servers of models that have an address of their own, unless a proxy does that. Nothing is asked.

    Raises:
        UserError: nothing listens there, or the name of the machine is not known.
    """
    for model in models:
        parts = urlsplit(model.api_base)
        proxied = urllib.request.getproxies().get(parts.scheme) and not urllib.request.proxy_bypass(parts.netloc)
        if not parts.hostname or proxied:
            continue
        port = parts.port or {"http": 80, "https": 443}[parts.scheme]
        for pause in (0.5, 1.5, None):
            try:
                socket.create_connection((parts.hostname, port), timeout=_CONNECT_S).close()
                break
            except OSError as error:
                if pause is None:
                    raise UserError(
                        f"{model.label} cannot be reached: {error.strerror or error}; start its server, or correct the "
                        "address"
                    ) from error
                time.sleep(pause)


def provider_address(model: str) -> str:
    """The address that the environment gives for the provider of a model; empty if it gives none."""
    # litellm reads these variables too; a model at another address is another model, so the signature must know it.
    name = model.partition("/")[0].upper()
    return (os.environ.get(f"{name}_API_BASE") or os.environ.get(f"{name}_BASE_URL") or "").rstrip("/")
