"""When those that hold quota give it back at the latest, and what, as columns.

A shadow asks again and again what is given back by some time, of tens of thousands that run. That is one expression
here: each holder has a slot with its end, and for each queue, flavor and resource that it uses an entry with how much.
Only holders that something changed about are looked at, and none while nobody asks.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tutti.cluster.columns import longer
from tutti.engine.records.workloads import WorkloadKey
from tutti.quota.ledger import UsageLedger
from tutti.quota.tree import FlavorResource, Usage

_Column = tuple[str, FlavorResource]


class Returns:
    """The ends of those of which they are known.

    Attributes:
        version: Grows whenever an end changes, or what is given back then.
    """

    def __init__(self) -> None:
        self.version = 0
        self._until = np.full(256, np.inf, dtype=np.float64)
        self._keys: list[WorkloadKey | None] = []
        self._slots: dict[WorkloadKey, int] = {}
        self._free_slots: list[int] = []
        self._slot = np.zeros(256, dtype=np.int64)
        self._column = np.zeros(256, dtype=np.int64)
        self._amount = np.zeros(256, dtype=np.int64)
        self._entries: dict[int, list[int]] = {}
        self._free_entries: list[int] = []
        self._count = 0
        self._columns: dict[_Column, int] = {}
        self._new: dict[WorkloadKey, None] = {}
        self._unasked = False

    def end_of(self, key: WorkloadKey) -> float | None:
        """Return when a workload ends at the latest, Unix seconds; None where nobody knows."""
        slot = self._slots.get(key)
        return None if slot is None else float(self._until[slot])

    def expect(self, key: WorkloadKey, until: float) -> None:
        """Note when a workload ends at the latest, Unix seconds."""
        self.version += 1
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = self._take_slot()
            self._keys[slot] = key
            self._new[key] = None
        self._until[slot] = until

    def forget(self, key: WorkloadKey) -> None:
        """Note that nobody knows when a workload ends, or that it is gone."""
        slot = self._slots.pop(key, None)
        if slot is None:
            return
        self.version += 1
        self._new.pop(key, None)
        self._drop_entries(slot)
        self._until[slot], self._keys[slot] = np.inf, None
        self._free_slots.append(slot)

    def first(self, most: int) -> list[tuple[float, WorkloadKey]]:
        """Return so many of those that end first, the first one first; of equal ends, in the order of their slots."""
        until = self._until[: len(self._keys)]
        if most < len(until):
            bound = np.partition(until, most - 1)[most - 1]
            near = np.flatnonzero(until <= bound)
        else:
            near = np.arange(len(until))
        chosen = near[np.argsort(until[near], kind="stable")][:most]
        found = ((float(until[slot]), self._keys[slot]) for slot in chosen.tolist())
        return [(at, key) for at, key in found if key is not None]

    def given(self, ledger: UsageLedger, queue: str, at: float, *, sooner: bool = False) -> dict[str, Usage]:
        """Return what is given back by some time, per queue, in the quota tree of a queue.

        Args:
            ledger: What everybody uses.
            queue: In whose tree.
            at: The time, Unix seconds.
            sooner: Leave out those that end at that time itself.
        """
        self._refresh(ledger)
        until = self._until[self._slot[: self._count]]
        there = np.flatnonzero(until < at if sooner else until <= at)
        total = np.zeros(len(self._columns), dtype=np.int64)
        np.add.at(total, self._column[there], self._amount[there])
        columns, root = list(self._columns), ledger.root_of(queue)
        out: dict[str, Usage] = {}
        for number in np.flatnonzero(total).tolist():
            where, what = columns[number]
            if ledger.root_of(where) == root:
                out.setdefault(where, {})[what] = int(total[number])
        return out

    def rest(self, ledger: UsageLedger) -> None:
        """Do not follow what is used before it is asked for again: nothing is kept for anybody."""
        self._unasked = bool(ledger.take_touched()) or self._unasked

    def _refresh(self, ledger: UsageLedger) -> None:
        """Take over what those use of whom that, or the end, has changed."""
        news, self._new = dict.fromkeys(self._slots) if self._unasked else self._new, {}
        self._unasked = False
        for who in ledger.take_touched():
            kind, namespace, name = who.split("/")
            if (kind, namespace, name) in self._slots:
                news[kind, namespace, name] = None
        self.version += bool(news)
        for key in news:
            slot = self._slots[key]
            self._drop_entries(slot)
            for queue, usage in ledger.used_by("/".join(key)):
                self._put_entries(slot, (((queue, what), amount) for what, amount in usage.items() if amount))

    def _take_slot(self) -> int:
        if self._free_slots:
            return self._free_slots.pop()
        self._keys.append(None)
        if len(self._keys) > len(self._until):
            self._until = longer(self._until, 2 * len(self._until))
            self._until[len(self._keys) - 1 :] = np.inf
        return len(self._keys) - 1

    def _put_entries(self, slot: int, used: Iterable[tuple[_Column, int]]) -> None:
        mine = self._entries.setdefault(slot, [])
        for column, amount in used:
            if self._free_entries:
                entry = self._free_entries.pop()
            else:
                entry, self._count = self._count, self._count + 1
                if self._count > len(self._slot):
                    room = 2 * len(self._slot)
                    self._slot, self._column = longer(self._slot, room), longer(self._column, room)
                    self._amount = longer(self._amount, room)
            mine.append(entry)
            self._slot[entry], self._amount[entry] = slot, amount
            self._column[entry] = self._columns.setdefault(column, len(self._columns))

    def _drop_entries(self, slot: int) -> None:
        entries = self._entries.pop(slot, [])
        self._amount[entries] = 0  # whoever has the slot next: nothing of it
        self._free_entries += entries
