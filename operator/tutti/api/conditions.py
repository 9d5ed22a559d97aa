"""Conditions as Kubernetes keeps them (metav1.Condition), and how a new one replaces an old one.

The rule that matters: `lastTransitionTime` moves only when `status` does, so that it says since when something holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from tutti.api.model import Lenient

if TYPE_CHECKING:
    from collections.abc import Iterable

Status = Literal["True", "False", "Unknown"]
SINCE = "lastTransitionTime"


class Condition(Lenient):
    """One thing that is so, is not so, or is not known, and why."""

    type: str
    status: Status
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""
    observed_generation: int | None = None


def timestamp(seconds: float) -> str:
    """Unix seconds as the API writes times: RFC 3339 in UTC, whole seconds."""
    return _written(int(seconds))


def micro_timestamp(seconds: float) -> str:
    """Unix seconds as a meta/v1 MicroTime: exactly six fractional digits, or kube-apiserver answers 400."""
    whole, micros = divmod(round(seconds * 1_000_000), 1_000_000)
    return f"{_written(whole)[:-1]}.{micros:06d}Z"


@lru_cache(maxsize=1024)  # what is told in one turn is told of one time
def _written(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def find_condition(conditions: Iterable[Condition], kind: str) -> Condition | None:
    """The condition of a type, if there is one."""
    return next((condition for condition in conditions if condition.type == kind), None)


def is_true(conditions: Iterable[Condition], kind: str) -> bool:
    """Whether the condition of a type is there and true."""
    found = find_condition(conditions, kind)
    return found is not None and found.status == "True"


Json = dict[str, Any]
"""A condition as it stands in a status."""


def legible_conditions(status: object) -> list[Mapping[str, Any]]:
    """The conditions in a status that have a type and a status; whatever else stands there is no condition."""
    told = status.get("conditions") if isinstance(status, Mapping) else None
    conditions = told if isinstance(told, list) else []
    return [one for one in conditions if isinstance(one, Mapping) and _is_text(one, "type") and _is_text(one, "status")]


def _is_text(condition: Mapping[str, Any], key: str) -> bool:
    return isinstance(condition.get(key), str)


def condition_json(kind: str, status: Status, reason: str, message: str = "", *, generation: int | None = None) -> Json:
    """A condition as it stands in a status, without a time; a reason may not be empty there: the type stands in."""
    said: Json = {"type": kind, "status": status, "reason": reason or kind, "message": message, SINCE: ""}
    return said if generation is None else {**said, "observedGeneration": generation}


def merge_conditions(
    conditions: Iterable[Mapping[str, Any]], news: Iterable[Json], *, now: float
) -> list[Mapping[str, Any]]:
    """The conditions of a status with `news` in place of those of the same type, new types last.

    A condition keeps its `lastTransitionTime` while its status stays; otherwise it has the one that its news say, or
    `now` (Unix seconds). The result equals `conditions` exactly when nothing is to be written.
    """
    result = {condition["type"]: condition for condition in conditions}
    for new in news:
        old = result.get(new["type"])
        since = old.get(SINCE, "") if old is not None and old["status"] == new["status"] else ""
        result[new["type"]] = {**new, SINCE: since or new[SINCE] or timestamp(now)}
    return list(result.values())
