"""What the shell itself remembers of our kinds: references for conditions and deletions, and what was last written.

Fed by the same streams as the engine, so that it knows of no ghosts; kopf's handlers only read it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from tutti.api.conditions import legible_conditions
from tutti.api.kinds import ObjectError, parse_object
from tutti.controller.references import KindKey, Raw, References, text_at

# The engine alone writes the status of these.
_OTHERS_WRITE = frozenset({"Workload", "PodGroup"})


@dataclass(frozen=True, slots=True)
class CachedObject:
    """An object as the server last showed it, as far as conditions are concerned."""

    uid: str
    generation: int
    conditions: tuple[Mapping[str, Any], ...]

    def condition(self, kind: str) -> Mapping[str, Any]:
        """Return the condition of that type, empty if there is none."""
        return next((c for c in self.conditions if c.get("type") == kind), {})


class ObjectCache:
    """Objects of our kinds by key, with a way to wait for the next change.

    `charged` tells which ClusterQueue's quota each workload holds at the moment.
    """

    def __init__(self, charged: Callable[[], Mapping[KindKey, str]] = dict) -> None:
        self._charged = charged
        self.specs = References()
        self.stored: dict[KindKey, CachedObject] = {}
        self.version = 0
        self._changed = asyncio.Event()

    def seen(self, kind: str, raw: Raw) -> None:
        """Take in an object that was added or changed; who waits is woken only by what can matter to them."""
        changed = self.specs.add(kind, raw)
        if kind not in _OTHERS_WRITE:
            key = (kind, text_at(raw, "metadata", "namespace"), text_at(raw, "metadata", "name"))
            before, stored = self.stored.get(key), _cached(raw)
            self.stored[key] = stored
            changed |= before != stored
            if before is None or (before.uid, before.generation) != (stored.uid, stored.generation):
                self._read(key, raw)
        if changed:
            self.touch()

    def gone(self, kind: str, namespace: str, name: str) -> None:
        """Forget an object that does not exist any more."""
        known = self.stored.pop((kind, namespace, name), None) is not None
        self.specs.broken.pop((kind, namespace, name), None)
        if self.specs.remove(kind, namespace, name) or known:
            self.touch()

    def keep(self, found: AbstractSet[KindKey]) -> None:
        """Forget whatever was not found by streams that have listed everything, and know nothing from before."""
        for key in self.stored.keys() - found:
            self.gone(*key)

    def count_users(self) -> bool:
        """Bring up to date who holds quota, where a ClusterQueue waits for that; return whether it has changed."""
        before = self.specs.admitted
        self.specs.admitted = self._charged() if self.specs.queue_is_leaving else {}
        return before != self.specs.admitted

    def _read(self, key: KindKey, raw: Raw) -> None:
        """Note what is wrong with an object, if anything is."""
        try:
            parse_object(key[0], raw)
        except ObjectError as error:
            self.specs.broken[key] = str(error)
        else:
            self.specs.broken.pop(key, None)

    def touch(self) -> None:
        """Wake everybody who waits for a change: something that matters to them is different now."""
        self.version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def changed(self, since: int) -> int:
        """Return the current version as soon as it is not `since` any more."""
        while self.version == since:
            await self._changed.wait()
        return self.version


def _cached(raw: Raw) -> CachedObject:
    metadata = raw.get("metadata")
    generation = metadata.get("generation") if isinstance(metadata, Mapping) else 0
    return CachedObject(
        uid=text_at(raw, "metadata", "uid"),
        generation=generation if isinstance(generation, int) else 0,
        conditions=tuple(legible_conditions(raw.get("status"))),
    )
