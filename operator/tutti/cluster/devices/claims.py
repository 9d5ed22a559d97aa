"""Claims on devices and their classes, and what they make of the pods that use them.

What keeps a pod from any node, and its words: kube-scheduler 1.36, plugins/dynamicresources/dynamicresources.go
(PreEnqueue, PreFilter) and dynamic-resource-allocation/resourceclaim/claim.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from tutti.api.core import OwnerReference, Pod, PodSpec
from tutti.api.devices import (
    IMPLICIT_RESOURCE,
    MOST_CONSUMERS,
    AllocatedDevice,
    DeviceClass,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
)
from tutti.cluster.devices.asks import (
    NO_DEVICES,
    SUB_RANK,
    ClaimAsk,
    ClaimKey,
    DeviceNeeds,
    DeviceUse,
    HeldClaim,
    claim_ask,
)
from tutti.cluster.devices.group_claims import GroupClaims

BINDING_SECONDS: Final = 600
"""How long a device may take until it is ready (DynamicResourcesArgs.bindingTimeout)."""

MOST_CLAIMS: Final = 32
"""Claims of one pod that are weighed."""
_MOST_AWAITED: Final = 10_000
"""Templates that do not exist and that pods yet to be made name: of so many it is looked when they come."""
MOST_PER_POD: Final = 128
"""Devices of one pod that are weighed."""
MOST_TEXT: Final = 16 * 1024
"""Characters of different expressions in the claims of one pod: the longest take up to half a second to compile."""

PodKey = tuple[str, str]


class ClaimProblem(NamedTuple):
    """Why a pod can have no node yet: the words, and what `DeviceNeeds` says beside these."""

    text: str
    waits: bool = False
    coming: bool = False


def device_uses_of(pod: Pod) -> tuple[DeviceUse, ...]:
    """Return the claims that a pod uses, in order."""
    if not pod.spec.resource_claims:
        return ()
    made = {one.name: one for one in pod.status.resource_claim_statuses}
    group = pod.spec.scheduling_group.pod_group_name if pod.spec.scheduling_group is not None else ""
    out = []
    for entry in pod.spec.resource_claims:
        if entry.resource_claim_name:
            named = entry.resource_claim_name
            out.append(DeviceUse(entry.name, (pod.metadata.namespace, named), group=group, source=named))
            continue
        status = made.get(entry.name)
        name = status.resource_claim_name if status is not None else None
        claim = (pod.metadata.namespace, name) if name else None
        needed, source = status is None or bool(name), entry.resource_claim_template_name or ""
        out.append(DeviceUse(entry.name, claim, True, needed=needed, group=group, source=source))
    return tuple(out)


class ClaimBook:
    """All claims and device classes, and which pods use which claims.

    Attributes:
        classes: By name.
        telling: Those of them that tell drivers something.
        claims: By namespace and name.
        now: Unix seconds, by which devices that are not ready in time are told.
        late: When the devices of a claim are not waited for any longer, Unix seconds, where they are still.
        extended: The claims that were made for extended resources, by the uid of their pod, and how it is called.
        groups: Which claims are those of PodGroups.
    """

    def __init__(self) -> None:
        self.classes: dict[str, DeviceClass] = {}
        self.telling: dict[str, DeviceClass] = {}
        self.claims: dict[ClaimKey, ResourceClaim] = {}
        self.now = 0.0
        self.late: dict[ClaimKey, float] = {}
        self.extended: dict[str, dict[ClaimKey, PodKey]] = {}
        self.groups = GroupClaims()
        self._awaited: dict[ClaimKey, None] = {}
        self._templates: dict[ClaimKey, ResourceClaim] = {}
        self._users: dict[ClaimKey, dict[PodKey, None]] = {}
        self._classes_of: dict[str, DeviceClass] = {}

    @property
    def asked_by_name(self) -> bool:
        """Whether pods without claims may ask for devices, or have been given some: as extended resources."""
        return bool(self.classes or self.extended)

    def made_for(self, pod: PodKey, uid: str) -> bool:
        """Whether a claim was made for what a pod asks for as extended resources.

        One in another namespace was not, though whoever may make claims there can write so.
        """
        return pod in self.extended.get(uid, {}).values()

    def extended_class(self, resource: str) -> DeviceClass | None:
        """Return the class that an extended resource stands for: the newest, and the first of equally old ones."""
        if resource.startswith(IMPLICIT_RESOURCE):
            named = self.classes.get(resource.removeprefix(IMPLICIT_RESOURCE))
            if named is not None:
                return named
        return self._classes_of.get(resource)

    def put_class(self, found: DeviceClass) -> bool:
        """Add or change a class; returns whether that makes a difference."""
        known = self.classes.get(found.metadata.name)
        if known is not None and known.spec == found.spec:
            return False
        self.classes[found.metadata.name] = found
        self._sort_classes()
        return True

    def drop_class(self, name: str) -> bool:
        """Forget a class; returns whether it was known."""
        known = self.classes.pop(name, None) is not None
        self._sort_classes()
        return known

    def put_template(self, found: ResourceClaimTemplate) -> bool:
        """Add a template of claims; returns whether it was looked for before it was there."""
        key = (found.metadata.namespace, found.metadata.name)
        self._templates[key] = ResourceClaim(found.metadata, found.spec.spec)
        return self._awaited.pop(key, key) is None

    def drop_template(self, key: ClaimKey) -> bool:
        """Forget a template of claims; returns whether it was known."""
        return self._templates.pop(key, None) is not None

    def template_asks(self, namespace: str, spec: PodSpec) -> tuple[ClaimAsk, ...] | None:
        """Return what the claims of a pod yet to be made will ask for; None where that cannot be told.

        It cannot of a claim that has a name already, since others may use it, nor of one that may be a PodGroup's.
        """
        asks = []
        for entry in spec.resource_claims[: MOST_CLAIMS + 1]:
            key = (namespace, entry.resource_claim_template_name or "")
            found = self._templates.get(key)
            if found is None and entry.resource_claim_template_name:
                if len(self._awaited) >= _MOST_AWAITED:
                    del self._awaited[next(iter(self._awaited))]
                self._awaited[key] = None
            if found is None or spec.scheduling_group is not None or any(self._unknown_classes(found)):
                return None
            asks.append(claim_ask(entry.name, found.spec, self.classes, ""))
        return tuple(asks) if len(asks) <= MOST_CLAIMS and not _too_much(asks) else None

    def put(self, found: ResourceClaim) -> None:
        """Add or change a claim."""
        self.drop(found.key)
        self.claims[found.key] = found
        owner = extended_owner(found)
        if owner is not None:
            self.extended.setdefault(owner.uid, {})[found.key] = (found.key[0], owner.name)
        allocation = found.status.allocation
        if allocation is not None and allocation.allocation_timestamp is not None and not self.is_ready(found):
            due = allocation.allocation_timestamp.timestamp() + BINDING_SECONDS
            if due >= self.now:
                self.late[found.key] = due

    def drop(self, key: ClaimKey) -> ResourceClaim | None:
        """Forget a claim; returns what was known of it."""
        self.late.pop(key, None)
        known = self.claims.pop(key, None)
        owner = extended_owner(known) if known is not None else None
        if owner is not None:
            of_pod = self.extended[owner.uid]
            del of_pod[key]
            if not of_pod:
                del self.extended[owner.uid]
        return known

    def pass_time(self, now: float) -> list[ClaimKey]:
        """Take in the time, Unix seconds; returns the claims whose devices are not waited for any longer by now."""
        self.now = now
        over = [key for key, due in self.late.items() if due < now]
        for key in over:
            del self.late[key]
        return over

    def use(self, pod: PodKey, uses: Sequence[DeviceUse]) -> list[PodKey]:
        """Note the claims that a pod uses; returns the others that now share one."""
        sharing: list[PodKey] = []
        self.groups.join(pod, uses)
        for claim in filter(None, (one.claim for one in uses)):
            users = self._users.setdefault(claim, {})
            if pod not in users and len(users) == 1:
                sharing += users
            users[pod] = None
        return sharing

    def leave(self, pod: PodKey, uses: Sequence[DeviceUse]) -> list[PodKey]:
        """Note that a pod uses its claims no more; returns the others that now have one for themselves."""
        alone: list[PodKey] = []
        self.groups.leave(pod, uses)
        for claim in filter(None, (one.claim for one in uses)):
            users = self._users.get(claim, {})
            if pod in users:
                del users[pod]
                if len(users) == 1:
                    alone += users
                if not users:
                    del self._users[claim]
        return alone

    def users(self, claim: ClaimKey) -> Sequence[PodKey]:
        """Return the pods that use a claim, and whom it was made for as extended resources."""
        found, users = self.claims.get(claim), tuple(self._users.get(claim, ()))
        owner = extended_owner(found) if found is not None else None
        return users if owner is None else (*users, (claim[0], owner.name))

    def used(self) -> Sequence[ClaimKey]:
        """Return the claims that pods name as theirs, whether there are such claims or not."""
        return tuple(self._users)

    def problem(self, pod: PodKey, uid: str, uses: Sequence[DeviceUse]) -> ClaimProblem | None:
        """Return why a pod can have no node yet; None where nothing stands in its way."""
        return next(self._problems(pod, uid, uses), None)

    def _problems(self, pod: PodKey, uid: str, uses: Sequence[DeviceUse]) -> Iterator[ClaimProblem]:
        if len(uses) > MOST_CLAIMS:
            text = f"it uses {len(uses)} resource claims, and {MOST_CLAIMS} is the most that is weighed"
            yield ClaimProblem(text)
        for use in uses:
            if not use.needed:
                continue
            if use.claim is None:
                text = f'pod "{"/".join(pod)}": ResourceClaim not created yet'
                yield ClaimProblem(text, waits=True, coming=self._comes(pod, use))
                return
            claim = self.claims.get(use.claim)
            name = "/".join(use.claim)
            if claim is None:
                text = f'could not find ResourceClaim "{name}"'
                yield ClaimProblem(text, waits=True, coming=self._comes(pod, use))
                return
            if claim.metadata.deletion_timestamp is not None:
                yield ClaimProblem(f'resourceclaim "{use.claim[1]}" is being deleted', waits=True)
            group = self.groups.group_of(pod[0], use)
            makers = {uid} if group is None else {uid, group.uid}
            owned = any(one.controller and one.uid in makers for one in claim.metadata.owner_references)
            if use.template and not owned:
                who = "Pod is not owner" if group is None else f"neither Pod nor PodGroup {group.name} is the owner"
                yield ClaimProblem(f"ResourceClaim {name} was not created for Pod {'/'.join(pod)} ({who})")
        for claim in self.claims_of(uses):
            if claim.status.allocation is None:
                yield from self._unknown_classes(claim)

    def _comes(self, pod: PodKey, use: DeviceUse) -> bool:
        """Whether a claim is to be made for a pod alone, from a template that is there."""
        return use.template and (pod[0], use.source) in self._templates

    def claims_of(self, uses: Sequence[DeviceUse]) -> list[ResourceClaim]:
        """Return the claims of a pod that are known, each once, in order."""
        keys = dict.fromkeys(one.claim for one in uses if one.claim is not None)
        return [self.claims[key] for key in keys if key in self.claims]

    def needs(self, pod: PodKey, uid: str, uses: Sequence[DeviceUse]) -> DeviceNeeds:
        """Return what the claims of a pod, whose uses are noted, ask of its node."""
        return self._needs(pod, uid, uses, elsewhere=False)

    def needs_elsewhere(self, pod: PodKey, uid: str, uses: Sequence[DeviceUse]) -> DeviceNeeds:
        """Return what an equal pod asks in the place of one that has left: claims that only this one uses are anew."""
        return self._needs(pod, uid, uses, elsewhere=True)

    def _needs(self, pod: PodKey, uid: str, uses: Sequence[DeviceUse], *, elsewhere: bool) -> DeviceNeeds:
        if not any(use.needed for use in uses):
            return NO_DEVICES
        problem = self.problem(pod, uid, uses)
        if problem is not None:
            return DeviceNeeds(problem.text, problem.waits, problem.coming)
        asks, held = [], []
        names = {use.claim: use.name for use in reversed(uses)}
        of_group = {use.claim for use in uses if use.group and self.groups.group_of(pod[0], use) is not None}
        for claim in self.claims_of(uses):
            own = elsewhere and all(one.uid == uid for one in claim.status.reserved_for)
            if claim.status.allocation is not None and not own:
                held.append(self._held(claim))
            else:
                asks.append(self._ask(names[claim.key], claim, of_group=claim.key in of_group))
        wrong = _too_much(asks)
        if wrong:
            return DeviceNeeds(wrong)
        full = any(self._is_full(pod, uid, use) for use in uses)
        return DeviceNeeds(claims=tuple(asks), held=tuple(held), full=full)

    def _is_full(self, pod: PodKey, uid: str, use: DeviceUse) -> bool:
        """Whether a claim takes no more users and a pod, or its group, is none of them."""
        claim = None if use.claim is None else self.claims.get(use.claim)
        if claim is None or len(claim.status.reserved_for) < MOST_CONSUMERS:
            return False
        group = self.groups.group_of(pod[0], use)
        user = uid if group is None else group.uid
        return all(one.uid != user for one in claim.status.reserved_for)

    def is_unready(self, claim: ResourceClaim) -> str:
        """Return why the devices that a claim has are not to be waited for any longer, or "".

        Rule: KEP-5007. A device that has failed goes before one that is only late.
        """
        allocation = claim.status.allocation
        if allocation is None:
            return ""
        waiting = False
        for one in allocation.devices.results:
            if not one.binding_conditions:
                continue
            said = _conditions(claim, one)
            if said is not None and any(said.get(name) == "True" for name in one.binding_failure_conditions):
                return f"device {one.driver}/{one.pool}/{one.device} failed to get ready"
            waiting |= said is None or any(said.get(name) != "True" for name in one.binding_conditions)
        since = allocation.allocation_timestamp
        if waiting and since is not None and self.now > since.timestamp() + BINDING_SECONDS:
            return f"its devices were not ready within {BINDING_SECONDS} s"
        return ""

    def is_ready(self, claim: ResourceClaim) -> bool:
        """Whether the drivers of all devices that a claim has say that these are ready."""
        allocation = claim.status.allocation
        if allocation is None:
            return False
        return all(
            said is not None and all(said.get(name) == "True" for name in one.binding_conditions)
            for one in allocation.devices.results
            if one.binding_conditions
            for said in (_conditions(claim, one),)
        )

    def _unknown_classes(self, claim: ResourceClaim) -> Iterator[ClaimProblem]:
        if claim.problem:
            yield ClaimProblem(f"ResourceClaim {'/'.join(claim.key)}: {claim.problem}")
        for request in claim.spec.devices.requests:
            for label, way in request.ways:
                if way.device_class_name not in self.classes:
                    text = f"request {label}: device class {way.device_class_name} does not exist"
                    yield ClaimProblem(text, waits=True)

    def _ask(self, name: str, claim: ResourceClaim, *, of_group: bool) -> ClaimAsk:
        shared = "/".join(claim.key) if of_group or len(self._users.get(claim.key, ())) > 1 else ""
        return claim_ask(name, claim.spec, self.classes, shared)

    def _held(self, claim: ResourceClaim) -> HeldClaim:
        allocation = claim.status.allocation
        assert allocation is not None  # that is what it is to be held
        used = dict.fromkeys(one.request for one in allocation.devices.results)
        return HeldClaim(allocation.node_selector, self.is_unready(claim), rank_of_ways(claim.spec, list(used)))

    def _sort_classes(self) -> None:
        """Find out which classes tell drivers something, and which stand for which extended resource."""
        self.telling = {name: one for name, one in self.classes.items() if one.spec.config}
        order = sorted(self.classes.values(), key=lambda one: (-one.metadata.created, one.metadata.name))
        self._classes_of = {}
        for one in order:
            if one.spec.extended_resource_name:
                self._classes_of.setdefault(one.spec.extended_resource_name, one)


def _too_much(asks: Sequence[ClaimAsk]) -> str:
    """Return why what a pod asks for is not weighed, or ""."""
    devices = sum(way.count or 1 for ask in asks for request in ask.requests for way in request.ways[:1])
    if devices > MOST_PER_POD:
        return f"it asks for {devices} devices, and {MOST_PER_POD} is the most that is weighed"
    ways = (way for ask in asks for request in ask.requests for way in request.ways)
    length = sum(map(len, {one for way in ways for one in way.selectors}))
    if length > MOST_TEXT:
        return f"its selectors have {length} characters together, and {MOST_TEXT} is the most that is weighed"
    return ""


def extended_owner(claim: ResourceClaim) -> OwnerReference | None:
    """Return the pod that a claim was made for as extended resources; None where it was not."""
    if not claim.is_extended:
        return None
    return next((one for one in claim.metadata.owner_references if one.controller and one.kind == "Pod"), None)


def _conditions(claim: ResourceClaim, device: AllocatedDevice) -> Mapping[str, str] | None:
    """Return the conditions of an allocated device by type; None where its driver says nothing of it yet."""
    for one in claim.status.devices:
        if (one.driver, one.pool, one.device, one.share_id) == (
            device.driver,
            device.pool,
            device.device,
            device.share_id,
        ):
            return {said.type: said.status for said in one.conditions}
    return None


def rank_of_ways(spec: ResourceClaimSpec, used: Sequence[str]) -> int:
    """Return what the ways that were chosen count in the score of a node."""
    rank = 0
    for request in spec.devices.requests:
        if request.exactly is None:
            for at, (label, _) in enumerate(request.ways):
                rank += SUB_RANK - at if label in used else 0
    return rank
