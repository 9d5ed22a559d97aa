"""Which pods of a workload want nodes now, and what they ask of quota."""

from __future__ import annotations

import itertools
import re
import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from tutti.cluster.classes import PodClass
from tutti.cluster.pods import WAITING, PodKey
from tutti.engine.records.explanation import Explanation
from tutti.engine.records.gathering import gathering, without_claims
from tutti.engine.records.members import Charge, LostMember, Member, MemberCounts, MemberGroup
from tutti.engine.records.pod_set_topology import PodSetTopology
from tutti.engine.records.successors import replacements
from tutti.engine.records.workloads import GangStyle, Phase, Workload
from tutti.placement.gang import Ask
from tutti.placement.profile import Profile
from tutti.quota.flavors import VIRTUAL, PodSet
from tutti.quota.tree import FlavorResource, add_to


class PodSetRequest(msgspec.Struct, frozen=True):
    """Pods of one class, of one group, that want nodes.

    One is made for each single pod, and no dataclass that is frozen is made as quickly.

    Attributes:
        members: Those that exist, in the order in which they get nodes.
        required: How many must be placed; more than there are members where some are only promised.
        extra: How many more may be.
        topology: How near one another they must be; None where nobody says.
        pod_set_group: Those of equal pod set groups must be near one another.
        there: Nodes where others of the pod set group are already, once for each of them.
        own: Those of these nodes where the others are of the same pod group.
        growth: How many more are expected near them, these extra ones included.
        kept: The flavors that pods like these of the same group, or of the same pod set group, are counted in already;
            they keep to them.
        in_gang: Whether others must run together with them, so that they are kept off nodes that leave.
        replaces: For each of the first members, what their gang has lost and they come in place of; None of what nobody
            has seen it lose.
    """

    group: MemberGroup
    pod_class: PodClass
    members: list[Member]
    required: int
    extra: int = 0
    topology: PodSetTopology | None = None
    pod_set_group: Hashable = None
    there: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    growth: int = 0
    kept: frozenset[str] = frozenset()
    in_gang: bool = False
    replaces: Sequence[LostMember | None] = ()

    @property
    def shape(self) -> tuple[object, ...]:
        """What decides where they can go."""
        return (
            self.pod_class,
            self.required,
            self.extra,
            self.topology,
            self.pod_set_group,
            self.there,
            self.own,
            self.kept,
            self.in_gang,
            len(self.replaces),
        )


@dataclass(frozen=True, slots=True)
class PreemptionOption:
    """What a workload could have had if others were gone: by quota, but there are no nodes; or not even that.

    Attributes:
        needs: The pods that want nodes.
        asks: What nodes were asked for each need.
        charges: What each of its pods would use of quota; None without a queue.
        profile: How they are placed.
        contested: Of which flavors and resources there is too little quota; none where only nodes are short.
    """

    needs: Sequence[PodSetRequest]
    asks: Sequence[Ask]
    charges: Sequence[Charge | None]
    profile: Profile
    contested: frozenset[FlavorResource] = frozenset()

    @property
    def charged(self) -> list[tuple[Charge, int]]:
        """What the required pods would use of quota: each charge, and for how many pods."""
        each = zip(self.charges, self.needs, strict=True)
        return [(charge, need.required) for charge, need in each if charge is not None]


_WITH_ROOM: Final = GangStyle.WITH_ROOM
_BINDING: Final = Phase.BINDING
_WAITING: Final = Phase.WAITING
_SCHEDULED: Final = Phase.SCHEDULED


def pending_pod_sets(workload: Workload) -> list[PodSetRequest] | Explanation:
    """Return which pods want nodes now, or what is still missing before any may have one.

    A gang that has been running together before takes every new member as it comes; otherwise all that is missing
    to its minimum must be had at once.
    """
    if workload.problem is not None:
        return workload.problem
    if workload.key[0] == "Pod" and workload.phase is _WAITING and len(workload.groups) == 1:
        alone = _alone(workload, *workload.groups.values())
        if alone is not None:
            return [alone]
    needs: list[PodSetRequest] = []
    short: list[MemberGroup] = []
    gaining = _gaining(workload)
    coming: list[Member] = []
    for group in workload.groups.values():
        tally = group.counts()
        waiting = _by_rank([m for m in group.members.values() if m.pod.counted is WAITING])
        replace = replacements(workload.losses, group, waiting) if workload.phase is _SCHEDULED else {}
        if replace:
            waiting.sort(key=lambda one: one.pod.key not in replace)
        if group.most is not None:
            waiting = waiting[: max(0, group.most - tally.bound - tally.reserved)]
        missing = _missing(workload, group, tally, len(waiting))
        waiting = waiting[: max(missing, gaining)]
        gaining -= len(waiting)
        kept_on = workload.style is _WITH_ROOM and workload.phase is _BINDING
        holds_for_promised = group.promised is not None and (workload.phase is _WAITING or kept_on)
        promised = max(0, missing - len(waiting)) if holds_for_promised else 0
        if missing > len(waiting) + promised:
            short.append(group)
        coming += _awaited_for_claims(waiting, missing - promised)
        if not short and not coming:
            needs.extend(_split(group, waiting, missing, promised, replace, in_gang=workload.required > 1))
    if short or coming:
        return gathering(sorted(short, key=lambda group: group.name)) if short else without_claims(coming)
    if all(need.topology is None for need in needs):
        return needs
    around = _placed_around(workload)
    return [need if need.topology is None else around.near(need) for need in needs]


def required_classes(group: MemberGroup, count: int) -> dict[PodClass, int]:
    """Return of which classes so many pods of a group are that want nodes, with promised ones for those missing."""
    waiting = _by_rank([m for m in group.members.values() if m.pod.counted is WAITING])[:count]
    found = Counter(member.pod.pod_class for member in waiting)
    if group.promised is not None and len(waiting) < count:
        found[group.promised] += count - len(waiting)
    return found


def _alone(workload: Workload, group: MemberGroup) -> PodSetRequest | None:
    """Return what a pod by itself wants, without what only gangs need; None where that is to be found out as theirs.

    Thousands of such pods may come in a second.
    """
    if len(group.members) != 1 or group.min_count != 1 or group.most is not None or group.promised is not None:
        return None
    if group.holds or group.held is not None or group.ended or group.topology is not None or workload.speed is not None:
        return None
    (member,) = group.members.values()
    pod_class = member.pod.pod_class
    if member.pod.counted is not WAITING or member.topology is not None or pod_class.devices.coming:
        return None
    return PodSetRequest(group, pod_class, [member], 1)


def _gaining(workload: Workload) -> int:
    """Return how many members more may have a node before the next one gains nothing; where nobody says it, all."""
    if workload.speed is None:
        return sys.maxsize
    tally = workload.counts()
    return max(workload.speed.useful, workload.required) - tally.bound - tally.reserved


def _missing(workload: Workload, group: MemberGroup, tally: MemberCounts, waiting: int) -> int:
    """Return how many members of a group must be had at once, of which so many wait."""
    if workload.phase is _SCHEDULED:
        together = group.on_loss is not None and group.on_loss.action == "Restart"
        return group.missing if together else 0
    missing = max(0, group.min_count - tally.placed - tally.reserved - len(group.holds))
    if workload.style not in (None, _WITH_ROOM) and workload.phase is _BINDING:
        return min(missing, waiting)  # it has started, and takes them as they come
    return missing


@dataclass(slots=True)
class _PlacedAround:
    """Where the members are that have their node, or have one reserved, and are not leaving it.

    Attributes:
        nodes: By pod set group, the node of each.
        own: The same, by pod group and pod set group.
        flavors: By pod set group, in which these are counted.
    """

    nodes: dict[Hashable, tuple[str, ...]]
    own: dict[tuple[str, Hashable], tuple[str, ...]]
    flavors: dict[Hashable, frozenset[str]]

    def near(self, need: PodSetRequest) -> PodSetRequest:
        """Return a need that knows of the others of its pod set group, and keeps to the flavors of these."""
        of, group = need.pod_set_group, need.group
        own = self.own.get((group.name, of), ())
        expected = (group.count or 0) - len(own) - need.required if group.topology is not None else 0
        kept, growth = need.kept | self.flavors.get(of, frozenset()), max(need.extra, expected)
        return msgspec.structs.replace(need, there=self.nodes.get(of, ()), own=own, kept=kept, growth=growth)


def _placed_around(workload: Workload) -> _PlacedAround:
    """Return where the members of a workload are; looked at once for all that it needs."""
    nodes: dict[Hashable, list[str]] = {}
    own: dict[tuple[str, Hashable], list[str]] = {}
    flavors: dict[Hashable, set[str]] = {}
    for group in workload.groups.values():
        placed = [
            (m.pod.pod_class, m.topology, m.pod.place, m.charge) for m in group.members.values() if not m.pod.deleting
        ]
        placed += [(hold.pod_class, None, hold.node, hold.charge) for hold in group.holds]
        for pod_class, said, node, charge in placed:
            topology = group.topology or said
            if node and topology is not None:
                of = pod_set_group_of(group, pod_class, topology)
                nodes.setdefault(of, []).append(node)
                own.setdefault((group.name, of), []).append(node)
                flavors.setdefault(of, set()).update(() if charge is None else charge.flavors.values())
    return _PlacedAround(
        {of: tuple(each) for of, each in nodes.items()},
        {of: tuple(each) for of, each in own.items()},
        {of: frozenset(each) for of, each in flavors.items()},
    )


def pod_set_group_of(group: MemberGroup, pod_class: PodClass, topology: PodSetTopology) -> Hashable:
    """Return what is equal for the pods that must be near one another."""
    return topology.together or (group.name, pod_class)


def quota_pod_sets(needs: Sequence[PodSetRequest]) -> list[PodSet]:
    """Return what needs require of quota, named by index; those of one pod set group share flavors."""
    pod_set_groups = list(dict.fromkeys(need.pod_set_group for need in needs))
    return [_pod_set(str(index), need, pod_set_groups.index(need.pod_set_group)) for index, need in enumerate(needs)]


def requested_by(needs: Iterable[PodSetRequest]) -> dict[str, int]:
    """Return per resource what all pods of needs ask for, those beyond the required ones included."""
    total: dict[str, int] = {}
    for need in needs:
        add_to(total, need.pod_class.charged, need.required + need.extra)
    return total


def _pod_set(name: str, need: PodSetRequest, pod_set_group: int) -> PodSet:
    """Return what the required pods ask of quota; `pods` is counted by the queue itself, where it covers it."""
    pod_class = need.pod_class
    affinity = pod_class.spec.affinity.node_affinity if pod_class.spec.affinity else None
    return PodSet(
        name,
        need.required,
        {resource: amount for resource, amount in pod_class.charged.items() if resource != VIRTUAL},
        node_selector=pod_class.spec.node_selector,
        affinity=affinity.required if affinity else None,
        tolerations=pod_class.spec.tolerations,
        topology=need.topology.request() if need.topology is not None and need.topology.needs_topology else None,
        group=f"pod set group {pod_set_group}" if need.topology is not None else "",
        kept=need.kept,
    )


def _split(
    group: MemberGroup,
    waiting: list[Member],
    missing: int,
    promised: int,
    replace: Mapping[PodKey, LostMember | None],
    *,
    in_gang: bool,
) -> Iterator[PodSetRequest]:
    """Group the waiting members by class; the first `missing` of them are required, the others are extra."""
    by_class: dict[tuple[PodClass, PodSetTopology | None], list[int]] = {}
    classes, near = [member.pod.pod_class for member in waiting], [member.topology for member in waiting]
    start = 0
    while start < len(waiting):  # those of one class, most of whom come one after the other
        pod_class, said = classes[start], near[start]
        end = start + 1
        while end < len(waiting) and classes[end] is pod_class and near[end] is said:
            end += 1
        by_class.setdefault((pod_class, group.topology or said), []).extend(range(start, end))
        start = end
    awaited = None if not promised or group.promised is None else (group.promised, group.topology)
    if awaited is not None:
        by_class.setdefault(awaited, [])
    charges = _charges_of(group)
    for alike, indices in by_class.items():
        pod_class, topology = alike
        required = bisect_left(indices, missing)
        yield PodSetRequest(
            group,
            pod_class,
            [waiting[index] for index in indices],
            required + (promised if alike == awaited else 0),
            extra=len(indices) - required,
            topology=topology,
            pod_set_group=None if topology is None else pod_set_group_of(group, pod_class, topology),
            kept=_kept(group, pod_class, charges),
            in_gang=in_gang,
            replaces=[replace[waiting[i].pod.key] for i in indices if waiting[i].pod.key in replace] if replace else (),
        )


_Charged = frozenset[tuple[str, int]]
"""What quota counts of a pod, as a key."""


def _charges_of(group: MemberGroup) -> dict[_Charged, list[tuple[PodClass, Charge]]]:
    """Return as what the pods of a group are counted that have a node, or have one reserved, or are held for.

    One of each class, by what is counted of it: there may be as many classes as members. Nothing where quota is held
    without nodes, which tells the flavors itself.
    """
    tally = group.counts()
    if group.held is not None or not (group.holds or tally.placed or tally.reserved):
        return {}
    first: dict[PodClass, Charge] = {}
    parts = [(hold.pod_class, hold.charge) for hold in group.holds]
    charges = ((member.pod.pod_class, member.charge) for member in group.members.values())
    for pod_class, charge in itertools.chain(parts, charges):
        if charge is not None:
            first.setdefault(pod_class, charge)
    out: dict[_Charged, list[tuple[PodClass, Charge]]] = {}
    for pod_class, charge in first.items():
        out.setdefault(frozenset(pod_class.charged.items()), []).append((pod_class, charge))
    return out


def _kept(
    group: MemberGroup, pod_class: PodClass, charges: Mapping[_Charged, Sequence[tuple[PodClass, Charge]]]
) -> frozenset[str]:
    """Return the flavors that pods of a class in a group have: a pod set has one per resource group (Kueue).

    Before they have nodes these are the flavors in which quota is held for them.
    """
    if group.held is not None:
        return frozenset(flavor for flavor, _ in group.held.charge.usage)
    if not charges:
        return frozenset()
    for one, charge in charges.get(frozenset(pod_class.charged.items()), ()):
        if one is pod_class or _is_alike(one, pod_class):
            return frozenset(charge.flavors.values())
    return frozenset()


def _is_alike(one: PodClass, other: PodClass) -> bool:
    """Whether pods of two classes of which quota counts the same ask the same of flavors, whatever tells them apart."""
    mine, theirs = one.spec, other.spec
    if mine.node_selector != theirs.node_selector:
        return False
    return mine.tolerations == theirs.tolerations and mine.affinity == theirs.affinity


def _awaited_for_claims(waiting: Sequence[Member], needed: int) -> list[Member]:
    """Return the members whose claims are being made, where so many as are needed do not have theirs yet."""
    if needed <= 0:
        return []
    coming = [one for one in waiting if one.pod.pod_class.devices.coming]
    return coming if needed > len(waiting) - len(coming) else []


_NUMBERS = re.compile("[0-9]+")
_DIGITS = "0123456789"
_WIDTH = 21
"""Of a number in a rank: no name of a pod that a controller made has so many digits."""


def _by_rank(members: list[Member]) -> list[Member]:
    """Order p-2 before p-10, and a-10 before b-2, so that neighbouring ranks come to neighbouring places."""
    if len(members) < 2:  # noqa: PLR2004 - one needs no order
        return members
    keys, heads = list[str](), dict[str, str]()
    for member in members:
        name = member.pod.name
        head = name.rstrip(_DIGITS)  # most names of a gang have few that differ
        wide = heads.get(head)
        if wide is None:
            wide = heads[head] = _NUMBERS.sub(_widened, head)
        keys.append(wide + name[len(head) :].rjust(_WIDTH))
    return [members[at] for at in sorted(range(len(members)), key=keys.__getitem__)]


def _widened(number: re.Match[str]) -> str:
    """Return a number as wide as all others, so that it is compared as one."""
    return number[0].rjust(_WIDTH)
