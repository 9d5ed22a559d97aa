"""What is free of quota when some of those who use it have gone, for working out when the head of a queue will fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.placed_pods import Slots
from tutti.engine.backfill import BackfillState
from tutti.engine.records.reservations import ChargesBySlot
from tutti.quota.tree import Usage, add_to


def given_back(state: BackfillState, head: str, at: float, *, sooner: bool = False) -> dict[str, Usage]:
    """Return what those use of each queue who have gone when the head of a queue starts, or sooner than that.

    Those are whole workloads by their ends, and pods of others that are being deleted already.
    """
    total = state.backfill_reservations.releases.given(state.ledger, head, at, sooner=sooner)
    columns = state.cluster.pod_columns
    leaving = columns.leaving & (columns.row >= 0) & ((columns.until >= at) if sooner else (columns.until > at))
    return both(total, counted_of(state, np.flatnonzero(leaving)))


def counted_of(state: BackfillState, slots: Slots) -> dict[str, Usage]:
    """Return what pods in some slots use of each queue, without what of it is counted for whom they leave for."""
    theirs: dict[tuple[str, str], Usage] = {}
    for record in state.cluster.pod_columns.at(slots):
        member = state.members.get(record.key)
        if member is not None and member.charge is not None:
            add_to(theirs.setdefault((member.charge.queue, member.charge.holder), {}), member.charge.usage)
    total: dict[str, Usage] = {}
    for (queue, holder), usage in theirs.items():
        counted = state.ledger.held_by(holder)
        add_to(total.setdefault(queue, {}), {what: min(n, counted.get(what, 0)) for what, n in usage.items()})
    return total


def in_use(state: BackfillState, head: str) -> dict[str, Usage]:
    """Return all that is used in the tree of the head of a queue: nothing is when everybody has ended.

    That is also what is held for those who have no nodes yet, while others leave for them or checks are asked.
    """
    node = state.ledger.tree.queues.get(head)
    return {} if node is None else {leaf.name: dict(leaf.usage) for leaf in node.root().leaves()}


def both(one: Mapping[str, Usage], other: Mapping[str, Usage]) -> dict[str, Usage]:
    """Return what is used of some queues and of others together."""
    total = {queue: dict(usage) for queue, usage in one.items()}
    for queue, usage in other.items():
        add_to(total.setdefault(queue, {}), usage)
    return total


@dataclass(frozen=True, slots=True)
class Charges:
    """What some pods use of quota.

    Attributes:
        code: int64[m], the index of what each pod uses, -1 where it uses nothing.
        charges: What they use of which queue, each once.
    """

    code: NDArray[np.int64]
    charges: list[tuple[str, Usage]]

    @classmethod
    def of(cls, state: BackfillState, slots: Slots) -> Charges:
        """Return those of the pods in some slots, none of them free."""
        known = _charges_by_slot(state)
        return cls(known.code[slots], known.charges)

    def only(self, those: NDArray[np.bool_]) -> Charges:
        """Return those of some of the pods: bool[m]."""
        return Charges(self.code[those], self.charges)

    def total(self) -> dict[str, Usage]:
        """Return what is used in all of which queues."""
        counts = np.bincount(self.code[self.code >= 0], minlength=len(self.charges))
        out: dict[str, Usage] = {}
        for (queue, usage), count in zip(self.charges, counts.tolist(), strict=True):
            mine = out.setdefault(queue, {})
            if count:
                add_to(mine, usage, count)
        return out


def _charges_by_slot(state: BackfillState) -> ChargesBySlot:
    """Return what each pod that has a node uses; read off all of them once, until one moves or quota does."""
    reservations, columns, members = state.backfill_reservations, state.cluster.pod_columns, state.members
    stamp = (columns.version, state.ledger.changes.moment)
    before = reservations.charges_by_slot
    if before is not None and before.stamp == stamp:
        return before
    codes, known = dict[int, int](), dict[tuple[object, ...], int]()
    charges: list[tuple[str, Usage]] = []
    slots, found = np.flatnonzero(columns.row >= 0), []
    for record in columns.at(slots):
        member = members.get(record.key)
        charge = None if member is None else member.charge
        if charge is None:
            found.append(-1)
            continue
        code = codes.get(id(charge))  # the pods of a need share their charge
        if code is None:
            code = codes[id(charge)] = known.setdefault((charge.queue, *charge.usage.items()), len(known))
            if code == len(charges):
                charges.append((charge.queue, charge.usage))
        found.append(code)
    code_of = np.full(len(columns), -1, dtype=np.int64)
    code_of[slots] = found
    reservations.charges_by_slot = ChargesBySlot(stamp, code_of, charges)
    return reservations.charges_by_slot
