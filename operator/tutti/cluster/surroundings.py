"""What stands around the pods and is read by placement: labels of namespaces, and what selects pods by label."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from tutti.api.owners import SERVICE, Owner
from tutti.api.selectors import LabelSelector
from tutti.cluster.kin import NO_LABELS


class Selecting(msgspec.Struct, frozen=True):
    """An object that selects pods by label: a Service, or an owner of pods (`tutti.api.owners`)."""

    kind: str
    namespace: str
    name: str
    selector: LabelSelector


class Surroundings:
    """Namespaces, Services, and owners of pods.

    Attributes:
        version: Grows whenever a namespace changes.
        selecting_version: Grows whenever something selects pods otherwise than before.
    """

    def __init__(self) -> None:
        self.version = 0
        self.selecting_version = 0
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._services: dict[str, dict[str, Selecting]] = {}
        self._owners: dict[tuple[str, Owner], LabelSelector] = {}

    def put_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        """Add a namespace or change its labels."""
        if self._namespaces.get(name) != labels:
            self._namespaces[name] = labels
            self.version += 1

    def drop_namespace(self, name: str) -> None:
        """Forget a namespace."""
        if self._namespaces.pop(name, None) is not None:
            self.version += 1

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """Return the labels of a namespace; none where it is not known."""
        return self._namespaces.get(name, NO_LABELS)

    def put_selecting(self, found: Selecting) -> bool:
        """Add or change an object that selects pods; returns whether that changed anything."""
        if found.kind == SERVICE:
            here = self._services.setdefault(found.namespace, {})
            changed = here.get(found.name) != found
            here[found.name] = found
        else:
            key = (found.namespace, (found.kind, found.name))
            changed = self._owners.get(key) != found.selector
            self._owners[key] = found.selector
        self.selecting_version += changed
        return changed

    def drop_selecting(self, kind: str, namespace: str, name: str) -> bool:
        """Forget an object that selected pods; returns whether it was known."""
        found: object
        if kind == SERVICE:
            found = self._services.get(namespace, {}).pop(name, None)
        else:
            found = self._owners.pop((namespace, (kind, name)), None)
        self.selecting_version += found is not None
        return found is not None

    def services_of(self, namespace: str, labels: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
        """Yield the labels by which Services of a namespace select a pod with these; an empty selector selects none."""
        for service in self._services.get(namespace, {}).values():
            wanted = service.selector.match_labels
            if wanted and all(labels.get(key) == value for key, value in wanted.items()):
                yield wanted

    def selector_of(self, namespace: str, owner: Owner) -> LabelSelector | None:
        """Return the selector of an owner of pods; None where it is not known."""
        return self._owners.get((namespace, owner))
