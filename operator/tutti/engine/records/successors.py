"""Which of the members that wait come in place of one that their gang has lost.

A gang is mended before new work starts, with what it has had: each successor stands for one loss of its group, and asks
for no more of anything than that one did. So whoever takes members of his own gang away gains nothing by it. Who asks
for just as much comes before who asks for less, and of these the first by rank. What is more waits as surplus members
do, by priority among all others: one that asks for more than was lost, and one beyond those that the gang has had.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Final, NamedTuple

from tutti.api.resources import Amounts
from tutti.cluster.classes import PodClass
from tutti.cluster.pods import PodKey, PodRecord
from tutti.engine.records.members import LostMember, Member, MemberGroup, devices_asked

_MOST_UNLIKE: Final = 64
"""With how many unlike sizes a member is compared."""


class _Size(NamedTuple):
    """What one member asks for, or asked for: amounts in scheduling units, and devices as quota counts them.

    Attributes:
        devices: None where that is not known, as of a loss that a status tells.
    """

    amounts: Amounts
    devices: Amounts | None

    def covers(self, other: _Size) -> bool:
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
        By each of them the loss that it makes good. None is one that nobody has seen, as while no operator ran: its
        successor asks for no more than another member of the group does or did, where any is known.
    """
    if not waiting or not group.missing:
        return {}
    mine, tally = open_losses(losses, group), group.counts()
    unseen = max(0, group.had - tally.placed - tally.reserved - len(mine))
    most = min(group.missing, len(mine) + unseen) - len(found)
    if most <= 0:
        return {}
    first = {member.pod.pod_class: member.pod for member in reversed(waiting)}
    sizes = {pod_class: _size_of(pod) for pod_class, pod in first.items()}
    made_good = _made_good(without(mine, filter(None, found.values())), waiting, sizes, most)
    known = [_size_of_loss(loss) for loss in mine] + _sizes_there(group)
    like = {one for one, size in sizes.items() if not known or _is_covered(size, known)}
    rest = [one.pod.key for one in waiting if one.pod.key not in made_good and one.pod.pod_class in like]
    unseen -= sum([loss is None for loss in found.values()])
    return {**made_good, **dict.fromkeys(rest[: min(unseen, most - len(made_good))])}


def _made_good(
    losses: Sequence[LostMember], waiting: Sequence[Member], sizes: Mapping[PodClass, _Size], most: int
) -> dict[PodKey, LostMember]:
    """Return which loss each of so many members makes good: one of its size, or else one that was larger."""
    lines: dict[object, list[LostMember]] = {}
    had: dict[object, _Size] = {}
    for loss in losses:
        size = _size_of_loss(loss)
        lines.setdefault(size.key, []).append(loss)
        had.setdefault(size.key, size)
    equal = {one: [size.key] for one, size in sizes.items()}
    larger = {
        one: [key for key, its in islice(had.items(), _MOST_UNLIKE) if its.covers(size)] for one, size in sizes.items()
    }
    found: dict[PodKey, LostMember] = {}
    for keys in (equal, larger):
        for member in waiting:
            line = next((lines[key] for key in keys[member.pod.pod_class] if lines.get(key)), None)
            if line is not None and member.pod.key not in found and len(found) < most:
                found[member.pod.key] = line.pop()
    return found


def _sizes_there(group: MemberGroup) -> list[_Size]:
    """Return of what sizes the members of a group are that have a node."""
    there = {member.pod.pod_class: member.pod for member in group.members.values() if member.pod.place}
    return [_size_of(pod) for pod in there.values()]


def _is_covered(size: _Size, known: Sequence[_Size]) -> bool:
    return any(one.covers(size) for one in known[:_MOST_UNLIKE])


def _size_of(pod: PodRecord) -> _Size:
    return _Size(pod.pod_class.requests, devices_asked(pod))


def _size_of_loss(loss: LostMember) -> _Size:
    return _Size(loss.amounts, loss.devices)


def _within(amounts: Amounts, most: Amounts) -> bool:
    return all(amount <= most.get(name, 0) for name, amount in amounts.items())
