"""What queues, cohorts and flavors say of each other, and what is wrong where it does not hold.

A queue with a problem is inactive: nothing is admitted through it until the problem is mended, and everything else
goes on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from tutti.quota.flavors import Queue, QuotaProblem

NOTHING_WRONG: Mapping[str, str] = MappingProxyType({})
"""Where everything that exists can be read."""


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


def ring_problem(ring: tuple[str, ...]) -> QuotaProblem:
    """Describe a ring of cohorts."""
    spelled = " -> ".join((*ring, ring[0]))
    return QuotaProblem("CohortRing", f"cohorts are their own ancestors: {spelled}; clear parentName of one of them")


def queue_problem(
    queue: Queue,
    flavors: Collection[str],
    caught: Mapping[str, tuple[str, ...]],
    *,
    unreadable: Mapping[str, str] = NOTHING_WRONG,
) -> QuotaProblem | None:
    """Return why a ClusterQueue cannot be used, if it cannot.

    Args:
        queue: The queue.
        flavors: Names of the ResourceFlavors that exist and can be read.
        caught: What `rings` returned.
        unreadable: What is wrong with each ResourceFlavor that exists and cannot be read.
    """
    named = dict.fromkeys(flavor for group in queue.groups for flavor in group.flavors)
    missing = [flavor for flavor in named if flavor not in flavors]
    for name in missing:
        if name in unreadable:
            return QuotaProblem("FlavorInvalid", f"ResourceFlavor {name} cannot be used: {unreadable[name]}")
    if missing:
        return QuotaProblem(
            "FlavorNotFound",
            f"ResourceFlavor {', '.join(missing)} does not exist; create it, or take it out of resourceGroups",
        )
    if queue.cohort in caught:
        return ring_problem(caught[queue.cohort])
    return None


def cohort_problem(cohort: str, parents: Mapping[str, str], *, unreadable: Mapping[str, str]) -> QuotaProblem | None:
    """Return what is wrong with a cohort ("" for none) because it, or one above it, cannot be read.

    Its limits and quota are not known then, and nothing may be admitted as if it had none.

    Args:
        cohort: Its name; it must not be in a ring.
        parents: Cohort -> its parent cohort, "" for none; of those that can be read.
        unreadable: What is wrong with each Cohort that exists and cannot be read.
    """
    at = cohort
    while at and at not in unreadable:
        at = parents.get(at, "")
    return QuotaProblem("CohortInvalid", f"Cohort {at} cannot be used: {unreadable[at]}") if at else None


def flavor_problem(
    topology: str, topologies: Collection[str], *, unreadable: Mapping[str, str] = NOTHING_WRONG
) -> QuotaProblem | None:
    """Return what is wrong with a ResourceFlavor that names this topology ("" for none).

    Args:
        topology: The name.
        topologies: Names of the Topologies that exist and can be read.
        unreadable: What is wrong with each that exists and cannot be read.
    """
    if topology in unreadable:
        return QuotaProblem("TopologyInvalid", f"Topology {topology} cannot be used: {unreadable[topology]}")
    if topology and topology not in topologies:
        return QuotaProblem("TopologyNotFound", f"Topology {topology} does not exist; create it, or clear topologyName")
    return None


def checks_problem(
    checks: Iterable[str], active: Mapping[str, bool], *, unreadable: Mapping[str, str] = NOTHING_WRONG
) -> QuotaProblem | None:
    """Return what is wrong with a ClusterQueue that asks for these admission checks (reasons: Kueue 0.20).

    Args:
        checks: Their names.
        active: The AdmissionChecks that exist and can be read, and whether their controller says that they are Active.
        unreadable: What is wrong with each that exists and cannot be read.
    """
    named = list(checks)
    for name in named:
        if name in unreadable:
            return QuotaProblem("AdmissionCheckInvalid", f"AdmissionCheck {name} cannot be used: {unreadable[name]}")
    missing = [name for name in named if name not in active]
    if missing:
        text = (
            f"AdmissionCheck {', '.join(missing)} does not exist; create it, or take it out of admissionChecksStrategy"
        )
        return QuotaProblem("AdmissionCheckNotFound", text)
    idle = [name for name in named if not active[name]]
    if idle:
        text = f"AdmissionCheck {', '.join(idle)} is not active: its controller has yet to set condition Active to True"
        return QuotaProblem("AdmissionCheckInactive", text)
    return None


def _from_least(ring: list[str]) -> tuple[str, ...]:
    start = ring.index(min(ring))
    return (*ring[start:], *ring[:start])
