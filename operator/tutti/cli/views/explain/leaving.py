"""The pods that a workload waits for to leave: since when each should have gone, and what keeps its object."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from tutti.api.conditions import timestamp
from tutti.cli.views.drawing import BAD, QUIET, PageWidth, ago, table
from tutti.cli.views.explain.model import LeavingPod
from tutti.cli.views.what_if import ObservedCluster, key_of
from tutti.engine.cycle.state import State
from tutti.engine.preemption.overdue import is_overdue
from tutti.engine.records.discretion import pod_named
from tutti.engine.records.observations import PodSeen
from tutti.engine.records.workloads import WorkloadKey

DRAWN, MOST_DRAWN = 10, 30
"""How many pods are drawn where few are overdue, and where many are."""


def leaving_pods(asked: ObservedCluster, state: State, key: WorkloadKey) -> tuple[LeavingPod, ...]:
    """Return the pods that a workload waits for to leave, those first that should have left the longest."""
    nomination = state.nominations.ours.get(key)
    if nomination is None or not nomination.victims:
        return ()
    listed, replaced = (one.pod for one in asked.listed.seen if isinstance(one, PodSeen)), {*nomination.in_place_of}
    awaited = nomination.victims.keys() | replaced
    finalizers = {key_of(pod): tuple(pod.metadata.finalizers) for pod in listed if key_of(pod) in awaited}
    there = [state.cluster.pods[victim] for victim in finalizers if victim in state.cluster.pods]
    return tuple(
        LeavingPod(
            name=pod_named(record, key[1], discreet=asked.discreet),
            node=record.place,
            leaves_by=record.leaves_by if record.leaves_by < math.inf else None,
            finalizers=finalizers[record.key],
            overdue=record.deleting and is_overdue(state, record),
            replaced=record.key in replaced,
        )
        for record in sorted(there, key=lambda one: (one.leaves_by, one.key))
    )


def draw_leaving(pods: Sequence[LeavingPod], now: float, page: PageWidth) -> Iterator[RenderableType]:
    """Draw them as a table below an empty line; nothing where there are none."""
    if not pods:
        return
    rows, shown = table("POD", "NODE", "SAID", wraps=("SAID",), header=False, page=page), pods[: _drawn(pods)]
    for one in shown:
        late = one.leaves_by is not None and one.leaves_by < now
        rows.add_row(one.name, one.node, Text(_said(one, now), BAD if late else QUIET))
    if len(shown) < len(pods):
        rows.add_row(Text(f"and {len(pods) - len(shown)} more", QUIET), "", "")
    yield Text()
    yield Group(Text("It waits for these pods to leave:", "bold"), Padding(rows, (0, 0, 0, 2)))


def _drawn(pods: Sequence[LeavingPod]) -> int:
    """Return how many of the first pods are drawn: all that are overdue, within bounds."""
    return min(max(sum(one.overdue for one in pods), DRAWN), MOST_DRAWN)


def _said(pod: LeavingPod, now: float) -> str:
    if pod.leaves_by is None:
        return "has yet to be told to leave"
    when = f"should have left by {timestamp(pod.leaves_by)}, {ago(now - pod.leaves_by)} ago"
    if pod.leaves_by >= now:
        when = f"is to leave by {timestamp(pod.leaves_by)}, in {ago(pod.leaves_by - now)}"
    if pod.replaced:
        when = f"{when}; others leave in its place"
    return f"{when}; finalizers: {', '.join(pod.finalizers)}" if pod.finalizers else when
