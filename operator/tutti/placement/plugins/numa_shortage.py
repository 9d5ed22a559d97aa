"""What zones lack where pods cannot be aligned, in numbers: what is asked of one zone, and the largest hole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from tutti.api.messages import HAS, counted
from tutti.api.resources import Amounts, format_amount
from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.numa import NO_ZONE, RESTRICTING
from tutti.cluster.numa_needs import zone_needs
from tutti.placement.framework import Counts, Mask, Rows
from tutti.placement.plugins.numa_room import loaded, zone_room

_EXAMPLES: Final = 3


def zone_shortage(pod_class: PodClass, nodes: NodeColumns, among: Mask) -> str:
    """Say what the zones of some nodes, bool[rows], lack for one more pod of a class; "" where they lack nothing.

    Two sentences at most: about reports that cannot be used, and about zones that have too little.
    """
    nodes.numa.sync()
    unusable = np.flatnonzero(nodes.numa.unusable & among)
    closed = np.flatnonzero((zone_room(pod_class, nodes).room < 1) & ~nodes.numa.unusable & among)
    said = [_about_reports(nodes, unusable)] if len(unusable) else []
    if len(closed):
        said.append(_about_holes(pod_class, nodes, closed))
    return " ".join(said)


def too_large_for_zones(pod_class: PodClass, nodes: NodeColumns) -> str:
    """Say that no node could hold a pod of a class in its zones even if it were empty; "" where one could."""
    numa = nodes.numa
    numa.sync()
    if not numa or not bool((zone_room(pod_class, nodes).never | ~nodes.present).all()):
        return ""
    rows = np.flatnonzero(nodes.present)
    asked = _hardest(pod_class, nodes, numa.allocatable[rows], whole=bool(numa.pod_scope[rows].all()))
    largest = {
        name: int(np.where(numa.listed[rows], numa.allocatable[rows], 0)[:, :, numa.column_of[name]].max(initial=0))
        for name in asked
    }
    return f"A pod asks for {_told(asked)} of one NUMA zone; the most that any has is {_told(largest)}"


def _about_reports(nodes: NodeColumns, rows: Rows) -> str:
    names = sorted(nodes.names[row] for row in rows.tolist())
    first = names[0]
    others = f" ({', '.join(names[1:_EXAMPLES])} and others)" if len(names) > 1 else ""
    who = f"{counted(len(names), 'node')} report{'s' * (len(names) == 1)}"
    return f"What {who} of NUMA zones cannot be used: {first}{others}: {nodes.numa.problem_of(first)}."


def _about_holes(pod_class: PodClass, nodes: NodeColumns, rows: Rows) -> str:
    numa = nodes.numa
    free = np.maximum(numa.available[rows] - loaded(nodes, rows), 0)
    asked = _hardest(pod_class, nodes, free, whole=bool(numa.pod_scope[rows].all()))
    where = f"On {counted(len(rows), 'node')}"
    if (numa.policy[rows] == RESTRICTING).all():
        text = f"{where} the fewest NUMA zones that could hold {_told(asked)} do not have it free"
    else:
        text = f"{where} no NUMA zone has {_told(asked)} free"
    at, zone = _largest(numa.numbers[rows], free, numa.column_of, asked)
    if at >= 0:
        row = int(rows[at])
        hole = {name: int(free[at, zone, numa.column_of[name]]) for name in asked}
        text = (
            f"{text}; the largest hole is {_told(hole)}, in zone {int(numa.numbers[row, zone])} of {nodes.names[row]}"
        )
    waiting = sum(numa.is_crowded(row) for row in rows.tolist())
    if waiting:
        text = f"{text}; {counted(waiting, 'node', verb=HAS)} pods that the report does not know yet"
    return f"{text}."


def _hardest(pod_class: PodClass, nodes: NodeColumns, free: Counts, *, whole: bool) -> Amounts:
    """Return what is asked of one zone, as far as zones list it: by the container that fits in fewest zones."""
    needs, column_of = zone_needs(pod_class), nodes.numa.column_of
    parts = [needs.whole] if whole else [*needs.containers, *(asked for asked, _ in needs.init)]
    listed = [
        {name: amount for name, amount in part.items() if amount and name in column_of and needs.counts(name)}
        for part in parts
    ]

    def fitting(part: Amounts) -> int:
        fits = np.ones(free.shape[:2], dtype=np.bool_)
        for name, amount in part.items():
            fits &= free[:, :, column_of[name]] >= amount
        return int(np.count_nonzero(fits))

    return min((part for part in listed if part), key=fitting, default={})


def _largest(numbers: Counts, free: Counts, column_of: Mapping[str, int], asked: Amounts) -> tuple[int, int]:
    """Return in which row and zone the greatest part of a request fits; -1 where there is no zone."""
    if not asked:
        return -1, -1
    parts = np.stack([free[:, :, column_of[name]] / amount for name, amount in asked.items()]).min(axis=0)
    parts[numbers == NO_ZONE] = -1.0
    if not parts.size or float(parts.max()) < 0:
        return -1, -1
    row, zone = np.unravel_index(int(parts.argmax()), parts.shape)
    return int(row), int(zone)


def _told(amounts: Mapping[str, int]) -> str:
    """Return amounts as text, devices first."""
    order = sorted(amounts, key=lambda name: ("/" not in name, name))
    *first, last = [f"{format_amount(name, amounts[name])} {name}" for name in order] or ["what it asks for"]
    return f"{', '.join(first)} and {last}" if first else last
