"""What is deployed of a setting that the project and somebody in the UI may both have changed."""

import copy
from typing import Any

import pytest
import yaml

from answerkey.flows.cli.settings import as_deployment, merge, of_automation, of_project
from answerkey.metrics_core.sample import content_hash
from tests.flows.conftest import ROOT


def hashes(settings: dict[str, Any]) -> dict[str, str]:
    return {key: content_hash(value)[:8] for key, value in settings.items()}


@pytest.mark.parametrize(
    ("last", "present", "wanted", "found", "kept"),
    [
        pytest.param({"a": 1}, {"a": 1}, {"a": 2}, {"a": 2}, (), id="nobody has touched it"),
        pytest.param({"a": 1}, {"a": 3}, {"a": 1}, {"a": 3}, ("a",), id="set in the UI"),
        pytest.param({"a": 1}, {"a": 3}, {"a": 2}, {"a": 3}, ("a",), id="set in the UI and changed in the project"),
        pytest.param({"a": 1}, {"a": 2}, {"a": 2}, {"a": 2}, (), id="the same in both"),
        pytest.param({"a": 1}, {}, {"a": 1}, {}, ("a",), id="removed in the UI"),
        pytest.param({}, {}, {"a": 1}, {"a": 1}, (), id="new in the project"),
        pytest.param({}, {"b": 1}, {}, {"b": 1}, (), id="added in the UI"),
        pytest.param({"a": 1}, {"a": 1}, {}, {}, (), id="dropped by the project"),
        pytest.param({"a": 1}, {"a": 2}, {}, {"a": 2}, ("a",), id="set in the UI and dropped by the project"),
        pytest.param({}, {"a": 1}, {"a": 2}, {"a": 1}, ("a",), id="deployed by a version that kept no record"),
    ],
)
def test_what_was_set_by_hand_wins(
    last: dict[str, Any], present: dict[str, Any], wanted: dict[str, Any], found: dict[str, Any], kept: tuple[str, ...]
) -> None:
    merged = merge(wanted, present, hashes(last))
    assert (merged.settings, merged.kept) == (found, kept)


def test_settings_of_the_project_are_its_deployments() -> None:
    for one in yaml.safe_load((ROOT / "deployments/prefect.yaml").read_text(encoding="utf-8"))["deployments"]:
        deployment = {**one, "parameters": {**one["parameters"], "home": "h"}}
        again = as_deployment(copy.deepcopy(deployment), of_project(deployment))
        again.pop("paused")
        without = {key: value for key, value in deployment.items() if key != "schedules"}
        assert {**again, "tags": sorted(one["tags"])} == {
            "concurrency_limit": None,
            **without,
            "tags": sorted(one["tags"]),
        }


def test_the_defaults_that_a_server_adds_to_an_automation_are_no_change() -> None:
    ours = {"description": "d", "enabled": True, "trigger": {"within": 90, "expect": ["a"]}, "actions": [{"type": "x"}]}
    server = {**ours, "id": "1", "trigger": {"within": 90.0, "expect": ["a"], "for_each": []}, "tags": []}
    server["actions"] = [{"type": "x", "message": None}]
    assert of_automation(server, like=ours) == ours
    server["actions"] = [{"type": "x"}, {"type": "y"}]
    assert of_automation(server, like=ours) != ours
