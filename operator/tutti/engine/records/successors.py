"""Which of the members that wait come in place of one that their gang has lost.

A gang is mended before new work starts, with what it has had: each successor stands for one loss of its group, and asks
for no more of anything than that one did. So whoever takes members of his own gang away gains nothing by it. Who asks
for just as much comes before who asks for less, and of these the first by rank. What is more waits as surplus members
do, by priority among all others: one that asks for more than was lost, and one beyond those that the gang has had.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from tutti.api.resources import Amounts
from tutti.cluster.pods import PodKey, PodRecord
from tutti.engine.records.members import LostMember, Member, MemberGroup, devices_asked

_MOST_UNLIKE: Final = 64
"""How many unlike sizes are held against one another, of what was lost and of those that wait."""


class Size(NamedTuple):
    """What one member asks for, or asked for: amounts in scheduling units, and devices as quota counts them.

    Attributes:
        devices: None where that is not known, as of a loss that a status tells.
    """

    amounts: Amounts
    devices: Amounts | None

    def covers(self, other: Size) -> bool:
        """Whether who asks for the other asks for no more of anything."""
        asks, has = other.devices or {}, self.devices
        return _within(other.amounts, self.amounts) and (has is None or _within(asks, has))

    @property
    def key(self) -> object:
        """What is equal for equal sizes."""
        return frozenset(self.amounts.items()), None if self.devices is None else frozenset(self.devices.items())


def open_losses(losses: Iterable[LostMember], group: MemberGroup) -> list[LostMember]:
    """Return what a group has lost, without what a member makes good that has a node or is to have one."""
    made_good = [one.replaces for one in group.members.values() if one.replaces is not None and one.pod.place]
    return [loss for loss in without(losses, made_good) if loss.group == group.name]


def without(losses: Iterable[LostMember], some: Iterable[LostMember]) -> list[LostMember]:
    """Return losses without some of them, each of which goes once: two that were alike are not the same."""
    gone = Counter(map(id, some))
    out: list[LostMember] = []
    for loss in losses:
        if gone[id(loss)]:
            gone[id(loss)] -= 1
        else:
            out.append(loss)
    return out


def replacements(
    losses: Iterable[LostMember],
    group: MemberGroup,
    waiting: Sequence[Member],
    found: Mapping[PodKey, LostMember | None] = MappingProxyType({}),
) -> dict[PodKey, LostMember | None]:
    """Return which members of a group of a gang that runs come in place of one that it has lost.

    Args:
        losses: What the gang has lost.
        group: One of its pod groups.
        waiting: Those of its members that want a node, by rank.
        found: What has been found of others of the group, who get a node in the same attempt.

    Returns:
        By each of them the loss that it makes good. None is one that nobody has seen, which happens while no operator
        runs: how much that was is not known, and its successor is believed.
    """
    if not waiting or not group.missing:
        return {}
    mine, tally = open_losses(losses, group), group.counts()
    unseen = max(0, group.had - tally.placed - tally.reserved - len(mine))
    most = min(group.missing, len(mine) + unseen) - len(found)
    if most <= 0:
        return {}
    made_good = _made_good(without(mine, filter(None, found.values())), waiting, most)
    unseen -= sum([loss is None for loss in found.values()])
    rest = [one.pod.key for one in waiting if one.pod.key not in made_good] if unseen > 0 else []
    return {**made_good, **dict.fromkeys(rest[: min(unseen, most - len(made_good))])}


def _made_good(losses: Sequence[LostMember], waiting: Sequence[Member], most: int) -> dict[PodKey, LostMember | None]:
    """Return which loss each of so many members makes good: one of its size, or else one that was larger."""
    lines: dict[object, list[LostMember]] = {}
    for loss in losses:
        lines.setdefault(size_of_loss(loss).key, []).append(loss)
    sizes = {pod.pod_class: size_of(pod) for pod in [member.pod for member in waiting]}
    found: dict[PodKey, LostMember | None] = {}
    for member in waiting:
        line = lines.get(sizes[member.pod.pod_class].key)
        if line and len(found) < most:
            found[member.pod.key] = line.pop()
    left = [line for line in lines.values() if line][:_MOST_UNLIKE]
    others = [member for member in waiting if member.pod.key not in found] if left and len(found) < most else []
    unlike = list(dict.fromkeys(member.pod.pod_class for member in others))[:_MOST_UNLIKE]
    larger = {one: [line for line in left if size_of_loss(line[0]).covers(sizes[one])] for one in unlike}
    for member in others:
        line = next((line for line in larger.get(member.pod.pod_class, ()) if line), None)
        if line is not None and len(found) < most:
            found[member.pod.key] = line.pop()
    return found


def size_of(pod: PodRecord) -> Size:
    """Return what a pod asks for."""
    return Size(pod.pod_class.requests, devices_asked(pod))


def size_of_loss(loss: LostMember) -> Size:
    """Return what a lost member asked for."""
    devices = loss.devices
    if not devices:
        return Size(loss.amounts, devices)
    return Size({name: amount for name, amount in loss.amounts.items() if name not in devices}, devices)


def _within(amounts: Amounts, most: Amounts) -> bool:
    return all(amount <= most.get(name, 0) for name, amount in amounts.items())
