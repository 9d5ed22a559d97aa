"""What stands around the pods and is read by placement: labels of namespaces, and what selects pods by label."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from tutti.cluster.kin import NO_LABELS


class Selecting(msgspec.Struct, frozen=True):
    """A Service, or another owner of pods by label, as far as default spreading reads it."""

    namespace: str
    name: str
    selector: dict[str, str] = {}


class Surroundings:
    """Namespaces and Services.

    Attributes:
        version: Grows whenever anything here changes.
    """

    def __init__(self) -> None:
        self.version = 0
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._services: dict[str, dict[str, Selecting]] = {}

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

    def put_service(self, service: Selecting) -> None:
        """Add or change a Service."""
        here = self._services.setdefault(service.namespace, {})
        if here.get(service.name) != service:
            here[service.name] = service
            self.version += 1

    def drop_service(self, namespace: str, name: str) -> None:
        """Forget a Service."""
        if self._services.get(namespace, {}).pop(name, None) is not None:
            self.version += 1

    def selecting(self, namespace: str, labels: Mapping[str, str]) -> Iterator[Selecting]:
        """Yield the Services of a namespace that select a pod with these labels; an empty selector selects none."""
        for service in self._services.get(namespace, {}).values():
            if service.selector and all(labels.get(key) == value for key, value in service.selector.items()):
                yield service
