"""The labels and annotations by which Kueue is told things, and what becomes of each (Kueue 0.19, pkg/controller)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from tutti.api.conventions import kueue
from tutti.api.conventions import named_groups as ours
from tutti.api.conventions.topology_annotations import KUEUE_TOPOLOGY, OUR_TOPOLOGY
from tutti.api.frameworks.kinds import MIN_MEMBER_ANNOTATION
from tutti.api.frameworks.projection import RUN_TIME_LABELS
from tutti.api.problems import path_of
from tutti.cli.migrate.report import NoteLevel, Notes

GROUP = "kueue.x-k8s.io"
PREFIX = f"{GROUP}/"
QUEUE = kueue.QUEUE_NAME
PRIORITY = kueue.PRIORITY_CLASS
GROUP_NAME = kueue.GROUP_NAME
TOTAL_COUNT = kueue.TOTAL_COUNT
PREBUILT = f"{PREFIX}prebuilt-workload-name"
MAX_SECONDS = f"{PREFIX}max-exec-time-seconds"
MIN_PARALLELISM = f"{PREFIX}job-min-parallelism"
TOPOLOGY = KUEUE_TOPOLOGY

RENAMED: Mapping[str, str] = MappingProxyType(
    {
        QUEUE: ours.QUEUE_NAME,
        PRIORITY: ours.PRIORITY_CLASS,
        MAX_SECONDS: RUN_TIME_LABELS[0],
        MIN_PARALLELISM: MIN_MEMBER_ANNOTATION,
        **dict(zip(KUEUE_TOPOLOGY, OUR_TOPOLOGY, strict=True)),
    }
)
"""Kueue's labels and annotations that have an equal here."""

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
    level: NoteLevel = NoteLevel.LOST


RANKED_BY_NAME = LostWord(
    "left out: pods are placed in the order of the numbers in their names",
    "nothing, if these count as the index did",
    NoteLevel.NOTE,
)
"""Of what says by which index Kueue orders pods along a topology."""

_ELASTIC = LostWord(
    "left out: members that are added while it runs are charged one by one as they come",
    "nothing, if it may have some of them only",
    NoteLevel.NOTE,
)
LOST: Mapping[str, LostWord] = MappingProxyType(
    {
        f"{PREFIX}elastic-job": _ELASTIC,
        **dict.fromkeys((f"{PREFIX}pod-group-pod-index", f"{PREFIX}pod-group-pod-index-label"), RANKED_BY_NAME),
        f"{PREFIX}pod-index-offset": RANKED_BY_NAME,
        **{
            PREFIX + name: LostWord(f"left out: {happens}", do)
            for name, happens, do in (
                (
                    "admission-gated-by",
                    "no other controller can hold a workload back",
                    "use schedulingGates on its pods",
                ),
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
                (
                    "job-completions-equal-parallelism",
                    "completions stay as they are when fewer pods are admitted",
                    "set completions to what must succeed",
                ),
            )
        },
    }
)
"""Words that have no counterpart."""


PROVISIONING = LostWord(
    "left out: no capacity is asked for ahead of admission", "let the cluster autoscaler act on Unschedulable pods"
)
"""Of every word by which a ProvisioningRequest is given its parameters."""


class Place(NamedTuple):
    """A place in a document that speaks of Kueue: where, what stands there, and whether that is a key."""

    path: str
    text: str
    is_key: bool


def is_kueues(key: str) -> bool:
    """Whether a label, an annotation or a controller's name is one of Kueue's."""
    domain = key.partition("/")[0]
    return "/" in key and (domain == GROUP or domain.endswith(f".{GROUP}"))


def texts(holder: Any, *, of: str, at: str = "metadata") -> dict[str, Any]:
    """The labels or annotations in an object's metadata; those of a new dictionary where it has none."""
    metadata = holder.get(at) if isinstance(holder, dict) else None
    found = metadata.get(of) if isinstance(metadata, dict) else None
    return found if isinstance(found, dict) else {}


def read_word(holder: Any, key: str, *, at: str = "metadata") -> str:
    """A word of Kueue's, label or annotation; empty where the object does not say it."""
    return str(texts(holder, of="labels", at=at).get(key) or texts(holder, of="annotations", at=at).get(key) or "")


def clean(
    holder: dict[str, Any], path: str, notes: Notes, *, read_too: frozenset[str] = frozenset(), at: str = "metadata"
) -> None:
    """Rename and take out Kueue's words in an object's metadata.

    Args:
        holder: The object or pod template.
        path: Where it stands in the document; empty for the document itself.
        notes: Told of words that have no counterpart.
        read_too: Words that have been read and are said elsewhere now.
        at: The field with its metadata.
    """
    for of in ("labels", "annotations"):
        found = texts(holder, of=of, at=at)
        if not any(is_kueues(str(key)) for key in found):
            continue
        kept: dict[str, Any] = {}
        for key, value in found.items():
            where = f"{path}.{at}.{of}" if path else f"{at}.{of}"
            renamed = RENAMED.get(key, key)
            lost = PROVISIONING if str(key).startswith("provreq.") and is_kueues(str(key)) else LOST.get(key)
            if lost is not None:
                notes.add(lost.level, where + path_of([key]), lost.happens, lost.do)
            elif key not in read_too and key not in BOOKKEEPING and (renamed == key or renamed not in found):
                kept[renamed] = value
                _say_unknown(key, where, notes)
        metadata = holder[at]
        metadata[of] = kept
        if not kept:
            del metadata[of]
        if not metadata:
            del holder[at]


def places(value: Any, steps: tuple[str | int, ...] = ()) -> Iterator[Place]:
    """Yield the places in a document that speak of Kueue, in their order."""
    if isinstance(value, dict):
        for key, item in value.items():
            if is_kueues(str(key)):
                yield Place(path_of([*steps, str(key)]), str(key), is_key=True)
            else:
                yield from places(item, (*steps, str(key)))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from places(item, (*steps, index))
    elif isinstance(value, str) and GROUP in value:
        yield Place(path_of(steps), value, is_key=False)


def _say_unknown(key: str, where: str, notes: Notes) -> None:
    if is_kueues(str(key)) and key not in RENAMED:
        happens = "left as it is, but nothing reads it here"
        notes.add(NoteLevel.LOST, where + path_of([key]), happens, "check what it was for")
