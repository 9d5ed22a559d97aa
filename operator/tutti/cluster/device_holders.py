"""Which pods have which devices, and that these are free where it is asked what would be if some pods had gone.

A claim has its devices until the last pod that uses it has gone and the claim controller has taken them away
(kube-controller-manager 1.36, pkg/controller/resourceclaim). Between the two the claim is departing: nobody can use
its devices yet, and nobody else has to leave for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tutti.cluster.devices.asks import ClaimKey
from tutti.cluster.devices.ledger import HeldDevice, held_by
from tutti.cluster.devices.promises import DevicePromise
from tutti.cluster.devices.state import DeviceState
from tutti.cluster.pods import PodKey, PodRecord

_PODS = "pods"


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
        self._departing: list[list[tuple[ClaimKey, tuple[str, ...], bool]]] = []  # one list for each that is not back
        self._given_up: set[ClaimKey] = set()

    def claim_changed(self, key: ClaimKey) -> None:
        """Take note of who uses a claim that was seen or is gone."""
        for uid in self._users_of.pop(key, ()):
            claims = self._claims_of[uid]
            del claims[key]
            if not claims:
                del self._claims_of[uid]
        claim = self._devices.book.claims.get(key)
        if claim is None or claim.status.allocation is None:
            self._left.pop(key, None)
            self._given_up.discard(key)
            return
        uids = tuple(dict.fromkeys(one.uid for one in claim.status.reserved_for))
        self._users_of[key] = uids
        for uid in uids:
            self._claims_of.setdefault(uid, {})[key] = None

    def pod_left(self, uid: str) -> None:
        """Take note that a pod has ended or is gone."""
        self._left.update(self._claims_of.get(uid, {}))

    def give_up(self, key: ClaimKey) -> None:
        """Take note that the devices of a PodGroup's claim, of which no pod is left, are being taken away."""
        self._given_up.add(key)
        self._left[key] = None

    def claims_of(self, uid: str) -> Sequence[ClaimKey]:
        """Return the claims that have devices and say that a pod, or a PodGroup, uses them."""
        return tuple(self._claims_of.get(uid, ()))

    def keeps(self, uid: str) -> bool:
        """Whether a claim says that it has devices which a pod uses, be the pod there or gone."""
        return uid in self._claims_of

    def __bool__(self) -> bool:
        """Whether any pod has devices, or is promised some."""
        return bool(self._claims_of) or bool(self._devices.promises)

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
            found += [] if promise.seen else promise.allotment.held
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
            for key, uids, was_held in self._departing.pop():
                for uid in uids:
                    self._count(uid, -1)
                if was_held:
                    self._hold(key)
            return
        lifted = []
        for key in [one for one in self._left if self._is_departing(one)]:
            uids = self._users_of[key]
            for uid in uids:
                self._count(uid, 1)
            lifted.append((key, uids, key not in self._freed))
            self._settle_claim(key)
        self._departing.append(lifted)

    def _is_departing(self, key: ClaimKey) -> bool:
        if self._devices.promises.of(key) is not None:
            return False
        users = self._devices.book.claims[key].status.reserved_for
        return all(
            not self._is_there((key[0], one.name), one.uid) if one.resource == _PODS else key in self._given_up
            for one in users
        )

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
        if promise.seen:
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
