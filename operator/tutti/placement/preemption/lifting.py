"""Pods taken off their nodes while a question is asked that begins with "if they were gone"."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import numpy as np

from tutti.cluster.cluster import Cluster
from tutti.cluster.tenants import Slots


class Lifting:
    """A context manager: inside, these pods take no room; `seen`, nor are they company to anybody or hold volumes."""

    def __init__(self, cluster: Cluster, slots: Slots, *, seen: bool) -> None:
        tenants, axis = cluster.tenants, cluster.nodes.axis
        self._nodes = cluster.nodes
        self._row = tenants.row[slots].astype(np.int64)
        self._held = tenants.held(slots, axis)
        self._weight = tenants.weight(slots, axis)
        self._records = tenants.at(slots) if seen else []

    def __enter__(self) -> Self:
        self.lift()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.put_back()

    def lift(self) -> None:
        """Take them off; `put_back` them before anything else happens."""
        self._change(-1)

    def put_back(self) -> None:
        """Undo `lift`."""
        self._change(1)

    def _change(self, sign: int) -> None:
        nodes = self._nodes
        for columns, amounts in ((nodes.requested, self._held), (nodes.scored, self._weight)):
            for column, amount in zip(columns.T, amounts.T, strict=False):
                np.add.at(column, self._row, sign * amount)
        for record, row in zip(self._records, self._row.tolist(), strict=False):
            nodes.residents.add(record.kin, row, leaving=record.deleting, count=sign)
            if record.uses and sign > 0:
                nodes.volumes.users.mount(record.key, nodes.names[row], record.uses)
            elif record.uses:
                nodes.volumes.users.unmount(record.key)
