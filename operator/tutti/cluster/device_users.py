"""Follows pods and devices: which pods a claim, a class or a device concerns, and what they are promised."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from tutti.api.core import Pod, PodResourceClaim
from tutti.api.device_taints import DeviceTaintRule
from tutti.api.devices import DeviceClass, ResourceClaim, ResourceClaimStatus, ResourceClaimTemplate, ResourceSlice
from tutti.cluster.class_book import ClassBook
from tutti.cluster.classification import Classifier
from tutti.cluster.device_holders import DeviceHolders
from tutti.cluster.devices.allotments import Allotments
from tutti.cluster.devices.asks import NO_DEVICES, ClaimKey, DeviceUse
from tutti.cluster.devices.claims import device_uses_of
from tutti.cluster.devices.group_claims import GroupKey
from tutti.cluster.devices.ledger import HeldDevice, held_by
from tutti.cluster.devices.promises import DevicePromise
from tutti.cluster.devices.state import DeviceKind, DeviceObject, DeviceState
from tutti.cluster.devices.taint_rules import PoolKey
from tutti.cluster.placed_pods import Hold
from tutti.cluster.pods import AssumedAlike, PodKey, PodRecord


class PodsByDevice:
    """Follows pods and devices; `helped` is called whenever somebody who waits for a node may profit.

    Before that, `freed` is told the names of the nodes on which devices may be free that were not, or None: on any.

    Attributes:
        holders: Who has which devices.
        ended: What was promised for claims and is promised to nobody any more, since these were last taken, each with
            the uid of the last pod that it was promised to.
        left_over: Claims for extended resources that may be of no use, since these were last taken.
    """

    def __init__(
        self,
        devices: DeviceState,
        classing: Classifier,
        classes: ClassBook,
        pods: Mapping[PodKey, PodRecord],
        *,
        helped: Callable[[], None],
        freed: Callable[[Iterable[str] | None], None],
    ) -> None:
        self._devices = devices
        self._classing = classing
        self._classes = classes
        self._pods = pods
        self._helped = helped
        self._tell_freed = freed
        self._held: dict[Hold, Allotments] = {}
        self._named: dict[PodKey, tuple[DeviceUse, ...]] = {}  # by those that name less than they have a place for
        self.holders = DeviceHolders(devices, pods)
        self.ended: dict[ClaimKey, tuple[str, DevicePromise]] = {}
        self.left_over: dict[ClaimKey, None] = {}

    def put(self, seen: DeviceObject) -> Sequence[PodKey]:
        """Add or change an object; returns the pods that it concerns."""
        match seen:
            case ResourceClaim():
                return self._put_claim(seen)
            case DeviceClass():
                if not self._devices.book.put_class(seen):
                    return ()
                return self._classes_changed()
            case ResourceSlice():
                return self._slices_changed() if self._devices.catalog.put(seen) else ()
            case ResourceClaimTemplate():
                return ()  # a claim that was made of it is its own
            case DeviceTaintRule():
                return self._slices_changed() if self._devices.catalog.put_rule(seen) else ()

    def _put_claim(self, seen: ResourceClaim) -> Sequence[PodKey]:
        known, promise = self._devices.book.claims.get(seen.key), self._devices.promises.of(seen.key)
        in_vain = self._promised_in_vain(promise.pods) if promise is not None else set[PoolKey]()
        if not self._devices.put_claim(seen):
            return ()
        if seen.is_extended:
            self.left_over[seen.key] = None
        status = known.status if known is not None else ResourceClaimStatus()
        users, pools = self._devices.book.users(seen.key), set[PoolKey]()
        if seen.status != status and self._classes.wanting_devices:
            promised = [] if promise is None else promise.allotment.held
            pools = {one.pool for one in (*_held_by(status), *_held_by(seen.status), *promised)}
        pools |= in_vain
        return self._claim_changed(seen.key, users, pools, helps=seen.status != status)

    def put_group(self, group: GroupKey, uid: str, listed: Sequence[PodResourceClaim]) -> Sequence[PodKey]:
        """Note which claims are those of a PodGroup, none of one that is gone; returns the pods that it concerns."""
        groups = self._devices.book.groups
        if not groups.put(group, uid, listed):
            return ()
        self._note_freed(None)  # who has the claims of its members is another
        members = groups.members(group)
        self._classed_anew(members)
        return members

    def drop(self, kind: DeviceKind, namespace: str, name: str) -> Sequence[PodKey]:
        """Forget an object; returns the pods that it concerned."""
        match kind:
            case "ResourceClaim":
                key = namespace, name
                users, pools = self._devices.book.users(key), self._pools_of(key)
                known = self._devices.book.claims.get(key)
                helps = known is not None and known.status.allocation is not None
                return self._claim_changed(key, users, pools, helps=helps) if self._devices.drop_claim(key) else ()
            case "DeviceClass":
                return self._classes_changed() if self._devices.book.drop_class(name) else ()
            case "ResourceSlice":
                return self._slices_changed() if self._devices.catalog.drop(name) else ()
            case "ResourceClaimTemplate":
                return ()
            case "DeviceTaintRule":
                return self._slices_changed() if self._devices.catalog.drop_rule(name) else ()

    def pass_time(self, now: float) -> Sequence[PodKey]:
        """Take in the time, Unix seconds; returns the pods whose devices are not waited for any longer."""
        book = self._devices.book
        late = book.pass_time(now)
        return [pod for claim in late for pod in self._claim_changed(claim, book.users(claim), None, helps=True)]

    def take_ended(self) -> Mapping[ClaimKey, tuple[str, DevicePromise]]:
        """Return `ended`, for whoever takes note of all of them now."""
        ended, self.ended = self.ended, {}
        return ended

    def take_left_over(self) -> Sequence[ClaimKey]:
        """Return `left_over`, for whoever looks at all of them now."""
        left_over, self.left_over = self.left_over, {}
        return tuple(left_over)

    def uses(self, pod: Pod, record: PodRecord | None) -> tuple[DeviceUse, ...]:
        """Return the claims that a pod uses, and note them; a pod that has ended uses none.

        One that is reserved got its place for claims that its status named then: it uses them, whatever that names now.
        Once it is bound, its status alone says so: nobody else would know it after a restart.
        """
        before = record.device_uses if record is not None else ()
        self._note_left_over(pod.metadata.uid)
        if pod.terminated:
            self._note_leaving(record)
            self.holders.pod_left(pod.metadata.uid)
        if not pod.spec.resource_claims and not before:
            return ()
        key = (pod.metadata.namespace, pod.metadata.name)
        now = named = () if pod.terminated else device_uses_of(pod)
        if record is not None and record.assumed and not pod.spec.node_name:
            now = _kept(before, named)
        if now != named:
            self._named[key] = named
        else:
            self._named.pop(key, None)
        self._change_uses(key, before, now)
        return now

    def _change_uses(self, pod: PodKey, before: Sequence[DeviceUse], now: Sequence[DeviceUse]) -> None:
        """Note that a pod uses other claims than before."""
        if now != before:
            self._classed_anew([*self._devices.book.leave(pod, before), *self._devices.book.use(pod, now)])

    def leave(self, record: PodRecord) -> None:
        """Note that a pod, which is gone, uses its claims no more."""
        self._note_leaving(record)
        self.holders.pod_left(record.uid)
        self._named.pop(record.key, None)
        if record.device_uses:
            self._classed_anew(self._devices.book.leave(record.key, record.device_uses))

    def pledge(self, pods: AssumedAlike) -> None:
        """Promise pods the devices that were kept for their class on the nodes where they are assumed."""
        if pods.pod_class.devices is NO_DEVICES:
            return
        self._devices.promises.pledge(pods.records, pods.pod_class.signature, self._devices.book.claims)
        if any(one.shared for one in pods.pod_class.devices.claims):
            self._note_freed(None)  # who shares the claim needs no devices of his own any more

    def bound(self, record: PodRecord) -> None:
        """Note that a pod is on its node: its claims hold its devices as soon as they are seen to have them."""
        self._note_leaving(record)  # its claims may have others than it was promised; and others may take it out now
        self._devices.promises.bound(record.key)

    def release(self, record: PodRecord) -> None:
        """Promise a pod nothing any more, since its room was given back."""
        promises = self._devices.promises
        if promises.is_promised(record.key):
            shared = any(one.allotment.ask.shared for one in promises.of_pod(record.key))
            pools = None if shared else self._pools_for(record)  # who shares a claim may be elsewhere than it was
            was_bound = promises.is_bound(record.key)
            ended = promises.release(record.key)
            if not was_bound:
                self.ended.update((one.claim, (record.uid, one)) for one in ended)
                if self._devices.book.made_for(record.key, record.uid):
                    self._note_left_over(record.uid)
                    self._classed_anew([record.key])
            self._offers_changed(pools)
        named = self._named.pop(record.key, None)
        if named is not None:
            self._change_uses(record.key, record.device_uses, named)
            record.device_uses = named

    def returned(self, claim: ClaimKey) -> None:
        """Let others have devices that are known to be off a claim that was being given them."""
        pools = self._pools_of(claim)
        if self.holders.returned(claim):
            self._offers_changed(pools)

    def hold(self, hold: Hold, signature: bytes) -> None:
        """Keep the devices that were kept for a class on a node for the pod that room is held for."""
        earmark = self._devices.promises.take_over(signature, hold[0])
        if earmark is not None:
            self._held[hold] = earmark

    def adopt(self, hold: Hold, signature: bytes) -> None:
        """Keep the devices of held room for the next pod of a class that is assumed there."""
        earmark = self._held.pop(hold, None)
        if earmark is not None:
            self._devices.promises.put_back(signature, hold[0], earmark)

    def end_hold(self, hold: Hold) -> None:
        """Free the devices of held room."""
        earmark = self._held.pop(hold, None)
        if earmark is not None:
            self._devices.promises.give_back(earmark)
            self._offers_changed({held.pool for one in earmark for held in one.held})

    def lend(self, hold: Hold, *, back: bool) -> None:
        """Have the devices of held room be free for a while, or held again."""
        earmark = self._held.get(hold)
        if earmark is not None:
            self._devices.promises.lend(earmark, back=back)

    def lose_node(self, name: str) -> None:
        """Free the devices of the room that was held on a node that is gone."""
        for hold in [one for one in self._held if one[0] == name]:
            self.end_hold(hold)

    def _claim_changed(
        self, key: ClaimKey, users: Sequence[PodKey], pools: set[PoolKey] | None, *, helps: bool
    ) -> Sequence[PodKey]:
        """Take in another claim; `helps`: somebody else may profit, for it has or had devices of some pools.

        What else stands in a claim its owner writes, as often as he likes.
        """
        returning = {one.pool for one in self.holders.returning(key)}
        returned = self.holders.claim_changed(key)
        self._classed_anew(users)
        if helps or returned:
            self._offers_changed(None if pools is None else pools | returning)
        return users

    def _slices_changed(self) -> Sequence[PodKey]:
        """Have devices be looked for again; returns whose charge may be another: what devices have is counted."""
        if self._devices.quota.reads_devices:
            return self._classes_changed()
        self._offers_changed(None)
        return ()

    def _classes_changed(self) -> Sequence[PodKey]:
        """Class the pods again that ask for devices by classes, or for extended resources."""
        asking = [
            record.key
            for record in self._pods.values()
            if record.device_uses or any("/" in name for name in record.pod_class.requests)
        ]
        self._classed_anew(asking)
        self._offers_changed(None)
        return asking

    def _note_left_over(self, uid: str) -> None:
        for key in self._devices.book.extended.get(uid, ()):
            self.left_over[key] = None

    def _offers_changed(self, pools: Collection[PoolKey] | None) -> None:
        """Have those tried again who may have devices now, of some pools or (None) of any."""
        if self._classes.wanting_devices:
            self._note_freed(pools)
            self._helped()

    def _note_freed(self, pools: Collection[PoolKey] | None) -> None:
        """Note of which pools (None: any) devices may be had by now, whenever those who wait are looked at."""
        if self._classes.wanting_devices:
            self._tell_freed(self._nodes_of(pools))

    def _note_leaving(self, record: PodRecord | None) -> None:
        """Note where devices may be had once a pod needs them no more: it is told by others that it has left."""
        if record is not None and self._classes.wanting_devices and (pools := self._pools_for(record)):
            self._note_freed(pools)

    def _pools_for(self, record: PodRecord) -> set[PoolKey]:
        """Return the pools of which a pod has devices, alone or with others, or is promised some."""
        return {pool for claim in self.holders.claims_for(record) for pool in self._pools_of(claim)}

    def _promised_in_vain(self, pods: Iterable[PodKey]) -> set[PoolKey]:
        """Return the pools of which pods are promised devices where their claims have others by now."""
        promises = (one for pod in pods for one in self._devices.promises.of_pod(pod) if one.kept and one.seen)
        return {held.pool for one in promises for held in one.allotment.held}

    def _pools_of(self, key: ClaimKey) -> set[PoolKey]:
        """Return the pools of which a claim has devices, or is promised some, or some are on their way back."""
        claim, promise = self._devices.book.claims.get(key), self._devices.promises.of(key)
        has = [] if claim is None else _held_by(claim.status)
        promised = [] if promise is None else promise.allotment.held
        return {one.pool for one in (*has, *promised, *self.holders.returning(key))}

    def _nodes_of(self, pools: Collection[PoolKey] | None) -> Collection[str] | None:
        """Return the nodes that can use devices of some pools; None where that is more than can be named."""
        if pools is None:
            return None
        nodes = [one.spec.node_name for pool in pools for one in self._devices.catalog.slices_of(pool)]
        return dict.fromkeys(nodes) if all(nodes) else None

    def _classed_anew(self, pods: Iterable[PodKey]) -> None:
        if self._classing.again(pods):
            self._helped()


def _held_by(status: ResourceClaimStatus) -> list[HeldDevice]:
    """Return what a claim has."""
    return [] if status.allocation is None else held_by(status.allocation)


def _kept(before: Sequence[DeviceUse], named: Sequence[DeviceUse]) -> tuple[DeviceUse, ...]:
    """Return what is named now, with the claims of before where none is named any more."""
    if all(one.claim is not None for one in named):
        return tuple(named)
    had = {one.name: one for one in before if one.claim is not None}
    return tuple([one if one.claim is not None else had.get(one.name, one) for one in named])
