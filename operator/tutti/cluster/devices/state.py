"""Everything about devices: what is offered, what is asked, what is held, and what has been decided here.

What a node gives to a pod is worked out by the program of its claims (`programs.py`) for all nodes at once, and taken
from the node when a pod is put there (`allot`), inside the transaction that takes its room.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tutti.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from tutti.cluster.devices.asks import ClaimAsk, DeviceNeeds
from tutti.cluster.devices.claims import ClaimBook
from tutti.cluster.devices.expressions import Expressions
from tutti.cluster.devices.extended import extended_claim
from tutti.cluster.devices.ledger import DeviceLedger, HeldDevice, held_by
from tutti.cluster.devices.pools import DeviceCatalog, NodePool, PoolDevice
from tutti.cluster.devices.programs import DeviceProgram, DeviceRows
from tutti.cluster.devices.search import Fault, Pick, Verdict

DeviceObject = ResourceSlice | DeviceClass | ResourceClaim

_MOST_PROGRAMS: Final = 1024


class AllottedDevice(NamedTuple):
    """A device that is chosen for a claim.

    Attributes:
        request: What the request is called in results.
        consumed: Of a device that is shared, what of its capacities, in milli-units; None of one that is had whole.
    """

    request: str
    pool: NodePool
    device: PoolDevice
    consumed: tuple[tuple[str, int], ...] | None
    admin: bool


@dataclass(frozen=True, slots=True, eq=False)
class Allotment:
    """What one pod is given on a node.

    Attributes:
        node: Its name.
        claims: The claims that ask, and for each the devices.
        held: What is taken with it.
    """

    node: str
    claims: tuple[ClaimAsk, ...]
    devices: tuple[tuple[AllottedDevice, ...], ...]
    held: tuple[HeldDevice, ...]


@dataclass(frozen=True, slots=True, eq=False)
class DeviceColumns:
    """What the claims of a class that have no devices find on each row.

    Attributes:
        fits: bool[rows], where they can be fulfilled.
        rank: int64[rows], what the chosen ways count in the score.
        programs: The programs that were asked, and where: bool[rows]. Elsewhere nothing is asked for.
    """

    fits: NDArray[np.bool_]
    rank: NDArray[np.int64]
    programs: tuple[tuple[DeviceProgram, NDArray[np.bool_]], ...]

    def verdict(self, row: int) -> Verdict | None:
        """Return what was found on a row; None where nothing is asked for."""
        return next((program.at(row) for program, where in self.programs if where[row]), None)


class NodeView(NamedTuple):
    """The columns of nodes that devices are matched with.

    Attributes:
        version: Is another whenever one of these is.
    """

    names: Sequence[str]
    labels: Sequence[Mapping[str, str]]
    version: int


class DeviceState:
    """Everything about devices.

    Attributes:
        catalog: What drivers publish.
        book: Claims and classes.
        ledger: Who holds what.
        rows: What each row of the node table offers.
    """

    def __init__(self) -> None:
        self.catalog = DeviceCatalog()
        self.book = ClaimBook()
        self.ledger = DeviceLedger()
        self.rows = DeviceRows(self.catalog, self.ledger)
        self._expressions = Expressions()
        self._programs: dict[Hashable, DeviceProgram] = {}
        self._numbers = 0

    def put_slice(self, found: ResourceSlice) -> bool:
        """Add or change a slice; returns whether that makes a difference."""
        return self.catalog.put(found)

    def put_claim(self, found: ResourceClaim) -> bool:
        """Add or change a claim; returns whether that makes a difference to who holds what, or to who uses it."""
        known = self.book.claims.get(found.key)
        if known is not None and (known.spec, known.status, known.metadata) == (
            found.spec,
            found.status,
            found.metadata,
        ):
            return False
        self.drop_claim(found.key)
        self.book.claims[found.key] = found
        if found.status.allocation is not None:
            self.ledger.take(held_by(found.status.allocation))
        return True

    def drop_claim(self, key: tuple[str, str]) -> bool:
        """Forget a claim; returns whether it was known."""
        known = self.book.claims.pop(key, None)
        if known is not None and known.status.allocation is not None:
            self.ledger.free(held_by(known.status.allocation))
        return known is not None

    def columns(self, needs: DeviceNeeds, nodes: NodeView, unoffered: Mapping[str, NDArray[np.bool_]]) -> DeviceColumns:
        """Return what claims find on each row.

        Args:
            needs: Theirs.
            nodes: The nodes.
            unoffered: For each extended resource that devices can stand in for, bool[rows]: which nodes do not
                offer it themselves.
        """
        self.rows.refresh(nodes.names, nodes.labels, nodes.version)
        count = len(nodes.names)
        fits, rank = np.ones(count, dtype=np.bool_), np.zeros(count, dtype=np.int64)
        asked = []
        for claims, where in _variants(needs, unoffered, count):
            if not claims:
                continue
            program = self.program(claims)
            program.refresh(self.rows, count)
            fits &= program.fits(count) | ~where
            rank += program.ranks(count) * where
            asked.append((program, where))
        return DeviceColumns(fits, rank, tuple(asked))

    def program(self, claims: tuple[ClaimAsk, ...]) -> DeviceProgram:
        """Return the program of some claims."""
        known = self._programs.get(claims)
        if known is None:
            if len(self._programs) >= _MOST_PROGRAMS:
                self._programs.clear()
            self._numbers += 1
            known = self._programs[claims] = DeviceProgram(self._numbers, claims, self._expressions)
        return known

    def allot(self, columns: DeviceColumns, row: int, node: str) -> Allotment | None:
        """Take for a pod on a row what was found there; None where nothing was, or is asked for."""
        program = next((program for program, where in columns.programs if where[row]), None)
        verdict = program.at(row) if program is not None else None
        if program is None or verdict is None or not verdict.fits:
            return None
        pools = self.rows.pools[row]
        devices: list[list[AllottedDevice]] = [[] for _ in program.claims]
        for pick in verdict.picks:
            devices[pick.claim].append(_allotted(program.claims, pools, pick))
        held = tuple(
            HeldDevice(one.pool.key, one.device.name, one.consumed) for many in devices for one in many if not one.admin
        )
        self.ledger.take(held)
        return Allotment(node, program.claims, tuple(map(tuple, devices)), held)

    def give_back(self, allotment: Allotment) -> None:
        """Free what was taken with an allotment."""
        self.ledger.free(allotment.held)

    def fault_text(self, fault: Fault, row: int) -> str:
        """Say what makes it impossible to tell, with the pool and device of a row."""
        if fault.pool < 0:
            return fault.text
        pool = self.rows.pools[row][fault.pool]
        name = "/".join(pool.key)
        device = f"{name}/{pool.devices[fault.device].name}" if fault.device >= 0 else ""
        return fault.text.replace("{pool}", name).replace("{device}", device)


def _variants(
    needs: DeviceNeeds, unoffered: Mapping[str, NDArray[np.bool_]], count: int
) -> list[tuple[tuple[ClaimAsk, ...], NDArray[np.bool_]]]:
    """Return the claims that ask, and where: nodes that offer an extended resource themselves are not asked for it."""
    everywhere = np.ones(count, dtype=np.bool_)
    if not needs.extended:
        return [(needs.claims, everywhere)]
    code = np.zeros(count, dtype=np.int64)
    for at, one in enumerate(needs.extended):
        code |= (~unoffered[one.resource]).astype(np.int64) << at
    out = []
    for bits in np.unique(code).tolist():
        served = [one.resource for at, one in enumerate(needs.extended) if bits >> at & 1]
        extra = extended_claim(needs.extended, served)
        out.append((needs.claims if extra is None else (*needs.claims, extra), code == bits))
    return out


def _allotted(claims: Sequence[ClaimAsk], pools: Sequence[NodePool], pick: Pick) -> AllottedDevice:
    way = claims[pick.claim].requests[pick.request].ways[pick.way]
    pool = pools[pick.pool]
    device = pool.devices[pick.device]
    consumed = None
    if pick.consumed is not None:
        names = (capacity.name for capacity in device.capacities)
        consumed = tuple(zip(names, pick.consumed, strict=True))
    return AllottedDevice(way.name, pool, device, consumed, pick.admin)
