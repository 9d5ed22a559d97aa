"""What workloads draw, estimated by the power models of their profiles: a figure for people, which decides nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tutti.engine.core_state import CoreState
from tutti.engine.records.workloads import UNDER_WAY, Workload
from tutti.placement.plugins.power_estimate import power_rule, watts_of

_JOULES = 3_600_000.0
"""Of a kilowatt-hour."""


@dataclass(frozen=True, slots=True)
class EnergyEstimate:
    """What a running workload draws.

    Attributes:
        watts: Now.
        kwh: Since its required members were bound, if it has drawn as much all the time, earlier runs included.
    """

    watts: float
    kwh: float


def energy_of(state: CoreState, workload: Workload) -> EnergyEstimate | None:
    """Return what a workload draws; None where it does not run, or no model is for any of its nodes."""
    if workload.phase not in UNDER_WAY:
        return None
    watts = _watts(state, [workload])
    if watts is None:
        return None
    since = state.now if workload.running_since is None else workload.running_since
    return EnergyEstimate(watts, watts * (state.now - since + workload.ran) / _JOULES)


def watts_by_queue(state: CoreState) -> dict[str, float]:
    """Return what running workloads draw together by ClusterQueue, "" for none; empty where no profile has models."""
    if all(power_rule(profile) is None for profile in state.profiles.values()):
        return {}
    queues: dict[str, list[Workload]] = {}
    for workload in state.workloads.values():
        if workload.phase in UNDER_WAY:
            queues.setdefault(workload.cluster_queue, []).append(workload)
    found = {name: _watts(state, some) for name, some in queues.items()}
    return {name: watts for name, watts in found.items() if watts is not None}


def _watts(state: CoreState, workloads: Iterable[Workload]) -> float | None:
    slots: dict[str, list[int]] = {}
    for workload in workloads:
        mine = [m.pod.slot for m in workload.members() if m.pod.slot >= 0]
        slots.setdefault(workload.scheduler, []).extend(mine)
    total, is_known = 0.0, False
    for scheduler, some in slots.items():
        rule = power_rule(state.profiles[scheduler]) if scheduler in state.profiles else None
        if rule is None or not some:
            continue
        there = np.array(some, dtype=np.int64)
        watts = watts_of(rule, state.cluster, there[state.cluster.pod_columns.row[there] >= 0])
        total += float(np.nansum(watts))
        is_known = is_known or bool((~np.isnan(watts)).any())
    return total if is_known else None
