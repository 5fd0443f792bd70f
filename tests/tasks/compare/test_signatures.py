"""The parts of two signatures that differ, and what kind of thing they are."""

import pytest

from answerkey.tasks.compare.signatures import Change, changes

OLD = "meaning_match|v1|judge:openai/a@http://host:1|prompt:3fa2c1|parser:1|t:0|seed:0|blank:zero"


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (OLD, ()),
        (OLD.replace("openai/a@", "openai/b@"), (Change("judge", "judge", "openai/a@http://host:1", "openai/b@http://host:1"),)),
        (OLD.replace("3fa2c1", "000000"), (Change("prompt", "prompt", "3fa2c1", "000000"),)),
        (OLD.replace("parser:1", "parser:2"), (Change("parser", "parser", "1", "2"),)),
        (OLD.replace("|v1|", "|v2|"), (Change("code", "version", "v1", "v2"),)),
        (OLD.replace("blank:zero", "blank:undefined"), (Change("settings", "blank", "zero", "undefined"),)),
        (
            OLD.replace("|blank", "|jury:mean|repeats:3|blank"),
            (Change("judge", "jury", None, "mean"), Change("judge", "repeats", None, "3")),
        ),
    ],
)  # fmt: skip
def test_what_changed(new: str, expected: tuple[Change, ...]) -> None:
    assert changes(OLD, new) == expected


def test_in_words() -> None:
    [change] = changes(OLD, OLD.replace("|blank", "|jury:mean|blank"))
    assert str(change) == "jury none → mean"
