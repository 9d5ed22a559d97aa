"""Objects as users submit them, with the pods that their controllers make, and what is said of these pods' gangs."""

from __future__ import annotations

from typing import Any

import yaml

from tutti.api.core import ObjectMeta, OwnerReference
from tutti.api.frameworks import (
    GangAnswer,
    InheritedTerms,
    KindTable,
    MissingOwner,
    OwnedGang,
    OwnerChain,
    PodMarks,
    ProjectedOwner,
    gang_of,
    inherited_terms,
    marked,
    owner_chain,
    projected,
    projected_pod,
)

TUTTI = ("tutti",)


class Objects:
    """What a cluster holds of owners and pods, and what of it is seen.

    Args:
        texts: Objects in YAML; `owner: Kind/name` beside kind says what controls one of them.
        table: What is known of kinds.
    """

    def __init__(self, *texts: str, table: KindTable | None = None) -> None:
        self.table = table or KindTable()
        self.raw: dict[str, dict[str, Any]] = {}
        self.pods: dict[str, PodMarks] = {}
        self.unreadable: set[str] = set()
        self.unseen: set[str] = set()
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        raw = yaml.safe_load(text)
        name = f"{raw['kind']}/{raw['metadata']['name']}"
        raw["metadata"] = {"namespace": "ml", "uid": f"uid-{name}", **raw["metadata"]}
        owner = raw.pop("owner", None)
        if owner:
            raw["metadata"]["ownerReferences"] = [self._written(self.reference(owner))]
        self.raw[name] = raw

    def change(self, name: str, path: str, value: Any) -> None:
        *steps, last = path.split(".")
        part = self.raw[name]
        for step in steps:
            part = part.setdefault(step, {})
        part[last] = value

    def reference(self, name: str) -> OwnerReference:
        kind, _, plain = name.partition("/")
        if kind == "Pod":
            return OwnerReference("v1", "Pod", plain, self.pods[plain].uid, controller=True)
        raw = self.raw[name]
        return OwnerReference(raw["apiVersion"], kind, plain, raw["metadata"]["uid"], controller=True)

    def pod(
        self, name: str, owner: str = "", *, scheduler: str = "tutti", says_group: bool = False, **texts: Any
    ) -> PodMarks:
        """A pod as its controller makes it; `labels` and `annotations` by `texts`."""
        references = [self.reference(owner)] if owner else []
        meta = ObjectMeta(name, "ml", f"uid-Pod/{name}", owner_references=texts.pop("owners", references), **texts)
        self.pods[name] = marked(meta, scheduler, self.table.pod_keys, says_group=says_group)
        return self.pods[name]

    def look_up(self, ref: OwnerReference, namespace: str) -> ProjectedOwner | MissingOwner:
        name = f"{ref.kind}/{ref.name}"
        if ref.kind == "Pod":
            found = self.pods.get(ref.name)
            return projected_pod(found) if found else MissingOwner.AWAITED
        if name in self.unseen:
            return MissingOwner.AWAITED
        kind = self.table.get(ref.api_version.partition("/")[0], ref.kind)
        if name in self.unreadable or kind is None:
            return MissingOwner.UNREADABLE
        raw = self.raw.get(name)
        return MissingOwner.GONE if raw is None else projected(raw, kind, self.table.ignored)

    def chain(self, pod: PodMarks) -> OwnerChain:
        return owner_chain(pod, self.look_up)

    def answer(self, pod: PodMarks) -> GangAnswer:
        return gang_of(pod, self.chain(pod), self.table, TUTTI)

    def gang(self, pod: PodMarks) -> OwnedGang:
        answer = self.answer(pod)
        assert isinstance(answer, OwnedGang), answer
        return answer

    def terms(self, pod: PodMarks) -> InheritedTerms:
        return inherited_terms(self.chain(pod), self.table.ignored)

    def _written(self, ref: OwnerReference) -> dict[str, Any]:
        return {"apiVersion": ref.api_version, "kind": ref.kind, "name": ref.name, "uid": ref.uid, "controller": True}


def numbers(gang: OwnedGang) -> tuple[int, int, int]:
    """Return minimum, count and room."""
    return gang.minimum, gang.count, gang.room


def later(gang: OwnedGang) -> list[tuple[str, int, str, bool, bool]]:
    """Return of each role that comes later how many there are, of which gang, and whether beside this one and with room."""
    return [(one.role, one.count, one.group, one.beside, one.keeps_room) for one in gang.later]


def parts(gang: OwnedGang) -> dict[str, tuple[int, int]]:
    """Return minimum and count of each role that starts together."""
    return {part.role: (part.minimum, part.count) for part in gang.parts}
