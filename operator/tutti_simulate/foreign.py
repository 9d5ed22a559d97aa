"""What other projects write of a cluster that decides as well: throttles, AppGroups and NetworkTopologies.

They come from a file or a live cluster as people wrote them. Jobs of a trace carry labels, by which throttles select
them: the queue (`scheduling.tutti.dev/queue-name`), and the user and queue of the trace. An AppGroup that is named like
the queue of a trace is the plan of its jobs: each job is an AppGroup of its own, and its pods of one kind after the
other are the workloads of that plan, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tutti.api import network, throttles
from tutti.engine.records.observations import AnyObservation, NetworkObjectGone, NetworkObjectSeen, ThrottleSeen
from tutti_simulate.jobs import TraceJob

USER_LABEL = "simulate.tutti.dev/user"
QUEUE_LABEL = "simulate.tutti.dev/queue"
THROTTLES = ("Throttle", "ClusterThrottle")
NAMESPACED = ("Throttle", *network.PLURALS)
_LONGEST_LABEL = 63
ObjectId = tuple[str, str, str]


class ForeignObjectError(ValueError):
    """An object that the project it belongs to could not use; the message says what is wrong."""


def is_foreign(document: Mapping[str, Any]) -> bool:
    """Whether a document is one of these."""
    kind = str(document.get("kind"))
    group = throttles.GROUP if kind in THROTTLES else network.GROUPS.get(kind)
    version = throttles.VERSION if kind in THROTTLES else network.VERSION
    return group is not None and document.get("apiVersion") == f"{group}/{version}"


def foreign_of(document: Mapping[str, Any], name: str) -> tuple[ObjectId, AnyObservation]:
    """Return one of these as it is seen, with its kind, namespace and name.

    Raises:
        ForeignObjectError: It cannot be read.
    """
    kind, meta = str(document["kind"]), document.get("metadata")
    if not isinstance(meta, dict) or not name:
        raise ForeignObjectError(f"{kind}: metadata.name must be given")
    space = str(meta.get("namespace") or "default") if kind in NAMESPACED else ""
    raw = {**document, "metadata": {**meta, "uid": f"{kind}-{space}-{name}", **({"namespace": space} if space else {})}}
    raw.pop("status", None)
    if kind in THROTTLES:
        spec = throttles.spec_of(raw)
        if isinstance(spec, str):
            raise ForeignObjectError(f"{kind} {name}: {spec}")
        return (kind, space, name), ThrottleSeen(kind, raw)
    found = network.read_app_group(raw) if kind == network.APP_GROUP else network.read_network_topology(raw)
    if found.problem:
        raise ForeignObjectError(f"{kind} {name}: {found.problem}")
    return (kind, space, name), NetworkObjectSeen(kind, raw)


def seen_id(seen: ThrottleSeen | NetworkObjectSeen) -> ObjectId:
    """Return kind, namespace and name of one that was listed."""
    meta = seen.raw.get("metadata") or {}
    return seen.kind, str(meta.get("namespace", "")), str(meta.get("name", ""))


def labels_of(job: TraceJob) -> dict[str, str]:
    """Return the labels by which throttles select the pods of a job."""
    said = {USER_LABEL: job.user, QUEUE_LABEL: job.queue}
    return {key: label for key, text in said.items() if (label := _label(text))}


def _label(text: str) -> str:
    """Return text as the value of a label: what cannot stand there is a hyphen."""
    kept = "".join(one if one.isascii() and (one.isalnum() or one in "-_.") else "-" for one in text)
    return kept[:_LONGEST_LABEL].strip("-_.")


class AppGroupPlans:
    """The AppGroups of a cluster by the name of a queue, as plans of its jobs."""

    def __init__(self, foreign: Mapping[ObjectId, AnyObservation]) -> None:
        plans = {
            name: (one.raw, network.read_app_group(one.raw).workloads)
            for (kind, _, name), one in foreign.items()
            if kind == network.APP_GROUP and isinstance(one, NetworkObjectSeen)
        }
        self._plans = {name: plan for name, plan in plans.items() if plan[1]}

    def begin(
        self, queue: str, space: str, name: str, parts: int, tell: Callable[[AnyObservation], None]
    ) -> list[dict[str, str]]:
        """Have the AppGroup of a job be there; returns the labels of its pods, kind by kind; none where it has none."""
        plan = self._plans.get(_label(queue))
        if plan is None:
            return [{} for _ in range(parts)]
        meta = {"name": name, "namespace": space, "uid": f"{network.APP_GROUP}-{space}-{name}"}
        raw, selectors = plan
        tell(NetworkObjectSeen(network.APP_GROUP, {**raw, "metadata": meta}))
        return [
            {network.GROUP_LABEL: name, network.WORKLOAD_LABEL: selectors[part % len(selectors)]}
            for part in range(parts)
        ]

    def end(self, queue: str, space: str, name: str, tell: Callable[[AnyObservation], None]) -> None:
        """Have it be gone with its job."""
        if _label(queue) in self._plans:
            tell(NetworkObjectGone(network.APP_GROUP, space, name))
