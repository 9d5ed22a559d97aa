"""The condition by which the pod group of another project is told whether it has been scheduled.

That of the native API, by its rules (Kubernetes 1.36): true for good once the required members have been bound
together; before that false with why not, except while members are still missing, when nothing is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tutti.api import conditions as cond
from tutti.engine.records.decisions import PatchStatus
from tutti.engine.records.explanation import Gate
from tutti.engine.records.workloads import Phase, Workload
from tutti.engine.state import State

SCHEDULED = (Phase.SCHEDULED, Phase.FINISHED)


def tell(state: State, workload: Workload) -> None:
    """Write the condition of the object that a gang is described by, where it has one and says otherwise."""
    gang = workload.gang
    if gang is None or not gang.condition:
        return
    told: Mapping[str, Any] = next((one for one in gang.conditions if one.get("type") == gang.condition), {})
    if workload.gang_told is not None and workload.gang_told[0] == gang.uid:
        told = workload.gang_told[1]  # what was written may not have been seen yet
    said = _said(workload, gang.condition, gang.generation)
    if said is None or told.get("status") == "True" or {**told, cond.SINCE: ""} == said:
        return
    others = [one for one in gang.conditions if one.get("type") != gang.condition]
    conditions = cond.merge_conditions([*others, *([told] if told else [])], [said], now=state.now)
    workload.gang_told = (gang.uid, conditions[-1])
    about = (gang.namespace, gang.name, gang.uid)
    state.out.append(PatchStatus("PodGroup", *about, {"conditions": conditions}, api_version=gang.api_version))


def _said(workload: Workload, kind: str, generation: int) -> cond.Json | None:
    if workload.was_scheduled and workload.phase in SCHEDULED:
        text = "all required members have a node"
        return cond.condition_json(kind, "True", "Scheduled", text, generation=generation)
    why = workload.shown
    if why is None or why.gate is Gate.GATHER:
        return None
    return cond.condition_json(kind, "False", "Unschedulable", f"{why.reason}: {why.message}", generation=generation)
