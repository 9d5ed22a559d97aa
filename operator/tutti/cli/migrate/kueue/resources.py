"""What pods and queues say of resources that means nothing here: told, since such pods would wait without an end.

Kueue charges what its Configuration makes of requests: transformations make one resource of another, prefixes leave
some out, and device classes stand for resource claims (Kueue 0.20, apis/config, type Resources). Here a pod is charged
for what it requests, and for devices by the same mappings. Queues and jobs are compared that are migrated in one run.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from tutti.api.model import GROUP
from tutti.api.problems import path_of
from tutti.cli.migrate.editing import compose, construct
from tutti.cli.migrate.kueue import words
from tutti.cli.migrate.kueue.kinds import mapping
from tutti.cli.migrate.report import NoteLevel, Notes

_QUEUE_GROUPS: Final = (words.GROUP, GROUP)
_NATIVE: Final = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})
_CONFIGURATIONS: Final = f"config.{words.GROUP}/"
_HAMI: Final = frozenset({"nvidia.com/gpucores", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage"})
"""Resources by which HAMi is asked for parts of a device."""


MOST_NAMED: Final = 3
"""How many queues are named that may have been meant."""


@dataclass(slots=True)
class KnownQueues:
    """The queues of one run.

    Attributes:
        covered: The resources of which a ClusterQueue gives quota.
        cluster_queue: The ClusterQueue of each LocalQueue, by namespace and name.
        mapped: The names under which a Configuration counts devices.
    """

    covered: dict[str, frozenset[str]] = field(default_factory=dict)
    cluster_queue: dict[tuple[str, str], str] = field(default_factory=dict)
    mapped: set[str] = field(default_factory=set)

    def add(self, document: Mapping[str, Any]) -> None:
        """Take in a document, if it is a queue."""
        group, _, _ = str(document.get("apiVersion", "")).rpartition("/")
        whole = dict(document)
        spec, metadata = mapping(whole, "spec"), mapping(whole, "metadata")
        name = str(metadata.get("name", ""))
        for configuration in configurations_in(whole):
            mappings = mapping(configuration[1], "resources").get("deviceClassMappings")
            named = mappings if isinstance(mappings, list) else ()
            self.mapped.update(str(one.get("name", "")) for one in named if isinstance(one, dict))
        if group not in _QUEUE_GROUPS:
            return
        if document.get("kind") == "ClusterQueue":
            self.covered[name] = frozenset(resource for resource, _ in covered_resources(spec))
        elif document.get("kind") == "LocalQueue":
            self.cluster_queue[str(metadata.get("namespace", "")), name] = str(spec.get("clusterQueue", ""))


def configurations_in(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield Kueue's Configurations in a document, and where each stands: it is one, or a ConfigMap with some in it."""
    if document.get("kind") == "Configuration" and str(document.get("apiVersion", "")).startswith(_CONFIGURATIONS):
        yield "", document
    if (document.get("apiVersion"), document.get("kind")) != ("v1", "ConfigMap"):
        return
    for key, text in mapping(document, "data").items():
        if not isinstance(text, str) or _CONFIGURATIONS not in text:
            continue
        try:
            inner = construct(node) if (node := compose(text)) is not None else None
        except yaml.YAMLError:
            continue  # text that only mentions it; the document is told of as one that does
        if isinstance(inner, dict) and inner.get("kind") == "Configuration":
            yield "data" + path_of([str(key)]), inner


def covered_resources(spec: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the resources of which the spec of a ClusterQueue or Cohort gives quota, and where each stands."""
    groups = spec.get("resourceGroups")
    for index, one in enumerate(groups if isinstance(groups, list) else []):
        named = one.get("coveredResources") if isinstance(one, dict) else None
        for place, resource in enumerate(named if isinstance(named, list) else []):
            yield str(resource), f"spec.resourceGroups[{index}].coveredResources[{place}]"


def say_virtual(spec: dict[str, Any], notes: Notes, mapped: Collection[str]) -> None:
    """Tell of resources that no pod can request, and that only Kueue's Configuration makes, but devices counted so.

    Rule: what a container requests is one of Kubernetes' own resources, or has a domain (Kubernetes 1.36,
    pkg/apis/core/validation, validateContainerResourceName).
    """
    for resource, path in covered_resources(spec):
        if "/" in resource or resource in _NATIVE or resource in mapped or resource.startswith("hugepages-"):
            continue
        happens = (
            f"{resource} is never used here: no pod can request it, and only a transformation or device class mapping "
            "of Kueue's Configuration makes it of what pods request"
        )
        do = "give quota of what pods request instead, or count devices as it (resources.deviceClassMappings)"
        notes.add(NoteLevel.LOST, path, happens, f"{do}, or this limits nothing")


def say_unplaceable(template: dict[str, Any], path: str, notes: Notes) -> None:
    """Tell what a pod template asks for that cannot be had here."""
    spec = mapping(template, "spec")
    where = f"{path}." if path else ""
    if spec.get("resourceClaims"):
        happens = "its devices count against quota only where the operator's configuration names their classes"
        do = "take resources.deviceClassMappings over into the TuttiConfiguration"
        notes.add(NoteLevel.NOTE, f"{where}spec.resourceClaims", happens, do)
    parts = _HAMI.intersection(requested_resources(spec))
    if parts:
        happens = f"{', '.join(sorted(parts))}: parts of devices are handed out by HAMi's own scheduler only"
        do = "leave these pods to HAMi's scheduler, or ask for whole devices"
        notes.add(NoteLevel.LOST, f"{where}spec.containers", happens, do)


def say_unknown_queue(queue: tuple[str, str], path: str, notes: Notes, known: KnownQueues) -> None:
    """Tell of a LocalQueue that is not in a namespace of which this run has others.

    Args:
        queue: Its namespace and name.
        path: Where it is named.
        notes: Where to tell it.
        known: The queues of this run.
    """
    namespace, name = queue
    here = sorted(one for space, one in known.cluster_queue if space == namespace)
    if not here or name in here:
        return
    near = difflib.get_close_matches(name, here, n=MOST_NAMED) or here[:MOST_NAMED]
    happens = f"LocalQueue {name} is not among those that are migrated here; without it this waits (LocalQueueNotFound)"
    notes.add(NoteLevel.NOTE, path, happens, f"name one that is there ({', '.join(near)}), or migrate it as well")


def say_uncovered(
    template: dict[str, Any], path: str, notes: Notes, *, queue: tuple[str, str], known: KnownQueues
) -> None:
    """Tell what a pod template requests of which its ClusterQueue gives no quota, where that is known.

    Args:
        template: The pod template.
        path: Where it stands.
        notes: Where to tell it.
        queue: Namespace and name of its LocalQueue.
        known: The queues of this run.
    """
    of = known.cluster_queue.get(queue, "")
    covered = known.covered.get(of)
    if not covered:
        return
    lacking = [one for one in requested_resources(mapping(template, "spec")) if one not in covered]
    if lacking:
        happens = (
            f"its pods never start: they request {', '.join(lacking)}, of which ClusterQueue {of} gives no quota; in "
            "Kueue they may have been transformed or left out by its Configuration"
        )
        where = f"{path}.spec.containers" if path else "spec.containers"
        notes.add(NoteLevel.LOST, where, happens, f"give {of} quota of them, or request what it covers")


def requested_resources(spec: dict[str, Any]) -> list[str]:
    """Return the resources that containers of a pod spec request, by requests or limits, in order of name."""
    found: set[str] = set()
    for part in ("containers", "initContainers"):
        for one in _mappings(spec.get(part)):
            resources = mapping(one, "resources")
            for amounts in (mapping(resources, "requests"), mapping(resources, "limits")):
                found.update(str(name) for name, amount in amounts.items() if str(amount) not in ("", "0", "None"))
    return sorted(found)


def _mappings(value: Any) -> Iterable[dict[str, Any]]:
    return (one for one in value if isinstance(one, dict)) if isinstance(value, list) else ()
