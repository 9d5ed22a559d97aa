"""What is the matter with pools: slices that contradict one another, are missing, or have gone with devices in use.

kube-scheduler 1.36 passes such pools by without a word, or has every pod fail that asks for all devices (`pools.py`).
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator, Sequence
from typing import Final

from tutti.api.messages import IS, agreeing, counted
from tutti.cluster.devices.pools import PublishedSlice

_NAMED: Final = 3


def pool_trouble(slices: Sequence[PublishedSlice], held: Sequence[str]) -> str:
    """Return what is the matter with a pool, the first thing that is, or "".

    Args:
        slices: All that are published of it.
        held: The names of its devices that claims have.
    """
    return next(_troubles(slices, held), "")


def _troubles(slices: Sequence[PublishedSlice], held: Sequence[str]) -> Iterator[str]:
    if not slices:
        if held:
            yield f"its driver publishes nothing of it any more, and {_named(held)} {agreeing(len(held), IS)} allocated"
        return
    newest = max(one.generation for one in slices)
    current = sorted((one for one in slices if one.generation == newest), key=lambda one: one.name)
    yield from (f"slice {one.name} cannot be believed: {one.problem}" for one in current if one.problem)
    yield from _wrong_number(current, newest)
    yield from _contradictions(current, newest)
    yield from _not_renewed(sorted(slices, key=lambda one: one.name), newest)
    listed = {device.name for one in current for device in one.devices}
    gone = [name for name in held if name not in listed]
    if gone:
        yield f"{_named(gone)} {agreeing(len(gone), IS)} allocated, and not published any more"


def left_behind(slices: Sequence[PublishedSlice]) -> list[PublishedSlice]:
    """Return the slices of older generations of a pool whose nodes have neither the newest nor all of theirs.

    Such a node passes the pool by without a word (`pools.py`).
    """
    newest = max(one.generation for one in slices)
    current = [one for one in slices if one.generation == newest]
    if any(one.spec.all_nodes for one in current):
        return []
    renewed = {_reach(one) for one in current}
    older = [one for one in slices if one.devices and one.generation < newest and _reach(one) not in renewed]
    there = Tally((one.generation, _reach(one)) for one in older)
    return [one for one in older if one.spec.pool.resource_slice_count != there[one.generation, _reach(one)]]


def _reach(one: PublishedSlice) -> tuple[str, bytes]:
    """Return what is equal for slices that the same nodes can use."""
    return one.spec.node_name, one.whose


def _not_renewed(slices: Sequence[PublishedSlice], newest: int) -> Iterator[str]:
    """Yield which slices are of an older generation that some nodes still see, and that is not all there."""
    for one in left_behind(slices):
        yield f"slice {one.name} is still of generation {one.generation}, and generation {newest} is for other nodes"


def _wrong_number(current: Sequence[PublishedSlice], newest: int) -> Iterator[str]:
    """Yield whether there are too few or too many slices of a generation, or whether they do not agree on that."""
    there, wanted = len(current), sorted({one.spec.pool.resource_slice_count for one in current})
    if len(wanted) > 1:
        yield f"its slices of generation {newest} disagree on how many there are: {' and '.join(map(str, wanted))}"
    if there < wanted[0]:
        of = f"{counted(wanted[0], 'slice')} of generation {newest}"
        yield f"only {there} of {of} {agreeing(there, IS)} published"
    if there > wanted[-1]:
        of = f"{counted(there, 'slice')} of generation {newest}"
        yield f"{of} {agreeing(there, IS)} published, which say that there should be {wanted[-1]}"


def _contradictions(current: Sequence[PublishedSlice], newest: int) -> Iterator[str]:
    """Yield what is there twice, as any one node sees it, and what is consumed and nobody defines."""
    devices = Tally((one.spec.node_name, device.name) for one in current for device in one.devices)
    sets = Tally(name for one in current for name in one.sets)
    for what, name in (*(("device", name) for (_, name), n in devices.items() if n > 1), *_twice(sets)):
        yield f"{what} {name} is in it twice"
    defined = {name for one in current for name in one.counters}
    for name, of in ((device.name, of) for one in current for device in one.devices for of, _ in device.consumes):
        if of not in defined:
            yield f"device {name} consumes counter {'/'.join(of)}, which no slice of generation {newest} defines"


def _twice(sets: Tally[str]) -> Iterator[tuple[str, str]]:
    return (("counter set", name) for name, times in sets.items() if times > 1)


def _named(devices: Sequence[str]) -> str:
    names = ", ".join(sorted(devices)[:_NAMED])
    more = f" and {len(devices) - _NAMED} more" if len(devices) > _NAMED else ""
    return f"{'device' if len(devices) == 1 else 'devices'} {names}{more}"
