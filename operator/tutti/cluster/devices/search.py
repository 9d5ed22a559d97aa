"""The devices of one pod on one node: every way is tried until one fulfils all its claims.

Rules and order: kube-scheduler 1.36, staging/src/k8s.io/dynamic-resource-allocation/structured/internal/incubating/
allocator_incubating.go: claims in order, their requests in order, devices in the order of the pools; the first solution
is taken. Or else devices are tried in the order of `tightness.py`, those that fit tightest first. What leads to no
other outcome is not tried: a device that is to this pod as one that has failed in its place. Where upstream forgets
(issues 140434 and 140438: counters of devices that were refused, the values that distinct devices have taken), what is
documented holds here.

It is a pure function of what a node offers and what is taken there (`Offer`), so that it is asked once for all nodes
that offer the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tutti.api.devices import MOST_RESULTS, AttributeValue
from tutti.cluster.devices.asks import SUB_RANK, ClaimAsk, ConstraintAsk, WayAsk
from tutti.cluster.devices.capacities import demands_of
from tutti.cluster.devices.ledger import LocalUse
from tutti.cluster.devices.offers import (
    CANNOT_ALLOCATE,
    INVALID_POOLS,
    TOO_MANY_WAYS,
    DeviceFault,
    DeviceKind,
    Offer,
    OfferedPool,
    Pick,
    Verdict,
)
from tutti.cluster.devices.pools import PoolStatus
from tutti.cluster.devices.published import CounterKey
from tutti.cluster.devices.tightness import tightest_first, tightness_of

MOST_RANKED: Final = 1_000
"""So many devices are tried for one pod on one node, before it is no longer looked which of them fit tightest."""

MOST_HOPELESS: Final = 1_000
"""So many devices are tried where nothing matches a request for all: what comes before it may not be told (a fault)."""


FEW_DEVICES: Final = 16
"""Fewer are looked at one by one, whatever is known of them."""


LOOKS_PER_STEP: Final = 16
"""So many devices or pools are looked at in the time in which one device is tried."""


class SearchFault(Exception):  # noqa: N818 - it carries one
    """Ends a search with a fault."""

    def __init__(self, fault: DeviceFault) -> None:
        super().__init__(fault.text)
        self.fault = fault


class SearchTooLong(Exception):  # noqa: N818 - what has become of a search
    """Ends a search that takes more work than there is left for it."""


Refused = Callable[[WayAsk, OfferedPool], int]
"""Which devices of a pool a way does not select, as bits, as far as that is known."""
Selects = Callable[[WayAsk, DeviceKind], "bool | str"]
"""Whether a way selects a device; text where that cannot be told. It raises SearchTooLong where that takes too long."""


def search(
    claims: Sequence[ClaimAsk],
    offer: Offer,
    selects: Selects,
    most: int,
    *,
    tight: bool = False,
    refused: Refused = lambda _way, _pool: 0,
) -> Verdict:
    """Return the devices for claims in what a node offers.

    Args:
        claims: What is asked for.
        offer: What there is.
        selects: Tells what is asked for.
        most: So many devices are tried.
        tight: Whether those are chosen that fit tightest.
        refused: Tells what need not be asked about.
    """
    attempt = _Attempt(claims, offer, selects, refused, most, tight)
    try:
        if attempt.run():
            after = attempt.after()
            fit = tightness_of(attempt.picks, offer, after) if tight else 0
            return Verdict(tuple(attempt.picks), after, rank=attempt.rank, steps=attempt.cost, tightness=fit)
    except SearchFault as error:
        return Verdict(fault=error.fault, steps=attempt.cost)
    except SearchTooLong:
        return Verdict(reason=TOO_MANY_WAYS, steps=attempt.cost)
    if attempt.steps > most:
        return Verdict(reason=TOO_MANY_WAYS, steps=most)
    invalid = any(pool.status is PoolStatus.INVALID for pool in offer.pools)
    return Verdict(reason=INVALID_POOLS if invalid else CANNOT_ALLOCATE, steps=attempt.cost)


@dataclass(slots=True)
class _PoolState:
    """What is taken of a pool during an attempt.

    Attributes:
        taken: Whole devices that others hold, as bits.
        chosen: Devices that this attempt has chosen, as bits.
        consumed: Of shared devices, per capacity, by others and in this attempt.
        left: What is left of each counter.
        overdrawn: Whether of one there is less than nothing: then the pool gives nothing that is counted.
    """

    taken: int
    chosen: int
    consumed: dict[int, tuple[int, ...]]
    left: dict[CounterKey, int]
    overdrawn: bool


class _PoolStates(dict[int, _PoolState]):
    """What is taken of the pools of an offer, by their places; of those that are looked at."""

    def __init__(self, offer: Offer) -> None:
        super().__init__()
        self._offer = offer

    def __missing__(self, at: int) -> _PoolState:
        state = self[at] = _state_of(self._offer.pools[at], self._offer.uses[at])
        return state


@dataclass(slots=True)
class _Slot:
    """Where a search stands: the next device of a way of a request of a claim.

    Attributes:
        banned: Per pool, the devices that have been chosen for the request or tried before those, as bits.
    """

    claim: int = 0
    request: int = 0
    way: int = 0
    index: int = 0
    banned: tuple[int, ...] = ()


class _Change(NamedTuple):
    """What choosing a device changes.

    Attributes:
        before: What was consumed of it, None where nothing was.
        chosen: Which devices of its pool were chosen.
        charged: What it takes of counters.
        demands: How much it takes of each of its capacities.
        concerned: The constraints that were held to it.
    """

    before: tuple[int, ...] | None
    chosen: int
    charged: tuple[tuple[CounterKey, int], ...]
    demands: tuple[int, ...]
    concerned: list[int]


@dataclass(slots=True)
class _Attempt:
    """One search.

    Attributes:
        steps: How many devices were tried.
        looked: How many were looked at for those who want all, and how many pools.
    """

    claims: Sequence[ClaimAsk]
    offer: Offer
    selects: Selects
    refused: Refused
    most: int
    tight: bool = False
    picks: list[Pick] = field(default_factory=list)
    steps: int = 0
    rank: int = 0
    looked: int = 0
    _pools: _PoolStates = field(init=False)
    _everything: dict[tuple[int, int, int], list[tuple[int, int]]] = field(default_factory=dict)
    _of_claim: list[int] = field(default_factory=list)
    _seen: list[dict[tuple[int, int], None]] = field(default_factory=list)
    _values: list[list[list[AttributeValue]]] = field(default_factory=list)

    def run(self) -> bool:
        """Search; whether a solution was found, which `picks` then is."""
        self._pools = _PoolStates(self.offer)
        self._of_claim = [0] * len(self.claims)
        self._seen = [{} for _ in self.claims]
        self._values = [[[] for _ in claim.constraints] for claim in self.claims]
        possible = [self._prepare(at, claim) for at, claim in enumerate(self.claims)]  # all: one may raise
        if not all(possible):
            self.most = min(self.most, MOST_HOPELESS)
        return self._claim(0)

    @property
    def cost(self) -> int:
        """What the search counts: to look at a few devices takes as long as to try one."""
        return self.steps + self.looked // LOOKS_PER_STEP

    def after(self) -> tuple[LocalUse, ...]:
        """Return what is taken of each pool with what was chosen."""
        uses = list(self.offer.uses)
        for pick in self.picks:
            if pick.admin:
                continue
            mask, shares = uses[pick.pool]
            if pick.consumed is None:
                uses[pick.pool] = mask | 1 << pick.device, shares
                continue
            parts = dict(shares)
            before = parts.get(pick.device, (0,) * len(pick.consumed))
            parts[pick.device] = tuple(a + b for a, b in zip(before, pick.consumed, strict=True))
            uses[pick.pool] = mask, tuple(sorted(parts.items()))
        return tuple(uses)

    def _prepare(self, at: int, claim: ClaimAsk) -> bool:
        """Collect what is asked for as a whole; whether the claim can be fulfilled as far as that goes."""
        least, possible = 0, True
        for place, request in enumerate(claim.requests):
            counts = []
            for number, way in enumerate(request.ways):
                if not way.count:
                    self._everything[at, place, number] = list(self._all_of(claim, way))
                counts.append(way.count or len(self._everything[at, place, number]))
            least += min(counts)
            possible = possible and any(counts)
        if least > MOST_RESULTS:
            text = f"claim {claim.name}: number of requested devices {least} exceeds the claim limit of {MOST_RESULTS}"
            raise SearchFault(DeviceFault(text))
        return possible

    def _all_of(self, claim: ClaimAsk, way: WayAsk) -> Iterator[tuple[int, int]]:
        for number, pool in enumerate(self.offer.pools):
            if pool.status is not PoolStatus.COMPLETE:
                state = "being updated" if pool.status is PoolStatus.INCOMPLETE else "invalid"
                text = f"claim {claim.name}, request {way.called}: asks for all devices, but resource pool "
                raise SearchFault(DeviceFault(text + "{pool} is currently " + state, number))
            for device in self._open(way, pool, 0):
                kind = pool.kinds[device]
                self.looked += 1
                used = self._pools[number].consumed.get(device)
                if self._is_selected(claim, way, kind) and demands_of(kind.capacities, way.capacity, used) is not None:
                    yield number, device

    def _is_selected(self, claim: ClaimAsk, way: WayAsk, kind: DeviceKind) -> bool:
        found = self.selects(way, kind)
        if isinstance(found, str):
            raise SearchFault(DeviceFault(found.replace("{claim}", claim.name)))
        return found

    def _claim(self, claim: int) -> bool:
        if claim == len(self.claims):
            return True
        return self._request(claim, 0)

    def _request(self, claim: int, request: int) -> bool:
        asked = self.claims[claim].requests
        if request == len(asked):
            return self._claim(claim + 1)
        several = len(asked[request].ways) > 1 or "/" in asked[request].ways[0].name
        for way in range(len(asked[request].ways)):
            gain = SUB_RANK - way if several else 0
            self.rank += gain
            if self._devices(_Slot(claim, request, way)):
                return True
            self.rank -= gain
        return False

    def _devices(self, slot: _Slot) -> bool:
        """Choose the devices of a way from a slot on, and all that comes after."""
        way = self.claims[slot.claim].requests[slot.request].ways[slot.way]
        everything = self._everything.get((slot.claim, slot.request, slot.way))
        wanted = way.count or len(everything or ())
        if not wanted:
            return False
        if slot.index == wanted:
            return self._request(slot.claim, slot.request + 1)
        if self._of_claim[slot.claim] + wanted - slot.index > MOST_RESULTS:
            return False
        if everything is not None:
            pool, device = everything[slot.index]
            return self._try(slot, way, pool, device)
        return self._first(slot, way)

    def _first(self, slot: _Slot, way: WayAsk) -> bool:
        """Choose the first device for a slot with which all the rest can be fulfilled, too."""
        failed: set[object] = set()
        tried = list(slot.banned) or [0] * len(self.offer.pools)
        for number, device in self._candidates(slot, way, tried):
            if tried[number] >> device & 1 or self._is_used(slot, way, number, device):
                continue
            alike = self._likeness(slot, number, device)
            if alike in failed:
                tried[number] |= 1 << device
                continue
            if not self._is_selected(self.claims[slot.claim], way, self.offer.pools[number].kinds[device]):
                continue
            tried[number] |= 1 << device
            if self._try(slot, way, number, device, tried):
                return True
            if self.steps > self.most:
                return False
            failed.add(alike)
        return False

    def _candidates(self, slot: _Slot, way: WayAsk, tried: Sequence[int]) -> Iterable[tuple[int, int]]:
        """Return devices, by pool and place in it, in the order in which they are tried.

        Those that have been tried and those of which it is known at once that they cannot be had are left out.
        """
        pools = ((at, pool) for at, pool in enumerate(self.offer.pools) if pool.status is PoolStatus.COMPLETE)
        known = (  # what fits tightest is told of all that is free
            (at, pool, (0 if self.tight else tried[at]) | (0 if way.admin else self._pools[at].taken))
            for at, pool in pools
        )
        listed = ((at, one) for at, pool, beside in known for one in self._open(way, pool, beside))
        if not self.tight or self.steps > MOST_RANKED:
            return listed
        free = [
            (number, device)
            for number, device in listed
            if not self._is_used(slot, way, number, device)
            and self._is_selected(self.claims[slot.claim], way, self.offer.pools[number].kinds[device])
        ]
        states = [self._pools[at] for at in range(len(self.offer.pools))]
        left, consumed = [pool.left for pool in states], [pool.consumed for pool in states]
        return tightest_first(free, way.count - slot.index, self.offer, self.picks, left, consumed)

    def _open(self, way: WayAsk, pool: OfferedPool, beside: int) -> Iterator[int]:
        """Yield the devices of a pool beside some of which it is not known that they are refused, by their places."""
        if pool.own < FEW_DEVICES:
            yield from range(pool.own)
            return
        self.looked += 1
        left = ((1 << pool.own) - 1) & ~(beside | self.refused(way, pool))
        while left:
            first = left & -left
            yield first.bit_length() - 1
            left ^= first

    def _is_used(self, slot: _Slot, way: WayAsk, pool: int, device: int) -> bool:
        bit, state = 1 << device, self._pools[pool]
        multiple = self.offer.pools[pool].kinds[device].multiple
        if way.admin:
            return (pool, device) in self._seen[slot.claim] and not multiple
        if state.taken & bit:
            return True
        return bool(state.chosen & bit) and not multiple

    def _likeness(self, slot: _Slot, pool: int, device: int) -> object:
        """Return what two devices have in common that lead to the same outcome in the same place."""
        state, bit = self._pools[pool], 1 << device
        kind = self.offer.pools[pool].kinds[device]
        return (
            pool if kind.consumes else -1,
            id(kind),
            bool(state.taken & bit),
            bool(state.chosen & bit),
            (pool, device) in self._seen[slot.claim],
            state.consumed.get(device),
        )

    def _try(self, slot: _Slot, way: WayAsk, pool: int, device: int, tried: Sequence[int] | None = None) -> bool:
        """Choose a device for a slot, and go on; undone where that leads nowhere.

        Without `tried`, all that match are chosen.
        """
        self.steps += 1
        if self.steps > self.most or self._is_used(slot, way, pool, device):
            return False
        change = self._change(slot, way, pool, device, whole=tried is None)
        if change is None:
            return False
        state, seen = self._pools[pool], self._seen[slot.claim]
        first = (pool, device) not in seen
        seen[pool, device] = None
        state.chosen |= 1 << device
        for name, amount in change.charged:
            state.left[name] -= amount
        kind = self.offer.pools[pool].kinds[device]
        if kind.multiple:
            used = change.before or (0,) * len(change.demands)
            state.consumed[device] = tuple(one + more for one, more in zip(used, change.demands, strict=True))
        self._of_claim[slot.claim] += 1
        consumed = change.demands if kind.multiple else None
        self.picks.append(Pick(slot.claim, slot.request, slot.way, pool, device, consumed, way.admin))
        if self._devices(_Slot(slot.claim, slot.request, slot.way, slot.index + 1, tuple(tried or ()))):
            return True
        self.picks.pop()
        self._of_claim[slot.claim] -= 1
        if kind.multiple and change.before is None:
            del state.consumed[device]
        elif kind.multiple and change.before is not None:
            state.consumed[device] = change.before
        for name, amount in change.charged:
            state.left[name] += amount
        state.chosen = change.chosen
        if first:
            del seen[pool, device]
        self._release(slot, change.concerned)
        return False

    def _change(self, slot: _Slot, way: WayAsk, pool: int, device: int, *, whole: bool) -> _Change | None:
        """Return what choosing a device changes, constraints held to it already; None where it cannot be chosen."""
        state, kind = self._pools[pool], self.offer.pools[pool].kinds[device]
        before = state.consumed.get(device)
        charged = () if kind.multiple and (before is not None or state.chosen >> device & 1) else kind.consumes
        if charged and (state.overdrawn or any(state.left.get(name, 0) < amount for name, amount in charged)):
            return None
        if not is_tolerated(way, kind):
            return None
        concerned = self._constrain(slot, way, kind)
        if concerned is None:
            if whole:
                text = f"claim {self.claims[slot.claim].name}, request {way.called}: cannot add device "
                text += "{device} because a claim constraint would not be satisfied"
                raise SearchFault(DeviceFault(text, pool, device))
            return None
        demands = demands_of(kind.capacities, way.capacity, before)
        if demands is None:
            self._release(slot, concerned)
            return None
        return _Change(before, state.chosen, charged, demands, concerned)

    def _constrain(self, slot: _Slot, way: WayAsk, kind: DeviceKind) -> list[int] | None:
        """Hold the constraints of a claim to a device; None where one of them would be violated."""
        claim = self.claims[slot.claim]
        concerned: list[int] = []
        for at, one in enumerate(claim.constraints):
            if not one.concerns(claim.requests[slot.request].name, way.name):
                continue
            value, values = kind.attribute(one.attribute), self._values[slot.claim][at]
            if value is None or not _is_allowed(one, value, values):
                self._release(slot, concerned)
                return None
            values.append(value)
            concerned.append(at)
        return concerned

    def _release(self, slot: _Slot, concerned: Sequence[int]) -> None:
        for at in concerned:
            self._values[slot.claim][at].pop()


def _is_allowed(constraint: ConstraintAsk, value: AttributeValue, values: Sequence[AttributeValue]) -> bool:
    if constraint.distinct:
        return value not in values
    return not values or values[0] == value


def _state_of(pool: OfferedPool, use: LocalUse) -> _PoolState:
    taken, shares = use
    left = dict(pool.counters)
    if left:
        shared = {at for at, _ in shares}
        for at, kind in enumerate(pool.kinds):
            if kind.consumes and (taken >> at & 1 or at in shared):
                for name, amount in kind.consumes:
                    left[name] = left.get(name, 0) - amount
    return _PoolState(taken, 0, dict(shares), left, any(value < 0 for value in left.values()))


def is_tolerated(way: WayAsk, kind: DeviceKind) -> bool:
    """Whether the taints of a device keep no request away that tolerates what a way does."""
    return all(any(one.tolerates(taint) for one in way.tolerations) for taint in kind.taints)
