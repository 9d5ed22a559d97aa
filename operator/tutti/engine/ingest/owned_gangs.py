"""What members have from the objects that own them: which gang they are in, its sizes, and queue, priority and times.

People submit a Job and label that; neither label nor size reaches its pods. The rule per kind is a table
(`tutti.api.frameworks`); here it is asked with what is known of the owners now. All that runs side by side is one
workload: of a kind that makes its pods in stages, or a leader before its workers, the first start only when there is
room for the others as well, and that room is kept for them for as long as the first run. Two such objects that each
hold a part of what both need would wait for one another for ever otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tutti.api.core import OwnerReference
from tutti.api.frameworks import (
    MissingOwner,
    OwnedGang,
    ProjectedOwner,
    UnusableOwner,
    gang_of,
    inherited_terms,
    owner_chain,
    projected_pod,
)
from tutti.api.frameworks.kinds import COMPLETION_INDEX
from tutti.api.frameworks.records import LaterRole, RolePart
from tutti.cluster.classes import PodClass
from tutti.cluster.volumes import NO_VOLUMES
from tutti.engine.ingest import IngestState
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.managed_owners import ManagedOwner
from tutti.engine.records.members import NOT_OWNED, Member, MemberGroup, Owned
from tutti.engine.records.pod_set_topology import PodSetTopology
from tutti.engine.records.workloads import GangStyle, Phase, Workload

MOST_ANSWERS = 4096
"""Answers that are remembered at once; then all of them are worked out anew."""

PromisedClass = Callable[[MemberGroup, Mapping[str, Any]], PodClass | Explanation | None]
"""Returns of what class the members of a group are that a template makes, or why it cannot be read; None: not yet."""


def owned_by(state: IngestState, member: Member) -> Owned:
    """Return what a member has from its owners by what is known of these now; equal pods of one owner have the same."""
    asked: list[OwnerReference] = []
    reachable: list[OwnerReference] = []

    def look_up(ref: OwnerReference, namespace: str) -> ProjectedOwner | MissingOwner:
        asked.append(ref)
        found = _pod_that_owns(state, ref, namespace) or state.owner_graph.look_up(ref, namespace)
        if isinstance(found, ProjectedOwner):
            reachable.append(ref)
        return found

    marks = member.marks
    chain = owner_chain(marks, look_up)
    personal = "" if state.kinds.personal_keys.isdisjoint(marks.labels) else marks.uid
    labels = tuple((key, value == "0" if key == COMPLETION_INDEX else value) for key, value in marks.labels.items())
    key = (tuple(map(id, chain.owners)), chain.awaited, chain.note, marks.scheduler, marks.says_group, personal, labels)
    known = state.owner_answers.get(key)
    if known is None:
        if len(state.owner_answers) >= MOST_ANSWERS:
            state.owner_answers.clear()
        answer = gang_of(marks, chain, state.kinds, state.profiles.keys())
        terms = inherited_terms(chain, state.kinds.ignored)
        top = _reference_to(answer.owner, reachable) if isinstance(answer, OwnedGang) else None
        known = chain, Owned(answer, terms, asked[-1] if chain.awaited else None, top)
        state.owner_answers[key] = known  # the owners in it stay alive, so that nothing else gets their ids
    return known[1]


def _reference_to(title: str, references: list[OwnerReference]) -> OwnerReference | None:
    """Return the reference to the owner with a title, the farthest one."""
    return next((ref for ref in reversed(references) if f"{ref.kind} {ref.name}" == title), None)


def _pod_that_owns(state: IngestState, ref: OwnerReference, namespace: str) -> ProjectedOwner | None:
    if (ref.api_version, ref.kind) != ("v1", "Pod"):
        return None
    member = state.members.get((namespace, ref.name))
    return projected_pod(member.marks) if member is not None and member.pod.uid == ref.uid else None


def group_in(gang: OwnedGang) -> str:
    """Return the name of the pod group of a member, in the workload of its gang.

    That of its role; of one where each replica has a domain of its own, that of the replica. Where a minimum counts
    members of all roles they are one group.
    """
    if not gang.joins_later and counts_all(gang):
        return gang.starts_with
    return f"{gang.role}-{gang.sub_group}" if _is_led(gang) else gang.role or gang.starts_with


def _is_led(gang: OwnedGang) -> bool:
    """Whether each replica of a member's role has a domain of its own, in which its leader is made first."""
    if not (gang.domain and gang.sub_group):
        return False
    return any(part.role == gang.role and _has_leaders(part) for part in gang.parts)


def _has_leaders(part: RolePart) -> bool:
    return bool(part.template) and 0 < part.minimum < part.count


def counts_all(gang: OwnedGang) -> bool:
    """Whether all that starts together is one pod group: there is one role, or a minimum that counts all of them."""
    if gang.domain or gang.group_name != gang.starts_with:
        return False
    return all(not part.minimum for part in gang.parts) or (len(gang.parts) == 1 and not gang.later)


class _Size(NamedTuple):
    """How large a pod group of an owned gang is to be.

    Attributes:
        least: How many that have not succeeded must be placed together.
        wanted: How many there are to be of these.
        total: The same with those that have succeeded.
        ahead: Whether room is kept for those of them that are not made yet.
        template: Of what these are made.
    """

    least: int
    wanted: int
    total: int
    ahead: bool = False
    template: Mapping[str, Any] | None = None


def take_sizes(workload: Workload, answers: Iterable[Owned], promised: PromisedClass) -> Explanation | None:
    """Take over how large each pod group of a gang is, as its owners say now.

    Args:
        workload: The gang.
        answers: What its members have from their owners (`answers_of`).
        promised: What members are like that are not made yet, or why that cannot be read.

    Returns:
        What is wrong with what they are made of; None where nothing is.
    """
    problem: Explanation | None = None
    started, managed = workload.counts().live > 0, awaits_start(workload)
    sizes, wishes = _sizes(list(owned_gangs(answers))), dict[str, int]()
    for name, size in sizes.items():
        group = workload.group(name)
        group.count, group.most = size.wanted, None
        template = size.template if managed is None else managed.templates.get(managed.groups.get(name, ""))
        ahead = managed is not None or (size.ahead and started)
        made = promised(group, template or {}) if ahead else None
        problem = made if isinstance(made, Explanation) else problem
        group.promised = None if isinstance(made, Explanation) else made
        may_come = not size.ahead or group.promised is not None
        least = size.least if may_come else min(size.least, len(group.members))
        # Those that have succeeded count as placed, and are left out of what is needed by then.
        group.min_count = least and max(least, min(least + group.counts().succeeded, size.total))
        wishes[name] = size.least and max(size.least, min(size.least + group.counts().succeeded, size.total))
    if _runs(workload):
        groups = [workload.groups[name] for name in sizes]
        _recall_had(workload, groups, wishes)
        for group in groups:
            _forget_beyond(group, wishes[group.name])
        _grow_one_by_one(groups)
    for name, group in workload.groups.items():
        if name not in sizes:
            group.min_count, group.count, group.promised = 0, None, None
    if workload.managed is not None and managed is None:
        _let_each_run(workload, workload.managed)
    # What is started as one is bound as one, but for those of its pods that are made when others run.
    waits_for_all = managed is not None and not any(size.ahead for size in sizes.values())
    keeps_room = not waits_for_all and any(group.promised is not None for group in workload.groups.values())
    workload.style = GangStyle.WITH_ROOM if keeps_room else None
    if keeps_room and workload.phase is Phase.BINDING:
        _promise_successors(workload)
    return problem


def promise_nothing(workload: Workload) -> None:
    """Count on no members that are yet to be made: how many, and of what, cannot be read any more."""
    workload.style = None
    for group in workload.groups.values():
        group.promised = None


def awaits_start(workload: Workload) -> ManagedOwner | None:
    """Return what makes the pods of a workload, where none of them has a node, and it is started when all could."""
    if workload.managed is None or workload.phase not in (Phase.WAITING, Phase.CHECKING, Phase.RESERVED):
        return None
    return None if workload.counts().bound else workload.managed


def _let_each_run(workload: Workload, managed: ManagedOwner) -> None:
    """Miss nobody of those that were started together, where each does its part by itself."""
    start = managed.found.start
    if start is not None and start.single:
        for group in workload.groups.values():
            group.min_count = min(group.min_count, max(1, group.counts().placed))


def _promise_successors(workload: Workload) -> None:
    """Keep the room of members that are lost before the rest is made, too: others like them will come instead."""
    for group in workload.groups.values():
        like = next((member.pod.pod_class for member in group.members.values() if member.pod.place), None)
        if group.promised is None and like is not None and like.volumes is NO_VOLUMES:
            group.promised = like


def _sizes(gangs: list[OwnedGang]) -> dict[str, _Size]:
    """Return how large each pod group is to be, by name."""
    telling, sizes = _telling(gangs), dict[str, _Size]()
    for gang in telling:
        sizes |= dict(_sizes_at_once(gangs, gang))
    for gang in telling:
        for name, later in _sizes_later(gang):
            there = sizes.get(name, later)
            least = max(there.least, later.least)
            sizes[name] = there._replace(least=least, ahead=later.ahead, template=later.template)
    if sizes and not any(size.least for size in sizes.values()):  # they come one by one: the first starts, others join
        first = next(iter(sizes))
        sizes[first] = sizes[first]._replace(least=1)
    return sizes


def _telling(gangs: Iterable[OwnedGang]) -> list[OwnedGang]:
    """Return one gang for each stage: of a member that does not join later, for a submitter's owner knows less."""
    found: dict[str, OwnedGang] = {}
    for gang in gangs:
        known = found.get(gang.group)
        if known is None or (known.joins_later and not gang.joins_later):
            found[gang.group] = gang
    return list(found.values())


def keep_in_domains(workload: Workload, answers: Iterable[Owned]) -> None:
    """Have those whose nodes must be within one domain, such as a rack, placed so, with those that are made later."""
    everywhere: PodSetTopology | None = None
    led: dict[str, PodSetTopology] = {}
    for gang in owned_gangs(answers):
        if gang.domain and (_is_led(gang) or gang.domain_key == gang.group):
            named = group_in(gang) if _is_led(gang) else gang.starts_with
            topology = PodSetTopology((gang.domain,), together=f"pod group {named}", by_labels=True)
            if _is_led(gang):
                led[named] = topology
            else:
                everywhere, led = topology, {}  # it is said of all of them, whatever was said before
    for group in workload.groups.values() if everywhere is not None else ():
        group.topology = everywhere
    for name, topology in led.items():
        workload.groups[name].topology = topology


def tell_notes(state: IngestState, workload: Workload, answers: Iterable[Owned]) -> None:
    """Tell once what of its owners is not read as people may expect, such as a role that another scheduler places."""
    notes = tuple(dict.fromkeys(note for gang in _telling(owned_gangs(answers)) for note in gang.notes))
    if notes and notes != workload.notes:
        state.announce(workload, "Normal", "ReadFromOwner", "; ".join(notes))
    workload.notes = notes


def _runs(workload: Workload) -> bool:
    """Whether a gang has started whole, in this process or before."""
    return workload.phase is Phase.SCHEDULED or (
        workload.phase is Phase.WAITING and workload.was_scheduled and workload.counts().bound > 0
    )


def keep_running(workload: Workload) -> None:
    """Let a gang run whose object asks for more members by now: these join as there is room (KEP-5547: minCount)."""
    if not _runs(workload):
        return
    groups = list(workload.groups.values())
    _recall_had(workload, groups, {group.name: group.min_count for group in groups})
    for group in groups:
        _forget_beyond(group, group.min_count)
    _grow_one_by_one(groups)


def _forget_beyond(group: MemberGroup, wish: int) -> None:
    """Forget what a group had when it needed more than it does now: nobody misses it when it grows again."""
    group.had = min(group.had, max(wish, group.counts().placed))


def _recall_had(workload: Workload, groups: Sequence[MemberGroup], wishes: Mapping[str, int]) -> None:
    """Share out among the groups of a gang that is found running what its status says that it had.

    The status tells in all how many that was, and of which groups those are that are missed (`kept`). Of what was lost
    while nobody looked, the first groups that want more are taken to have had it.
    """
    if any(group.had for group in groups):
        return
    missed = Counter(loss.group for loss in workload.losses)
    left = workload.had_in_all - sum([group.counts().placed for group in groups])
    for known in (True, False):
        for group in groups:
            had = max(group.had, group.counts().placed)
            more = min(max(0, left), max(0, wishes[group.name] - had), missed[group.name] if known else left)
            group.had = had + more
            left -= more


def _grow_one_by_one(groups: Iterable[MemberGroup]) -> None:
    """Take what is added to a gang that runs as extra: it joins as there is room, and what runs lacks nothing.

    From what a gang has had it does not fall back: one that has been placed is missed.
    """
    for group in groups:
        group.min_count = min(group.min_count, max(group.had, group.counts().placed))


def _sizes_at_once(gangs: list[OwnedGang], gang: OwnedGang) -> Iterator[tuple[str, _Size]]:
    """Yield the pod groups of those that are made at the same moment."""
    if gang.parts and counts_all(gang):
        yield gang.starts_with, _Size(gang.minimum, gang.count, sum([part.total for part in gang.parts]))
        return
    for part in gang.parts:
        if gang.domain and _has_leaders(part):
            yield from _sizes_by_domain(gangs, part)
        else:
            yield part.role, _Size(part.minimum, part.count, part.total)


def _sizes_by_domain(gangs: list[OwnedGang], part: RolePart) -> Iterator[tuple[str, _Size]]:
    """Yield a pod group for each replica, of which the leader is made first, and the others where it has its node."""
    size = part.count // part.minimum
    there = dict.fromkeys(group_in(gang) for gang in gangs if gang.role == part.role and gang.sub_group)
    for name in there:
        yield name, _Size(size, size, size, ahead=True, template=part.template)
    if len(there) < part.minimum:
        missing = part.minimum - len(there)
        yield part.role, _Size(missing, missing, missing)


def _sizes_later(gang: OwnedGang) -> Iterator[tuple[str, _Size]]:
    """Yield the pod groups of those that are made when the others have a node, or run."""
    for role in gang.later:
        if _is_here(role):
            least = role.count if role.keeps_room else 0
            yield role.role, _Size(least, role.count, role.count, ahead=role.keeps_room, template=role.template)


def _is_here(role: LaterRole) -> bool:
    """Whether pods that are made later belong to this workload, and not to one that begins when it has ended."""
    return not role.group or role.beside


def answers_of(workload: Workload) -> list[Owned]:
    """Return what members have from their owners, each different answer once; none where nothing owns them."""
    owned = {id(member.owned): member.owned for member in workload.members() if member.owned is not NOT_OWNED}
    if not owned and workload.managed is not None:
        return [workload.managed.owned]
    return list(owned.values())


def owned_gangs(answers: Iterable[Owned]) -> Iterator[OwnedGang]:
    """Yield the gangs among what members have from their owners."""
    return (owned.gang for owned in answers if isinstance(owned.gang, OwnedGang))


def inherited_queues(answers: Iterable[Owned]) -> dict[str, str]:
    """Return the queues that owners name, and which owner does; more than one where they differ."""
    found: dict[str, str] = {}
    for owned in answers:
        if owned.terms.queue:
            found.setdefault(owned.terms.queue, owned.terms.queue_by)
    return found


def what_is_wrong(answers: Iterable[Owned]) -> Explanation | None:
    """Say what of the owners cannot be read: their sizes, so that nobody knows the gang, or how it is queued."""
    for owned in answers:
        if isinstance(owned.gang, UnusableOwner):
            text = f"{owned.gang.owner}: {'; '.join(owned.gang.problems)}"
            return Explanation(Gate.GATHER, "InvalidGang", text)
    problem = next((text for owned in answers for text in owned.terms.problems), "")
    return Explanation(Gate.QUEUE, "InvalidQueue", problem) if problem else None
