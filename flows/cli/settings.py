"""Settings of what is deployed: those of the project, those that the server has, and those that were deployed last.

Whatever is set on the server by hand wins: a setting that is not what was deployed last stays as it is, and is
reported. Hashes of what was deployed last are in variables of the server.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from answerkey.metrics_core.sample import content_hash

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

RECORD = "answerkey_deployed_"
"""How the variables with the hashes begin. Each deployment and automation has its own: Prefect limits their length."""

Settings = dict[str, Any]
"""By name, in words for people: `description`, `parameter data`, `schedule nightly: time`."""

_TIMES = ("cron", "timezone", "interval", "anchor_date", "rrule")
_PARTS = {"time": "schedule", "switch": "active", "parameters": "parameters"}
_AUTOMATION = ("description", "enabled", "trigger", "actions")


@dataclass(frozen=True, slots=True)
class Merged:
    """Settings to deploy, and the names of those that stay as somebody has set them on the server."""

    settings: Settings
    kept: tuple[str, ...] = ()


class Record:
    """What was deployed last, by the name of a deployment or automation."""

    def __init__(self, client: SyncPrefectClient, reset: Collection[str] = ()) -> None:
        """As the server has it. What `reset` names is deployed as if nobody had touched it."""
        self._client, self._reset = client, frozenset(reset)
        self._hashes: dict[str, dict[str, str]] = {}
        self._there: set[str] = set()

    def merge(self, name: str, wanted: Settings, present: Settings | None) -> Merged:
        """The wanted settings, or those of the server where they are not what was deployed last.

        Args:
            name: of a deployment or an automation.
            present: the settings on the server; None where the server has no such thing.
        """
        variable = variable_of(name)
        self._hashes[variable] = {key: _hash(value) for key, value in wanted.items()}
        last = {}
        if found := self._client.read_variable_by_name(variable):
            self._there.add(variable)
            last = dict(found.value) if isinstance(found.value, dict) else {}
        return Merged(wanted) if present is None or name in self._reset else merge(wanted, present, last)

    def write(self) -> None:
        """Keep what was deployed now."""
        from prefect.client.schemas.actions import VariableCreate, VariableUpdate

        for name, hashes in self._hashes.items():
            if name in self._there:
                self._client.update_variable(VariableUpdate(name=name, value=hashes))
            else:
                self._client.create_variable(VariableCreate(name=name, value=hashes))


def variable_of(name: str) -> str:
    """The variable with the hashes of a deployment or an automation.

    >>> variable_of("answerkey - a run is incomplete")
    'answerkey_deployed_answerkey_a_run_is_incomplete'
    """
    return RECORD + re.sub(r"[^a-z0-9]+", "_", name.lower())


def merge(wanted: Settings, present: Settings, last: Mapping[str, str]) -> Merged:
    """The wanted settings, with those of the server in place of each that is not what was deployed last.

    >>> merge({"tags": ["b"], "paused": False}, {"tags": ["a"], "paused": True}, {"tags": _hash(["a"])})
    Merged(settings={'tags': ['b'], 'paused': True}, kept=('paused',))
    """
    kept = {key for key in {*wanted, *present} if _is_set_by_hand(key, wanted, present, last)}
    merged = {key: value for key, value in wanted.items() if key not in kept}
    merged |= {key: value for key, value in present.items() if key in kept}
    # What the project never had is no news.
    return Merged(merged, tuple(sorted(key for key in kept if key in wanted or key in last)))


def _is_set_by_hand(key: str, wanted: Settings, present: Settings, last: Mapping[str, str]) -> bool:
    if key not in present:
        # Removed on the server, or new in the project.
        return key in last
    if key in wanted and _hash(wanted[key]) == _hash(present[key]):
        return False
    return last.get(key) != _hash(present[key])


def _hash(value: object) -> str:
    return content_hash(value)[:8]


def of_project(deployment: Mapping[str, Any]) -> Settings:
    """The settings of a deployment of prefect.yaml."""
    pool, limit = deployment["work_pool"], deployment.get("concurrency_limit", {})
    found: Settings = {
        "description": deployment["description"],
        "tags": sorted(deployment["tags"]),
        "paused": False,
        "concurrency limit": limit.get("limit"),
        "collision strategy": limit.get("collision_strategy"),
        "work pool": pool["name"],
    }
    found |= _named("parameter", deployment["parameters"]) | _named("job variable", pool["job_variables"])
    return found | _schedules(deployment.get("schedules", ()))


def of_server(deployment: Mapping[str, Any]) -> Settings:
    """The settings of a deployment as the server's API gives it."""
    limit, strategy = deployment["global_concurrency_limit"], deployment["concurrency_options"]
    found: Settings = {
        "description": deployment["description"],
        "tags": sorted(deployment["tags"]),
        "paused": deployment["paused"],
        "concurrency limit": limit["limit"] if limit else None,
        "collision strategy": strategy["collision_strategy"] if strategy else None,
        "work pool": deployment["work_pool_name"],
    }
    found |= _named("parameter", deployment["parameters"]) | _named("job variable", deployment["job_variables"])
    schedules = [one for one in deployment["schedules"] if one["slug"]]
    return found | _schedules([{**one["schedule"], **one} for one in schedules])


def _named(kind: str, values: Mapping[str, Any]) -> Settings:
    return {f"{kind} {name}": value for name, value in values.items()}


def _schedules(schedules: Collection[Mapping[str, Any]]) -> Settings:
    found: Settings = {}
    for one in schedules:
        name = f"schedule {one['slug']}"
        found[f"{name}: time"] = {key: one[key] for key in _TIMES if one.get(key)}
        found[f"{name}: switch"] = one["active"]
        found[f"{name}: parameters"] = one.get("parameters") or {}
    return found


def as_deployment(deployment: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """A deployment of prefect.yaml with these settings but its schedules, for a server that has it already."""
    limit, strategy = settings["concurrency limit"], settings["collision strategy"]
    pool = {**deployment["work_pool"], "name": settings["work pool"]}
    return {
        **{key: value for key, value in deployment.items() if key != "schedules"},
        "description": settings["description"],
        "tags": settings["tags"],
        "paused": settings["paused"],
        # One that was set in a browser may have no strategy, which Prefect takes for no value of it.
        "concurrency_limit": {"limit": limit, "collision_strategy": strategy} if limit and strategy else limit or None,
        "parameters": _of_kind("parameter", settings),
        "work_pool": pool | {"job_variables": _of_kind("job variable", settings)},
    }


def put_schedules(client: SyncPrefectClient, deployment: Mapping[str, Any], settings: Settings) -> None:
    """Bring the schedules of a deployment that the server has to these settings; others of its schedules stay."""
    present = _schedules_of(of_server(deployment))
    ids = {one["slug"]: one["id"] for one in deployment["schedules"]}
    for slug, wanted in _schedules_of(settings).items():
        new = {key: value for key, value in wanted.items() if value != present.get(slug, {}).get(key)}
        about = {"id": deployment["id"], "schedule_id": ids.get(slug)}
        if slug not in present:
            client.request("POST", "/deployments/{id}/schedules", path_params=about, json=[{"slug": slug, **new}])
        elif new:
            client.request("PATCH", "/deployments/{id}/schedules/{schedule_id}", path_params=about, json=new)


def _schedules_of(settings: Settings) -> dict[str, dict[str, Any]]:
    """The schedules among settings, as the server's API takes them, by slug."""
    found: dict[str, dict[str, Any]] = {}
    for key, value in settings.items():
        if key.startswith("schedule "):
            slug, _, part = key.removeprefix("schedule ").rpartition(": ")
            found.setdefault(slug, {})[_PARTS[part]] = value
    return found


def _of_kind(kind: str, settings: Settings) -> dict[str, Any]:
    return {key.removeprefix(f"{kind} "): value for key, value in settings.items() if key.startswith(f"{kind} ")}


def of_automation(content: Mapping[str, Any], like: Mapping[str, Any] | None = None) -> Settings:
    """The settings of an automation; of one from the server, what stands in `like` as well: it has every default."""
    return {key: _like(content[key], like[key]) if like else content[key] for key in _AUTOMATION}


def _like(value: Any, shape: Any) -> Any:
    if isinstance(value, dict) and isinstance(shape, dict):
        return {key: _like(value[key], shape[key]) for key in shape if key in value}
    if isinstance(value, list) and isinstance(shape, list) and len(value) == len(shape):
        return [_like(one, other) for one, other in zip(value, shape, strict=True)]
    if isinstance(value, float) and isinstance(shape, int):
        return int(value) if value.is_integer() else value
    # Where one is enough, the server may give a list.
    return value[0] if isinstance(value, list) and value == [shape] else value
