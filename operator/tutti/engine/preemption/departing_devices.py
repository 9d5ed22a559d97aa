"""Waiting for devices that claims give back which nobody is left to use: nobody has to leave for them.

Until the claim controller has taken them away a pod cannot use them (`cluster/device_holders.py`), and fits nowhere as
it seems. Its nodes and quota are held for it meanwhile, as for one that waits for victims. Else whoever goes after it
would be given the room beside these devices, be taken out for it, and be given it again, in turn after turn.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tutti.api.conditions import timestamp
from tutti.api.messages import counted
from tutti.cluster.classes import Feature
from tutti.engine.lifecycle import quota_usage
from tutti.engine.preemption import PreemptionState, nominated_room, nominations
from tutti.engine.records.explanation import Explanation
from tutti.engine.records.nominations import Nomination
from tutti.engine.records.pod_sets import PreemptionOption
from tutti.engine.records.queue_entries import QueueEntry
from tutti.placement.framework import Rows
from tutti.placement.preemption.units import SimulatedRemoval
from tutti.placement.together import fit_together


def wait_for_devices(
    state: PreemptionState, entry: QueueEntry, why: Explanation, options: Sequence[PreemptionOption], priority: int
) -> Explanation | None:
    """Hold room and quota for a workload that has its place as soon as devices are back.

    Args:
        state: The engine's memory.
        entry: The workload.
        why: Why it could not be admitted.
        options: What it could have if others were gone, the best first.
        priority: That of its pods.

    Returns:
        What it waits for from now on; None where that alone does not help it.
    """
    if not any(need.pod_class.features & Feature.DEVICES for need in entry.needs):
        return None
    departing = state.cluster.device_users.holders.departing()
    for option in options if departing else ():
        rows = None if option.contested or not option.asks else _rows_then(state, option)
        if rows is not None:
            workload, until = entry.workload, state.now + state.configuration.victims_timeout_seconds
            nomination = Nomination(
                priority=priority,
                spots=list(nominations.spots_of(state, option.needs, rows)),
                wants=nominations.wants_of(entry.needs),
                victims={},
                charges=option.charged,
                until=until,
                why=_waits(why, sum(need.required for need in option.needs), until),
                departing=departing,
            )
            nominations.begin_nomination(state, workload.key, nomination)
            if entry.queue is not None:
                workload.cluster_queue = entry.queue.name
                quota_usage.describe_holder(state, workload)
            return nomination.why
    return None


def _rows_then(state: PreemptionState, option: PreemptionOption) -> list[Rows] | None:
    """Return where the pods go when the devices are back; None where they do not fit then."""
    cluster = state.cluster
    nobody = np.zeros(0, dtype=np.int64)
    with SimulatedRemoval(cluster, nobody, seen=False), cluster.transaction() as transaction:
        nominated_room.take_covered(state, transaction, nobody)
        return fit_together(cluster.nodes, transaction, option.asks, option.profile)


def _waits(why: Explanation, pods: int, until: float) -> Explanation:
    again = timestamp(until)
    text = f"{why.message.removesuffix('.')}. Claims that nobody uses any more give devices back that it needs; "
    text += f"the room for its {counted(pods, 'pod')} is held until {again}"
    return Explanation(why.gate, why.reason, text, {**why.details, "until": again})
