"""Objects that select pods by label, as far as default spreading reads them (kube-scheduler 1.36, helper/spread.go).

A Service selects by plain labels, and so does a ReplicationController; ReplicaSets and StatefulSets have a selector.
"""

from __future__ import annotations

from typing import Protocol

from tutti.api.core import OwnerReference, View
from tutti.api.labels import LabelSelector

SERVICE = "Service"
REPLICATION_CONTROLLER = "ReplicationController"

OWNERS = {REPLICATION_CONTROLLER: "v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1"}
"""The kinds of owners whose selector counts, with the apiVersion that an owner reference must have."""

Owner = tuple[str, str]
"""Kind and name of an owner whose selector counts."""


class ObjectName(View, frozen=True):
    """The only metadata that is kept of such an object."""

    name: str = ""
    namespace: str = ""


class PlainSpec(View, frozen=True):
    """A selector of labels that must be equal; null where the object selects nothing."""

    selector: dict[str, str] | None = None


class SelectorSpec(View, frozen=True):
    """A selector."""

    selector: LabelSelector | None = None


class PlainSelecting(View, frozen=True):
    """A Service or a ReplicationController."""

    metadata: ObjectName = ObjectName()
    spec: PlainSpec = PlainSpec()

    @property
    def selector(self) -> LabelSelector | None:
        """Which pods it selects; None selects none."""
        return LabelSelector(match_labels=self.spec.selector) if self.spec.selector else None


class SelectorSelecting(View, frozen=True):
    """A ReplicaSet or a StatefulSet."""

    metadata: ObjectName = ObjectName()
    spec: SelectorSpec = SelectorSpec()

    @property
    def selector(self) -> LabelSelector | None:
        """Which pods it selects; None selects none."""
        return self.spec.selector


class SelectingObject(Protocol):
    """Either of them."""

    @property
    def metadata(self) -> ObjectName:
        """Its name."""
        ...

    @property
    def selector(self) -> LabelSelector | None:
        """Which pods it selects; None selects none."""
        ...


def owner_of(references: list[OwnerReference]) -> Owner | None:
    """Return a pod's controller, where its selector counts for spreading."""
    for one in references:
        if one.controller:
            return (one.kind, one.name) if OWNERS.get(one.kind) == one.api_version else None
    return None
