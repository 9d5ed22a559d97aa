"""A gang that runs with fewer members than it needs: what becomes of its successors, and what would end its window."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tutti.cli.views.asking import Asked, waits_for
from tutti.cli.views.changing import pod_of, successors
from tutti.cli.views.claims import claims_of
from tutti.cli.views.degraded import Degraded
from tutti.cli.views.explain.model import Successors
from tutti.engine.lifecycle.member_loss import restarts_at, short_groups
from tutti.engine.records.explanation import Explanation
from tutti.engine.records.needs import Need
from tutti.engine.records.observations import AnyObservation
from tutti.engine.records.workloads import Workload, WorkloadKey


def with_successors(asked: Asked, workload: Workload, lacks: Degraded) -> Asked | None:
    """Return who is asked as if all members were there again that a degraded gang lacks.

    Each is made like one that is left; None where none is left of a group to be like.
    """
    seen = asked.listed.seen
    more: list[AnyObservation] = []
    for group in short_groups(workload) if lacks.missing else ():
        tally = group.tally()
        missing = group.lacking - tally.waiting - tally.gated - tally.reserved
        if missing <= 0:
            continue
        model = next(iter(group.members), None)
        if model is None:
            return None
        first = pod_of(seen, model)
        made = successors(first, missing)
        more += [claim for one in made for claim in claims_of(seen, first, one.pod)]
        more += made
    return replace(asked, listed=replace(asked.listed, seen=[*seen, *more])) if more else asked


def outcome(asked: Asked, key: WorkloadKey) -> tuple[Successors, Explanation | None]:
    """Return what becomes of the members of a degraded gang that wait, and what it waits for then."""
    state, _ = asked.decided(asked.listed.seen)
    workload = state.workloads[key]
    places = [member.pod.place for member in workload.members() if member.pod.place and not member.pod.node]
    why = waits_for(workload)
    return Successors(dict(sorted(Counter(places).items())), "" if why is None else why.message), why


def as_required(needs: Sequence[Need]) -> list[Need]:
    """Return what is needed for a gang to be whole again where its members are placed as they come (Keep)."""
    out = []
    for need in needs:
        least = 0 if need.required else min(need.extra, need.group.missing)
        out.append(replace(need, required=need.required + least, extra=need.extra - least))
    return out


def early(workload: Workload) -> Iterator[str]:
    """Yield what would have a degraded gang restarted at once, because its window could not help any more."""
    if restarts_at(workload) is None:
        return
    if workload.queue:
        yield f"ClusterQueue {workload.cluster_queue} can never have as much as all of it needs"
    near = [group.near for group in workload.groups.values()] + [member.near for member in workload.members()]
    for level in dict.fromkeys(one.required[-1] for one in near if one is not None and one.required):
        yield f"the {level} of the others has no room for successors that are there, and a node of theirs is gone"
