"""Claims of PodGroups of Kubernetes: one claim for all pods of a group, which is the group's and not theirs.

A pod's entry is its group's where the group lists the same one: by name, and the same claim or template. Such a claim
says that the group uses it, once, however many members do. Rules: KEP-5729; Kubernetes 1.36, gate
DRAWorkloadResourceClaims, dynamic-resource-allocation/resourceclaim (BindTo, IsForPod).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from tutti.api.core import PodResourceClaim
from tutti.cluster.devices.asks import ClaimKey, DeviceUse

PodKey = tuple[str, str]
GroupKey = tuple[str, str]
"""Namespace and name of a PodGroup."""


class Consumer(msgspec.Struct, frozen=True, gc=False):
    """Who is noted on a claim as its user: a pod, or the PodGroup that it is in."""

    name: str
    uid: str
    is_group: bool = False


class _Group(NamedTuple):
    uid: str
    listed: frozenset[tuple[str, str, bool]]


class GroupClaims:
    """What PodGroups list as theirs, and which pods with claims are in them."""

    def __init__(self) -> None:
        self._groups: dict[GroupKey, _Group] = {}
        self._members: dict[GroupKey, dict[PodKey, None]] = {}
        self._names: dict[str, GroupKey] = {}

    def __bool__(self) -> bool:
        """Whether any PodGroup lists claims."""
        return bool(self._groups)

    def put(self, group: GroupKey, uid: str, listed: Sequence[PodResourceClaim]) -> bool:
        """Note what a group lists, nothing where there is no such group; returns whether that is something else."""
        known = self._groups.pop(group, None)
        if known is not None:
            self._names.pop(known.uid, None)
        if listed:
            said = frozenset((one.name, *_source(one)) for one in listed)
            self._groups[group] = _Group(uid, said)
            self._names[uid] = group
        return known != self._groups.get(group)

    def join(self, pod: PodKey, uses: Sequence[DeviceUse]) -> None:
        """Note the groups that the claims of a pod may belong to."""
        for use in uses:
            if use.group:
                self._members.setdefault((pod[0], use.group), {})[pod] = None

    def leave(self, pod: PodKey, uses: Sequence[DeviceUse]) -> None:
        """Note that a pod uses claims no more."""
        for group in {(pod[0], use.group) for use in uses if use.group}:
            members = self._members.get(group, {})
            members.pop(pod, None)
            if not members:
                self._members.pop(group, None)

    def members(self, group: GroupKey) -> Sequence[PodKey]:
        """Return the pods with claims that are in a group."""
        return tuple(self._members.get(group, ()))

    def is_group(self, uid: str) -> bool:
        """Whether a uid is that of a group that lists claims."""
        return uid in self._names

    def group_of(self, namespace: str, use: DeviceUse) -> Consumer | None:
        """Return the group whose claim an entry is; None where it is the pod's own."""
        group = self._groups.get((namespace, use.group)) if use.group else None
        if group is None or (use.name, use.source, use.template) not in group.listed:
            return None
        return Consumer(use.group, group.uid, is_group=True)

    def consumer(self, pod: PodKey, uid: str, uses: Sequence[DeviceUse], claim: ClaimKey) -> Consumer:
        """Return who is to be noted on a claim as its user so that a pod may use it."""
        if not self:
            return Consumer(pod[1], uid)
        groups = (self.group_of(pod[0], use) for use in uses if use.claim == claim)
        return next((one for one in groups if one is not None), Consumer(pod[1], uid))


def _source(entry: PodResourceClaim) -> tuple[str, bool]:
    """Return the claim or the template that an entry names, and whether it is a template."""
    if entry.resource_claim_name:
        return entry.resource_claim_name, False
    return entry.resource_claim_template_name or "", True
