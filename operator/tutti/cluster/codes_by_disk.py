"""Which codes of the label index are of pods that name a disk, found by its name."""

from __future__ import annotations

from collections.abc import Iterable

from tutti.cluster.signatures import Disk

DiskName = tuple[str, str]
"""The kind of a disk, and its name among those of its kind: others it never conflicts with."""


class CodesByDisk:
    """The disks of all pods that name any."""

    def __init__(self) -> None:
        self._disks: dict[DiskName, dict[int, list[Disk]]] = {}

    def add(self, code: int, disks: Iterable[Disk]) -> None:
        """Note what pods of a code name."""
        for name, several in by_name(disks).items():
            self._disks.setdefault(name, {})[code] = several

    def remove(self, code: int, disks: Iterable[Disk]) -> None:
        """Forget what pods of a code named."""
        for name in by_name(disks):
            codes = self._disks[name]
            del codes[code]
            if not codes:
                del self._disks[name]

    def in_conflict(self, wanted: Iterable[Disk]) -> list[int]:
        """Return the codes of pods that cannot be on a node with one that names these."""
        out: dict[int, None] = {}
        for name, mine in by_name(wanted).items():
            for code, theirs in self._disks.get(name, {}).items():
                if code not in out and any(disk.conflicts(one) for disk in theirs for one in mine):
                    out[code] = None
        return list(out)


def by_name(disks: Iterable[Disk]) -> dict[DiskName, list[Disk]]:
    """Return disks by what two that conflict have in common."""
    out: dict[DiskName, list[Disk]] = {}
    for disk in disks:
        out.setdefault((disk.kind, disk.name), []).append(disk)
    return out
