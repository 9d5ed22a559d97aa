"""Names of resources: which a container, a pod or a quota can be about (core validation.go and helpers.go)."""

from __future__ import annotations

from typing import Final

from tutti_sim.meta import names

OF_CONTAINERS: Final = ("cpu", "memory", "ephemeral-storage")
OF_PODS: Final = ("cpu", "memory")
NATIVE: Final = frozenset(
    (
        "cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory", "requests.ephemeral-storage",
        "limits.cpu", "limits.memory", "limits.ephemeral-storage", "pods", "resourcequotas", "services",
        "replicationcontrollers", "secrets", "configmaps", "persistentvolumeclaims", "storage", "requests.storage",
        "services.nodeports", "services.loadbalancers",
    )
)  # fmt: skip
"""Those that the server itself knows, beside pages of memory."""
UNKNOWN: Final = "must be a standard resource type or fully qualified"

_PAGES: Final = "hugepages-"


def resource_faults(name: str) -> list[str]:
    """What keeps a name from being one of a resource: known, or fully qualified."""
    faults = names.qualified_faults(name)
    known = "/" in name or name in NATIVE or name.startswith((_PAGES, f"requests.{_PAGES}"))
    return faults if faults or known else [UNKNOWN]


def container_resource_faults(name: str) -> list[str]:
    """What keeps a name from being one that a container counts."""
    faults = resource_faults(name)
    if "/" not in name:
        counted = name in OF_CONTAINERS or name.startswith(_PAGES)
        return faults if counted else [*faults, "must be a standard resource for containers"]
    own = "kubernetes.io/" in name or is_extended(name)
    return faults if own else [*faults, "doesn't follow extended resource name standard"]


def is_extended(name: str) -> bool:
    """Whether it is one of a cluster's own resources, which a quota can name as well."""
    own = "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")
    return own and not names.qualified_faults(f"requests.{name}")


def is_of_pods(name: str) -> bool:
    """Whether a pod as a whole can ask for it."""
    return name in OF_PODS or name.startswith(_PAGES)
