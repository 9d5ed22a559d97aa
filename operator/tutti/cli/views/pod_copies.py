"""Copies of pods with all the claims that they are given: on volumes, and on devices.

Rule: pkg/controller/resourceclaim, 1.36: a pod that names templates gets a claim from each, and its status says which.
A claim that a PodGroup was given is that of all its pods, and of those that are made later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tutti.api.core import ObjectMeta, OwnerReference, Pod, PodClaimStatus
from tutti.api.devices import ResourceClaim, ResourceClaimSpec
from tutti.cli.views.what_if import Seen, changed, claims_of, without_users
from tutti.engine.records.device_observations import ClaimTemplateSeen, DeviceClaimSeen
from tutti.engine.records.observations import AnyObservation, PodSeen


def with_claims(seen: Seen, pod: Pod, copies: Sequence[PodSeen]) -> list[AnyObservation]:
    """Return copies of a pod, each after the claims that are made for it."""
    out: list[AnyObservation] = []
    for copy in copies:
        claims = list(_device_claims(seen, pod, copy.pod)) if pod.spec.resource_claims else []
        made = [claim for _, claim in claims if claim is not None]
        out += [*claims_of(seen, pod, copy.pod), *map(DeviceClaimSeen, made)]
        told = [status for status, _ in claims]
        out.append(PodSeen(changed(copy.pod, status=changed(copy.pod.status, resource_claim_statuses=told))))
    return out


def claims_left_by(seen: Seen, gone: Sequence[Pod]) -> list[AnyObservation]:
    """Return the claims that pods used, as the claim controller leaves them once these are gone."""
    uids = {pod.metadata.uid for pod in gone if pod.spec.resource_claims or pod.status.extended_resource_claim_status}
    if not uids:
        return []
    claims = [one.found for one in seen if isinstance(one, DeviceClaimSeen)]
    return [DeviceClaimSeen(left) for claim in claims if (left := without_users(claim, uids)) is not claim]


def _device_claims(seen: Seen, pod: Pod, copy: Pod) -> Iterator[tuple[PodClaimStatus, ResourceClaim | None]]:
    """Yield what a copy of a pod is told of each entry that names a template, and the claim that is made for it."""
    space = pod.metadata.namespace
    claims = {one.found.key: one.found for one in seen if isinstance(one, DeviceClaimSeen)}
    templates = {
        (one.found.metadata.namespace, one.found.metadata.name): one.found.spec.spec
        for one in seen
        if isinstance(one, ClaimTemplateSeen)
    }
    before = {one.name: one for one in pod.status.resource_claim_statuses}
    for entry in pod.spec.resource_claims:
        told = before.get(entry.name)
        old = claims.get((space, told.resource_claim_name or "")) if told is not None else None
        if entry.resource_claim_name or (told is not None and old is not None and not _is_made_for(old, pod)):
            if told is not None:
                yield told, None
            continue
        asked = templates.get((space, entry.resource_claim_template_name or ""), old.spec if old is not None else None)
        if asked is not None:
            claim = _made_for(copy, entry.name, asked)
            yield PodClaimStatus(entry.name, claim.metadata.name), claim


def _is_made_for(claim: ResourceClaim, pod: Pod) -> bool:
    return any(one.controller and one.uid == pod.metadata.uid for one in claim.metadata.owner_references)


def _made_for(pod: Pod, entry: str, asked: ResourceClaimSpec) -> ResourceClaim:
    owner = OwnerReference("v1", "Pod", pod.metadata.name, pod.metadata.uid, controller=True)
    name = f"{pod.metadata.name}-{entry}"
    uid = f"{pod.metadata.uid}-{entry}"
    return ResourceClaim(
        ObjectMeta(name=name, namespace=pod.metadata.namespace, uid=uid, owner_references=[owner]), asked
    )
