"""How a running gang is mended: what comes in place of members that it has lost goes before all new work.

Where they are to be placed together (`onMemberLoss: Restart`), all that it lacks must be had at once; else each is
placed as there is room. Its other members come in their own turn, when it is whole.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

import msgspec

from tutti.cluster.classes import PodClass
from tutti.cluster.pods import PodKey
from tutti.engine.admission.attempt import AdmissionAttempt, Admitted, Taken
from tutti.engine.admission.growth import has_all, take_extra
from tutti.engine.records.members import LostMember
from tutti.engine.records.pod_sets import PodSetRequest
from tutti.engine.records.successors import replacements
from tutti.engine.records.workloads import Phase, Workload

_MOST_ROUNDS: Final = 8
"""How often others are looked for in place of those for whom there is no room: each may be unlike all others."""


def goes_first(workload: Workload, needs: Sequence[PodSetRequest]) -> bool:
    """Whether a gang is completed before new work starts, by what it wants nodes for.

    It is being bound, with fewer members than it needs; or it runs with fewer, and for some that it has lost
    others have come: for all of them, where they are placed together.
    """
    if workload.complete:
        return False
    if workload.phase is not Phase.SCHEDULED:
        return workload.phase is Phase.BINDING
    return any(need.replaces for need in needs) and all(need.required <= len(need.replaces) for need in needs)


def mend(attempt: AdmissionAttempt, needs: Sequence[PodSetRequest], taken: Sequence[Taken]) -> Admitted:
    """Take nodes for those members of a gang that come in place of lost ones; the others come in their own turn.

    Of whom there is room for too few, others that may come in the same place are tried.

    Args:
        attempt: The try at the gang.
        needs: Its pods that may start.
        taken: What its required ones have been given.
    """
    workload, out, passed_by = attempt.workload, list(taken), set[PodClass]()
    for _ in range(_MOST_ROUNDS):
        tried = _in_place_of_lost(workload, needs, _made_good(out), passed_by)
        if not tried:
            break
        for need in tried:
            found = take_extra(attempt, need, out)
            out += found
            if sum(len(one.rows) for one in found) < need.extra:
                passed_by.add(need.pod_class)
    return Admitted(out, has_more=not has_all(out, needs))


def _made_good(taken: Iterable[Taken]) -> dict[PodKey, LostMember | None]:
    """Return what the members that have been given a node come in place of."""
    out: dict[PodKey, LostMember | None] = {}
    for one in taken:
        its = slice(one.start, one.start + len(one.rows))
        out.update(zip([m.pod.key for m in one.need.members[its]], one.need.replaces[its], strict=False))
    return out


def _in_place_of_lost(
    workload: Workload,
    needs: Sequence[PodSetRequest],
    found: Mapping[PodKey, LostMember | None],
    passed_by: Container[PodClass],
) -> list[PodSetRequest]:
    """Return the extra pods of a gang that runs which come in place of lost ones.

    Args:
        workload: The gang.
        needs: What it wants nodes for.
        found: Those of its members that get a node in the same attempt, and what they come in place of.
        passed_by: Classes of which there is no room for another one.
    """
    out: list[PodSetRequest] = []
    for group in {id(need.group): need.group for need in needs if need.extra}.values():
        mine = [need for need in needs if need.group is group and need.pod_class not in passed_by]
        left = [[m for m in need.members[: need.required + need.extra] if m.pod.key not in found] for need in mine]
        others = {key: loss for key, loss in found.items() if key in group.members}
        replace = replacements(workload.losses, group, list(chain(*left)), others)
        for need, members in zip(mine, left, strict=True):
            some = [one for one in members if one.pod.key in replace]
            lost = [replace[one.pod.key] for one in some]
            if some:
                out.append(msgspec.structs.replace(need, members=some, required=0, extra=len(some), replaces=lost))
    return out
