"""What a workload asks for, parsed from its objects, those of other projects and its members.

Groups and their sizes, queue, priority and patience, and what is wrong with any of it. How near their pods are to be is
read in `topology_requests.py`, of which class members that do not exist yet will be in `promised_classes.py`; which of
these are counted on is asked in `promises.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

from tutti.api.conventions.after_annotation import AFTER, read_after
from tutti.api.conventions.gang_objects import GangObject
from tutti.api.kinds import PodGroup as PodGroupObject
from tutti.api.kinds import Workload as WorkloadObject
from tutti.api.kinds.pod_group import OnMemberLoss, PodGroupSpec
from tutti.engine.ingest import IngestState, implicit_gangs
from tutti.engine.ingest.membership import await_owners
from tutti.engine.ingest.order_hints import read_hints
from tutti.engine.ingest.owned_gangs import (
    answers_of,
    inherited_queues,
    keep_in_domains,
    keep_running,
    owned_gangs,
    promise_nothing,
    take_sizes,
    tell_notes,
    what_is_wrong,
)
from tutti.engine.ingest.paces import read_paces, said_by_object
from tutti.engine.ingest.promised_classes import promised_class, read_promise
from tutti.engine.ingest.promises import settle_promises
from tutti.engine.ingest.restore import restore
from tutti.engine.ingest.topology_requests import (
    different_topologies,
    inherit_topology,
    pod_group_topology,
    take_over_constraints,
    workload_topology,
)
from tutti.engine.lifecycle import checks, limits, owner_starts
from tutti.engine.reading import resolution
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.followers import still_awaited
from tutti.engine.records.gang_membership import take_gang_sizes, task_role
from tutti.engine.records.members import Owned
from tutti.engine.records.workloads import GangStyle, Phase, Workload

_ON_THEIR_WAY: Final = (Phase.RESERVED, Phase.BINDING)


def read_workload(state: IngestState, workload: Workload) -> None:
    """Take over what the objects and members say: groups and counts, queue, priority, and what is wrong with it."""
    workload.problem, workload.ranked = None, False
    answers = answers_of(workload)
    kind, namespace, name = workload.key
    if kind == "Pod":
        state.unlike_singles[workload.key] = workload  # as one whose reading fails may be
    if kind == "Workload":
        _read_workload_object(state, workload, state.catalog.get(WorkloadObject, namespace, name))
    elif kind == "PodGroup":
        _read_pod_group(state, workload, state.catalog.get(PodGroupObject, namespace, name), answers)
    else:
        _read_single(workload)
    _drop_empty_groups(workload)
    _read_claims(state, workload, answers)
    settle_promises(state, workload)
    if workload.checks or workload.provisioning:
        for group in workload.groups.values():
            group.added = checks.additions(state, workload, group)
    workload.preemption_priority = resolution.preemption_priority(state.catalog, workload)
    unlike = different_topologies(workload)
    if workload.problem is None:
        workload.problem = unlike
    known = state.catalog
    if known.ordered or known.by_run_time or known.by_speed or state.configuration.users is not None:
        read_hints(state, workload)
    workload.reads_alike = not answers and _reads_alike(workload)
    if kind == "Pod" and workload.reads_alike and not workload.queue and not workload.ranked:
        del state.unlike_singles[workload.key]


def reads_the_same(state: IngestState, workload: Workload) -> bool:
    """Whether it need not be read of a workload what it asks for: binds and claims of placed pods are all the news.

    But for what goes by the queue that it was admitted through since (`follow_queue_limit`).
    """
    known = state.catalog
    if not workload.reads_alike or workload.phase not in _ON_THEIR_WAY or workload.checks or workload.provisioning:
        return False
    return not (known.ordered or known.by_run_time or known.by_speed or state.configuration.users is not None)


def follow_queue_limit(state: IngestState, workload: Workload) -> None:
    """Take over for how long a workload may run by its queue, of one whose limit is said by nobody else."""
    if workload.queue:
        workload.limit_seconds, workload.limit_by = None, ""
        limits.limit_by_queue(state, workload)


def _reads_alike(workload: Workload) -> bool:
    """Whether nothing of what was just read goes by what pods are doing, as far as these have no owners.

    Who waits for others, starts early or promises members is read otherwise when he has begun.
    """
    if workload.key[0] == "Workload" or workload.problem is not None or workload.managed is not None:
        return False
    if workload.style is not None or workload.placed_singly or workload.after or workload.speed is not None:
        return False
    return all(group.promised is None for group in workload.groups.values())


def _read_workload_object(state: IngestState, workload: Workload, found: WorkloadObject | None) -> None:
    _, namespace, name = workload.key
    if found is None:
        workload.problem = _missing(state, workload)
        return
    _identify(state, workload, found)
    spec = found.spec
    workload.queue = spec.queue_name
    limits.read_limits(workload, found)
    workload.after = tuple((one.workload, one.when) for one in spec.after)
    workload.permit_seconds = spec.schedule_timeout_seconds
    workload.keeps_trying = spec.on_bind_failure == "Retry"
    workload.scale_down_protection = spec.scale_down_protection or ""
    for one in spec.pod_groups:
        group = workload.group(one.name)
        group.count = group.most = one.count
        group.min_count = one.quorum
        group.promised = None
        if one.template:
            read_promise(state, workload, group, one.template)
        group.topology = workload_topology(one.topology, one.name)
        group.on_loss = one.on_member_loss or state.configuration.on_member_loss
    workload.priority = resolution.object_priority(state.catalog, workload, spec)
    ref = spec.priority_class_ref
    if ref is not None and ref.kind == "PriorityClass" and workload.problem is None:
        workload.problem = resolution.refused_class(ref.name)
    take_over_constraints(state, workload)
    known = {one.name: workload.groups[one.name] for one in spec.pod_groups}
    if list(workload.groups) != list(known):
        workload.groups = known | workload.groups  # in the order in which they are written, whoever came first
    for group in workload.groups.values():
        if group.name in known:
            continue
        group.min_count, group.count, group.most, group.promised = 0, None, None, None  # it may have had it before
        if group.members:
            workload.problem = Explanation(
                Gate.GATHER,
                "UnknownPodGroup",
                f"pod {next(iter(group.members))[1]} names pod group {group.name!r}, which Workload {namespace}/{name} "
                f"does not have; it has {', '.join(sorted(known))}",
            )


def _read_pod_group(
    state: IngestState, workload: Workload, written: PodGroupObject | None, answers: Sequence[Owned]
) -> None:
    """Take over what a gang is to be like: from its PodGroup, else the object that its pods name, else from themselves.

    A PodGroup that was made for such a gang is there to be read by people.
    """
    name, first = workload.key[2], next(iter(workload.members()), None)
    has_maker = first is not None or workload.managed is not None
    is_made = has_maker and written is not None and implicit_gangs.IMPLICIT_LABEL in written.metadata.labels
    own = None if is_made else written
    is_owned = any(True for _ in owned_gangs(answers))
    gang = workload.gang = None if own is not None or first is None else state.gang_objects.of(first.claim)
    implicit_gangs.tell_note(state, workload)
    if first is None or not (is_owned or first.claim.role or task_role(state.gang_objects, first.claim)):
        workload.group(name)
    if written is not None:
        _identify(state, workload, written)
    else:
        workload.uid = ""
    spec: PodGroupSpec | None = None
    if gang is not None:
        _read_gang_object(workload, gang)
        spec = gang.spec
    elif own is not None:
        workload.group(name).min_count = own.spec.min_count
        keep_running(workload)
        workload.problem = resolution.refused_class(own.spec.priority_class_name)
        spec = own.spec
    else:
        _read_unwritten(state, workload, answers, is_owned=is_owned)
    _read_wishes(state, workload, spec)
    if is_owned and own is None:
        keep_in_domains(workload, answers)
    if workload.managed is not None:
        workload.created = workload.managed.created
    if gang is None and own is None:
        workload.leaves_by_pod = False  # `Pod` in what was made for it is a default that older CRDs had, and no wish


def _read_gang_object(workload: Workload, gang: GangObject) -> None:
    """Take over how large a gang is from the object of another project that its pods name."""
    if gang.problem:
        text = f"{gang.api_version} {gang.namespace}/{gang.name}: {gang.problem}"
        workload.problem = Explanation(Gate.GATHER, "InvalidGang", text)
        return
    take_gang_sizes(workload, gang, workload.key[2])
    keep_running(workload)


def _read_unwritten(state: IngestState, workload: Workload, answers: Sequence[Owned], *, is_owned: bool) -> None:
    """Take over how large a gang is that no object describes: from what owns its pods, else from what these say."""
    first = next(iter(workload.members()), None)
    if workload.key in state.catalog.broken:
        workload.problem = _missing(state, workload)
    elif is_owned:
        problem = take_sizes(workload, answers, partial(promised_class, state, workload))
        workload.problem = problem or workload.problem or owner_starts.why_not_tried(workload)
        tell_notes(state, workload, answers)
    elif first is not None and first.claim.implicit:
        workload.problem = implicit_gangs.read_sizes(workload)
        _read_promises(state, workload)
    elif what_is_wrong(answers) is not None:
        promise_nothing(workload)  # what runs of it goes on
    else:
        workload.problem = _missing(state, workload)


def _read_promises(state: IngestState, workload: Workload) -> None:
    """Take over what members that are yet to come will be like, where others tell it, and how the gang starts."""
    style = next((m.claim.style for m in workload.members() if m.claim.style), "")
    workload.style = GangStyle(style) if style else None
    if workload.placed_singly:
        return
    said: dict[str, dict[str, Any]] = {}
    for member in workload.unlike_members():
        said |= member.claim.templates
    for role, template in said.items():  # each member says it of all roles, and there may be a thousand of either
        read_promise(state, workload, workload.groups[role], template)


def _read_wishes(state: IngestState, workload: Workload, spec: PodGroupSpec | None) -> None:
    """Take over in which queue, how important, how near and how patient a gang is."""
    first = next(iter(workload.members()), None)
    workload.priority, workload.min_resources = resolution.members_priority(workload), {}
    workload.permit_jitter = first.claim.timeout_jitter_seconds if first else 0
    workload.keeps_trying = spec is not None and spec.on_bind_failure == "Retry"
    if spec is None:
        workload.queue, near = "", None
        said = (m.claim.timeout_seconds for m in workload.members())
        workload.permit_seconds = next((seconds for seconds in said if seconds is not None), None)
    else:
        workload.queue, workload.permit_seconds = spec.queue_name, spec.schedule_timeout_seconds
        value = state.catalog.priority_class_value(spec.priority_class_name)
        workload.priority = workload.priority if value is None else value
        near = pod_group_topology(spec.scheduling_constraints.topology, workload.key[2])
    if workload.gang is not None:
        workload.min_resources = workload.gang.min_resources
        workload.priority = workload.priority if workload.gang.priority is None else workload.gang.priority
    workload.leaves_by_pod = spec is not None and spec.disruption_mode == "Pod"
    on_loss = _on_loss(state, workload, spec)
    for group in workload.groups.values():
        group.topology, group.on_loss = near, on_loss


def _on_loss(state: IngestState, workload: Workload, spec: PodGroupSpec | None) -> OnMemberLoss | None:
    """Return what becomes of a gang that has lost members; None where it is no gang, or was one at its start only.

    What makes an application of YuniKorn a gang are the members that it starts with: it grows and shrinks as it likes.
    """
    applies = workload.style is None or workload.style is GangStyle.WITH_ROOM
    if not applies or (spec is not None and spec.scheduling_policy.gang is None):
        return None
    said = None if spec is None else spec.on_member_loss
    return said or state.configuration.on_member_loss


def _read_single(workload: Workload) -> None:
    for member in workload.members():
        if workload.uid != member.pod.uid:
            # Those were its predecessor's.
            workload.attempts, workload.not_before, workload.in_vain_at = 0, 0.0, 0.0
        workload.uid, workload.generation = member.pod.uid, member.pod.generation
        workload.created, workload.priority, workload.queue = member.pod.created, member.pod.priority, ""


def _read_claims(state: IngestState, workload: Workload, answers: Sequence[Owned]) -> None:
    asked: dict[str, str] = {workload.queue: workload.name} if workload.queue else {}
    unlike, named = workload.unlike_members(), list[tuple[tuple[str, str], ...]]()
    for member in unlike:
        if member.problem and workload.problem is None:
            workload.problem = Explanation(Gate.GATHER, "InvalidGang", f"pod {member.pod.name}: {member.problem}")
        if member.claim.queue:
            asked.setdefault(member.claim.queue, member.pod.name)
        if member.claim.priority_class:
            value = state.catalog.workload_class(member.claim.priority_class)
            if value is not None:
                workload.priority, workload.ranked = value, True
        if after := member.claim.after or member.owned.terms.after:
            named.append(after)
    workload.problem = workload.problem or workload.given_up
    found = state.catalog.find(workload.key)
    if workload.key[0] != "Workload":
        workload.limit_seconds, workload.limit_by = None, ""
        own, problem = said_by_object(found, workload, AFTER, read_after)
        workload.after, workload.problem = own or (min(named) if named else ()), workload.problem or problem
    read_paces(state, workload, found, unlike, answers)
    if workload.after or state.followers:
        _follow(state, workload)
    if answers:
        _read_terms(state, workload, answers)
    workload.inherits_queue = not asked and bool(answers)
    if workload.inherits_queue:
        asked = inherited_queues(answers)
    if len(asked) > 1:
        said = ", ".join(f"{queue} ({who})" for queue, who in asked.items())
        workload.problem = Explanation(
            Gate.QUEUE, "DifferentQueues", f"its members ask for different queues: {said}; give all of them the same"
        )
    default = state.configuration.default_local_queue
    workload.queue = next(iter(asked), "") or state.catalog.default_queue(workload.key[1], default, workload.created)
    limits.limit_by_queue(state, workload)


def _follow(state: IngestState, workload: Workload) -> None:
    """Note for whom a workload waits, and by which names others may wait for it."""
    awaited = still_awaited(workload.after, workload.ended_before) if workload.phase is Phase.WAITING else ()
    owners = (one for m in workload.members() for one in (m.owned.top, m.marks.owner) if one is not None)
    names = {workload.key[2], *(one.name for one in owners)} if workload.after else ()
    state.followers.put(workload.key, [name for name, _ in awaited], names)


def _read_terms(state: IngestState, workload: Workload, answers: Sequence[Owned]) -> None:
    """Take over what the owners of members say, where neither these nor an object of ours do; or wait for owners.

    The objects of one gang may say different things. Then the shortest time and the lowest priority count, and how near
    pods are to be must be the same: whoever is seen first decides nothing.
    """
    workload.problem = workload.problem or what_is_wrong(answers)
    awaits = await_owners(state, workload)
    workload.problem = workload.problem or awaits
    terms = [one.terms for one in answers]
    if not workload.ranked:
        refused = resolution.take_named_classes(state.catalog, workload, [one.priority_class for one in terms])
        workload.problem = workload.problem or refused
    if workload.limit_seconds is None and workload.key[0] != "Workload":
        seconds = (one.maximum_seconds for one in terms if one.maximum_seconds is not None)
        workload.limit_seconds = min(seconds, default=None)
    if workload.permit_seconds is None:
        patience = (one.schedule_timeout_seconds for one in terms if one.schedule_timeout_seconds is not None)
        workload.permit_seconds = min(patience, default=None)
    unlike = inherit_topology(workload, {one.topology: None for one in terms if one.topology is not None})
    workload.problem = workload.problem or unlike


def _missing(state: IngestState, workload: Workload) -> Explanation:
    """Say that the object of a workload cannot be read, or that there is none."""
    kind, namespace, name = workload.key
    broken = state.catalog.broken.get(workload.key)
    if broken is not None:
        return Explanation(Gate.GATHER, f"Invalid{kind}", str(broken[0]))
    return Explanation(
        Gate.GATHER,
        f"{kind}NotFound",
        f"{kind} {namespace}/{name}, named by its pods, does not exist; create it, or correct the pods' label",
    )


def _identify(state: IngestState, workload: Workload, found: WorkloadObject | PodGroupObject) -> None:
    """Take over whose object this is; of one that was not known before, also what it says of its life so far."""
    meta = found.metadata
    if workload.uid != meta.uid:
        workload.status = {}
        restore(state, workload, found)
    workload.checks, workload.checks_round = found.status.admission_checks, found.status.checks_round
    workload.uid, workload.generation = meta.uid, meta.generation
    created = meta.creation_timestamp
    workload.created = datetime.fromisoformat(created).timestamp() if created else 0.0


def _drop_empty_groups(workload: Workload) -> None:
    known = dict(workload.groups) if len(workload.groups) > 1 else {}
    for name, group in known.items():
        if not group.members and group.count is None and not group.holds and group.held is None:
            del workload.groups[name]
