"""The labels and annotations by which Kueue is told things, and what becomes of each (Kueue 0.19, pkg/controller)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from tutti.api.conventions import kueue
from tutti.api.conventions import named_groups as ours
from tutti.api.conventions.topology_annotations import KUEUE_TOPOLOGY
from tutti.api.problems import path_of
from tutti.cli.migrate.report import NoteLevel, Notes

PREFIX = "kueue.x-k8s.io/"
QUEUE = kueue.QUEUE_NAME
PRIORITY = kueue.PRIORITY_CLASS
GROUP_NAME = kueue.GROUP_NAME
TOTAL_COUNT = kueue.TOTAL_COUNT
PREBUILT = f"{PREFIX}prebuilt-workload-name"
MAX_SECONDS = f"{PREFIX}max-exec-time-seconds"
MIN_PARALLELISM = f"{PREFIX}job-min-parallelism"
TOPOLOGY = KUEUE_TOPOLOGY

RENAMED: Mapping[str, str] = MappingProxyType({QUEUE: ours.QUEUE_NAME, PRIORITY: ours.PRIORITY_CLASS})
"""Kueue's labels that have an equal here."""

BOOKKEEPING = frozenset(
    PREFIX + name
    for name in (
        "managed",
        "podset",
        "workload",
        "workload-slice-name",
        "local-queue-name",
        "cluster-queue-name",
        "role-hash",
        "job-uid",
        "job-owner-gvk",
        "job-owner-name",
        "is-group-workload",
        "stopping",
        "pod-suspending-parent",
        "pod-group-fast-admission",
        "component-workload-index",
        "multikueue-origin",
        "multikueue-origin-uid",
    )
)
"""What Kueue writes for itself, or what is so here without being asked for; it goes without a word."""

GATES = frozenset(PREFIX + name for name in ("admission", "topology", "elastic-job"))
"""Scheduling gates that only Kueue would ever take away."""


class LostWord(NamedTuple):
    """What is not had any more without a word of Kueue's, and what to do instead."""

    happens: str
    do: str


LOST: Mapping[str, LostWord] = MappingProxyType(
    {
        PREFIX + name: LostWord(f"left out: {happens}", do)
        for name, happens, do in (
            (
                "elastic-job",
                "members above the count of a pod group are not charged ahead of time",
                "set minCount below count, and let count be the most it may grow to",
            ),
            ("admission-gated-by", "no other controller can hold a workload back", "use schedulingGates on its pods"),
            ("priority-boost", "a workload has no boost on top of its priority", "give it another priority class"),
            (
                "workload-allowed-resource-flavors",
                "a workload cannot name the flavors it may use",
                "put the flavor's node labels into the nodeSelector of its pods",
            ),
            (
                "safe-to-forcefully-delete",
                "pods on unreachable nodes are not deleted by force",
                "use the out-of-service taint",
            ),
            (
                "retriable-in-group",
                "a group is not ended by one pod",
                "set failurePolicy.onMemberFailure: Deactivate in its Workload, if the others cannot go on",
            ),
            (
                "pod-group-serving",
                "a group is finished when its pods are, whatever they serve",
                "nothing, if the pods are never finished",
            ),
            ("pod-group-pod-index", "pods are not placed in order of rank", "nothing, if any order of ranks will do"),
            ("pod-group-pod-index-label", "pods are not placed in order of rank", "nothing, if any order will do"),
            ("pod-index-offset", "pods are not placed in order of rank", "nothing, if any order of ranks will do"),
            (
                "job-completions-equal-parallelism",
                "completions stay as they are when fewer pods are admitted",
                "set completions to what must succeed",
            ),
        )
    }
)
"""Words that have no counterpart."""


def texts(holder: Any, *, of: str) -> dict[str, Any]:
    """The labels or annotations in an object's metadata; those of a new dictionary where it has none."""
    metadata = holder.get("metadata") if isinstance(holder, dict) else None
    found = metadata.get(of) if isinstance(metadata, dict) else None
    return found if isinstance(found, dict) else {}


def read_word(holder: Any, key: str) -> str:
    """A word of Kueue's, label or annotation; empty where the object does not say it."""
    return str(texts(holder, of="labels").get(key) or texts(holder, of="annotations").get(key) or "")


def clean(holder: dict[str, Any], path: str, notes: Notes, *, read_too: frozenset[str] = frozenset()) -> None:
    """Rename and take out Kueue's words in an object's metadata.

    Args:
        holder: The object or pod template.
        path: Where it stands in the document; empty for the document itself.
        notes: Told of words that have no counterpart.
        read_too: Words that have been read and are said elsewhere now.
    """
    for of in ("labels", "annotations"):
        found = texts(holder, of=of)
        if not any(str(key).startswith(PREFIX) for key in found):
            continue
        kept: dict[str, Any] = {}
        for key, value in found.items():
            where = f"{path}.metadata.{of}" if path else f"metadata.{of}"
            if key in LOST:
                notes.add(NoteLevel.LOST, where + path_of([key]), *LOST[key])
            elif key not in read_too and key not in BOOKKEEPING:
                kept[RENAMED.get(key, key)] = value
                _say_unknown(key, where, notes)
        metadata = holder["metadata"]
        metadata[of] = kept
        if not kept:
            del metadata[of]
        if not metadata:
            del holder["metadata"]


def _say_unknown(key: str, where: str, notes: Notes) -> None:
    if str(key).startswith(PREFIX) and key not in RENAMED:
        happens = "left as it is, but nothing reads it here"
        notes.add(NoteLevel.LOST, where + path_of([key]), happens, "check what it was for")
