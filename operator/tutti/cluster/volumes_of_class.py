"""The volumes of one storage class, those that are free kept in order of size and by what a claim asks of them.

Rule: component-helpers/storage/volume/pv_helpers.go, FindMatchingVolume, 1.36: the smallest that suits; ties by name.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import itemgetter

from tutti.api.storage import PersistentVolume
from tutti.cluster.volumes import UnboundClaim

_Kind = tuple[frozenset[str], str, str]
"""What a claim must find in a volume besides its size: access modes, mode and attributes class."""

_Entry = tuple[int, str, PersistentVolume]
"""Size and name, by which volumes are in order, and the volume."""

_ORDER = itemgetter(0, 1)


@dataclass(slots=True)
class VolumesOfClass:
    """All volumes of a class; which of them are free is sorted when it is asked for first after a change."""

    _by_name: dict[str, PersistentVolume] = field(default_factory=dict)
    _free: dict[_Kind, list[_Entry]] | None = None

    def put(self, volume: PersistentVolume) -> None:
        """Add or change a volume."""
        self._by_name[volume.metadata.name] = volume
        self._free = None

    def drop(self, name: str) -> None:
        """Forget a volume."""
        del self._by_name[name]
        self._free = None

    def named(self, name: str) -> PersistentVolume | None:
        """Return a volume of the class; None where it has none of this name."""
        return self._by_name.get(name)

    def unclaimed(self, wanted: UnboundClaim) -> list[PersistentVolume]:
        """Return the volumes that suit a claim and that no claim is written on, the smallest first."""
        if self._free is None:
            self._free = _free(self._by_name.values())
        suiting = [
            entries[bisect_left(entries, wanted.size, key=itemgetter(0)) :]
            for (modes, mode, attributes), entries in self._free.items()
            if (mode, attributes) == (wanted.mode, wanted.attributes_class) and modes.issuperset(wanted.modes)
        ]
        found = suiting[0] if len(suiting) == 1 else sorted((one for several in suiting for one in several), key=_ORDER)
        if wanted.selector is None:
            return [volume for _, _, volume in found]
        return [volume for _, _, volume in found if wanted.selector.matches(volume.metadata.labels)]


NO_VOLUMES_OF_CLASS = VolumesOfClass()
"""Those of a class that has none; nobody adds any."""


def is_large_enough(volume: PersistentVolume, wanted: UnboundClaim) -> bool:
    """Whether a volume has what even one that is reserved for the claim must have."""
    return (
        volume.size >= wanted.size
        and volume.spec.volume_mode == wanted.mode
        and volume.spec.volume_attributes_class_name == wanted.attributes_class
        and volume.metadata.deletion_timestamp is None
    )


def _free(volumes: Iterable[PersistentVolume]) -> dict[_Kind, list[_Entry]]:
    out: dict[_Kind, list[_Entry]] = {}
    for volume in volumes:
        spec, meta = volume.spec, volume.metadata
        if spec.claim_ref is None and volume.status.phase == "Available" and meta.deletion_timestamp is None:
            kind = (frozenset(spec.access_modes), spec.volume_mode, spec.volume_attributes_class_name)
            out.setdefault(kind, []).append((volume.size, meta.name, volume))
    for entries in out.values():
        entries.sort(key=_ORDER)
    return out
