"""Objects that make pods: their pods become ours, and the operator reads from the object which of them are one gang.

Kueue makes a Workload for each of them and holds the object back until it is admitted. Here the pods themselves wait,
so nothing is held back, and what Kueue's Workload says the operator takes from the object. A Workload is written only
for plain pods, of which nothing else says how many there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tutti.api.conventions import named_groups as ours
from tutti.api.frameworks.kinds import GANG_ANNOTATION
from tutti.api.kinds.parsing import UNSUPPORTED, UnsupportedField
from tutti.api.model import API_VERSION
from tutti.api.problems import path_of
from tutti.cli.migrate.conforming import conform
from tutti.cli.migrate.kueue import kinds, remarks, words
from tutti.cli.migrate.kueue.kinds import mapping, take_over
from tutti.cli.migrate.kueue.layouts import Layout, TemplatePlace, layout_of
from tutti.cli.migrate.kueue.provisioning import KnownProvisioning
from tutti.cli.migrate.kueue.resources import KnownQueues, say_uncovered, say_unknown_queue, say_unplaceable
from tutti.cli.migrate.report import NoteLevel, Notes

LONGEST_LABEL = 63


@dataclass(slots=True)
class Run:
    """One call, over all of its files.

    Attributes:
        scheduler: The schedulerName that pods are given.
        unsupported: The fields that are left out because this version does not do them yet.
        queues: The queues in all of its files.
        provisioning: What its files say of nodes that are asked for.
        used: The Workloads written so far, by namespace and name.
    """

    scheduler: str = "tutti"
    unsupported: Sequence[UnsupportedField] = UNSUPPORTED
    queues: KnownQueues = field(default_factory=KnownQueues)
    provisioning: KnownProvisioning = field(default_factory=KnownProvisioning)
    used: set[tuple[str, str]] = field(default_factory=set)


_SAID_BY_WORKLOAD = frozenset(
    (
        words.MAX_SECONDS,
        words.GROUP_NAME,
        words.TOTAL_COUNT,
        words.PREBUILT,
        words.QUEUE,
        words.PRIORITY,
        *words.TOPOLOGY,
    )
)
"""Words of pods whose Workload says the same."""


def rewrite_job(document: dict[str, Any], notes: Notes, run: Run) -> list[dict[str, Any]] | None:
    """Rewrite an object that makes pods, in place.

    Returns:
        What is to be written before it; None where Kueue does not manage it, and nothing was changed.
    """
    layout = layout_of(document)
    queue = layout.queue() if layout is not None else ""
    if layout is None or not queue:
        remarks.say_left_alone(document, notes, scheduler=run.scheduler)
        return None
    namespace = str(mapping(document, "metadata").get("namespace", ""))
    workload = words.read_word(layout.said_by, words.PREBUILT)
    written: list[dict[str, Any]] = []
    if layout.said_by.get("kind") == "Pod" and not workload:
        workload = _workload_name(layout)
        if workload and (namespace, workload) not in run.used:
            run.used.add((namespace, workload))
            written.append(_workload(document, layout.templates[0], workload, queue, notes, run))
    say_unknown_queue((namespace, queue), "metadata.labels", notes, run.queues)
    for one in _with_inner(layout):
        _release(one, notes)
        remarks.say_changes(one, notes)
        for template in {each.path: each for each in one.templates}.values():
            say_unplaceable(template.template, template.path, notes)
            say_uncovered(template.template, template.path, notes, queue=(namespace, queue), known=run.queues)
        _take_over(one, notes, run, workload=workload)
        _ask_together(one, workload)
    if layout.label_here and not workload:
        _put_text(layout.said_by, "labels", ours.QUEUE_NAME, queue)
    return written


def _with_inner(layout: Layout) -> Iterator[Layout]:
    yield layout
    for one in layout.inner:
        yield from _with_inner(one)


def _release(layout: Layout, notes: Notes) -> None:
    """Let go of an object that only Kueue would start, or that it has sent to another cluster."""
    if layout.holds is None:
        return
    if layout.holds.get("suspend") is True:
        del layout.holds["suspend"]
    sent_to = layout.holds.get("managedBy")
    if isinstance(sent_to, str) and words.is_kueues(sent_to):
        del layout.holds["managedBy"]
        happens = "left out: work is not sent to other clusters, so it starts in this one"
        notes.add(
            NoteLevel.LOST, f"{layout.holds_at}.managedBy", happens, "keep Kueue's manager for what is to be sent"
        )


def _take_over(layout: Layout, notes: Notes, run: Run, *, workload: str) -> None:
    """Give the pods of an object our scheduler, and Kueue's words that are read here the names that they have here."""
    read_too = _SAID_BY_WORKLOAD if workload else frozenset()
    roles = {id(one.template) for one in layout.templates}
    for one in layout.templates:
        if not workload:
            kinds.of_template(one.template, one.path, notes)  # what cannot be read is told
        take_over(one.template, one.path, notes, scheduler=run.scheduler, read_too=read_too)
        if workload:
            _put_text(one.template, "labels", ours.WORKLOAD, workload)
        if workload and len(roles) > 1:
            _put_text(one.template, "labels", ours.POD_GROUP, one.role)
    for holder, at, path in layout.texts:
        words.clean(holder, path, notes, at=at)
    for named in layout.schedulers:
        kinds.name_scheduler(named.holder, named.path, notes, scheduler=run.scheduler)
    if id(layout.said_by) not in roles:
        words.clean(layout.said_by, layout.said_at, notes, read_too=read_too - {words.QUEUE, words.PRIORITY})


def _ask_together(layout: Layout, workload: str) -> None:
    """Ask for a gang where Kueue admits all pods of an object at once, and the operator would not by itself."""
    owner, kind = layout.owner, layout.kind
    if owner is None or kind is None or workload or kind.gang not in ("Together", "Requested"):
        return
    if not (owner.together or owner.wish or owner.one_by_one) and layout.pods > 1:
        _put_text(layout.said_by, "annotations", GANG_ANNOTATION, "Together")


def _put_text(holder: dict[str, Any], of: str, key: str, text: str) -> None:
    """Write a label or annotation, unless the object has one of that name."""
    if not isinstance(holder.get("metadata"), dict):
        rest = {name: part for name, part in holder.items() if name != "metadata"}
        whole = {name: rest.pop(name) for name in ["apiVersion", "kind"] if name in rest}
        whole["metadata"] = {}  # it is read first
        holder.clear()
        holder.update(whole | rest)
    metadata = holder["metadata"]
    if not isinstance(metadata.get(of), dict):
        metadata[of] = {}
    metadata[of].setdefault(key, text)


def _workload_name(layout: Layout) -> str:
    """Return the name of the Workload that is written for a pod; "": the pod is admitted by itself."""
    pod = layout.said_by
    group = words.read_word(pod, words.GROUP_NAME)
    if group and words.read_word(pod, words.TOTAL_COUNT).isdecimal():
        return group[:LONGEST_LABEL].rstrip("-.")
    if words.read_word(pod, words.MAX_SECONDS):
        return str(mapping(pod, "metadata").get("name", ""))[:LONGEST_LABEL].rstrip("-.")
    return ""


def _workload(
    document: dict[str, Any], pod: TemplatePlace, name: str, queue: str, notes: Notes, run: Run
) -> dict[str, Any]:
    """Return the Workload of plain pods that are admitted together, as Kueue would make it."""
    metadata, spec = {"name": name}, {"queueName": queue}
    namespace = mapping(document, "metadata").get("namespace")
    if namespace:
        metadata["namespace"] = namespace
    workload: dict[str, Any] = {"apiVersion": API_VERSION, "kind": "Workload", "metadata": metadata, "spec": spec}
    priority = words.read_word(document, words.PRIORITY)
    if priority:
        workload["spec"]["priorityClassRef"] = {"name": priority}
    total = words.read_word(document, words.TOTAL_COUNT) if words.read_word(document, words.GROUP_NAME) else ""
    group: dict[str, Any] = {"name": pod.role, "count": int(total) if total.isdecimal() else 1}
    near = kinds.of_template(pod.template, pod.path, notes)
    if near is not None:
        group["topology"] = near
    workload["spec"]["podGroups"] = [group]
    moved = {
        "spec.podGroups[0].topology": kinds.topology_path(pod.template, pod.path),
        "spec.podGroups[0]": pod.path,
    }
    seconds = words.read_word(document, words.MAX_SECONDS)
    if seconds:
        workload["spec"]["maximumExecutionTimeSeconds"] = int(seconds) if seconds.isdecimal() else seconds
        moved["spec.maximumExecutionTimeSeconds"] = "metadata.labels" + path_of([words.MAX_SECONDS])
    conform(workload, Notes(notes.found, moved), unsupported=run.unsupported)
    happens = f"Workload {name} is written for it, and stays in its queue when the pods are deleted"
    notes.add(NoteLevel.NOTE, "metadata", happens, f"delete Workload {name} with its pods")
    return workload
