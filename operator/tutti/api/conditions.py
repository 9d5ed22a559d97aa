"""Conditions as Kubernetes keeps them (metav1.Condition), and how a new one replaces an old one.

The rule that matters: `lastTransitionTime` moves only when `status` does, so that it says since when something holds.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from tutti.api.model import Lenient

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Status = Literal["True", "False", "Unknown"]


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
    return datetime.fromtimestamp(int(seconds), tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def find(conditions: Iterable[Condition], kind: str) -> Condition | None:
    """The condition of a type, if there is one."""
    return next((condition for condition in conditions if condition.type == kind), None)


def is_true(conditions: Iterable[Condition], kind: str) -> bool:
    """Whether the condition of a type is there and true."""
    found = find(conditions, kind)
    return found is not None and found.status == "True"


def merge(conditions: Sequence[Condition], news: Iterable[Condition], *, now: float) -> list[Condition]:
    """The conditions with `news` in place of those of the same type, new types last.

    A condition keeps its `lastTransitionTime` while its status stays; otherwise it gets `now` (Unix seconds), unless
    the news bring a time of their own. The result equals `conditions` exactly when nothing is to be written.
    """
    result = {condition.type: condition for condition in conditions}
    for new in news:
        old = result.get(new.type)
        if old is not None and old.status == new.status:
            since = old.last_transition_time
        else:
            since = new.last_transition_time or timestamp(now)
        result[new.type] = new.model_copy(update={"last_transition_time": since})
    return list(result.values())


def to_json(conditions: Iterable[Condition]) -> list[dict[str, Any]]:
    """The conditions as they stand in a status; a reason may not be empty there, so it falls back to the type."""
    return [
        condition.model_dump(by_alias=True, exclude_none=True) | {"reason": condition.reason or condition.type}
        for condition in conditions
    ]
