"""What the judge server can do wrong, by name, and when it does."""

import hashlib
import json

ERRORS = {
    # status, message, type, code
    "rate_limit": (429, "Too many requests: slow down.", "requests", "rate_limit_exceeded"),
    "rate_limit_after": (429, "Too many requests: slow down.", "requests", "rate_limit_exceeded"),
    "over_limit": (429, "Too many requests at once.", "requests", "rate_limit_exceeded"),
    "error_500": (500, "The server had an error.", "server_error", None),
    "error_503": (503, "The engine is overloaded.", "server_error", None),
    # Some servers repeat the key, so clients must not pass this message on.
    "unauthorized": (401, "Incorrect API key provided: {key}.", "invalid_request_error", "invalid_api_key"),
    "says_key": (500, "The key {key} was seen.", "server_error", "{key}"),
    "not_found": (404, "The model does not exist.", "invalid_request_error", "model_not_found"),
    "quota": (429, "The quota of this account is used up.", "insufficient_quota", "insufficient_quota"),
    "context": (
        400,
        "This model's maximum context length is 4096 tokens, and the request exceeds it.",
        "invalid_request_error",
        "context_length_exceeded",
    ),
}


def _object(text):
    """The JSON object in a brain's reply; any other reply is wrapped in one."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"text": text}


def _other(value):
    """A value of the same type that says something else."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return f"not {value}"
        case list():
            return value[:-1] if value else ["another"]
        case dict():
            return {key: _other(item) for key, item in value.items()}
    return "something"


def _contradiction(text):
    said = _object(text)
    if isinstance(said.get("verdict"), str):
        said["verdict"] = "mismatch" if said["verdict"] == "match" else "match"
    elif isinstance(said.get("score"), bool):
        said["score"] = not said["score"]
    else:
        said = _other(said)
    return json.dumps(said, ensure_ascii=False)


def _mistyped(value):
    """A value of a type that no reader can take for the one it stands for."""
    match value:
        case bool():
            return "perhaps"
        case int() | float():
            return {"number": value}
        case str():
            return 7
        case list() | dict():
            return "none"
    return []


# What becomes of the brain's text, and the finish_reason that goes with it.
TWISTS = {
    "empty": lambda text: ("", "stop"),
    "prose": lambda text: (f"Let me compare the two with care.\n\n{text}\n\nI hope that helps!", "stop"),
    "only_prose": lambda text: ("Both of them seem fine to me, so I would say that they agree.", "stop"),
    "conflict": lambda text: (f"{text}\n{_contradiction(text)}", "stop"),
    "cut_off": lambda text: (text[: len(text) // 2], "length"),
    "wrong_types": lambda text: (json.dumps({k: _mistyped(v) for k, v in _object(text).items()}), "stop"),
    "wrong_finish_reason": lambda text: (text, "length"),
    "content_filter": lambda text: ("", "content_filter"),
}

KINDS = frozenset({*ERRORS, *TWISTS, "hang", "drop", "trickle", "not_json_body"} - {"over_limit"})
# What a provider does on a bad day, without the faults that no second attempt can mend.
PASSING = (
    *("rate_limit", "rate_limit_after", "error_500", "error_503", "hang", "drop", "trickle", "empty", "prose"),
    *("conflict", "cut_off", "wrong_types", "wrong_finish_reason"),
)


def scheduled(rate, seed, kinds=PASSING):
    """Faults for a share `rate` (0 to 1) of the requests, the same for each run: seed and number decide."""
    if unknown := set(kinds) - KINDS:
        raise ValueError(f"no such kinds of fault: {sorted(unknown)}")

    def fault(number, _body):
        digest = hashlib.sha256(f"{seed}:{number}".encode()).digest()
        hit = int.from_bytes(digest[:8], "big") < rate * 2**64
        return kinds[int.from_bytes(digest[8:16], "big") % len(kinds)] if hit else None

    return fault
