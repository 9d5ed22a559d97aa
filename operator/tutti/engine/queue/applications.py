"""Has the parts of applications that wait stand in line by the order of their AppGroup (`records/applications.py`)."""

from __future__ import annotations

from collections.abc import Iterable

from tutti.api.network import GROUP_LABEL, WORKLOAD_LABEL
from tutti.cluster.app_groups import UNKNOWN
from tutti.engine.lifecycle import reconciliation
from tutti.engine.queue import QueueState
from tutti.engine.records.workloads import Workload


def follow_applications(state: QueueState, changed: Iterable[Workload]) -> list[Workload]:
    """Note which parts of applications wait by now, and share out their places; returns those that stand elsewhere.

    Args:
        state: The engine's memory.
        changed: Those that something was observed about.
    """
    network, book = state.cluster.nodes.network, state.applications
    if not network:
        return []
    again = list(changed)
    if state.ordered_by != network.version:
        state.ordered_by = network.version
        known = {one.key for one in again}
        again += [state.workloads[key] for key in book.all() if key in state.workloads and key not in known]
    for workload in again:
        _note(state, workload)
    return book.share_out() if book.changed else []


def _note(state: QueueState, workload: Workload) -> None:
    """Note which application a workload that waits is a part of, and where; a gang stands where its first part does."""
    network = state.cluster.nodes.network
    found = None
    if reconciliation.wants_nodes(workload):
        for pod_class in dict.fromkeys([one.pod.pod_class for one in workload.members()]):
            name = pod_class.labels.get(GROUP_LABEL)
            group = None if name is None else network.group_of(workload.key[1], name)
            if group is not None and not group.problem:
                place = network.workload_places(group).get(pod_class.labels.get(WORKLOAD_LABEL, ""), UNKNOWN)
                if found is None or place < found[1]:
                    found = (group.namespace, group.name), place
    if found is None:
        state.applications.drop(workload)
    else:
        state.applications.put(workload, *found)
