"""Which pods have which devices, and that these are free where it is asked what would be if some pods had gone.

A claim has its devices until the last pod that uses it has gone and the claim controller has taken them away
(kube-controller-manager 1.36, pkg/controller/resourceclaim). Between the two the claim is departing: nobody can use
its devices yet, and nobody else has to leave for them. The same holds of devices that a claim was being given when its
reservation was given back, until they are known to be off the claim: they are returning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tutti.api.devices import ResourceClaim
from tutti.cluster.devices.allotments import ClaimAllotment
from tutti.cluster.devices.asks import ClaimKey
from tutti.cluster.devices.ledger import HeldDevice, held_by
from tutti.cluster.devices.promises import DevicePromise
from tutti.cluster.devices.state import DeviceState
from tutti.cluster.pods import PodKey, PodRecord

_PODS = "pods"


class _Departing(NamedTuple):
    """What was lifted of claims that nobody is left to use: these, their users, whether they were held; and others."""

    claims: list[tuple[ClaimKey, tuple[str, ...], bool]]
    returning: list[int]


@dataclass(slots=True, eq=False)
class _Returning:
    """Devices that may have been written on a claim, and are being taken off it.

    Attributes:
        claim: The uid of the claim.
        user: The uid of the pod that they were meant for last.
        kept: Whether they are kept here: the claim itself may say meanwhile that it has them.
    """

    claim: str
    user: str
    allotment: ClaimAllotment
    kept: bool = True


class DeviceHolders:
    """Follows claims that have devices, and the pods that use them.

    Attributes:
        held_fast: Claims that keep their devices, whoever is lifted; changed only while nobody is.
    """

    def __init__(self, devices: DeviceState, pods: Mapping[PodKey, PodRecord]) -> None:
        self._devices = devices
        self._pods = pods
        self._claims_of: dict[str, dict[ClaimKey, None]] = {}
        self._users_of: dict[ClaimKey, tuple[str, ...]] = {}
        self._left: dict[ClaimKey, None] = {}
        self.held_fast: set[ClaimKey] = set()
        self._lifted: dict[str, int] = {}
        self._freed: dict[ClaimKey | int, list[HeldDevice]] = {}
        self._departing: list[_Departing] = []  # one for each that is not back
        self._given_up: set[ClaimKey] = set()
        self._returning: dict[ClaimKey, _Returning] = {}

    def claim_changed(self, key: ClaimKey) -> bool:
        """Take note of who uses a claim that was seen or is gone; returns whether devices are off it that returned."""
        for uid in self._users_of.pop(key, ()):
            claims = self._claims_of[uid]
            del claims[key]
            if not claims:
                del self._claims_of[uid]
        claim = self._devices.book.claims.get(key)
        returned = self._follow_returning(key, claim)
        self._given_up.discard(key)
        if claim is None or claim.status.allocation is None:
            self._left.pop(key, None)
            return returned
        uids = tuple(dict.fromkeys(one.uid for one in claim.status.reserved_for))
        self._users_of[key] = uids
        for uid in uids:
            self._claims_of.setdefault(uid, {})[key] = None
        return returned

    def pod_left(self, uid: str) -> None:
        """Take note that a pod has ended or is gone."""
        self._left.update(self._claims_of.get(uid, {}))

    def give_up(self, key: ClaimKey) -> None:
        """Take note that the devices of a claim, of whose users none has a node, are being taken away as it is seen."""
        if key in self._users_of:
            self._given_up.add(key)
            self._left[key] = None

    def stays(self, key: ClaimKey) -> None:
        """Take note that the devices of a claim could not be taken away."""
        self._given_up.discard(key)

    def keep_returning(self, promise: DevicePromise, claim: str, user: str) -> None:
        """Keep devices, promised to nobody any more, that may have been written on a claim, until `returned`.

        Args:
            promise: What the claim was to get.
            claim: The uid of the claim.
            user: The uid of the pod that they were meant for last.
        """
        self.returned(promise.claim)
        one = self._returning[promise.claim] = _Returning(claim, user, promise.allotment)
        self._devices.ledger.take(one.allotment.held)
        self._follow_returning(promise.claim, self._devices.book.claims.get(promise.claim))

    def is_returning(self, key: ClaimKey, claim: str) -> bool:
        """Whether devices may have been written on a claim, of this uid, and are being taken off it."""
        one = self._returning.get(key)
        return one is not None and one.claim == claim

    def returning(self, key: ClaimKey) -> Sequence[HeldDevice]:
        """Return the devices that are being taken off a claim."""
        one = self._returning.get(key)
        return () if one is None else one.allotment.held

    def returned(self, key: ClaimKey) -> bool:
        """Let devices go that were being taken off a claim; returns whether there are any."""
        one = self._returning.pop(key, None)
        if one is not None and one.kept:
            self._devices.ledger.free(one.allotment.held)
        return one is not None

    def _follow_returning(self, key: ClaimKey, claim: ResourceClaim | None) -> bool:
        """Take in what a claim itself says of devices that are being taken off it; returns whether they are by now."""
        one = self._returning.get(key)
        if one is None:
            return False
        allocation = None if claim is None else claim.status.allocation
        has = allocation is not None and one.allotment.is_had(held_by(allocation))
        if claim is None or claim.metadata.uid != one.claim or not (has or one.kept):
            return self.returned(key)
        if has and one.kept:
            one.kept = False
            self._devices.ledger.free(one.allotment.held)
        return False

    def claims_of(self, uid: str) -> Sequence[ClaimKey]:
        """Return the claims that have devices and say that a pod, or a PodGroup, uses them."""
        return tuple(self._claims_of.get(uid, ()))

    def keeps(self, uid: str) -> bool:
        """Whether a claim says that it has devices which a pod uses, or may say so, be the pod there or gone."""
        return uid in self._claims_of or any(one.user == uid for one in self._returning.values())

    def __bool__(self) -> bool:
        """Whether any pod has devices, or is promised some."""
        return bool(self._claims_of) or bool(self._devices.promises) or bool(self._returning)

    def concerns(self, pod: PodRecord) -> bool:
        """Whether a pod has devices, or is promised some."""
        return bool(self._claims_for(pod)) or self._devices.promises.is_promised(pod.key)

    def held_by(self, pod: PodRecord) -> list[HeldDevice]:
        """Return what a pod has, alone or with others, and what it is promised."""
        found = []
        for key in self._claims_for(pod):
            allocation = self._devices.book.claims[key].status.allocation
            found += [] if allocation is None else held_by(allocation)
        for promise in self._devices.promises.of_pod(pod.key):
            found += promise.allotment.held if promise.kept else []
        return found

    def claims_for(self, pod: PodRecord) -> Sequence[ClaimKey]:
        """Return the claims by which a pod has devices, or is promised some."""
        promised = (one.claim for one in self._devices.promises.of_pod(pod.key))
        return tuple(dict.fromkeys((*self._claims_for(pod), *promised)))

    def lift(self, pods: Iterable[PodRecord], *, back: bool) -> None:
        """Have the devices be free that nobody but these pods has, and others that are lifted; or be held again."""
        claims, promises = dict[ClaimKey, None](), dict[int, DevicePromise]()
        for pod in pods:
            self._count(pod.uid, -1 if back else 1)
            claims.update(dict.fromkeys(self._claims_for(pod)))
            promises.update((id(one), one) for one in self._devices.promises.of_pod(pod.key))
        for claim in claims:  # each once: a PodGroup's has as many users as it has members
            self._settle_claim(claim)
        for promise in promises.values():
            self._settle_promise(promise)

    def lift_departing(self, *, back: bool) -> None:
        """Have the devices of claims that nobody is left to use be free, or be held again.

        The last that is lifted is back first. It is remembered what each freed: a claim whose users are struck out has
        nobody by whom it could be told that it is held again, and others may be promised a claim meanwhile.
        """
        if back:
            departing = self._departing.pop()
            for one in departing.returning:
                self._hold(one)
            for key, uids, was_held in departing.claims:
                for uid in uids:
                    self._count(uid, -1)
                if was_held:
                    self._hold(key)
            return
        returning = [one for one in self._returning.values() if one.kept and id(one) not in self._freed]
        for other in returning:
            self._free(id(other), other.allotment.held)
        lifted = []
        for key in [one for one in self._left if self._is_departing(one)]:
            uids = self._users_of[key]
            for uid in uids:
                self._count(uid, 1)
            lifted.append((key, uids, key not in self._freed))
            self._settle_claim(key)
        self._departing.append(_Departing(lifted, [id(one) for one in returning]))

    def is_anything_departing(self) -> bool:
        """Whether devices are on their way back from claims that nobody is left to use."""
        return bool(self._returning) or any(self._is_departing(key) for key in self._left)

    def departing(self) -> frozenset[ClaimKey]:
        """Return the claims from which devices are on their way back."""
        return frozenset(self._returning).union(key for key in self._left if self._is_departing(key))

    def _is_departing(self, key: ClaimKey) -> bool:
        if self._devices.promises.of(key) is not None:
            return False
        if key in self._given_up:
            return True
        users = self._devices.book.claims[key].status.reserved_for
        return all(one.resource == _PODS and not self._is_there((key[0], one.name), one.uid) for one in users)

    def _is_there(self, pod: PodKey, uid: str) -> bool:
        record = self._pods.get(pod)
        return record is not None and record.uid == uid and not record.terminated

    def _settle_claim(self, key: ClaimKey) -> None:
        """Free the devices of a claim if all who use it are lifted, or else hold them."""
        claim, promise = self._devices.book.claims[key], self._devices.promises.of(key)
        users = [*self._placed_users(key), *(() if promise is None else map(self._uid_of, promise.pods))]
        assert claim.status.allocation is not None  # that is what it is followed for
        if key not in self.held_fast and all(uid in self._lifted for uid in users):
            self._free(key, held_by(claim.status.allocation))
        else:
            self._hold(key)

    def _claims_for(self, pod: PodRecord) -> Sequence[ClaimKey]:
        """Return the claims with devices that a pod uses, by itself or as one of its PodGroup."""
        own = self._claims_of.get(pod.uid, {})
        if not any(use.group for use in pod.device_uses):
            return tuple(own)
        groups = (self._devices.book.groups.group_of(pod.namespace, use) for use in pod.device_uses)
        for group, use in zip(groups, pod.device_uses, strict=True):
            if group is not None and use.claim in self._claims_of.get(group.uid, {}):
                own = {**own, use.claim: None}
        return tuple(own)

    def _placed_users(self, key: ClaimKey) -> Sequence[str]:
        """Return the uids of those who use a claim; of a PodGroup, of its pods that have a node."""
        out: list[str] = []
        for uid in self._users_of[key]:
            if self._devices.book.groups.is_group(uid):
                records = map(self._pods.get, self._devices.book.users(key))
                out += [one.uid for one in records if one is not None and one.place]
            else:
                out.append(uid)
        return out

    def _settle_promise(self, promise: DevicePromise) -> None:
        """Do the same for what is promised, unless the claim itself has it by now."""
        if not promise.kept:
            return
        if promise.claim not in self.held_fast and all(self._uid_of(pod) in self._lifted for pod in promise.pods):
            self._free(id(promise), promise.allotment.held)
        else:
            self._hold(id(promise))

    def _uid_of(self, pod: PodKey) -> str:
        record = self._pods.get(pod)
        return "" if record is None else record.uid

    def _free(self, what: ClaimKey | int, devices: list[HeldDevice]) -> None:
        if what not in self._freed:
            self._freed[what] = devices
            self._devices.ledger.free(devices)

    def _hold(self, what: ClaimKey | int) -> None:
        devices = self._freed.pop(what, None)
        if devices is not None:
            self._devices.ledger.take(devices)

    def _count(self, uid: str, more: int) -> None:
        count = self._lifted.get(uid, 0) + more
        if count:
            self._lifted[uid] = count
        else:
            del self._lifted[uid]
