"""Which devices a claim is to get before the API server knows of it, as `cluster/pledges.py` says of volumes.

What a transaction chooses is earmarked until the pods of the class are assumed to be there, or it is rolled back. A
pod that is assumed there is promised what was earmarked for it; the promise ends when its reservation is given back.
What is promised is held (`DeviceLedger`) from the moment it is earmarked until the claim itself says that it has it.

A claim that several pods use is given its devices once, with the first of them; the others go where these can be used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from tutti.api.devices import ResourceClaim
from tutti.api.selectors import NAME_FIELD, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from tutti.cluster.devices.asks import ClaimAsk, ClaimKey, DeviceUse, WayAsk
from tutti.cluster.devices.extended import EXTENDED, extended_claim_name
from tutti.cluster.devices.ledger import DeviceLedger, HeldDevice
from tutti.cluster.devices.offers import Pick
from tutti.cluster.devices.pools import NodePool
from tutti.cluster.devices.published import PoolDevice

PodKey = tuple[str, str]


# Nothing here leads back to itself, so the garbage collector need not look at it (gc=False): it is made for each claim.


class AllottedDevice(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A device that is chosen for a claim.

    Attributes:
        way: The way of its request that it is for.
        held: What is taken with it.
        admin: Whether it is only looked at, however it is used, and nothing is taken.
    """

    way: WayAsk
    device: PoolDevice
    held: HeldDevice
    admin: bool

    @classmethod
    def of(cls, ask: ClaimAsk, pools: Sequence[NodePool], pick: Pick) -> AllottedDevice:
        """Return what was picked for a claim, of the pools of a node."""
        way, pool = ask.requests[pick.request].ways[pick.way], pools[pick.pool]
        device, consumed = pool.devices[pick.device], None
        if pick.consumed is not None:
            names = (capacity.name for capacity in device.capacities)
            consumed = tuple(zip(names, pick.consumed, strict=True))
        return cls(way, device, HeldDevice(pool.key, device.name, consumed), pick.admin)


class ClaimAllotment(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The devices that one claim is to get on a node.

    Attributes:
        ask: What it asks for.
        node: The name of the node.
    """

    ask: ClaimAsk
    node: str
    devices: tuple[AllottedDevice, ...]

    @classmethod
    def of(cls, ask: ClaimAsk, node: str, pools: Sequence[NodePool], picks: Sequence[Pick]) -> ClaimAllotment:
        """Return what was picked for a claim, of the pools of a node."""
        return cls(ask, node, tuple([AllottedDevice.of(ask, pools, pick) for pick in picks]))

    @property
    def is_extended(self) -> bool:
        """Whether the claim is made for extended resources, when it is known where its pod goes."""
        return self.ask.name == EXTENDED

    @property
    def held(self) -> list[HeldDevice]:
        """What is taken with it; what is only looked at is not."""
        return [one.held for one in self.devices if not one.admin]

    def is_had(self, held: Iterable[HeldDevice]) -> bool:
        """Whether what a claim says that it has are these devices."""
        return sorted((one.pool, one.name) for one in held) == sorted((one.pool, one.name) for one in self.held)

    @property
    def selector(self) -> NodeSelector | None:
        """From which nodes the devices can be used; None: from all.

        Rule: kube-scheduler 1.36, incubating allocator, createNodeSelector.
        """
        places = []
        for one in self.devices:
            place = one.device.place
            if isinstance(place, str) or one.device.binds:
                return _only(self.node)
            if place is not None:
                places.append(place)
        terms = [term for place in places for term in place.node_selector_terms]
        expressions = _each_once(said for term in terms for said in term.match_expressions)
        fields = _each_once(said for term in terms for said in term.match_fields)
        return NodeSelector([NodeSelectorTerm(expressions, fields)]) if expressions or fields else None


def _each_once(said: Iterable[NodeSelectorRequirement]) -> list[NodeSelectorRequirement]:
    """Return requirements without those that say what one before them says."""
    found: dict[tuple[str, str, frozenset[str]], NodeSelectorRequirement] = {}
    for one in said:
        found.setdefault((one.key, one.operator, frozenset(one.values)), one)
    return list(found.values())


@lru_cache(maxsize=4096)  # a node has many devices
def _only(node: str) -> NodeSelector:
    """Return what selects one node."""
    named = NodeSelectorRequirement(NAME_FIELD, "In", [node])
    return NodeSelector([NodeSelectorTerm(match_fields=[named])])


@dataclass(slots=True)
class _SharedChoice:
    """What a claim that several pods use is to get, and how many of them have a place on the strength of it."""

    allotment: ClaimAllotment
    users: int = 0


class Earmark(msgspec.Struct, frozen=True, eq=False, gc=False):
    """What is kept for one pod: its own claims' devices, and the claims that it shares."""

    own: tuple[ClaimAllotment, ...]
    shared: tuple[str, ...]


class DevicePromise(msgspec.Struct, eq=False, gc=False):
    """What one claim is to get.

    Attributes:
        claim: Its namespace and name.
        pods: Who has a place on the strength of it.
        uid: Of the claim: another of its name may ask for other devices.
        seen: Whether the claim itself says by now that it has devices.
        kept: Whether its devices are kept for it here: until the claim itself says that it has these.
    """

    claim: ClaimKey
    allotment: ClaimAllotment
    uid: str = ""
    pods: dict[PodKey, None] = {}
    seen: bool = False
    kept: bool = True


class DevicePromises:
    """All promises and earmarks."""

    def __init__(self, ledger: DeviceLedger) -> None:
        self._ledger = ledger
        self._earmarks: dict[tuple[bytes, str], list[Earmark]] = {}
        self._shared: dict[str, _SharedChoice] = {}
        self._of_claim: dict[ClaimKey, DevicePromise] = {}
        self._of_pod: dict[PodKey, tuple[tuple[DevicePromise, ...], Earmark]] = {}
        self._bound: set[PodKey] = set()

    def __bool__(self) -> bool:
        """Whether anything is promised to any pod."""
        return bool(self._of_pod)

    def of(self, claim: ClaimKey) -> DevicePromise | None:
        """Return what a claim is to get, if that was decided here."""
        return self._of_claim.get(claim)

    def of_pod(self, pod: PodKey) -> Sequence[DevicePromise]:
        """Return what the claims of a pod are to get."""
        found = self._of_pod.get(pod)
        return () if found is None else found[0]

    def is_promised(self, pod: PodKey) -> bool:
        """Whether a pod that has a place was given all that its claims ask for."""
        return pod in self._of_pod

    def is_bound(self, pod: PodKey) -> bool:
        """Whether a pod that was promised something has been seen on its node."""
        return pod in self._bound

    def shared(self, claim: str) -> ClaimAllotment | None:
        """Return what a claim (namespace/name) that several pods use is to get; None where it is open.

        One that was promised when a single pod used it is shared from now on.
        """
        found = self._shared.get(claim) or self._share(claim)
        return None if found is None else found.allotment

    def _share(self, claim: str) -> _SharedChoice | None:
        """Have what a single pod was promised for a claim kept for all who come to use it."""
        namespace, _, name = claim.partition("/")
        promise = self._of_claim.get((namespace, name))
        if promise is None:
            return None
        sole = promise.allotment
        promise.allotment = msgspec.structs.replace(sole, ask=msgspec.structs.replace(sole.ask, shared=claim))
        found = self._shared[claim] = _SharedChoice(promise.allotment)
        for pod in promise.pods:
            promises, earmark = self._of_pod[pod]
            own = tuple(one for one in earmark.own if one is not sole)
            self._of_pod[pod] = (promises, Earmark(own, (*earmark.shared, claim)))
            found.users += 1
        return found

    def earmark(
        self, signature: bytes, node: str, allotments: tuple[ClaimAllotment, ...], shares: Sequence[str]
    ) -> None:
        """Take devices, and keep them for the next pod of a class that is assumed to be on a node.

        Args:
            signature: Of the class.
            node: The node.
            allotments: What its claims get.
            shares: The claims that it shares with others and that have been given their devices before.
        """
        for one in allotments:
            self._ledger.take(one.held)
            if one.ask.shared:
                self._shared[one.ask.shared] = _SharedChoice(one)
        own, shared = allotments, (*shares, *[one.ask.shared for one in allotments if one.ask.shared])
        if shared:
            own = tuple([one for one in allotments if not one.ask.shared])
            for claim in shared:
                self._shared[claim].users += 1
        self.put_back(signature, node, Earmark(own, shared))

    def withdraw(self, signature: bytes, nodes: Sequence[str]) -> None:
        """Undo the last earmark for a class on each of some nodes, that on the last one first."""
        for node in reversed(nodes):
            earmark = self.take_over(signature, node)
            assert earmark is not None  # only what was earmarked is undone
            self._free(earmark)

    def take_over(self, signature: bytes, node: str) -> Earmark | None:
        """Return what was earmarked last for a class on a node, for whoever keeps it now; None where nothing was."""
        several = self._earmarks.get((signature, node))
        if several is None:
            return None
        earmark = several.pop()
        if not several:
            del self._earmarks[signature, node]
        return earmark

    def put_back(self, signature: bytes, node: str, earmark: Earmark) -> None:
        """Earmark again what was taken over."""
        self._earmarks.setdefault((signature, node), []).append(earmark)

    def give_back(self, earmark: Earmark) -> None:
        """Free what was taken over."""
        self._free(earmark)

    def lend(self, earmark: Earmark, *, back: bool) -> None:
        """Have what was taken over free for others for a while, or held again."""
        for one in earmark.own:
            (self._ledger.take if back else self._ledger.free)(one.held)

    def pledge(
        self,
        pod: PodKey,
        signature: bytes,
        node: str,
        uses: Sequence[DeviceUse],
        claims: Mapping[ClaimKey, ResourceClaim],
        *,
        uid: str,
    ) -> None:
        """Promise the claims of a pod what was earmarked for it on a node, if anything was.

        Args:
            pod: The pod.
            signature: Of its class.
            node: The node.
            uses: Its claims.
            claims: Those that there are; one that is made for extended resources is another than there may be.
            uid: Of the pod.
        """
        earmark = self.take_over(signature, node)
        if earmark is None:
            return
        promises = []
        given = earmark.own
        if earmark.shared:
            given += tuple([self._shared[claim].allotment for claim in earmark.shared])
        for one in given:
            claim = _claim_for(one.ask, pod, uid, uses)
            promise = self._of_claim.get(claim)
            if promise is None:
                there = None if one.is_extended else claims.get(claim)
                promise = DevicePromise(claim, one, "" if there is None else there.metadata.uid)
                self._of_claim[claim] = promise
            promise.pods[pod] = None
            promises.append(promise)
        self._of_pod[pod] = tuple(promises), earmark

    def release(self, pod: PodKey) -> list[DevicePromise]:
        """End what was promised for a pod; returns the promises that nobody has any more."""
        promises, earmark = self._of_pod.pop(pod, ((), Earmark((), ())))
        self._bound.discard(pod)
        ended = []
        for promise in promises:
            del promise.pods[pod]
            if not promise.pods:
                self._of_claim.pop(promise.claim, None)
                ended.append(promise)
        self._free(earmark, [one.allotment for one in promises if not one.kept])
        return ended

    def claim_seen(self, claim: ClaimKey, held: Sequence[HeldDevice] | None) -> None:
        """Note what a claim itself says that it has, None: nothing.

        What it was promised is held by it then, and not by the promise; but not where that is something else: what an
        earlier reservation had is being taken away, or somebody else has written on it.
        """
        promise = self._of_claim.get(claim)
        if promise is None:
            return
        kept = held is None or not promise.allotment.is_had(held)
        if kept is not promise.kept:
            promise.kept = kept
            (self._ledger.take if kept else self._ledger.free)(promise.allotment.held)
        if promise.seen is (held is not None):
            return
        promise.seen = held is not None
        for pod in [one for one in promise.pods if one in self._bound]:
            self.bound(pod)

    def bound(self, pod: PodKey) -> None:
        """Note that a pod is seen on its node; what it was promised ends when its claims are seen to have it.

        Both are told of in no order: a claim that is seen later than its pod must not be free meanwhile.
        """
        if pod not in self._of_pod:
            return
        self._bound.add(pod)
        if all(promise.seen for promise in self._of_pod[pod][0]):
            self.release(pod)

    def __iter__(self) -> Iterator[DevicePromise]:
        """Yield all promises of claims that exist."""
        return iter(self._of_claim.values())

    def _free(self, earmark: Earmark, seen: Sequence[ClaimAllotment] = ()) -> None:
        for one in earmark.own:
            if one not in seen:
                self._ledger.free(one.held)
        for claim in earmark.shared:
            kept = self._shared[claim]
            kept.users -= 1
            if not kept.users:
                del self._shared[claim]
                if kept.allotment not in seen:
                    self._ledger.free(kept.allotment.held)


def _claim_for(ask: ClaimAsk, pod: PodKey, uid: str, uses: Sequence[DeviceUse]) -> ClaimKey:
    """Return the claim that asks: by what the pod calls it, of several pods, or that for its extended resources."""
    if ask.shared:
        namespace, _, name = ask.shared.partition("/")
        return namespace, name
    for use in uses:
        if use.name == ask.name and use.claim is not None:
            return use.claim
    return pod[0], extended_claim_name(pod[1], uid, ask)
