"""What queues, cohorts and flavors say of each other, and what is wrong where it does not hold.

A queue with a problem is inactive: nothing is admitted through it until the problem is mended, and everything else
goes on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tutti.quota.flavors import Problem, Queue


def rings(parents: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Find the cohorts that are in a ring, or below one.

    Args:
        parents: Cohort -> its parent cohort, "" for none.

    Returns:
        Cohort -> the ring it is caught in, starting from its least name, so that all members tell it alike.
    """
    caught: dict[str, tuple[str, ...]] = {}
    for start in parents:
        path: list[str] = []
        at = start
        while at and at not in path and at not in caught:
            path.append(at)
            at = parents.get(at, "")
        if not at:
            continue
        ring = caught[at] if at in caught else _from_least(path[path.index(at) :])
        caught.update(dict.fromkeys(path, ring))
    return caught


def ring_problem(ring: tuple[str, ...]) -> Problem:
    """Describe a ring of cohorts."""
    spelled = " -> ".join((*ring, ring[0]))
    return Problem("CohortRing", f"cohorts are their own ancestors: {spelled}; clear parentName of one of them")


def queue_problem(queue: Queue, flavors: Collection[str], caught: Mapping[str, tuple[str, ...]]) -> Problem | None:
    """Return why a ClusterQueue cannot be used, if it cannot.

    Args:
        queue: The queue.
        flavors: Names of the ResourceFlavors that exist.
        caught: What `rings` returned.
    """
    named = dict.fromkeys(flavor for group in queue.groups for flavor in group.flavors)
    missing = [flavor for flavor in named if flavor not in flavors]
    if missing:
        return Problem(
            "FlavorNotFound",
            f"ResourceFlavor {', '.join(missing)} does not exist; create it, or take it out of resourceGroups",
        )
    if queue.cohort in caught:
        return ring_problem(caught[queue.cohort])
    return None


def flavor_problem(topology: str, topologies: Collection[str]) -> Problem | None:
    """Return what is wrong with a ResourceFlavor that names this topology ("" for none)."""
    if topology and topology not in topologies:
        return Problem("TopologyNotFound", f"Topology {topology} does not exist; create it, or clear topologyName")
    return None


def _from_least(ring: list[str]) -> tuple[str, ...]:
    start = ring.index(min(ring))
    return (*ring[start:], *ring[:start])
