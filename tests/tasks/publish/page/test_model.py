"""What the page shows is plain values, and JSON."""

import json
import math
from dataclasses import replace

import pytest

from answerkey.tasks.publish.page.model import as_json
from tests.tasks.publish.page.page_help import VERDICT, field_comparison, page


def test_a_page_is_json_with_every_value_in_its_place():
    made = replace(page(3), gates=(VERDICT,))
    found = json.loads(as_json(made))
    assert found["gates"][0]["verdict"]["rules"][0]["sentence"] == "It lost 0.1."
    assert found["samples"]["ids"] == ["id 0", "id 1", "id 2"]
    assert found["samples"]["answers"][1]["values"]["rouge_l.recall"] == [1.0, 0.5, None]
    assert found["samples"]["answers"][1]["unscored"]["rouge_l"]["2"] == ["failed", "why 0"]
    assert found["releases"][1]["report"]["scores"][0]["mean"] == 0.6
    assert found["history"][0]["methods"] == 1


def test_a_nan_is_refused():
    with pytest.raises(ValueError, match="not JSON compliant"):
        as_json(field_comparison(difference=math.nan))


def test_what_is_no_part_of_a_page_is_refused():
    with pytest.raises(TypeError, match="set is not JSON"):
        as_json({"a": {1}})
