"""Whether a few pods of different classes are admitted to the zones of one node in every order: by trying all of them.

The bound of `numa_room` is for any number of pods on all nodes at once, and may refuse what would do: two pods that fit
in one zone, beside a third that needs the other one whole. For a few pods on a few nodes, as in a gang of several roles
on a small cluster, the kubelet's steps are followed in each order; what has been reached before is not looked at again.

That is bounded by steps, which tenants can make many of with pods of hundreds of containers: for each node, and for all
nodes of one answer. Where it would take more, the bound of `numa_room` stands, which may refuse, and never gives out
what a kubelet would not admit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

MOST_PODS: Final = 10
"""So many pods are tried in all orders."""
MOST_NODES: Final = 256
"""On so many nodes at once; those that are alike are looked at once."""
MOST_ALIGNED: Final = 4096
"""So many containers are aligned for one node: ten pods of three roles, of four containers each, take as many."""
MOST_ALIGNED_TOGETHER: Final = 32_768
"""And for all nodes of one answer, some hundredths of a second."""

Free = tuple[tuple[int, ...], ...]
"""What each zone has left of each resource."""


@dataclass(frozen=True, slots=True)
class Step:
    """What the kubelet aligns at once for a pod.

    Attributes:
        stays: Whether the pod keeps it while it runs.
        limited: Whether it has to be in a zone at all.
        able: The zones that list what it asks for.
        wanted: Columns of resources, with how much a zone must have.
    """

    stays: bool
    limited: bool
    able: tuple[int, ...]
    wanted: tuple[tuple[int, int], ...]


Steps = tuple[Step, ...]
"""What is aligned for one pod, one after another."""


def admitted(free: Free, steps: Steps) -> Free | None:
    """Return what zones have left with one more pod; None where the kubelet refuses it."""
    zones = list(free)
    for step in steps:
        if not step.limited:
            continue
        at = next((zone for zone in step.able if all(zones[zone][name] >= amount for name, amount in step.wanted)), -1)
        if at < 0:
            return None
        if step.stays:
            left = list(zones[at])
            for name, amount in step.wanted:
                left[name] -= amount
            zones[at] = tuple(left)
    return tuple(zones)


def are_admitted_in_every_order(
    free: Free, kinds: Sequence[Steps], counts: Sequence[int], most_steps: int
) -> tuple[bool, int]:
    """Find out whether so many pods of each kind are admitted, whoever comes first.

    Args:
        free: What each zone has left.
        kinds: What is aligned for one pod of each kind.
        counts: How many pods of each.
        most_steps: What it may take.

    Returns:
        Whether they are, False where it would take more steps to tell, and how many it took: at most one pod's beyond.
    """
    seen: set[tuple[Free, tuple[int, ...]]] = set()
    open_, taken = [(free, tuple(counts))], 0
    while open_:
        state = open_.pop()
        if state in seen:
            continue
        seen.add(state)
        zones, left = state
        for kind, count in enumerate(left):
            if not count:
                continue
            taken += 1 + len(kinds[kind])
            if taken > most_steps:
                return False, taken
            after = admitted(zones, kinds[kind])
            if after is None:
                return False, taken
            open_.append((after, (*left[:kind], count - 1, *left[kind + 1 :])))
    return True, taken
