"""Which devices a claim is to get before the API server knows of it, as `cluster/pledges.py` says of volumes.

What a transaction chooses is earmarked until the pods of the class are assumed to be there, or it is rolled back. A
pod that is assumed there is promised what was earmarked for it; the promise ends when its reservation is given back.
What is promised is held (`DeviceLedger`) from the moment it is earmarked until the claim itself says that it has it.

A claim that several pods use is given its devices once, with the first of them; the others go where these can be used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from tutti.api.devices import ResourceClaim
from tutti.cluster.devices.allotments import Allotments, ClaimAllotment
from tutti.cluster.devices.asks import ClaimAsk, ClaimKey, DeviceUse
from tutti.cluster.devices.extended import EXTENDED, extended_claim_name
from tutti.cluster.devices.ledger import DeviceLedger, HeldDevice
from tutti.cluster.pods import PodKey, PodRecord


@dataclass(slots=True)
class _SharedChoice:
    """What a claim that several pods use is to get, and how many of them have a place on the strength of it."""

    allotment: ClaimAllotment
    users: int = 0


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
    pods: tuple[PodKey, ...] = ()
    seen: bool = False
    kept: bool = True


class DevicePromises:
    """All promises and earmarks."""

    def __init__(self, ledger: DeviceLedger) -> None:
        self._ledger = ledger
        self._earmarks: dict[bytes, dict[str, list[Allotments]]] = {}  # by class and node
        self._shared: dict[str, _SharedChoice] = {}
        self._of_claim: dict[ClaimKey, DevicePromise] = {}
        self._of_pod: dict[PodKey, tuple[DevicePromise, ...]] = {}
        self._bound: set[PodKey] = set()

    def __bool__(self) -> bool:
        """Whether anything is promised to any pod."""
        return bool(self._of_pod)

    def of(self, claim: ClaimKey) -> DevicePromise | None:
        """Return what a claim is to get, if that was decided here."""
        return self._of_claim.get(claim)

    def of_pod(self, pod: PodKey) -> Sequence[DevicePromise]:
        """Return what the claims of a pod are to get."""
        return self._of_pod.get(pod, ())

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
        found = self._shared[claim] = _SharedChoice(promise.allotment, len(promise.pods))
        return found

    def earmark(
        self, signature: bytes, nodes: Sequence[str], allotted: Sequence[Allotments], shares: Sequence[str]
    ) -> None:
        """Keep devices that have been taken for the next pods of a class that are assumed to be on these nodes.

        Args:
            signature: Of the class.
            nodes: The node of each of the pods.
            allotted: What the claims of each get there.
            shares: The claims that each shares with others and that have been given their devices before.
        """
        if not allotted:
            return
        if shares or any(one.ask.shared for one in allotted[0]):  # as of each of them
            allotted = [self._sharing(of_pod, shares) for of_pod in allotted]
        of_class = self._earmarks.setdefault(signature, {})
        for node, of_pod in zip(nodes, allotted, strict=True):
            of_node = of_class.get(node)
            if of_node is None:
                of_class[node] = [of_pod]
            else:
                of_node.append(of_pod)

    def _sharing(self, allotments: Allotments, shares: Sequence[str]) -> Allotments:
        """Return what is kept for a pod that shares claims with others, these last; count it among their users."""
        for one in allotments:
            if one.ask.shared:
                self._shared[one.ask.shared] = _SharedChoice(one)
        own = [one for one in allotments if not one.ask.shared]
        shared = [self._shared[claim] for claim in (*shares, *[one.ask.shared for one in allotments if one.ask.shared])]
        for choice in shared:
            choice.users += 1
        return (*own, *[choice.allotment for choice in shared])

    def withdraw(self, signature: bytes, nodes: Sequence[str]) -> None:
        """Undo the last earmark for a class on each of some nodes, that on the last one first."""
        for node in reversed(nodes):
            earmark = self.take_over(signature, node)
            assert earmark is not None  # only what was earmarked is undone
            self._free(earmark)

    def take_over(self, signature: bytes, node: str) -> Allotments | None:
        """Return what was earmarked last for a class on a node, for whoever keeps it now; None where nothing was."""
        of_class = self._earmarks.get(signature, {})
        earmark = _last_of(of_class, node)
        if not of_class:
            self._earmarks.pop(signature, None)
        return earmark

    def put_back(self, signature: bytes, node: str, earmark: Allotments) -> None:
        """Earmark again what was taken over."""
        self._earmarks.setdefault(signature, {}).setdefault(node, []).append(earmark)

    def give_back(self, earmark: Allotments) -> None:
        """Free what was taken over."""
        self._free(earmark)

    def lend(self, earmark: Allotments, *, back: bool) -> None:
        """Have what was taken over free for others for a while, or held again; not what several pods share."""
        for one in earmark:
            if not one.ask.shared:
                (self._ledger.take if back else self._ledger.free)(one.held)

    def pledge(self, pods: Iterable[PodRecord], signature: bytes, claims: Mapping[ClaimKey, ResourceClaim]) -> None:
        """Promise the claims of pods what was earmarked for their class on the nodes where they are assumed, if any.

        Args:
            pods: The pods.
            signature: Of their class.
            claims: Those that there are; one that is made for extended resources is another than there may be.
        """
        of_claim, of_pod, earmarks = self._of_claim, self._of_pod, self._earmarks.get(signature, {})
        for pod in pods:
            several = earmarks.get(pod.assumed)
            if several is None:
                continue
            earmark = several.pop()
            if not several:
                del earmarks[pod.assumed]
            key, uses, promises = pod.key, pod.device_uses, []
            for one in earmark:
                ask = one.ask
                if len(uses) == 1 and uses[0].name == ask.name and not ask.shared and uses[0].claim is not None:
                    claim = uses[0].claim
                else:
                    claim = _claim_for(ask, key, pod.uid, uses)
                promise = of_claim.get(claim)
                if promise is None:
                    there = claims.get(claim)
                    uid = "" if there is None or ask.name == EXTENDED else there.metadata.uid
                    promise = of_claim[claim] = DevicePromise(claim, one, uid, (key,))
                elif key not in promise.pods:
                    self._join(promise, key, one)
                promises.append(promise)
            of_pod[key] = tuple(promises)
        if not earmarks:
            self._earmarks.pop(signature, None)

    def _join(self, promise: DevicePromise, pod: PodKey, earmarked: ClaimAllotment) -> None:
        """Promise a claim to one more pod, which has what it was promised before."""
        promise.pods = (*promise.pods, pod)
        if earmarked is promise.allotment or earmarked.ask.shared:
            return
        self._ledger.free(earmarked.held)
        shared = promise.allotment.ask.shared
        if shared:  # chosen by one who did not know that others use it, and so not counted among them
            self._shared[shared].users += 1

    def release(self, pod: PodKey) -> list[DevicePromise]:
        """End what was promised for a pod; returns the promises that nobody has any more."""
        promises, ended = self._of_pod.pop(pod, ()), []
        self._bound.discard(pod)
        for promise in promises:
            promise.pods = tuple([one for one in promise.pods if one != pod])
            if not promise.pods:
                self._of_claim.pop(promise.claim, None)
                ended.append(promise)
        had = [one for one in promises if not one.pods or one.allotment.ask.shared]
        self._free([one.allotment for one in had], [one.allotment for one in had if not one.kept])
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
        if all(promise.seen for promise in self._of_pod[pod]):
            self.release(pod)

    def __iter__(self) -> Iterator[DevicePromise]:
        """Yield all promises of claims that exist."""
        return iter(self._of_claim.values())

    def _free(self, earmark: Iterable[ClaimAllotment], seen: Sequence[ClaimAllotment] = ()) -> None:
        """Free what is kept for a pod, and of what several pods share what it is the last to use.

        What is seen to be held by the claim itself is not kept here.
        """
        for one in earmark:
            if one.ask.shared:
                shared = self._shared[one.ask.shared]
                shared.users -= 1
                if shared.users:
                    continue
                del self._shared[one.ask.shared]
            if one not in seen:
                self._ledger.free(one.held)


def _last_of(earmarks: dict[str, list[Allotments]], node: str) -> Allotments | None:
    """Take what was earmarked last on a node out of what was on each; returns it, None where nothing was."""
    several = earmarks.get(node)
    if several is None:
        return None
    earmark = several.pop()
    if not several:
        del earmarks[node]
    return earmark


def _claim_for(ask: ClaimAsk, pod: PodKey, uid: str, uses: Sequence[DeviceUse]) -> ClaimKey:
    """Return the claim that asks: by what the pod calls it, of several pods, or that for its extended resources."""
    shared, called = ask.shared, ask.name
    if shared:
        namespace, _, name = shared.partition("/")
        return namespace, name
    for use in uses:
        if use.name == called and use.claim is not None:
            return use.claim
    return pod[0], extended_claim_name(pod[1], uid, ask)
