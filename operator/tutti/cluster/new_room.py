"""Where room may have come to be, for whom: what failed to fit is worth trying again only then.

`count` grows with each event. Most may help anybody anywhere. What pods leave behind, and who comes near others, is
noted by node beside that, so that only those need be tried whom it can help there; that is worth something as long as
nothing else has made room meanwhile, which the count tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tutti.cluster.class_book import ClassBook
from tutti.cluster.nodes import NodeColumns


@dataclass(slots=True)
class Exits:
    """What pods that left have made free, and what else there is by now that somebody may have waited for.

    Attributes:
        rows: Of the nodes on which there is more room.
        storage: Whether a node may have come to take volumes that it did not take before, wherever it is.
        devices: The rows of the nodes where devices may be free that were not.
        all_devices: Whether that may be on any node, or devices may be others.
        company: The rows of the nodes that pods have come to, or on which they are seen otherwise.
    """

    rows: dict[int, None] = field(default_factory=dict)
    storage: bool = False
    devices: dict[int, None] = field(default_factory=dict)
    all_devices: bool = False
    company: dict[int, None] = field(default_factory=dict)


class NewRoom:
    """What has made room, and where, since that was last taken.

    Attributes:
        count: How often room may have appeared somewhere.
    """

    def __init__(self, nodes: NodeColumns, classes: ClassBook) -> None:
        """Begin with nothing; nodes: by whose names rows are noted; classes: that tell who waits for what."""
        self.count = 0
        self._nodes = nodes
        self._classes = classes
        self._exits = Exits()
        self._noted = self._before = 0

    def anywhere(self) -> None:
        """Note that anybody may have a place by now, and where is not known."""
        self.count += 1

    def on(self, names: Iterable[str]) -> None:
        """Note that some may have a place by now who had none; who asks for room alone, on these nodes only."""
        self._note(self._rows(names))

    def left(self, row: int, keys: Sequence[str]) -> None:
        """Note that a pod has left a node, and keeps nobody off any more by some labels of nodes."""
        self._note(self._nodes.rows_alike([row], keys))

    def for_claimants(self) -> None:
        """Note that what has changed of volumes or devices may let a pod be placed that claims some."""
        self._note(())

    def for_volumes(self) -> None:
        """Note that some node may take volumes now that it did not take before."""
        self._note(())
        self._exits.storage = True

    def neighbours_on(self, rows: Iterable[int]) -> None:
        """Note that somebody came to nodes, or is seen otherwise there, where a pod may wait for just that."""
        if self._classes.minding:  # for nobody else there is more room anywhere
            self._note(())
            self._exits.company.update(dict.fromkeys(rows))

    def nominated_to(self, names: Iterable[str]) -> None:
        """Note that somebody is to come to nodes when others have left: who is spread counts him there already."""
        self._exits.company.update(dict.fromkeys(self._rows(names)))

    def unheld_on(self, names: Sequence[str]) -> None:
        """Note that room on some nodes is not held any more, of devices either, for somebody who was to come there."""
        self.on(names)
        self.devices_on(names)
        self.nominated_to(names)

    def devices_on(self, names: Iterable[str] | None) -> None:
        """Note on which nodes devices may be free by now, None: on any; something else counts it."""
        if names is None:
            self._exits.all_devices = True
        else:
            self._exits.devices.update(dict.fromkeys(self._rows(names)))

    def take(self) -> Exits | None:
        """Return what was noted by node since the last call; None where anything else may have made room as well."""
        exits, noted, before = self._exits, self._noted, self._before
        self._exits, self._noted, self._before = Exits(), 0, self.count
        return exits if self.count - before == noted else None

    def _note(self, rows: Iterable[int]) -> None:
        self.count += 1
        self._noted += 1
        self._exits.rows.update(dict.fromkeys(rows))

    def _rows(self, names: Iterable[str]) -> list[int]:
        known = self._nodes.rows
        return [known[name] for name in names if name in known]
