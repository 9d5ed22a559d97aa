"""What queues, cohorts and flavors say of each other, and what is wrong where it does not hold.

A queue with a problem is inactive: nothing is admitted through it until the problem is mended, and everything else
goes on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from tutti.quota.flavors import Queue, QuotaProblem

NOTHING_WRONG: Mapping[str, str] = MappingProxyType({})
"""Where everything that exists can be read."""


MOST_COHORTS_ABOVE: Final = 100
"""How many cohorts may stand above one: quota is looked up through all of them for each pod."""
_RING_SPELLED: Final = 10

_TOO_DEEP: Final = QuotaProblem(
    "CohortTooDeep",
    f"there are more than {MOST_COHORTS_ABOVE} cohorts above it; shorten the chain of parentName that it hangs on",
)


def misplaced_cohorts(parents: Mapping[str, str]) -> dict[str, QuotaProblem]:
    """Find the cohorts that are in a ring or below one, and those that stand too deep.

    Args:
        parents: Cohort -> its parent cohort, "" for none.

    Returns:
        Cohort -> what is wrong with its place. All of a ring are told the same, from its least name on.
    """
    wrong: dict[str, QuotaProblem] = {}
    above: dict[str, int] = {}  # of those that are well placed, how many cohorts stand above
    for start in parents:
        path: dict[str, None] = {}
        at = start
        while at and at not in path and at not in wrong and at not in above:
            path[at] = None
            at = parents.get(at, "")
        if at in path:
            names = list(path)
            wrong.update(dict.fromkeys(path, _ring_problem(names[names.index(at) :])))
        elif at in wrong:
            wrong.update(dict.fromkeys(path, wrong[at]))
        else:
            depth = above.get(at, -1)
            for name in reversed(path):
                depth += 1
                if depth > MOST_COHORTS_ABOVE:
                    wrong[name] = _TOO_DEEP
                else:
                    above[name] = depth
    return wrong


def is_own_ancestor(cohort: str, parents: Mapping[str, str]) -> bool:
    """Whether a cohort is in a ring itself, and not only below one."""
    seen = set[str]()
    at = parents.get(cohort, "")
    while at and at != cohort and at not in seen:
        seen.add(at)
        at = parents.get(at, "")
    return at == cohort


def _ring_problem(ring: Sequence[str]) -> QuotaProblem:
    start = ring.index(min(ring))
    names = [*ring[start:], *ring[:start]]
    spelled = names[:_RING_SPELLED]
    if len(names) > _RING_SPELLED:
        spelled.append(f"({len(names) - _RING_SPELLED} more)")
    text = " -> ".join((*spelled, names[0]))
    return QuotaProblem("CohortRing", f"cohorts are their own ancestors: {text}; clear parentName of one of them")


def queue_problem(
    queue: Queue,
    flavors: Collection[str],
    misplaced: Mapping[str, QuotaProblem],
    *,
    unreadable: Mapping[str, str] = NOTHING_WRONG,
) -> QuotaProblem | None:
    """Return why a ClusterQueue cannot be used, if it cannot.

    Args:
        queue: The queue.
        flavors: Names of the ResourceFlavors that exist and can be read.
        misplaced: What `misplaced_cohorts` returned.
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
    return misplaced.get(queue.cohort)


def cohort_problem(cohort: str, parents: Mapping[str, str], *, unreadable: Mapping[str, str]) -> QuotaProblem | None:
    """Return what is wrong with a cohort ("" for none) because it, or one above it, cannot be read.

    Its limits and quota are not known then, and nothing may be admitted as if it had none.

    Args:
        cohort: Its name; it must not be misplaced.
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
