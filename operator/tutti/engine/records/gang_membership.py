"""What tells which gang and queue a pod is in: its own annotations, objects of other projects, and what owns it.

Annotations are parsed once for all pods that have the same: the members of a gang mostly do. Parsing asks eight
conventions, which costs more than all else that is done with a pod that was seen. Labels and annotations that nobody
reads are passed over: users give each pod its own, and the API server adds to them with a bind.

Of objects of other projects that say how large gangs are, one is found by how pods name it. A PodGroup of ours that
somebody wrote goes before them. One that was made for such a gang shows its status only.

Owners are kept by uid, for another object of the same name is another generation, with the members below each. An
owner that is gone is remembered while a member is below it: the garbage collector will take that away, and until
then it is what it was.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias
from weakref import WeakValueDictionary

from tutti.api.configuration import Conventions
from tutti.api.conventions import ConventionError, GangMembership, membership_keys, membership_of
from tutti.api.conventions.gang_objects import GangObject, gangs_in
from tutti.api.conventions.membership import within_bounds
from tutti.api.core import OwnerReference, Pod, PodResourceClaim
from tutti.api.frameworks import MissingOwner, ProjectedOwner
from tutti.api.kinds.consolidation import MOVABLE_ANNOTATION
from tutti.api.model import GROUP
from tutti.engine.records.members import Member, MemberGroup
from tutti.engine.records.pod_admission import ADMISSION_ANNOTATION
from tutti.engine.records.workloads import Workload

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
SCALE_DOWN_ANNOTATIONS: Mapping[str, str] = MappingProxyType(
    {SAFE_TO_EVICT: "false", "karpenter.sh/do-not-disrupt": "true"}
)
"""What keeps an autoscaler from taking a node away that a pod is on."""

SCALE_DOWN_MARK = f"{GROUP}/scale-down-protection"
"""The annotation that says which of these were written by us."""

MOVING_KEYS = (MOVABLE_ANNOTATION, SAFE_TO_EVICT, SCALE_DOWN_MARK)
"""The annotations that tell whether a pod may be moved."""
_ABOUT_MOVING: Final = frozenset(MOVING_KEYS)
GATE_ANNOTATION = "scheduling.tutti.dev/admission-gate"
"""While it is on a workload's object or on one of its pods, a complete reservation is not bound."""

PodTexts: TypeAlias = tuple[Hashable, ...]
"""All that a pod says which anybody reads, in one value."""


def says_movable(annotations: Mapping[str, str]) -> bool | None:
    """Return whether annotations of a pod or its gang let it be moved; None where they do not say.

    What cluster-autoscaler must not evict (its FAQ, "safe-to-evict") is not moved either, whatever else is said. What
    was written here to keep its node does not count: a move gives the gang others.
    """
    if _ABOUT_MOVING.isdisjoint(annotations):
        return None
    said = annotations.get(MOVABLE_ANNOTATION)
    ours = SAFE_TO_EVICT in annotations.get(SCALE_DOWN_MARK, "").split(",")
    if (annotations.get(SAFE_TO_EVICT) == "false" and not ours) or (said is not None and said != "true"):
        return False
    return None if said is None else True


class ParsedMemberships:
    """Remembers how what pods say was read, for as long as anybody has that claim.

    Args:
        settings: Which conventions are read.
        noted: The annotations that plugins read.
        marks: The labels and annotations that tell a pod's part in what its owners make.
    """

    def __init__(self, settings: Conventions, noted: Iterable[str] = (), marks: Iterable[str] = ()) -> None:
        self._settings = settings
        self._marks = frozenset(marks)
        self._heard = membership_keys(settings) | {ADMISSION_ANNOTATION, GATE_ANNOTATION, *MOVING_KEYS, *noted}
        self._read: WeakValueDictionary[PodTexts, GangMembership] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._read)

    def of(self, pod: Pod) -> PodTexts:
        """Return all that somebody reads of a pod and that can change."""
        meta, spec = pod.metadata, pod.spec
        owners = tuple([owner.uid for owner in meta.owner_references if owner.controller])
        said = _among(meta.labels, self._heard), _among(meta.annotations, self._heard)
        return (meta.namespace, owners, spec.scheduling_group, spec.workload_ref, *said)

    def marks_of(self, pod: Pod) -> PodTexts:
        """Return what a pod says of its part in what its owners make, and which owners these are."""
        meta = pod.metadata
        owners = tuple([owner.uid for owner in meta.owner_references])
        return (owners, _among(meta.labels, self._marks), _among(meta.annotations, self._marks)) if owners else ()

    def read(self, said: PodTexts, pod: Pod) -> tuple[GangMembership, str]:
        """Return the claim of a pod that says this, and why it cannot be read, or ""."""
        known = self._read.get(said)
        if known is not None:
            return known, ""
        try:
            claim = membership_of(pod, self._settings)
        except ConventionError as error:
            return GangMembership(convention="", namespace=pod.metadata.namespace), str(error)
        if not (pod.metadata.uid and pod.metadata.uid in claim.group):  # else it is named after this one pod
            self._read[said] = claim
        return claim, ""


def _among(texts: Mapping[str, str], keys: frozenset[str]) -> tuple[tuple[str, str], ...]:
    """Return those labels or annotations that somebody reads."""
    return () if keys.isdisjoint(texts) else tuple([pair for pair in texts.items() if pair[0] in keys])


GangObjectKey = tuple[str, str, str, str]
"""API group, kind, namespace and name of an object."""


class GangObjects:
    """All that are known, whatever version they were read in.

    Attributes:
        awaited: Those by uid of which Volcano's controller makes no pods before their phase is another.
        phases: The phase last written to each, by uid.
        stirred: Those of these to look at, by uid: they have come, or what they were made for has.
    """

    def __init__(self) -> None:
        self._of: dict[GangObjectKey, tuple[GangObject, ...]] = {}
        self._by_name: dict[tuple[str, str, str], dict[GangObjectKey, GangObject]] = {}
        self.awaited: dict[str, GangObject] = {}
        self.phases: dict[str, str] = {}
        self.stirred: dict[str, None] = {}
        self._made_for: dict[str, dict[str, None]] = {}

    def put(self, api_version: str, kind: str, raw: Mapping[str, Any]) -> tuple[str, str]:
        """Add or change an object; returns its namespace and name."""
        meta = raw["metadata"]
        source = (api_version.partition("/")[0], kind, str(meta.get("namespace", "")), str(meta["name"]))
        self._forget(source)
        self._of[source] = found = tuple(gangs_in(api_version, kind, raw))
        for one in found:
            self._by_name.setdefault((one.convention, one.namespace, one.name), {})[source] = one
            if one.made_by and one.phase in ("", "Pending"):
                self.awaited[one.uid], self.stirred[one.uid] = one, None
                self._made_for.setdefault(one.made_by.uid, {})[one.uid] = None
        return source[2:]

    def drop(self, api_version: str, kind: str, namespace: str, name: str) -> None:
        """Forget an object that does not exist any more."""
        source = (api_version.partition("/")[0], kind, namespace, name)
        for one in self._of.get(source, ()):
            self.phases.pop(one.uid, None)
        self._forget(source)

    def owner_seen(self, uid: str) -> None:
        """Have those looked at that are awaited and were made for an object that has been seen."""
        self.stirred.update(self._made_for.get(uid, {}))

    def take_stirred(self) -> list[GangObject]:
        """Return those that are to be looked at, once."""
        stirred, self.stirred = self.stirred, {}
        return [self.awaited[uid] for uid in stirred if uid in self.awaited]

    def of(self, claim: GangMembership) -> GangObject | None:
        """Return what is said of the gang that a pod claims to be in; None where nothing is."""
        found = self._by_name.get((claim.convention, claim.namespace, claim.object or claim.group))
        return next(iter(found.values())) if found else None

    def claims(self, namespace: str, name: str) -> tuple[str, tuple[PodResourceClaim, ...]]:
        """Return the uid of a PodGroup of Kubernetes and the claims that are the group's; nothing without one."""
        found = next(iter(self._by_name.get(("kubernetes", namespace, name), {}).values()), None)
        return ("", ()) if found is None else (found.uid, found.claims)

    def _forget(self, source: GangObjectKey) -> None:
        for one in self._of.pop(source, ()):
            awaited = self.awaited.pop(one.uid, None)
            if awaited is not None and awaited.made_by is not None:
                same = self._made_for[awaited.made_by.uid]
                del same[one.uid]
                if not same:
                    del self._made_for[awaited.made_by.uid]
            named = self._by_name[one.convention, one.namespace, one.name]
            del named[source]
            if not named:
                del self._by_name[one.convention, one.namespace, one.name]


def task_role(known: GangObjects, claim: GangMembership) -> str:
    """Return the role of a member in a gang whose object counts by tasks; "" where it does not."""
    found = known.of(claim) if claim.task else None
    return claim.task if found is not None and found.roles else ""


def take_gang_sizes(workload: Workload, found: GangObject, name: str) -> None:
    """Take over how many members a gang needs, in all and of each role.

    Where it needs more in all than the roles add up to, the rest falls to roles that have more members than they need,
    in the order of their arrival: a little stricter than Volcano, to which any member will do.
    """
    assert found.spec is not None  # it can be read
    least = found.spec.min_count
    roles = dict(found.roles)
    for group in workload.groups.values():
        if group.name not in roles:
            group.min_count, group.count = 0, None  # it may have been a role before
    if not roles:
        workload.group(name).min_count = least
        return
    for role, needed in roles.items():
        group = workload.group(role)
        group.min_count = group.count = needed
    _spread(list(workload.groups.values()), least - sum(roles.values()))


def _spread(groups: Iterable[MemberGroup], more: int) -> None:
    """Raise the minimum of groups by so many in all: of those that have the members for it, else of the first."""
    first: MemberGroup | None = None
    for group in groups:
        first = first or group
        tally = group.counts()
        taken = min(more, max(0, tally.live + tally.succeeded - group.min_count))
        group.min_count += taken
        more -= taken
    if first is not None:
        first.min_count += more


MOST_NOT_AWAITED = 10_000
"""How many owners that never came are remembered."""

OwnerKind = tuple[str, str]
"""API group and kind."""


class OwnerGraph:
    """The owners of pods, and the members of ours below each."""

    def __init__(self) -> None:
        self._known: dict[str, ProjectedOwner] = {}
        self._named: dict[tuple[str, str], dict[str, None]] = {}
        self._gone: set[str] = set()
        self._controlled: dict[str, dict[str, None]] = {}
        self._members: dict[str, dict[tuple[str, str], Member]] = {}
        self._kinds: set[OwnerKind] = set()
        self._not_awaited: set[str] = set()

    def follow(self, kind: OwnerKind, *, followed: bool) -> None:
        """Note whether the objects of a kind are seen."""
        (self._kinds.add if followed else self._kinds.discard)(kind)

    def put(self, found: ProjectedOwner) -> list[Member]:
        """Add or change an object; returns the members below it that it may matter to."""
        before = self._known.get(found.uid)
        self._gone.discard(found.uid)
        self._not_awaited.discard(found.uid)
        if before == found:
            return []
        if before is not None:
            self._unlink(before)
        self._known[found.uid] = found
        self._named.setdefault((found.namespace, found.name), {})[found.uid] = None
        if found.owner is not None:
            self._controlled.setdefault(found.owner.uid, {})[found.uid] = None
        return list(self._below(found.uid))

    def drop(self, uid: str) -> None:
        """Forget an object that does not exist any more, once nothing of ours is below it."""
        if uid in self._known:
            self._gone.add(uid)
            self._prune(uid)

    def known(self, uid: str) -> ProjectedOwner | None:
        """Return an object as it was seen last; None of one that has not been seen, or is gone."""
        return None if uid in self._gone else self._known.get(uid)

    def named(self, namespace: str, name: str) -> list[ProjectedOwner]:
        """Return the objects of some name that are there, of whatever kind; pods that own pods are none."""
        found = (self.known(uid) for uid in self._named.get((namespace, name), ()))
        return [one for one in found if one is not None and one.group]

    def siblings(self, member: Member) -> Collection[Member]:
        """Return the members that the same object makes as this one, itself among them; none of one of nobody's."""
        owner = member.marks.owner
        return () if owner is None else self._members.get(owner.uid, {}).values()

    def join(self, member: Member) -> None:
        """Note what controls a member."""
        if member.marks.owner is not None:
            self._members.setdefault(member.marks.owner.uid, {})[member.pod.key] = member

    def leave(self, member: Member) -> None:
        """Take that back."""
        if member.marks.owner is None:
            return
        here = self._members.get(member.marks.owner.uid)
        if here is not None and here.pop(member.pod.key, None) is not None and not here:
            del self._members[member.marks.owner.uid]
            self._prune(member.marks.owner.uid)

    def look_up(self, ref: OwnerReference, namespace: str) -> ProjectedOwner | MissingOwner:
        """Return the object that a reference from a namespace is to, as it was seen last, or why it is not known.

        An owner is of the same namespace, or of none (meta/v1 OwnerReference): a uid of elsewhere is none that counts.
        """
        found = self._known.get(ref.uid)
        if found is None:
            kind = (ref.api_version.partition("/")[0], ref.kind)
            awaited = kind in self._kinds and ref.uid not in self._not_awaited
            return MissingOwner.AWAITED if awaited else MissingOwner.UNREADABLE
        if found.namespace not in ("", namespace) or (found.kind, found.name) != (ref.kind, ref.name):
            return MissingOwner.UNREADABLE
        return found

    def await_no_more(self, uid: str) -> list[Member]:
        """Do without an object that has not come for too long; returns the members below it."""
        if len(self._not_awaited) >= MOST_NOT_AWAITED:
            self._not_awaited.clear()
        self._not_awaited.add(uid)
        return list(self._below(uid))

    def of_kind(self, kind: OwnerKind) -> list[Member]:
        """Return the members that are controlled by something of a kind."""
        group, name = kind
        return [
            member
            for here in self._members.values()
            for member in here.values()
            if member.marks.owner is not None
            and member.marks.owner.kind == name
            and member.marks.owner.api_version.partition("/")[0] == group
        ]

    def controlled_by(self, uid: str) -> list[str]:
        """Return the uids of the objects that one controls."""
        return list(self._controlled.get(uid, ()))

    def _below(self, uid: str) -> Iterator[Member]:
        """Yield the members below an object, through owners and through pods that own pods.

        What says it is owned by something of another namespace is not below it (`look_up`).
        """
        found = self._known.get(uid)
        within = "" if found is None else found.namespace
        seen, ahead = {uid}, [(uid, within)]
        while ahead:
            at, within = ahead.pop()
            here = [one for one in self._members.get(at, {}).values() if within in ("", one.pod.namespace)]
            yield from here
            lower = [(one.pod.uid, one.pod.namespace) for one in here]
            for one in self._controlled.get(at, ()):
                namespace = self._known[one].namespace or within
                if within in ("", namespace):
                    lower.append((one, namespace))
            for one, namespace in lower:
                if one not in seen:
                    seen.add(one)
                    ahead.append((one, namespace))

    def _prune(self, uid: str) -> None:
        """Forget an object that is gone and has nothing below it, and what was kept for its sake alone."""
        while uid in self._gone and uid not in self._members and uid not in self._controlled:
            found = self._known.pop(uid)
            self._gone.discard(uid)
            self._unlink(found)
            if found.owner is None:
                return
            uid = found.owner.uid
        for one in self._gone_ring(uid):
            self._gone.discard(one)
            self._unlink(self._known.pop(one))

    def _gone_ring(self, uid: str) -> list[str]:
        """Return an object and all below it, where these are gone and have no members: they own one another."""
        seen, ahead = {uid: None}, [uid]
        while ahead:
            at = ahead.pop()
            if at not in self._gone or at in self._members:
                return []
            for one in self._controlled.get(at, ()):
                if one not in self._gone:  # so there is no need to look at the others, of which there may be thousands
                    return []
                if one not in seen:
                    seen[one] = None
                    ahead.append(one)
        return list(seen)

    def _unlink(self, found: ProjectedOwner) -> None:
        named = self._named[found.namespace, found.name]
        del named[found.uid]
        if not named:
            del self._named[found.namespace, found.name]
        if found.owner is not None:
            here = self._controlled[found.owner.uid]
            del here[found.uid]
            if not here:
                del self._controlled[found.owner.uid]


_ABOUT_SCALE_DOWN = (*SCALE_DOWN_ANNOTATIONS, SCALE_DOWN_MARK)
_NOTHING: Mapping[str, str] = MappingProxyType({})


def scale_down_annotations(annotations: Mapping[str, str]) -> Mapping[str, str]:
    """Return those of a pod's annotations that are about scale-down."""
    if not annotations or annotations.keys().isdisjoint(_ABOUT_SCALE_DOWN):
        return _NOTHING
    return {key: within_bounds(annotations[key]) for key in _ABOUT_SCALE_DOWN if key in annotations}
