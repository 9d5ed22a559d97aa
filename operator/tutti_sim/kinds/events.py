"""Events, which are served by two groups under different field names and stored once, as core/v1."""

from __future__ import annotations

from typing import Any

from tutti_sim.kinds.strategy import Strategy
from tutti_sim.meta.errors import FieldError, invalid, required, unsupported
from tutti_sim.meta.fields import METADATA, Getter, path

Json = dict[str, Any]

# events.k8s.io/v1 name -> core/v1 name
RENAMED = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
BACK = {old: new for new, old in RENAMED.items()}


def to_core(body: Json) -> Json:
    """An events.k8s.io/v1 document under core/v1 names."""
    return {RENAMED.get(key, key): value for key, value in body.items()}


def from_core(obj: Json) -> Json:
    """A stored event under events.k8s.io/v1 names."""
    renamed = {BACK.get(key, key): value for key, value in obj.items()}
    return {**renamed, "apiVersion": "events.k8s.io/v1"}


def _fields(subject: str) -> dict[str, Getter]:
    parts = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    return {f"{subject}.{part}": path(f"involvedObject.{part}") for part in parts}


SELECTABLE: dict[str, Getter] = {
    **METADATA,
    **_fields("involvedObject"),
    **_fields("regarding"),
    "reason": path("reason"),
    "type": path("type"),
    "reportingComponent": path("reportingComponent"),
    "reportingController": path("reportingComponent"),
    "source": path("source.component"),
}


class EventStrategy(Strategy):
    """Events of either group; `strict` is what events.k8s.io/v1 asks of new ones."""

    create_on_update = True

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict

    def default(self, obj: Json) -> None:
        """Fields that are always written, set or not."""
        obj.setdefault("involvedObject", {})
        for field in ("source",):
            obj.setdefault(field, {})
        for field in ("reportingComponent", "reportingInstance"):
            obj.setdefault(field, "")
        for field in ("firstTimestamp", "lastTimestamp", "eventTime"):
            obj.setdefault(field, None)

    def validate(self, obj: Json) -> list[FieldError]:
        """The namespace must be the subject's, and new-style events must say when and by whom."""
        errors: list[FieldError] = []
        subject = obj.get("involvedObject", {}).get("namespace", "")
        own = obj["metadata"].get("namespace", "")
        if subject != own and not (not subject and own == "default"):
            errors.append(invalid("involvedObject.namespace", subject, "does not match event.namespace"))
        if self._strict:
            errors.extend(_strict(obj))
        return errors

    def validate_update(self, new: Json, old: Json) -> list[FieldError]:
        """As for new ones of core/v1."""
        del old
        return self.validate(new) if not self._strict else []


def _strict(obj: Json) -> list[FieldError]:
    errors = []
    if not obj.get("eventTime"):
        errors.append(required("eventTime"))
    for new, old in (("reportingController", "reportingComponent"), ("reportingInstance", "reportingInstance")):
        if not obj.get(old):
            errors.append(required(new))
    errors.extend(required(field) for field in ("action", "reason") if not obj.get(field))
    if obj.get("type") not in ("Normal", "Warning"):
        errors.append(unsupported("type", obj.get("type", ""), ("Normal", "Warning")))
    return errors
