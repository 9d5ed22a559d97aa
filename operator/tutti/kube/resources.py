"""Where things live in the API: a resource as a value that knows its paths."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

_PLAIN: Final = re.compile("[a-zA-Z0-9._-]*")


@dataclass(frozen=True, slots=True)
class APIResource:
    """A kind of object as the API serves it; `group` is empty for the core group."""

    group: str
    version: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The `apiVersion` its objects carry."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def label(self) -> str:
        """Its name in metrics and logs: `pods`, `leases.coordination.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """Return the path of a collection, an object or a subresource of it.

        Args:
            namespace: None for all namespaces; must be None or empty for cluster-scoped resources.
            name: None for the collection.
            subresource: For example `status` or `binding`; needs a name.

        Raises:
            ValueError: The combination names no path.
        """
        if namespace and not self.namespaced:
            raise ValueError(f"{self.label} has no namespaces, but namespace {namespace!r} was given")
        if subresource and not name:
            raise ValueError(f"{self.label}/{subresource} needs the name of an object")
        if name and self.namespaced and not namespace:
            raise ValueError(f"{self.label} {name!r} needs a namespace")
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if namespace:
            root = f"{root}/namespaces/{_escaped(namespace, safe='')}"
        if not name:
            return f"{root}/{self.plural}"
        path = f"{root}/{self.plural}/{_escaped(name, safe=':')}"
        return f"{path}/{_escaped(subresource, safe=':')}" if subresource else path


def _escaped(part: str, *, safe: str) -> str:
    """Return a part of a path with what has a meaning there escaped; quoting is slow, and rarely needed."""
    return part if _PLAIN.fullmatch(part) else quote(part, safe=safe)


RESOURCE_QUOTAS: Final = APIResource("", "v1", "resourcequotas")
PODS: Final = APIResource("", "v1", "pods")
NODES: Final = APIResource("", "v1", "nodes", namespaced=False)
NAMESPACES: Final = APIResource("", "v1", "namespaces", namespaced=False)
LEASES: Final = APIResource("coordination.k8s.io", "v1", "leases")
EVENTS: Final = APIResource("events.k8s.io", "v1", "events")
SERVICES: Final = APIResource("", "v1", "services")
REPLICATION_CONTROLLERS: Final = APIResource("", "v1", "replicationcontrollers")
REPLICA_SETS: Final = APIResource("apps", "v1", "replicasets")
STATEFUL_SETS: Final = APIResource("apps", "v1", "statefulsets")
POD_DISRUPTION_BUDGETS: Final = APIResource("policy", "v1", "poddisruptionbudgets")
PERSISTENT_VOLUMES: Final = APIResource("", "v1", "persistentvolumes", namespaced=False)
RESOURCE_CLAIMS: Final = APIResource("resource.k8s.io", "v1", "resourceclaims")
PERSISTENT_VOLUME_CLAIMS: Final = APIResource("", "v1", "persistentvolumeclaims")
STORAGE_CLASSES: Final = APIResource("storage.k8s.io", "v1", "storageclasses", namespaced=False)
CSI_NODES: Final = APIResource("storage.k8s.io", "v1", "csinodes", namespaced=False)
CSI_DRIVERS: Final = APIResource("storage.k8s.io", "v1", "csidrivers", namespaced=False)
CSI_STORAGE_CAPACITIES: Final = APIResource("storage.k8s.io", "v1", "csistoragecapacities")
VOLUME_ATTACHMENTS: Final = APIResource("storage.k8s.io", "v1", "volumeattachments", namespaced=False)
PRIORITY_CLASSES: Final = APIResource("scheduling.k8s.io", "v1", "priorityclasses", namespaced=False)
