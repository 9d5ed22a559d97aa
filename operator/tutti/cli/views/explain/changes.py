"""What users and administrators could change about members, queues and quota so that a workload is placed.

Each change is tried out on an engine that is told that it had been made. Which are worth trying is a guess; what is
said of them is not. So that the answer comes soon, only so many are tried, the least first.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from msgspec import structs

from tutti.api.conventions import kueue, named_groups
from tutti.api.conventions.after_annotation import AFTER
from tutti.api.core import Pod, ResourceRequirements
from tutti.api.frameworks import ProjectedOwner
from tutti.api.messages import IS, agreeing, counted
from tutti.api.resources import format_amount, parse_amounts
from tutti.cli.views.explain.model import NodeRoom, QuotaUse, Remedy
from tutti.cli.views.pod_copies import with_claims
from tutti.cli.views.what_if import (
    ObservedCluster,
    Seen,
    changed,
    pod_of,
    pods_like,
    with_object,
    with_owners,
    with_pods,
    without_pods,
)
from tutti.engine.ingest.implicit_gangs import IMPLICIT_LABEL
from tutti.engine.ingest.owned_gangs import answers_of, inherited_queues
from tutti.engine.records.explanation import AFTER_OTHERS, Explanation, Gate
from tutti.engine.records.pod_sets import PodSetRequest
from tutti.engine.records.workloads import Workload
from tutti.engine.status import StatusState
from tutti.placement.diagnosis import too_large
from tutti.quota.flavors import Queue, uncovered
from tutti.quota.policy import Preemptible
from tutti.quota.tree import UNLIMITED


@dataclass(frozen=True, slots=True)
class UnplacedWorkload:
    """A workload that waits, and why.

    Attributes:
        asked: Who can be asked about other clusters.
        state: What is known before anything is tried.
        why: What it waits for.
        needs: The pods that want nodes; none where that is not known yet.
        quota: What it asks of its queue.
        rooms: Where its pods could go.
    """

    asked: ObservedCluster
    state: StatusState
    workload: Workload
    queue: Queue | None
    why: Explanation
    needs: Sequence[PodSetRequest]
    quota: Sequence[QuotaUse]
    rooms: Sequence[NodeRoom]

    @property
    def seen(self) -> Seen:
        """What was listed."""
        return self.asked.listed.seen


@dataclass(frozen=True, slots=True)
class Change:
    """Something that could be done, and what would be seen then."""

    what: str
    seen: Seen


def helpful_changes(case: UnplacedWorkload, ideas: Iterable[Change], *, good: int, most: int) -> list[Remedy]:
    """Try at most so many ideas in order, and return the first few after which the workload would be placed."""
    return helpful(tried_changes(case, ideas, good=good, most=most))


def tried_changes(case: UnplacedWorkload, ideas: Iterable[Change], *, good: int, most: int) -> list[Remedy]:
    """Try at most so many ideas in order, until enough are found to help, and return what came of each that was."""
    found: list[Remedy] = []
    for idea in islice(ideas, most):
        found.append(try_change(case, idea))
        if len(helpful(found)) == good:
            break
    return found


def helpful(tried: Iterable[Remedy]) -> list[Remedy]:
    """Return those after which the workload would be placed."""
    return [one for one in tried if not one.then]


def try_change(case: UnplacedWorkload, idea: Change) -> Remedy:
    """Try an idea; room that others are taken out for counts as had."""
    then = case.asked.what_if(idea.seen, case.workload.key)
    if then is None:
        return Remedy(idea.what)
    if then.gate is Gate.VICTIMS:
        return Remedy(f"{idea.what}: {then.message.partition(';')[0]}")
    return Remedy(idea.what, then.plain)


Json = dict[str, Any]
QUEUE_LABELS = (named_groups.QUEUE_NAME, kueue.QUEUE_NAME)
"""The labels of pods that name their queue."""
Pair = tuple[str, str]
_ALIKE = 0.75
"""How much a label of a node is like one that no node has, of 1, to be taken for what was meant."""
_MOST_ALIKE = 2
"""How many such are tried."""
_MOST_KINDS = 100
_UNMISTAKABLE = ("kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch")
MOST_BEFORE = 4
"""How many of those who stand before a workload in its queue are looked at."""


def complete_gang(case: UnplacedWorkload) -> Iterator[Change]:
    """Yield what would make a gang complete: gates taken off, foreign pods handed over, missing members."""
    _, namespace, name = case.workload.key
    for group in case.workload.groups.values():
        gated = [key for key, member in group.members.items() if member.pod.gated]
        if gated:
            seen = with_pods(case.seen, gated, _ungated)
            yield Change(f"the scheduling gates of {counted(len(gated), 'member')} are taken off", seen)
        foreign = list(case.state.foreign_pods.get((namespace, name), {}))
        if foreign:
            ours = next(iter(case.state.profiles))
            seen = with_pods(case.seen, foreign, partial(_handed_over, to=ours))
            yield Change(f"the schedulerName of {counted(len(foreign), 'pod')} with its label is set to {ours}", seen)
        tally = group.counts()
        missing = group.min_count - tally.live - tally.succeeded
        waiting = [key for key, member in group.members.items() if member.pod.placeable]
        if missing > 0 and waiting:
            first = pod_of(case.seen, waiting[0])
            seen = [*case.seen, *with_claims(case.seen, first, pods_like(first, missing))]
            yield Change(
                f"{counted(missing, 'more member')} like {waiting[0][1]} {agreeing(missing, IS)} created", seen
            )


def smaller_requests(case: UnplacedWorkload) -> Iterator[Change]:
    """Yield that pods ask for no more than the largest node offers, where they ask for more."""
    nodes, seen, told = case.state.cluster.nodes, case.seen, dict[str, int]()
    for need in case.needs:
        most = too_large(nodes, need.pod_class.requests)
        told |= most
        seen = with_pods(seen, {member.pod.key for member in need.members}, partial(_limited, most=most))
    if told and nodes.count:
        limits = ", ".join(f"{format_amount(resource, units)} {resource}" for resource, units in told.items())
        yield Change(f"none of its pods asks for more than the largest node offers: {limits}", seen)


def select_other_nodes(case: UnplacedWorkload) -> Iterator[Change]:
    """Yield what labels in nodeSelectors that no node has may have been meant to be, all of them at once.

    That is another value of the same key, spelled much like it, or else the same value of such a key. What a node is
    called, and what its programs are built for, nobody means otherwise.
    """
    nodes = case.state.cluster.nodes
    selected = {pair for need in case.needs for pair in need.pod_class.spec.node_selector.items()}
    there = {pair for row in nodes.rows.values() for pair in nodes.labels[row].items()}
    missing = sorted(selected - there)
    if not missing:
        return
    keys = {member.pod.key for need in case.needs for member in need.members}
    for meant in islice(itertools.product(*(_most_like(pair, there) for pair in missing)), _MOST_ALIKE):
        instead = dict(zip(missing, meant, strict=True))
        told = " and ".join(f"{'='.join(after)} instead of {'='.join(before)}" for before, after in instead.items())
        seen = with_pods(case.seen, keys, partial(_selecting, instead=instead))
        yield Change(f"its nodeSelector has {told}", seen)


def _most_like(wanted: Pair, there: Collection[Pair]) -> list[Pair]:
    """Return the labels of nodes that are spelled most like one that none has."""
    key, value = wanted
    if key in _UNMISTAKABLE:
        return []
    values = sorted(one for other, one in there if other == key)
    if values:
        kinds = values if len(values) <= _MOST_KINDS else []  # of more than that each is one node's own
        return [(key, one) for one in difflib.get_close_matches(value, kinds, n=_MOST_ALIKE, cutoff=_ALIKE)]
    named = {other.rpartition("/")[2]: other for other, one in sorted(there) if one == value}
    name = key.rpartition("/")[2]
    return [(named[one], value) for one in difflib.get_close_matches(name, sorted(named), n=_MOST_ALIKE, cutoff=_ALIKE)]


def enter_queue(case: UnplacedWorkload) -> Iterator[Change]:
    """Yield what would let a workload into a queue: another name, or a queue that is not on hold any more."""
    kind, namespace, name = case.workload.key
    wanted = case.workload.queue
    if case.why.reason in ("LocalQueueNotFound", "NoQueue"):
        known = _queues_for(case)
        for other in difflib.get_close_matches(wanted, known, n=1, cutoff=0.0) or known[:1]:
            yield _in_queue(case, other)
    if case.why.reason == "BehindHead" and case.queue is not None:
        before = itertools.takewhile(
            lambda one: one is not case.workload, case.state.queue_positions.heads(case.queue.name, MOST_BEFORE)
        )
        first = {member.pod.key: one for one in before for member in one.members()}
        names = list(dict.fromkeys("/".join(one.key[1:]) for one in first.values()))
        if names:
            yield Change(
                f"{' and '.join(names)}, before it, {agreeing(len(names), IS)} taken back",
                without_pods(case.seen, first),
            )
    if case.why.reason == "OnHold":
        leads = case.state.leads_to(namespace, wanted)
        seen = with_object(case.seen, "LocalQueue", namespace, wanted, _setting(["spec", "stopPolicy"], "None"))
        yield Change(
            f"stopPolicy of LocalQueue {namespace}/{wanted} and ClusterQueue {leads} is None",
            with_object(seen, "ClusterQueue", "", leads, _setting(["spec", "stopPolicy"], "None")),
        )
    if case.why.reason == "Deactivated" and kind == "Workload":
        seen = with_object(case.seen, kind, namespace, name, _setting(["spec", "active"], value=True))
        yield Change("its spec.active is set to true", seen)
    if case.why.reason in AFTER_OTHERS and kind == "Workload":
        seen = with_object(case.seen, kind, namespace, name, _setting(["spec", "after"], []))
        yield Change("it names nobody in spec.after", seen)
    maker = case.workload.maker
    if case.why.reason in AFTER_OTHERS and maker is not None:
        freed = partial(_after_nobody, uid=maker.uid)
        yield Change(f"{maker.kind} {maker.name} is without the annotation {AFTER}", with_owners(case.seen, freed))


def _queues_for(case: UnplacedWorkload) -> list[str]:
    """Return the LocalQueues that would have a workload: one that is suspended, those that start what is."""
    catalog, namespace = case.state.catalog, case.workload.key[1]
    known = catalog.local_queues(namespace)
    return known if case.workload.managed is None else [one for one in known if catalog.keeps_suspended(namespace, one)]


def _in_queue(case: UnplacedWorkload, other: str) -> Change:
    """Return that a workload names another queue, wherever that is said: in its own object, in an owner, or in pods."""
    workload, wanted = case.workload, case.workload.queue
    instead = f" instead of {wanted}" if wanted else ""
    found = case.state.catalog.find(workload.key)
    if found is not None and IMPLICIT_LABEL not in found.metadata.labels:
        seen = with_object(case.seen, *workload.key, _setting(["spec", "queueName"], other))
        return Change(f"its queueName is {other}{instead}", seen)
    by = inherited_queues(answers_of(workload)).get(wanted, "") if wanted else ""
    if not by and workload.maker is not None:
        by = f"{workload.maker.kind} {workload.maker.name}"
    if by:
        renamed = partial(_in_other_queue, title=by, namespace=workload.key[1], after=other)
        return Change(f"the queue that {by} names is {other}{instead}", with_owners(case.seen, renamed))
    pods = {member.pod.key for member in workload.members()}
    seen = with_pods(case.seen, pods, partial(_relabelled, before=wanted, after=other))
    return Change(f"the queue that its label names is {other}{instead}", seen)


def reclaim_lent_quota(case: UnplacedWorkload) -> Iterator[Change]:
    """Yield that the queue takes back what it has lent, where it may not."""
    queue = case.queue
    if (
        queue is None
        or queue.policy.reclaim is not Preemptible.NEVER
        or not any(one.lent for one in case.quota if one.missing)
    ):
        return
    seen = with_object(
        case.seen, "ClusterQueue", "", queue.name, _setting(["spec", "preemption", "reclaimWithinCohort"], "Any")
    )
    yield Change(f"ClusterQueue {queue.name} takes back what it has lent (preemption.reclaimWithinCohort: Any)", seen)


def cover_resources(case: UnplacedWorkload) -> Iterator[Change]:
    """Yield that the queue has quota of what is asked for and it has none of: as much as is asked for."""
    queue = case.queue
    if queue is None:
        return
    missing = {name: 0 for need in case.needs for name in uncovered(queue, need.pod_class.charged)}
    for need in case.needs:
        for name in missing:
            missing[name] += need.pod_class.charged.get(name, 0) * need.required
    if missing:
        seen = with_object(case.seen, "ClusterQueue", "", queue.name, partial(_cover, missing=missing))
        told = ", ".join(f"{format_amount(name, units)} {name}" for name, units in missing.items())
        yield Change(f"ClusterQueue {queue.name} is given quota of {told} or more", seen)


def raise_quota(case: UnplacedWorkload) -> Iterator[Change]:
    """Yield, for each flavor, that the queue is given as much more of it as is lacking."""
    queue = case.queue
    if queue is None:
        return
    for flavor in dict.fromkeys(one.flavor for one in case.quota):
        short = [one for one in case.quota if one.flavor == flavor and one.missing and one.own < UNLIMITED]
        if short:
            seen = with_object(case.seen, "ClusterQueue", "", queue.name, partial(_raise, short=short))
            told = ", ".join(_raised(one) for one in short)
            yield Change(f"the quota of ClusterQueue {queue.name} in {flavor} is raised: {told}", seen)


def _ungated(pod: Pod) -> Pod:
    return changed(pod, spec=changed(pod.spec, scheduling_gates=[]))


def _limited(pod: Pod, most: Mapping[str, int]) -> Pod:
    """Return a pod that asks for no more than so much; what its first containers ask for is cut last."""
    left = dict(most)
    kept = []
    for one in pod.spec.containers:
        kept.append(changed(one, resources=_cut(one.resources, left)))
        left = {name: units - parse_amounts(kept[-1].resources.requests).get(name, 0) for name, units in left.items()}
    inits = [changed(one, resources=_cut(one.resources, most)) for one in pod.spec.init_containers]
    whole = None if pod.spec.resources is None else _cut(pod.spec.resources, most)
    return changed(pod, spec=changed(pod.spec, containers=kept, init_containers=inits, resources=whole))


def _cut(asked: ResourceRequirements, most: Mapping[str, int]) -> ResourceRequirements:
    """Return requests of which none is more than so much; what is cut to nothing is not asked for."""
    has = parse_amounts(asked.requests)
    cut = {name: most[name] for name, units in has.items() if units > most.get(name, units)}
    kept = {name: text for name, text in asked.requests.items() if name not in cut}
    return ResourceRequirements(
        requests=kept | {name: format_amount(name, units) for name, units in cut.items() if units}
    )


def _in_other_queue(found: ProjectedOwner, title: str, namespace: str, after: str) -> ProjectedOwner:
    """Return an owner that names another queue, if it is the one of this title."""
    if (found.title, found.namespace) != (title, namespace):
        return found
    keys = [key for key in QUEUE_LABELS if key in found.labels] or [named_groups.QUEUE_NAME]
    return structs.replace(found, labels={**found.labels, **dict.fromkeys(keys, after)})


def _after_nobody(found: ProjectedOwner, uid: str) -> ProjectedOwner:
    return structs.replace(found, after="") if found.uid == uid else found


def _relabelled(pod: Pod, before: str, after: str) -> Pod:
    labels = pod.metadata.labels
    mended = {key: after for key in QUEUE_LABELS if labels.get(key) == before} if before else {QUEUE_LABELS[0]: after}
    return changed(pod, metadata=changed(pod.metadata, labels={**labels, **mended}))


def _selecting(pod: Pod, instead: Mapping[Pair, Pair]) -> Pod:
    selector = dict(instead.get(pair, pair) for pair in pod.spec.node_selector.items())
    return changed(pod, spec=changed(pod.spec, node_selector=selector))


def _handed_over(pod: Pod, to: str) -> Pod:
    return changed(pod, spec=changed(pod.spec, scheduler_name=to))


def _setting(path: Sequence[str], value: object) -> Callable[[Json], None]:
    """Return what sets one field of a document."""

    def change(raw: Json) -> None:
        at = raw
        for part in path[:-1]:
            at = at.setdefault(part, {})
        at[path[-1]] = value

    return change


def _raised(one: QuotaUse) -> str:
    before, after = format_amount(one.resource, one.own), format_amount(one.resource, one.own + one.missing)
    return f"{one.resource} from {before} to {after}"


def _cover(raw: Json, missing: Mapping[str, int]) -> None:
    """Add resources to the first resource group, with so much quota in each of its flavors."""
    group = raw["spec"]["resourceGroups"][0]
    group["coveredResources"] = [*group["coveredResources"], *missing]
    for flavor in group["flavors"]:
        for name, units in missing.items():
            flavor["resources"].append({"name": name, "nominalQuota": format_amount(name, units)})


def _raise(raw: Json, short: Sequence[QuotaUse]) -> None:
    """Raise nominal quotas by what is missing."""
    wanted = {(one.flavor, one.resource): format_amount(one.resource, one.own + one.missing) for one in short}
    for group in raw["spec"].get("resourceGroups", []):
        for flavor in group.get("flavors", []):
            for resource in flavor.get("resources", []):
                if (flavor["name"], resource["name"]) in wanted:
                    resource["nominalQuota"] = wanted[flavor["name"], resource["name"]]
