"""Objects that make pods: their pods become ours, and a Workload says which of them are admitted together.

Kueue makes a Workload for each of them and holds the object back until it is admitted. Here the pods themselves wait,
so nothing is held back, and the Workload is written beside the object. Two objects may want one name for theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tutti.api.conventions import named_groups as ours
from tutti.api.conventions.named_groups import VOLCANO_MIN_MEMBER
from tutti.api.kinds.parsing import UNSUPPORTED, UnsupportedField
from tutti.api.model import API_VERSION
from tutti.api.problems import path_of
from tutti.cli.migrate.conforming import conform
from tutti.cli.migrate.kueue import kinds, words
from tutti.cli.migrate.kueue.kinds import mapping, take_over
from tutti.cli.migrate.kueue.layouts import GangScope, Layout, Role, layout_of
from tutti.cli.migrate.report import NoteLevel, Notes

LONGEST_LABEL = 63


@dataclass(slots=True)
class Run:
    """One call, over all of its files.

    Attributes:
        scheduler: The schedulerName that pods are given.
        unsupported: The fields that are left out because this version does not do them yet.
        used: The Workloads written so far: namespace and name, and whose each is.
    """

    scheduler: str = "tutti"
    unsupported: Sequence[UnsupportedField] = UNSUPPORTED
    used: dict[tuple[str, str], str] = field(default_factory=dict)

    def claim(self, namespace: str, wanted: str, kind: str) -> tuple[str, bool]:
        """Take a name for the Workload of an object.

        Args:
            namespace: Where it lives.
            wanted: The name it gets, unless another kind of object has it; pods bear it as a label.
            kind: The kind of the object, or of group, that it is for.

        Returns:
            The name, and whether this is the first claim to it.
        """
        name = wanted[:LONGEST_LABEL].rstrip("-.")
        if self.used.get((namespace, name), kind) != kind:
            tail = f"-{kind.lower()}"
            name = name[: LONGEST_LABEL - len(tail)] + tail
        first = (namespace, name) not in self.used
        self.used[namespace, name] = kind
        return name, first


_READ = frozenset(
    (words.MAX_SECONDS, words.MIN_PARALLELISM, words.GROUP_NAME, words.TOTAL_COUNT, words.PREBUILT, *words.TOPOLOGY)
)
"""Words that a Workload says now."""

_READ_OF_PODS = _READ | {words.QUEUE, words.PRIORITY}


def rewrite_job(document: dict[str, Any], notes: Notes, run: Run) -> list[dict[str, Any]] | None:
    """Rewrite an object that makes pods, in place.

    Returns:
        What is to be written before it; None where Kueue does not manage it, and nothing was changed.
    """
    layout = layout_of(document)
    queue = _queue(layout) if layout else ""
    if layout is None or not queue:
        _say_left_alone(document, notes, run)
        return None
    if layout.suspends is not None and layout.suspends.get("suspend") is True:
        del layout.suspends["suspend"]  # nobody but Kueue would start it
    written: list[dict[str, Any]] = []
    name, first = _name(document, layout, run)
    if name and first:
        written.append(_workload(document, layout, name, queue, notes, run))
    _say_what_changes(document, layout, name, notes)
    priority = words.read_word(layout.said_by, words.PRIORITY)
    for role in layout.roles:
        member = bool(name) and not role.apart
        take_over(role.template, role.path, notes, scheduler=run.scheduler, read_too=_READ_OF_PODS if member else _READ)
        _label(role, layout, workload=name if member else "", queue=queue, priority=priority)
    if layout.said_by is not layout.roles[0].template:
        words.clean(layout.said_by, layout.said_at, notes, read_too=_READ)
    return written


def _queue(layout: Layout) -> str:
    """The queue that an object or its pods name; empty for one that Kueue leaves alone, or that makes no pods."""
    holders = [layout.said_by, *(role.template for role in layout.roles)] if layout.roles else []
    return next((queue for holder in holders if (queue := words.read_word(holder, words.QUEUE))), "")


def _name(document: dict[str, Any], layout: Layout, run: Run) -> tuple[str, bool]:
    """The Workload that its pods belong to, and whether it is still to be written; empty where they have none."""
    if layout.gang is not GangScope.WHOLE:
        return "", False
    prebuilt = words.read_word(layout.said_by, words.PREBUILT)
    if prebuilt:
        return prebuilt, False
    metadata = mapping(document, "metadata")
    group = words.read_word(document, words.GROUP_NAME)
    wanted, kind = (group, "group") if group else (str(metadata.get("name", "")), str(document["kind"]))
    return run.claim(str(metadata.get("namespace", "")), wanted, kind) if wanted else ("", False)


def _workload(
    document: dict[str, Any], layout: Layout, name: str, queue: str, notes: Notes, run: Run
) -> dict[str, Any]:
    """The Workload of an object whose pods are admitted together, as Kueue would make it."""
    metadata, spec = {"name": name}, {"queueName": queue}
    namespace = mapping(document, "metadata").get("namespace")
    if namespace:
        metadata["namespace"] = namespace
    moved = {}
    workload: dict[str, Any] = {"apiVersion": API_VERSION, "kind": "Workload", "metadata": metadata, "spec": spec}
    priority = words.read_word(layout.said_by, words.PRIORITY)
    if priority:
        workload["spec"]["priorityClassRef"] = {"name": priority}
    members = [role for role in layout.roles if not role.apart]
    workload["spec"]["podGroups"] = [_pod_group(role, notes) for role in members]
    for index, role in enumerate(members):
        moved[f"spec.podGroups[{index}].topology"] = kinds.topology_path(role.template, role.path)
        moved[f"spec.podGroups[{index}]"] = role.path
    seconds = words.read_word(layout.said_by, words.MAX_SECONDS)
    if seconds:
        workload["spec"]["maximumExecutionTimeSeconds"] = int(seconds) if seconds.isdecimal() else seconds
        where = f"{layout.said_at}.metadata.labels" if layout.said_at else "metadata.labels"
        moved["spec.maximumExecutionTimeSeconds"] = where + path_of([words.MAX_SECONDS])
    conform(workload, Notes(notes.found, moved), unsupported=run.unsupported)
    return workload


def _pod_group(role: Role, notes: Notes) -> dict[str, Any]:
    group: dict[str, Any] = {"name": role.name, "count": role.count}
    if role.min_count is not None:
        group["minCount"] = role.min_count
    near = kinds.of_template(role.template, role.path, notes)
    if near is not None:
        group["topology"] = near
    return group


def _label(role: Role, layout: Layout, *, workload: str, queue: str, priority: str) -> None:
    """Say on the pods where they belong."""
    if workload:
        said = {ours.WORKLOAD: workload}
        if sum(not one.apart for one in layout.roles) > 1:
            said[ours.POD_GROUP] = role.name
    else:
        said = {ours.QUEUE_NAME: queue} | ({ours.PRIORITY_CLASS: priority} if priority else {})
    template = role.template
    if "metadata" not in template:
        before = dict(template)  # metadata is read first
        template.clear()
        template.update({"metadata": {}, **before})
    template["metadata"].setdefault("labels", {}).update(said)
    if layout.gang is GangScope.OWNED and role.count > 1:
        least = role.min_count or role.count
        template["metadata"].setdefault("annotations", {})[VOLCANO_MIN_MEMBER] = str(least)


def _say_what_changes(document: dict[str, Any], layout: Layout, name: str, notes: Notes) -> None:
    """Tell what is not as it was with the pods of an object."""
    for remark in layout.remarks:
        notes.add(NoteLevel.CHANGED, *remark)
    if name or layout.gang is GangScope.APART:
        return
    if layout.gang is GangScope.OWNED:
        happens = f"the pods of each Job are told to be one gang by Volcano's annotation {VOLCANO_MIN_MEMBER}"
        notes.add(
            NoteLevel.NOTE, layout.said_at or "metadata.generateName", happens, "keep conventions.volcano enabled"
        )
    elif layout.gang is GangScope.SPLIT:
        happens = "the pods of one replica are not admitted together: each queues by itself"
        notes.add(
            NoteLevel.LOST, layout.roles[0].path, happens, f"give the pods of each replica a {ours.POD_GROUP} label"
        )
    else:
        happens = "its pods are not admitted together: without a name there can be no Workload for it"
        notes.add(
            NoteLevel.LOST, "metadata.generateName", happens, f"give {document['kind']} a name, and migrate again"
        )
    if words.read_word(layout.said_by, words.MAX_SECONDS):
        where = f"{layout.said_at}.metadata.labels" if layout.said_at else "metadata.labels"
        happens = "left out: only a Workload can limit the time its pods run"
        notes.add(NoteLevel.LOST, where + path_of([words.MAX_SECONDS]), happens, "set activeDeadlineSeconds")
    for role in layout.roles:
        if kinds.asks(role.template):
            happens = "left out: only a Workload or PodGroup can ask for topology"
            do = "make it one object with a name, and migrate again"
            notes.add(NoteLevel.LOST, kinds.topology_path(role.template, role.path), happens, do)


def _say_left_alone(document: dict[str, Any], notes: Notes, run: Run) -> None:
    """Tell of words of Kueue's in an object whose pods are not known here, or that names no queue."""
    path = _find(document, "")
    if path:
        happens = "left as it is: the pods of this kind are not known here, or it names no queue"
        do = f"give its pods schedulerName {run.scheduler} and the label {ours.QUEUE_NAME}"
        notes.add(NoteLevel.LOST, path, happens, do)


def _find(value: Any, path: str) -> str:
    """Where the first word of Kueue's is in a document; empty where there is none."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        where = path + (path_of([key]) if not path or isinstance(key, int) else _under(key))
        if isinstance(key, str) and key.startswith(words.PREFIX):
            return where
        found = _find(item, where)
        if found:
            return found
    return ""


def _under(key: str) -> str:
    step = path_of([key])
    return step if step.startswith("[") else f".{step}"
