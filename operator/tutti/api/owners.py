"""The objects that select pods, and the controller of a pod.

Default spreading counts by what selects a pod (kube-scheduler 1.36, helper/spread.go): a Service or a
ReplicationController by plain labels, a ReplicaSet or a StatefulSet by a selector.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from tutti.api.core import ObjectName, OwnerReference, View
from tutti.api.selectors import LabelSelector

BUILT_IN: Final = frozenset({"apps", "batch"})
"""The groups of kinds that make pods that a server has without a CustomResourceDefinition."""


def controller_of(owners: Iterable[OwnerReference]) -> OwnerReference | None:
    """Return the one owner that controls an object; None where none does."""
    return next((one for one in owners if one.controller), None)


SERVICE = "Service"
REPLICATION_CONTROLLER = "ReplicationController"

OWNERS = {REPLICATION_CONTROLLER: "v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1"}
"""The kinds of owners whose selector counts, with the apiVersion that an owner reference must have."""

Owner = tuple[str, str]
"""Kind and name of an owner whose selector counts."""


class LabelsSpec(View, frozen=True):
    """A selector of labels that must be equal; null where the object selects nothing."""

    selector: dict[str, str] | None = None


class SelectorSpec(View, frozen=True):
    """A selector."""

    selector: LabelSelector | None = None


class LabelsSelecting(View, frozen=True):
    """A Service or a ReplicationController."""

    metadata: ObjectName = ObjectName()
    spec: LabelsSpec = LabelsSpec()

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
