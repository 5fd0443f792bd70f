"""What the page shows is plain values, and JSON."""

import json
import math
from dataclasses import replace

import pytest

from tasks.page.model import Comparison, as_json
from tests.tasks.page.page_help import VERDICT, comparison, page


def test_a_page_is_json_with_every_value_in_its_place() -> None:
    made = replace(page(3), verdict=VERDICT)
    found = json.loads(as_json(made))
    assert found["verdict"]["rules"][0] == {
        "rule": "rouge_l.recall >= -0.02", "outcome": "FAIL", "sentence": "It lost 0.1.",
    }  # fmt: skip
    assert found["samples"]["ids"] == ["id 0", "id 1", "id 2"]
    assert found["samples"]["answers"][1]["values"]["rouge_l.recall"] == [1.0, 0.5, None]
    assert found["samples"]["answers"][1]["unscored"]["rouge_l"]["2"] == ["failed", "why 0"]
    assert found["releases"][1]["report"]["scores"][0]["mean"] == 0.6
    assert found["history"][0]["methods"] == 1


def test_a_number_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        as_json(comparison(difference=math.nan))


def test_what_is_no_part_of_a_page_is_refused() -> None:
    with pytest.raises(TypeError, match="set is not JSON"):
        as_json({"a": {1}})


@pytest.mark.parametrize(
    ("found", "finding"),
    [
        (comparison(), "better"),
        (comparison(difference=-0.1, low=-0.15, high=-0.05), "worse"),
        (comparison(low=-0.01), "not shown to differ"),
        (comparison(low=0.0), "not shown to differ"),
        (comparison(low=None, high=None), "not shown to differ"),
        (comparison(p_adjusted=0.05), "not shown to differ"),
        (comparison(p_adjusted=None), "better"),
        (comparison(difference=None), None),
    ],
)
def test_a_finding_needs_the_interval_and_the_adjusted_p(found: Comparison, finding: str | None) -> None:
    assert found.finding == finding
    assert found.name == "rouge_l.recall"
