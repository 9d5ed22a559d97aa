"""What owns the pods, as far as it is followed: each object by its uid, and what stands below it.

By uid, for another object of the same name is another generation. An object that is gone is remembered while something
of ours is below it: the garbage collector will take that away, and until then it is what it was.
"""

from __future__ import annotations

from collections.abc import Iterator

from tutti.api.core import OwnerReference
from tutti.api.owners import OwnerObject
from tutti.engine.records.members import Member

MOST_LEVELS = 10
"""How far up owners are followed, as in Kueue (`managedOwnersChainLimit`, 0.20)."""

Kind = tuple[str, str]
"""API group and kind."""


class Ancestry:
    """The owners of pods, and the members of ours below each."""

    def __init__(self) -> None:
        self._known: dict[str, OwnerObject] = {}
        self._gone: set[str] = set()
        self._controlled: dict[str, dict[str, None]] = {}
        self._members: dict[str, dict[tuple[str, str], Member]] = {}
        self._kinds: set[Kind] = set()

    def follow(self, kind: Kind, *, followed: bool) -> None:
        """Note whether the objects of a kind are seen."""
        (self._kinds.add if followed else self._kinds.discard)(kind)

    def put(self, found: OwnerObject) -> list[Member]:
        """Add or change an object; returns the members below it that it may matter to."""
        before = self._known.get(found.uid)
        self._gone.discard(found.uid)
        if before == found:
            return []
        if before is not None:
            self._unlink(before)
        self._known[found.uid] = found
        if found.controller is not None:
            self._controlled.setdefault(found.controller.uid, {})[found.uid] = None
        return list(self._below(found.uid))

    def drop(self, uid: str) -> None:
        """Forget an object that does not exist any more, once nothing of ours is below it."""
        if uid in self._known:
            self._gone.add(uid)
            self._prune(uid)

    def join(self, member: Member) -> None:
        """Note what controls a member."""
        if member.owner is not None:
            self._members.setdefault(member.owner.uid, {})[member.pod.key] = member

    def leave(self, member: Member) -> None:
        """Take that back."""
        if member.owner is None:
            return
        here = self._members.get(member.owner.uid)
        if here is not None and here.pop(member.pod.key, None) is not None and not here:
            del self._members[member.owner.uid]
            self._prune(member.owner.uid)

    def known(self, ref: OwnerReference, namespace: str) -> OwnerObject | None:
        """Return the object that a reference from a namespace is to, as it was seen last; None where it was not.

        An owner is of the same namespace, or of none (meta/v1 OwnerReference): a uid of elsewhere is none that counts.
        """
        found = self._known.get(ref.uid)
        if found is None or found.namespace not in ("", namespace):
            return None
        return found if (found.kind, found.name) == (ref.kind, ref.name) else None

    def is_followed(self, ref: OwnerReference) -> bool:
        """Whether the object that a reference is to will be seen."""
        return (ref.api_version.partition("/")[0], ref.kind) in self._kinds

    def of_kind(self, kind: Kind) -> list[Member]:
        """Return the members that are controlled by something of a kind."""
        group, name = kind
        return [
            member
            for here in self._members.values()
            for member in here.values()
            if member.owner is not None
            and member.owner.kind == name
            and member.owner.api_version.partition("/")[0] == group
        ]

    def _below(self, uid: str) -> Iterator[Member]:
        """Yield the members below an object, through owners and through pods that own pods."""
        seen, ahead = {uid}, [uid]
        while ahead:
            at = ahead.pop()
            members = self._members.get(at, {})
            yield from members.values()
            for lower in (*self._controlled.get(at, ()), *(member.pod.uid for member in members.values())):
                if lower not in seen:
                    seen.add(lower)
                    ahead.append(lower)

    def _prune(self, uid: str) -> None:
        """Forget an object that is gone and has nothing below it, and what was kept for its sake alone."""
        while uid in self._gone and uid not in self._members and uid not in self._controlled:
            found = self._known.pop(uid)
            self._gone.discard(uid)
            self._unlink(found)
            if found.controller is None:
                return
            uid = found.controller.uid
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
            lower = [one for one in self._controlled.get(at, ()) if one not in seen]
            seen.update(dict.fromkeys(lower))
            ahead += lower
        return list(seen)

    def _unlink(self, found: OwnerObject) -> None:
        if found.controller is not None:
            here = self._controlled[found.controller.uid]
            del here[found.uid]
            if not here:
                del self._controlled[found.controller.uid]
