"""What devices claims do not find, in numbers: how many there are, match, are taken and free, and what would help.

It is said where devices alone keep pods waiting. Names and expressions are those of tenants: they are cut short, and
control characters are shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from tutti.api.messages import HAS, IS, agreeing, counted, escape_controls
from tutti.cluster.classes import PodClass
from tutti.cluster.devices.asks import ClaimAsk, DeviceNeeds, WayAsk
from tutti.cluster.devices.capacities import demands_of
from tutti.cluster.devices.ledger import LocalUse
from tutti.cluster.devices.pools import NodePool, PoolStatus
from tutti.cluster.devices.programs import DeviceProgram, SearchLength
from tutti.cluster.devices.search import SearchTooLong
from tutti.cluster.devices.search_time import MOST_STEPS
from tutti.cluster.devices.taint_rules import PoolKey
from tutti.cluster.devices.troubles import pool_trouble
from tutti.cluster.nodes import NodeColumns
from tutti.placement.framework import Counts, Mask

MOST_TOLD: Final = 2
"""So many requests are told of, those that lack most."""
MOST_LEFT_OUT: Final = 6
"""So many selectors and constraints are left out on trial."""
MOST_BEHIND: Final = 8
"""So many slices that are out of date are looked at."""
MOST_TEXT: Final = 80
"""Characters of a name or an expression."""
_UNUSED: Final[LocalUse] = (0, ())


def device_shortage(nodes: NodeColumns, pod_class: PodClass, required: int, room: Counts) -> str:
    """Say what the claims of a class lack; "" where devices suffice for so many pods, or nobody asks for any.

    Args:
        nodes: The columns.
        pod_class: That of the pods.
        required: How many they are.
        room: int64[rows], for how many of them each node has room but for devices.
    """
    try:
        return _shortage(nodes, pod_class, required, room)
    except SearchTooLong:
        return ""  # that it takes too long to tell is said by the reasons of the nodes


def _shortage(nodes: NodeColumns, pod_class: PodClass, required: int, room: Counts) -> str:
    devices, needs = nodes.devices, nodes.devices.current(pod_class.devices)
    if not (needs.claims or needs.extended) or needs.problem:
        return ""
    view = nodes.device_view(needs)
    programs = devices.columns(needs, view).programs
    given = devices.room(needs, view, max(required, 1))
    together = required > 1 and needs.claims and all(one.shared for one in needs.claims)
    if together and (np.minimum(given, room) > 0).any():
        return _held_together(needs.claims[0].shared, required, np.where(given > 0, room, 0))
    if int(np.minimum(given, room).sum()) >= max(required, 1):
        return ""
    if not programs or not (room > given).any():
        return ""
    if devices.length_of_search(needs, view) is SearchLength.CUT_SHORT:
        return ""  # what there is has not been looked at yet
    program, where = max(programs, key=lambda one: int((one[1] & (room > 0)).sum()))
    short = where & (room > given) & nodes.present
    told = [_Tally.of(nodes, program, way, where & nodes.present, short) for way in _first_ways(program.claims)]
    told.sort(key=lambda one: one.most - one.wanted)
    parts = [one.text for one in told[:MOST_TOLD]]
    if len(told) > MOST_TOLD:
        parts.append(f"and {counted(len(told) - MOST_TOLD, 'request')} more")
    is_long = any(one.has_taken_long for one, _ in programs)  # and so is what is left of it
    help_ = "" if is_long else next(_left_out(nodes, needs, required, room), "")
    if help_:
        parts.append(f"with {help_} left out it would fit")
    if not parts:
        return ""  # it asks for admin access alone, which takes nothing from anybody
    text = f"{'; '.join(parts)}."
    return text[0].upper() + text[1:]


def _held_together(claim: str, required: int, room: Counts) -> str:
    """Say that pods that share a claim find no node with room for all; "" where one has.

    Args:
        claim: Its namespace and name.
        required: How many pods they are.
        room: int64[rows], for how many of them each node has room that has such devices.
    """
    most = int(room.max(initial=0))
    if most >= required:
        return ""
    return (
        f"All {required} pods use claim {plainly(claim)}, and have to go where the same devices can be used: of "
        f"{counted(int((room > 0).sum()), 'node')} with such devices none has room for more than {most} of them."
    )


class _Tally(NamedTuple):
    """How a request fares.

    Attributes:
        wanted: How many devices it takes at least.
        most: How many are free on the node, of those that lack some, that has most.
    """

    text: str
    wanted: int
    most: int

    @classmethod
    def of(cls, nodes: NodeColumns, program: DeviceProgram, way: WayAsk, among: Mask, short: Mask) -> _Tally:
        """Count the devices of some rows, bool[rows]; `short` are those that lack some."""
        wanted, counts, free = max(way.count, 1), _DeviceCounts(program, way), Counter[int]()
        for rows, free_here in counts.of_rows(nodes, among):
            if lacking := int(short[rows].sum()):
                free[free_here] += lacking
        behind = list(_left_behind(nodes, among))
        counts.add((pool, _UNUSED) for pool in behind)
        told = counts.told
        devices, match, taken, tainted = (told[one] for one in ("of_class", "match", "taken", "tainted"))
        most = max((count for count in free if count < wanted), default=max(free, default=0))
        name = plainly(way.device_class)
        if not devices:
            return cls(f"no devices of class {name} are published for these nodes", wanted, 0)
        text = f"{match} of {counted(devices, 'device')} of class {name} {agreeing(match, ('matches', 'match'))}"
        if told["untold"]:
            text += _untold(program, way, told["untold"], _each_pool(nodes, among))
        text += f"; {taken} {agreeing(taken, IS)} taken"
        if told["spent"]:
            text += f"; {told['spent']} {agreeing(told['spent'], HAS)} too little left of capacity or counters"
        if tainted:
            text += f"; {tainted} {agreeing(tainted, HAS)} taints that are not tolerated"
        text += _unusable(nodes, program, way, [*_each_pool(nodes, among), *behind])
        if free[most]:
            on = counted(free[most], "node")
            text += f"; on {on} {most} {agreeing(most, IS)} free of {'all' if not way.count else wanted} needed"
        return cls(text, wanted, most)


class _DeviceCounts:
    """How many devices there are for a request, match, are taken and so on; those that several nodes see count once.

    Attributes:
        told: How many, by what is told of them.
    """

    def __init__(self, program: DeviceProgram, way: WayAsk) -> None:
        self.told = Counter[str]()
        self._program, self._way = program, way
        self._spent = dict[tuple[int, LocalUse], int]()
        self._met = dict[PoolKey, set[str]]()  # the devices of shared pools that are counted

    def of_rows(self, nodes: NodeColumns, among: Mask) -> Iterator[tuple[NDArray[np.int64], int]]:
        """Count those of some rows, bool[rows]; yields these rows, int64[k], with how many of all are free on each.

        Rows that share no devices with others, and are in the same situation, are looked at once.
        """
        rows = nodes.devices.rows
        alone = np.flatnonzero(among & ~rows.sharing(len(among)))
        alone = alone[np.argsort(self._program.verdict_of[alone], kind="stable")]
        ends, begin = np.flatnonzero(np.diff(self._program.verdict_of[alone])) + 1, 0
        for end in (*ends.tolist(), len(alone)) if len(alone) else ():
            those, begin = alone[begin:end], end
            first = int(those[0])
            yield those, self.add(zip(rows.own[first], rows.own_uses[first], strict=True), len(those))
        shared: dict[int, int] = {}  # what is free of the pools that rows share, which are counted once
        bare: dict[int, list[int]] = {}  # rows that have no others
        for row in np.flatnonzero(among & rows.sharing(len(among))).tolist():
            common = rows.shared[row]
            if id(common) not in shared:
                shared[id(common)] = self.add(zip(common.pools.pools, common.uses, strict=True))
            if not rows.own[row]:
                bare.setdefault(id(common), []).append(row)
                continue
            here = self.add(zip(rows.own[row], rows.own_uses[row], strict=True))
            yield np.array([row]), here + shared[id(common)]
        for which, rows_of in bare.items():
            yield np.array(rows_of), shared[which]

    def add(self, pools: Iterable[tuple[NodePool, LocalUse]], times: int = 1) -> int:
        """Count the devices of pools that have not been met yet, of each so often; returns how many of all are free."""
        free, told = 0, self.told
        for pool, use in pools:
            found, used = self._program.ways.matches(self._way, pool), use[0]
            spent = self._spent_of(pool, use) & found.selected & ~used
            if pool.status is PoolStatus.COMPLETE:
                free += (found.selected & found.tolerated & ~used & ~spent).bit_count()
            new = -1
            if pool.shared:
                known = self._met.setdefault(pool.key, set())
                new = _not_in(known, pool) if known else -1
                known.update(one.name for one in pool.devices)
            told["of_class"] += (found.of_class & new).bit_count() * times
            told["match"] += (found.selected & new).bit_count() * times
            told["untold"] += (found.untold & new).bit_count() * times
            told["taken"] += (found.selected & used & new).bit_count() * times
            told["spent"] += (spent & new).bit_count() * times
            told["tainted"] += (found.selected & ~found.tolerated & new).bit_count() * times
        return free

    def _spent_of(self, pool: NodePool, use: LocalUse) -> int:
        """Return what `_spent` says, once for pools that are alike."""
        known = self._spent.get((pool.likeness, use))
        if known is None:
            known = self._spent[pool.likeness, use] = _spent(self._way, pool, use)
        return known


def _untold(program: DeviceProgram, way: WayAsk, count: int, pools: Iterable[NodePool]) -> str:
    """Say of how many devices it cannot be told whether they match, and why not of one."""
    faults = (program.ways.matches(way, pool).fault for pool in pools)
    why = next((one for one in faults if one), "").removeprefix("claim {claim}: ")
    return f"; of {count} it cannot be told ({plainly(why)})"


def _unusable(nodes: NodeColumns, program: DeviceProgram, way: WayAsk, pools: Iterable[NodePool]) -> str:
    """Say how many devices that match nobody can have because of how their pools are published, and why of one."""
    met, count = dict[PoolKey, set[str]](), 0
    for pool in pools:
        if pool.status is not PoolStatus.COMPLETE:
            known = met.setdefault(pool.key, set())
            new = _not_in(known, pool) if pool.shared else -1
            count += (program.ways.matches(way, pool).selected & new).bit_count()
            if pool.shared:
                known.update(one.name for one in pool.devices)
    if not count:
        return ""
    first = min(met)
    why = pool_trouble(nodes.devices.catalog.slices_of(first), ())
    where = f"pool {'/'.join(first)}" if len(met) == 1 else f"{len(met)} pools, such as {'/'.join(first)},"
    return f"; {count} {agreeing(count, IS)} in {where} that cannot be used as published ({why})"


def _left_behind(nodes: NodeColumns, among: Mask) -> Iterator[NodePool]:
    """Yield what some of these rows would have of pools of which they know nothing but slices that are out of date."""
    rows = np.flatnonzero(among).tolist()
    for one, pool in islice(nodes.devices.catalog.behind(), MOST_BEHIND):
        reached = (row for row in rows if one.reaches(nodes.names[row], nodes.labels[row]))
        if any(all(seen.key != one.key for seen, _ in nodes.devices.rows.pools_of(row)) for row in reached):
            yield pool


def _each_pool(nodes: NodeColumns, among: Mask) -> Iterator[NodePool]:
    """Yield the pools of some rows, those that several share once."""
    rows, shared = nodes.devices.rows, set[int]()
    for row in np.flatnonzero(among).tolist():
        yield from rows.own[row]
        if id(rows.shared[row]) not in shared:
            shared.add(id(rows.shared[row]))
            yield from rows.shared[row].pools.pools


def _spent(way: WayAsk, pool: NodePool, use: LocalUse) -> int:
    """Return the devices of a pool that have too little left for a request, of capacity or of counters, as bits."""
    taken, consumed = use[0], dict(use[1])
    left = dict(pool.counters)
    for at, one in enumerate((*pool.devices, *pool.others)):
        if taken >> at & 1 or at in consumed:
            for name, amount in one.consumes:
                left[name] = left.get(name, 0) - amount
    spent = 0
    for at, one in enumerate(pool.devices):
        short = at not in consumed and any(left.get(name, 0) < amount for name, amount in one.consumes)
        if short or demands_of(one.capacities, way.capacity, consumed.get(at)) is None:
            spent |= 1 << at
    return spent


def plainly(text: str) -> str:
    """Return a tenant's text as it may stand in a sentence."""
    plain = " ".join(escape_controls(text).replace("`", "'").split())
    return plain if len(plain) <= MOST_TEXT else f"{plain[: MOST_TEXT - 3]}..."


def _first_ways(claims: Sequence[ClaimAsk]) -> list[WayAsk]:
    """Return the way of each request that would be taken first; those that only look are left out."""
    return [request.ways[0] for claim in claims for request in claim.requests if not request.ways[0].admin]


def _not_in(known: Collection[str], pool: NodePool) -> int:
    """Return the devices of a pool whose names are not known, as bits."""
    return sum(1 << at for at, one in enumerate(pool.devices) if one.name not in known)


def _left_out(nodes: NodeColumns, needs: DeviceNeeds, required: int, room: Counts) -> Iterator[str]:
    """Yield what claims would have to leave out so that there are devices for all pods, one thing at a time.

    All of it together takes no more steps than one search.
    """
    steps = 0
    for text, claims in islice(_variants(needs.claims), MOST_LEFT_OUT):
        fewer = msgspec.structs.replace(needs, claims=claims)
        view = nodes.device_view(fewer)
        columns = nodes.devices.columns(fewer, view)
        steps += sum(program.steps for program, _ in columns.programs)
        if steps >= MOST_STEPS:
            return
        if columns.is_faulty:
            continue
        given = nodes.devices.room(fewer, view, max(required, 1))
        if int(np.minimum(given, room).sum()) >= max(required, 1):
            yield text


def _variants(claims: Sequence[ClaimAsk]) -> Iterator[tuple[str, tuple[ClaimAsk, ...]]]:
    """Yield claims without one selector of a request, then without one constraint, with what is left out in words."""
    replace = msgspec.structs.replace
    for at, claim in enumerate(claims):
        for place, request in enumerate(claim.requests):
            for number, way in enumerate(request.ways):
                for index, expression in enumerate(way.selectors):
                    rest = replace(way, selectors=(*way.selectors[:index], *way.selectors[index + 1 :]))
                    ways = (*request.ways[:number], rest, *request.ways[number + 1 :])
                    requests = (*claim.requests[:place], replace(request, ways=ways), *claim.requests[place + 1 :])
                    fewer = replace(claim, requests=requests)
                    yield f"`{plainly(expression)}`", (*claims[:at], fewer, *claims[at + 1 :])
    for at, claim in enumerate(claims):
        for index, one in enumerate(claim.constraints):
            kind = "distinctAttribute" if one.distinct else "matchAttribute"
            fewer = replace(claim, constraints=(*claim.constraints[:index], *claim.constraints[index + 1 :]))
            yield f"{kind} {plainly(one.attribute)}", (*claims[:at], fewer, *claims[at + 1 :])
