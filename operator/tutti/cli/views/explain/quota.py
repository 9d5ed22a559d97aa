"""The quota gate in numbers: what a workload asks of its queue, flavor by flavor, and who has what it lacks."""

from __future__ import annotations

from collections.abc import Sequence

from tutti.cli.views.explain.model import QuotaUse
from tutti.engine.admission.attempt import flavor_chooser
from tutti.engine.admission.shortages import closest, short_of_quota
from tutti.engine.records.explanation import Explanation
from tutti.engine.records.needs import Need, pod_sets_of
from tutti.engine.records.workloads import Workload
from tutti.engine.state import State
from tutti.quota.flavors import Queue
from tutti.quota.outcome import Verdict
from tutti.quota.tree import UNLIMITED, FlavorResource


def by_quota(state: State, workload: Workload, queue: Queue, needs: Sequence[Need]) -> Explanation | None:
    """Return what of quota is lacking for the required pods, wherever nodes have room; None where nothing is."""
    required = [need for need in needs if need.required]
    if not required:
        return None
    choice = flavor_chooser(state, queue, workload).choose(pod_sets_of(required))
    return None if choice.verdict is Verdict.FIT else closest(short_of_quota(state, queue, choice))


def uses(state: State, queue: Queue, needs: Sequence[Need]) -> tuple[QuotaUse, ...]:
    """Return every flavor that the resources asked for may be counted in."""
    asked: dict[str, int] = {}
    for need in needs:
        for resource, amount in need.klass.requests.items():
            asked[resource] = asked.get(resource, 0) + amount * need.required
    return tuple(
        _use(state, queue, (flavor, resource), asked[resource])
        for group in queue.groups
        for flavor in group.flavors
        for resource in group.covered
        if asked.get(resource)
    )


def _use(state: State, queue: Queue, what: FlavorResource, needs: int) -> QuotaUse:
    node = state.holdings.tree.queues[queue.name]
    free, own, used = max(0, node.available(what)), node.nominal(what), node.usage.get(what, 0)
    others = (one for one in node.root().leaves() if one is not node)
    borrowers = {one.name: one.borrowed(what) for one in others if one.borrowed(what)}
    lent = max(0, own - used - free)
    return QuotaUse(
        *what, needs, min(free, UNLIMITED), own, node.potential(what), used, lent, borrowers if lent else {}
    )
