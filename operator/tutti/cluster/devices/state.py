"""Everything about devices: what is offered, what is asked, what is held, and what has been decided here.

What a node gives to a pod is worked out by the program of its claims (`programs.py`) for all nodes at once, and taken
from the node when a pod is put there (`allot`), inside the transaction that takes its room.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from tutti.api.core import PodSpec
from tutti.api.device_mappings import DeviceClassMapping
from tutti.api.device_taints import DeviceTaintRule
from tutti.api.devices import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from tutti.api.resources import Amounts
from tutti.cluster.devices.allotments import Allotments, ClaimAllotment, allot_alike, taken_alike
from tutti.cluster.devices.asks import (
    NO_DEVICES,
    ClaimAsk,
    ClaimKey,
    Counted,
    DeviceNeeds,
    DeviceUse,
    HeldClaim,
)
from tutti.cluster.devices.catalog import DeviceCatalog
from tutti.cluster.devices.claims import ClaimBook
from tutti.cluster.devices.columns import DeviceColumns, NodeView
from tutti.cluster.devices.expressions import Expressions
from tutti.cluster.devices.extended import LEFT_OVER, extended_asks, with_extended
from tutti.cluster.devices.islands import DeviceIslands
from tutti.cluster.devices.ledger import DeviceLedger, HeldDevice, held_by
from tutti.cluster.devices.offers import DeviceFault
from tutti.cluster.devices.program_book import AHEAD, ProgramBook
from tutti.cluster.devices.programs import UNLIMITED, DeviceProgram, SearchLength
from tutti.cluster.devices.projections import MANY
from tutti.cluster.devices.promises import DevicePromises
from tutti.cluster.devices.quota import DeviceQuota
from tutti.cluster.devices.rows import DeviceRows

DeviceObject = ResourceSlice | DeviceClass | ResourceClaim | ResourceClaimTemplate | DeviceTaintRule
DeviceKind = Literal["ResourceSlice", "DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "DeviceTaintRule"]

PodKey = tuple[str, str]

_MOST_NEEDS: Final = 4096
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


class DeviceState:
    """Everything about devices.

    Attributes:
        catalog: What drivers publish.
        book: Claims and classes.
        ledger: Who holds what.
        promises: What was decided here and the API server does not show yet.
        rows: What each row of the node table offers.
        quota: What quota counts of devices.
        tight_schedulers: Those whose pods get the devices that fit tightest.
        near_schedulers: Those of them whose pods get devices near their cores.
    """

    def __init__(self) -> None:
        self.catalog = DeviceCatalog()
        self.book = ClaimBook()
        self.ledger = DeviceLedger()
        self.promises = DevicePromises(self.ledger)
        self.rows = DeviceRows(self.catalog, self.ledger)
        self.tight_schedulers: frozenset[str] = frozenset()
        self.near_schedulers: frozenset[str] = frozenset()
        self._islands = DeviceIslands(self.rows)
        self._expressions = Expressions()
        self._programs = ProgramBook(self.catalog, self.book, self.rows, self._expressions)
        self.quota = DeviceQuota(self.catalog, self._expressions)
        self._needs: dict[bytes, DeviceNeeds] = {}
        self._conflicts: dict[tuple[str, str], str] = {}

    def put_claim(self, found: ResourceClaim) -> bool:
        """Add or change a claim; returns whether it is another than it was."""
        key, allocation = found.key, found.status.allocation
        known = self.book.claims.get(key)
        if known == found:
            return False
        conflict = self._conflicts.pop(key, None)
        self.book.put(found)
        had = known is not None and known.status.allocation is not None
        if known is not None and had:
            self._let_go(known)
        if allocation is not None:
            held = held_by(allocation)
            self.ledger.take(held)
            self.catalog.touch_unlisted([(one.pool, one.name) for one in held])
            self.promises.claim_seen(key, held)
            if not had:
                self._look_for_conflicts(key, held)
            elif conflict is not None:
                self._conflicts[key] = conflict
        return True

    def conflict(self, claim: ResourceClaim) -> str:
        """Return which device of a claim somebody else had when it was seen to have it, or ""."""
        return self._conflicts.get(claim.key, "")

    def _look_for_conflicts(self, key: ClaimKey, held: Sequence[HeldDevice]) -> None:
        """Note a device that a claim on which it was just written is not the first to hold."""
        for one in held:
            if one.consumed is None and self.ledger.holders(one.pool, one.name) > 1:
                self._conflicts[key] = f"device {'/'.join(one.pool)}/{one.name} is another claim's"
                return

    def drop_claim(self, key: ClaimKey) -> bool:
        """Forget a claim; returns whether it was known."""
        known = self.book.drop(key)
        self._conflicts.pop(key, None)
        if known is not None and known.status.allocation is not None:
            self._let_go(known)
        return known is not None

    def _let_go(self, known: ResourceClaim) -> None:
        """Have devices be free that a claim had."""
        assert known.status.allocation is not None  # that is what it is to lose
        held = held_by(known.status.allocation)
        self.ledger.free(held)
        self.catalog.touch_unlisted((one.pool, one.name) for one in held)
        self.promises.claim_seen(known.key, None)

    def needs(
        self,
        pod: PodKey,
        uid: str,
        uses: Sequence[DeviceUse],
        spec: PodSpec,
        *,
        scheduler: str = "",
        elsewhere: bool = False,
    ) -> DeviceNeeds:
        """Return what a pod, whose uses are noted, asks of the devices of its node; equal needs are one object.

        With `elsewhere`, what an equal pod asks in its place once it has left; `scheduler` is whose it is.
        """
        asked = self.book.needs_elsewhere if elsewhere else self.book.needs
        needs = asked(pod, uid, uses) if uses else NO_DEVICES
        if self.book.made_for(pod, uid) and not elsewhere:
            needs = DeviceNeeds(LEFT_OVER, waits=True)
        held = [one for one in self.book.claims_of(uses) if one.status.allocation is not None and not elsewhere]
        return self._completed(needs, pod[0], spec, held, uid, scheduler)

    def promised_needs(self, namespace: str, spec: PodSpec) -> DeviceNeeds | None:
        """Return what a pod that is yet to be made of a template will ask of the devices of its node.

        Returns:
            The same as `needs` says of the pod once it and its claims are there; None where that cannot be told yet.
        """
        asks = self.book.template_asks(namespace, spec)
        if asks is None:
            return None
        needs = DeviceNeeds(claims=asks) if asks else NO_DEVICES
        return self._completed(needs, namespace, spec, (), "", spec.scheduler_name)

    def _completed(
        self,
        needs: DeviceNeeds,
        namespace: str,
        spec: PodSpec,
        held: Sequence[ResourceClaim],
        uid: str,
        scheduler: str,
    ) -> DeviceNeeds:
        """Return what claims ask with what is asked for beside them and what quota counts; of equal ones the same."""
        if self.book.classes and not needs.problem:
            needs = with_extended(needs, spec, self.book)
        if needs is NO_DEVICES:
            return NO_DEVICES
        needs = msgspec.structs.replace(needs, namespace=namespace)
        if self.quota and not needs.problem:
            needs = msgspec.structs.replace(needs, counted=self.quota.asked(needs.claims, held, needs.extended, uid))
        if scheduler in self.tight_schedulers:
            needs = msgspec.structs.replace(needs, tight=True, near_cores=scheduler in self.near_schedulers)
        if len(self._needs) >= _MOST_NEEDS:
            self._needs.clear()
        return self._needs.setdefault(_ENCODER.encode(needs), needs)

    def expression_problem(self, expression: str) -> str:
        """Return why an expression about devices cannot be used, or ""."""
        return self._expressions.problem(expression)

    def count(self, mappings: Sequence[DeviceClassMapping]) -> None:
        """Have quota count devices under these names; before anything is known of any."""
        self.quota = DeviceQuota(self.catalog, self._expressions, mappings)

    def charged(self, uid: str, uses: Sequence[DeviceUse], spec: PodSpec, amounts: Amounts) -> Amounts:
        """Return what quota counts of a pod that has a node, or is to have one, and takes so much there."""
        added: dict[str, int] = {}
        for claim in self.book.claims_of(uses):
            promise = self.promises.of(claim.key)
            has = claim.status.allocation is not None or promise is None
            taken = self.quota.held(claim, uid) if has or promise is None else self.quota.allotted(promise.allotment)
            for name, amount in taken.items():
                added[name] = added.get(name, 0) + amount
        extended = extended_asks(spec, self.book) if any("/" in name for name in amounts) else ()
        renamed = self.quota.renamed(extended)
        if not (added or renamed):
            return amounts
        return Counted(tuple(added.items()), tuple(renamed.items())).of(amounts)

    def current(self, needs: DeviceNeeds) -> DeviceNeeds:
        """Return what is asked for now: a claim that several pods use may have been given its devices here."""
        settled = [one for one in needs.claims if one.shared and self.promises.shared(one.shared) is not None]
        if not settled:
            return needs
        held = tuple(HeldClaim(selector=self._chosen(one).selector) for one in settled)
        claims = tuple(one for one in needs.claims if one not in settled)
        return msgspec.structs.replace(needs, claims=claims, held=(*needs.held, *held))

    def follow(self, nodes: NodeView) -> None:
        """Look at what drivers have published for single nodes before anybody asks for it, where anybody can.

        What is published for several nodes is looked at when it is asked for: each change of it concerns all of them.
        """
        if self.book.classes and self.catalog.changed:
            self.rows.refresh(nodes.names, nodes.labels, nodes.version)

    def moves(self, needs: DeviceNeeds, nodes: NodeView) -> bool:
        """Whether what one pod of a class is given changes what the next finds on other nodes."""
        if any(one.shared for one in needs.claims):
            return True
        self.rows.refresh(nodes.names, nodes.labels, nodes.version)
        if not self.rows.shared_pools():
            return False
        return any(program.moves(self.rows) for program, _ in self._programs.asked(needs, nodes))

    def islands(self, names: frozenset[str], nodes: NodeView) -> NDArray[np.int64]:
        """Return int64[rows]: which nodes have devices that are linked, by attributes of these names (`islands.py`)."""
        self.rows.refresh(nodes.names, nodes.labels, nodes.version)
        return self._islands.of(names, len(nodes.names))

    def columns(self, needs: DeviceNeeds, nodes: NodeView) -> DeviceColumns:
        """Return what claims find on each row."""
        current = self.current(needs)
        programs = self._programs.asked(current, nodes)
        sole = programs[0][0] if len(programs) == 1 and not current.extended else None
        return DeviceColumns(len(nodes.names), programs, sole)

    def length_of_search(self, needs: DeviceNeeds, nodes: NodeView) -> SearchLength:
        """Return how long it took to look for what is asked for, if it was looked for at this moment."""
        now = self.current(needs)
        if not (now.claims or now.extended):
            return SearchLength.SHORT
        return self._programs.length_of_search(now, nodes)

    def room(self, needs: DeviceNeeds, nodes: NodeView, most: int) -> NDArray[np.int64]:
        """Return int64[rows]: for how many pods one after another the claims of each can be fulfilled, up to `most`.

        Where nodes share devices that are asked for, it is told as if no other gave any away, and of few pods only.
        """
        count = len(nodes.names)
        asked = self._programs.asked(needs, nodes, pods=AHEAD if self.moves(needs, nodes) else 1)
        if len(asked) == 1 and not needs.extended:
            return asked[0][0].room(count, most)
        room = np.full(count, UNLIMITED, dtype=np.int64)
        for program, where in asked:
            np.copyto(room, program.room(count, most), where=where)
        return room

    def allot(self, needs: DeviceNeeds, nodes: NodeView, row: int, signature: bytes) -> bool:
        """Take what the claims of a pod of a class find on a row, and keep it for the pod.

        Returns:
            Whether there is something to withdraw; False, and nothing is taken, where nothing is there for them.
        """
        one = np.ones(1, dtype=np.int64)
        return bool(self.allot_all(needs, nodes, one * row, one, signature))

    def allot_all(
        self,
        needs: DeviceNeeds,
        nodes: NodeView,
        rows: NDArray[np.int64],
        counts: NDArray[np.int64],
        signature: bytes,
    ) -> list[str]:
        """Do so for several pods on each of some rows; of pods that others can take something from, it is one in all.

        Args:
            needs: What each of the pods asks for.
            nodes: What devices are matched with, for the first pod on each row.
            rows: int64[k], distinct rows.
            counts: int64[k], how many pods on each of them.
            signature: Of their class.

        Returns:
            The nodes for which there is something to withdraw, each as often as there is.
        """
        current = self.current(needs)
        shares = [one.shared for one in needs.claims if one not in current.claims]
        names, taking, allotted = nodes.names, list[str](), list[Allotments]()
        apart = self.rows.are_apart
        for program, where in self._programs.asked(current, nodes):
            asking = where[rows]
            for (situation, count), those in _alike(program.verdict_of, rows[asking], counts[asking]):
                verdicts, pools_of = program.in_turn(situation, count), program.projection.pools_of(self.rows, those)
                called = [names[row] for row in those]
                for picks in map(program.picks, verdicts):
                    taking += called
                    allotted += allot_alike(picks, called, pools_of)
                    whole, parts = taken_alike(picks, pools_of)
                    self.ledger.take_whole(whole, known=apart)
                    self.ledger.take(parts)
                if apart and verdicts:
                    program.projection.settle(self.rows, those, situation, verdicts[-1].after)
            rows, counts = rows[~asking], counts[~asking]
        taking += [names[row] for row in np.repeat(rows, counts).tolist()]
        allotted += [()] * (len(taking) - len(allotted))
        self.promises.earmark(signature, taking, allotted, shares)
        return taking

    def fault_text(self, fault: DeviceFault, program: DeviceProgram, row: int) -> str:
        """Say what makes it impossible for a program to tell, with the pool and device of a row."""
        if fault.pool < 0:
            return fault.text
        pool = program.projection.pools_at(self.rows, row)[fault.pool]
        name = "/".join(pool.key)
        device = f"{name}/{pool.devices[fault.device].name}" if fault.device >= 0 else ""
        return fault.text.replace("{pool}", name).replace("{device}", device)

    def _chosen(self, ask: ClaimAsk) -> ClaimAllotment:
        found = self.promises.shared(ask.shared)
        assert found is not None  # asked before
        return found


def _alike(
    situation_of: NDArray[np.int64], rows: NDArray[np.int64], counts: NDArray[np.int64]
) -> Iterable[tuple[tuple[int, int], list[int]]]:
    """Return rows by their situation and by how many pods come there; mostly all are alike."""
    those, situations = rows.tolist(), situation_of[rows]
    if len(those) >= MANY and bool((situations == situations[0]).all() and (counts == counts[0]).all()):
        return (((int(situations[0]), int(counts[0])), those),)
    found: dict[tuple[int, int], list[int]] = {}
    for row, met in zip(those, zip(situations.tolist(), counts.tolist(), strict=True), strict=True):
        found.setdefault(met, []).append(row)
    return found.items()
