"""The resource claim controller: claims from templates, and devices of claims that nobody uses any more.

Rules: pkg/controller/resourceclaim, 1.36. A pod that names templates gets a claim from each, and its status says which;
pods that are gone or done use no claim any more; with the last of its users a claim loses its devices, and then the
finalizer that protected these; a claim that was made for a pod goes when the pod is done. Where PodGroups of Kubernetes
are served, those that name templates get a claim from each, which is that of all pods that list the same (KEP-5729, as
with the gate DRAWorkloadResourceClaims): they are told in their statuses, and get none of their own for it.
"""

from __future__ import annotations

import structlog

from tutti_sim.controllers.worker import Place, Tended, Worker
from tutti_sim.kinds.resource import Resource
from tutti_sim.meta import Json
from tutti_sim.rest.backend import Backend
from tutti_sim.rest.local import Local
from tutti_sim.store.collection import Key, Version

_GROUPS = "podgroups.scheduling.k8s.io"
_GROUP_VERSIONS = tuple(("scheduling.k8s.io", version, "podgroups") for version in ("v1beta1", "v1alpha3", "v1alpha2"))

_POD = {"apiVersion": "v1", "kind": "Pod"}

FINALIZER = "resource.kubernetes.io/delete-protection"
POD_CLAIM = "resource.kubernetes.io/pod-claim-name"

_LONGEST_STEM = 57

log = structlog.get_logger()


class ResourceClaims:
    """Follows pods that claim devices, and claims."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._local = Local(backend, "resource-claim")
        self._claims = Tended(backend, "resource.k8s.io", "v1", "resourceclaims")
        self._templates = Tended(backend, "resource.k8s.io", "v1", "resourceclaimtemplates")
        self._pods = Tended(backend, "", "v1", "pods")
        self._users: dict[Key, dict[Key, None]] = {}
        self._made: dict[str, dict[Key, None]] = {}  # by the uid of whom a claim was made for
        self._members: dict[Key, dict[Key, None]] = {}
        self._worker = Worker("resource-claim", self._sync)

    def follow(self, resource: Resource, old: Version | None, new: Version | None) -> None:
        """Note pods that claim devices with the claims that they may leave, claims, and who waits for a template."""
        version = new or old
        if version is None:
            return
        if resource.storage == self._pods.storage:
            self._note_pod(version, gone=new is None)
        elif resource.storage == self._claims.storage:
            if new is not None:
                self._worker.note((self._claims.storage, new.key))
                self._note_users(new, had_devices=bool(old and (old.obj.get("status") or {}).get("allocation")))
            self._note_owner(version, gone=new is None)
        elif resource.storage == _GROUPS:
            self._worker.note((_GROUPS, version.key))
        elif resource.storage == self._templates.storage and new is not None:
            for pod in self._pods.scan(new.key[0]):
                if pod.obj["spec"].get("resourceClaims"):
                    self._worker.note((self._pods.storage, pod.key))
            for group in self._all_groups(new.key[0]):
                self._worker.note((_GROUPS, group.key))

    def _note_owner(self, claim: Version, *, gone: bool) -> None:
        """Note for whom a claim was made; where it is gone, they need another."""
        for owner in claim.obj["metadata"].get("ownerReferences", ()):
            if owner.get("controller"):
                mine = self._made.setdefault(owner["uid"], {})
                if not gone:
                    mine[claim.key] = None
                    continue
                mine.pop(claim.key, None)
                if not mine:
                    del self._made[owner["uid"]]
                storage = {"Pod": self._pods.storage, "PodGroup": _GROUPS}.get(owner["kind"])
                if storage is not None:
                    self._worker.note((storage, (claim.key[0], owner["name"])))

    def _served_groups(self) -> Resource | None:
        """PodGroups of Kubernetes, where they are served."""
        found = (self._backend.registry.find(*one) for one in _GROUP_VERSIONS)
        return next((one for one in found if one is not None), None)

    def _all_groups(self, namespace: str) -> list[Version]:
        groups = self._served_groups()
        return [] if groups is None else list(self._backend.collection(groups).scan(namespace))

    def _group(self, key: Key) -> Version | None:
        groups = self._served_groups()
        return None if groups is None else self._backend.collection(groups).get(*key)

    def _note_users(self, claim: Version, *, had_devices: bool) -> None:
        """Note the pods of a claim that was given devices just now."""
        if had_devices or not (claim.obj.get("status") or {}).get("allocation"):
            return
        for key in self._users.get(claim.key, ()):
            self._worker.note((self._pods.storage, key))

    async def run(self) -> None:
        """Work until cancelled."""
        await self._worker.run()

    def _note_pod(self, version: Version, *, gone: bool) -> None:
        if not version.obj["spec"].get("resourceClaims"):
            return
        group = _group_of(version)
        if group is not None and not gone:
            self._members.setdefault(group, {})[version.key] = None
        elif group in self._members:
            self._members[group].pop(version.key, None)
            if not self._members[group]:
                del self._members[group]
        for name in _claims_of(version.obj).values():
            self._note_use((version.key[0], name), version.key, gone=gone)
        if not gone:
            self._worker.note((self._pods.storage, version.key))
        if gone or _is_done(version.obj):
            for name in _claims_of(version.obj).values():
                self._worker.note((self._claims.storage, (version.key[0], name)))

    def _note_use(self, claim: Key, pod: Key, *, gone: bool) -> None:
        if not gone:
            self._users.setdefault(claim, {})[pod] = None
        elif claim in self._users:
            self._users[claim].pop(pod, None)
            if not self._users[claim]:
                del self._users[claim]

    async def _sync(self, place: Place) -> None:
        storage, key = place
        if storage == self._claims.storage:
            self._tend_claim(key)
            return
        if storage == _GROUPS:
            await self._tend_group(key)
            return
        pod = self._pods.get(key)
        if pod is not None and not pod.obj["metadata"].get("deletionTimestamp") and not _is_done(pod.obj):
            await self._make_claims(pod)
            if pod.obj["spec"].get("nodeName"):
                self._reserve(pod)

    async def _tend_group(self, key: Key) -> None:
        """Make what the templates of a PodGroup say and note it in its status; look at its claims where it is gone."""
        group, groups = self._group(key), self._served_groups()
        if group is None or groups is None:
            for claim in self._claims.scan(key[0]):
                self._worker.note((self._claims.storage, claim.key))
            return
        known: dict[str, str] = {}
        kind = {"apiVersion": f"{groups.group}/{groups.version}", "kind": "PodGroup"}
        for entry in group.obj["spec"].get("resourceClaims") or ():
            template = self._templates.get((key[0], entry.get("resourceClaimTemplateName") or ""))
            if entry.get("resourceClaimTemplateName") and not group.obj["metadata"].get("deletionTimestamp"):
                made = self._made_before(group, entry["name"])
                if made is None and template is not None:
                    made = await self._make(group, kind, entry["name"], template.obj["spec"])
                known |= {} if made is None else {entry["name"]: made.key[1]}
        current = self._group(key)
        if current is None or not known:
            return
        said = [{"name": name, "resourceClaimName": claim} for name, claim in known.items()]
        status = current.obj.get("status") or {}
        if status.get("resourceClaimStatuses") != said:
            self._local.set_status(groups, current, {**status, "resourceClaimStatuses": said})
        for pod in self._members.get(key, ()):
            self._worker.note((self._pods.storage, pod))

    async def _make_claims(self, pod: Version) -> None:
        """Make what the pod's templates say, and note it in its status."""
        meta = pod.obj["metadata"]
        known = {
            one["name"]: one["resourceClaimName"]
            for one in pod.obj.get("status", {}).get("resourceClaimStatuses", ())
            if self._claims.get((meta["namespace"], one.get("resourceClaimName", ""))) is not None
        }
        for entry in pod.obj["spec"].get("resourceClaims", ()):  # a claim for extended resources has no entry
            name = entry["name"]
            template = self._templates.get((meta["namespace"], entry.get("resourceClaimTemplateName") or ""))
            if name in known or not entry.get("resourceClaimTemplateName"):
                continue
            of_group = self._lists(pod, entry)
            if of_group is not None:
                made = self._made_before(of_group, name)
            elif self._awaits_group(pod):
                continue
            else:
                made = self._made_before(pod, name)
                if made is None and template is not None:
                    made = await self._make(pod, _POD, name, template.obj["spec"])
            known |= {} if made is None else {name: made.key[1]}
        current = self._pods.get(pod.key)
        if current is None or not known:
            return
        said = [{"name": name, "resourceClaimName": claim} for name, claim in known.items()]
        status = current.obj.get("status", {})
        if status.get("resourceClaimStatuses") != said:
            self._local.set_status(self._pods.resource, current, {**status, "resourceClaimStatuses": said})

    def _lists(self, pod: Version, entry: Json) -> Version | None:
        """The PodGroup of a pod where it lists the same entry: its claim is the pod's."""
        key = _group_of(pod)
        group = None if key is None else self._group(key)
        if group is None:
            return None
        listed = group.obj["spec"].get("resourceClaims") or ()
        said = (entry["name"], entry.get("resourceClaimTemplateName"))
        return group if any((one["name"], one.get("resourceClaimTemplateName")) == said for one in listed) else None

    def _awaits_group(self, pod: Version) -> bool:
        """Whether the PodGroup of a pod is not there yet, so that nobody knows whose its claims are."""
        key = _group_of(pod)
        return key is not None and self._served_groups() is not None and self._group(key) is None

    def _reserve(self, pod: Version) -> None:
        """Note a pod that was bound past a scheduler as a user of its claims, where they have devices."""
        meta = pod.obj["metadata"]
        user = {"resource": "pods", "name": meta["name"], "uid": meta["uid"]}
        group = ("podgroups", (pod.obj["spec"].get("schedulingGroup") or {}).get("podGroupName"))
        current = self._pods.get(pod.key)
        for name in _claims_of(current.obj).values() if current is not None else ():
            claim = self._claims.get((pod.key[0], name))
            status = (claim.obj.get("status") or {}) if claim is not None else {}
            users = status.get("reservedFor", [])
            if claim is None or not status.get("allocation") or claim.obj["metadata"].get("deletionTimestamp"):
                continue
            if all(one.get("uid") != user["uid"] and (one.get("resource"), one.get("name")) != group for one in users):
                self._local.set_status(self._claims.resource, claim, {**status, "reservedFor": [*users, user]})

    def _made_before(self, user: Version, entry: str) -> Version | None:
        """The claim that was made for an entry of a pod or a PodGroup, which their statuses may not tell of yet."""
        found = map(self._claims.get, self._made.get(user.obj["metadata"]["uid"], ()))
        for claim in found:
            if claim is not None and claim.obj["metadata"].get("annotations", {}).get(POD_CLAIM) == entry:
                return claim
        return None

    async def _make(self, user: Version, kind: Json, entry: str, template: Json) -> Version:
        """Make a claim for an entry of a user of some kind."""
        meta, given = user.obj["metadata"], template.get("metadata") or {}
        owner = {**kind, "name": meta["name"], "uid": meta["uid"]}
        claim = {
            "metadata": {
                "generateName": _stem(meta["name"], entry),
                **({"labels": dict(given["labels"])} if given.get("labels") else {}),
                "annotations": {**given.get("annotations", {}), POD_CLAIM: entry},
                "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
            },
            "spec": dict(template.get("spec") or {}),
        }
        made = await self._local.create(self._claims.resource, meta["namespace"], claim)
        log.info("resource_claim_made", claim="/".join(made.key), user=meta["name"], kind=kind["kind"])
        return made

    def _tend_claim(self, key: Key) -> None:
        """Take off a claim who uses it no more, and with the last of them its devices."""
        claim = self._claims.get(key)
        if claim is None:
            return
        status = claim.obj.get("status") or {}
        users = status.get("reservedFor", [])
        left = [one for one in users if self._uses(key[0], one)]
        is_deleted = bool(claim.obj["metadata"].get("deletionTimestamp"))
        ends = not left and (is_deleted or len(left) < len(users))  # one that never had a user is left alone
        if ends and (users or status.get("allocation")):
            status = {name: value for name, value in status.items() if name not in ("reservedFor", "allocation")}
            claim = self._local.set_status(self._claims.resource, claim, status)
        elif len(left) < len(users):
            claim = self._local.set_status(self._claims.resource, claim, {**status, "reservedFor": left})
        if ends and FINALIZER in claim.obj["metadata"].get("finalizers", ()):
            self._local.without_finalizer(self._claims.resource, claim, FINALIZER)
        current = self._claims.get(key)
        if current is not None and not (left or is_deleted) and self._was_for_one_that_is_done(current):
            self._local.remove(self._claims.resource, current)

    def _uses(self, namespace: str, user: Json) -> bool:
        if user.get("resource") == "podgroups":
            group = self._backend.find(_GROUPS, namespace, user["name"])
            return group is not None and group["metadata"]["uid"] == user["uid"]
        if user.get("resource") != "pods":
            return True
        pod = self._pods.get((namespace, user["name"]))
        if pod is None or pod.obj["metadata"]["uid"] != user["uid"] or _is_done(pod.obj):
            return False
        return bool(pod.obj["spec"].get("nodeName")) or not pod.obj["metadata"].get("deletionTimestamp")

    def _was_for_one_that_is_done(self, claim: Version) -> bool:
        owners = claim.obj["metadata"].get("ownerReferences", ())
        owner = next((one for one in owners if one.get("controller") and one["kind"] == "Pod"), None)
        pod = self._pods.get((claim.key[0], owner["name"])) if owner is not None else None
        if owner is None or pod is None:
            return False  # the garbage collector looks after those whose owner is gone
        return pod.obj["metadata"]["uid"] != owner["uid"] or _is_done(pod.obj)


def _group_of(pod: Version) -> Key | None:
    """The PodGroup that a pod is in."""
    name = (pod.obj["spec"].get("schedulingGroup") or {}).get("podGroupName")
    return (pod.key[0], name) if name else None


def _stem(pod: str, entry: str) -> str:
    """What the name of a claim begins with: pod and entry, of both as much as fits into a label."""
    whole = len(pod) + 1 + len(entry)
    if whole > _LONGEST_STEM:
        pod, entry = (part[: len(part) * _LONGEST_STEM // whole] for part in (pod, entry))
    return f"{pod}-{entry}-"


def _is_done(pod: Json) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _claims_of(pod: Json) -> dict[str, str]:
    """The claims that a pod uses, by what it calls them."""
    made = {one["name"]: one.get("resourceClaimName") for one in pod.get("status", {}).get("resourceClaimStatuses", ())}
    named = {
        one["name"]: one.get("resourceClaimName") or made.get(one["name"])
        for one in pod["spec"].get("resourceClaims", ())
    }
    return {name: claim for name, claim in named.items() if claim}
