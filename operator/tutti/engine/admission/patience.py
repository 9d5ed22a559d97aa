"""How long a workload passes up what it could have now, because it hopes for better, and when that is over.

For nodes near its data (`placement/plugins/data_locality.py`) it waits as many seconds as its profile says, distance
by distance, as delay scheduling does. For a flavor in which it ends first it waits as long as that saves
(`earliest_finish.py`). The time counts from when it was first told that it waits for such a thing; its
object's status says since when, so that a restarted operator waits no longer. A pod by itself has no object: its time
counts from when it was queued.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import msgspec

from tutti.api.data_locality import DATASET_LABEL, datasets_in
from tutti.api.messages import counted, escape_controls, shortened
from tutti.cluster.classes import Feature
from tutti.engine.admission import AdmissionState, AwaitedFlavor
from tutti.engine.admission.attempt import AdmissionAttempt
from tutti.engine.records.explanation import PATIENT, WAITING_FOR_DATA, WAITING_FOR_FLAVOR, Explanation, Gate
from tutti.engine.records.pod_sets import PodSetRequest
from tutti.engine.records.workloads import Phase, Workload
from tutti.placement.framework import Rows
from tutti.placement.gang import Ask
from tutti.placement.plugins.data_locality import DataRules
from tutti.placement.together import Diagnosis, place_together


def waits_since(workload: Workload) -> float | None:
    """Return since when a workload passes up what it could have, Unix seconds; None where it does not yet."""
    return workload.queued_at if workload.key[0] == "Pod" else workload.passed_up_since


def data_rules(state: AdmissionState, workload: Workload, needs: Sequence[PodSetRequest]) -> DataRules | None:
    """Return by which rules a workload is placed near its data; None where it names none, or nobody looks at that."""
    profile = state.profiles.get(workload.scheduler)
    if profile is None or profile.data is None:
        return None
    return profile.data if any(need.pod_class.features & Feature.DATASETS for need in needs) else None


def distance_allowed(state: AdmissionState, workload: Workload, rules: DataRules) -> int:
    """Return how far from its data a workload may go by now; `rules.anywhere`: it waits no longer."""
    since = waits_since(workload)
    if not rules.wait:
        return rules.anywhere
    if since is None:
        return 0
    return min(int(max(0.0, state.now - since) // rules.wait), rules.anywhere)


def patience_shape(state: AdmissionState, workload: Workload, needs: Sequence[PodSetRequest]) -> Hashable:
    """Return what tells workloads apart by how long they still wait; None for those who do not."""
    rules = data_rules(state, workload, needs)
    far = None if rules is None else distance_allowed(state, workload, rules)
    if not workload.flavor_seconds:
        return far
    awaited = state.awaited_flavors.get(workload.key)
    due = math.inf if awaited is None else min(awaited.starts_at, _over(state, workload, awaited))
    # Who waits for the same flavors as another does not fare like it; and each time that has come is one to be tried.
    return far, workload.key, due if due <= state.now else None


def _over(state: AdmissionState, workload: Workload, awaited: AwaitedFlavor) -> float:
    """Return when a workload has waited for a flavor as long as that saves, Unix seconds."""
    since = waits_since(workload)
    return (state.now if since is None else since) + awaited.saves


def patient_until(state: AdmissionState, workload: Workload) -> float | None:
    """Return until when a workload waits at most for what it passes others up for, Unix seconds; None: it does not."""
    why, since = workload.explanation, waits_since(workload)
    awaited = state.awaited_flavors.get(workload.key)
    if why is not None and why.reason == WAITING_FOR_FLAVOR and awaited is not None:
        return min(awaited.starts_at, _over(state, workload, awaited))
    if why is None or why.reason != WAITING_FOR_DATA:
        return None
    profile = state.profiles.get(workload.scheduler)
    rules = None if profile is None else profile.data
    return None if rules is None else (state.now if since is None else since) + rules.wait * rules.anywhere


def begin_waiting(state: AdmissionState, workload: Workload) -> None:
    """Have the time of a workload run that waits for better, and have it tried again when more is allowed."""
    if workload.passed_up_since is None:
        workload.passed_up_since = state.now
    since, profile = waits_since(workload), state.profiles.get(workload.scheduler)
    awaited = state.awaited_flavors.get(workload.key)
    times = [] if awaited is None else [awaited.starts_at, _over(state, workload, awaited)]
    if since is not None and profile is not None and profile.data is not None and profile.data.wait:
        times.append(since + profile.data.wait * (distance_allowed(state, workload, profile.data) + 1))
    ahead = min((at for at in times if at > state.now), default=None)
    if ahead is not None:
        state.set_alarm(workload, ahead)


def go_on_waiting(state: AdmissionState, workload: Workload) -> None:
    """Have a workload that waits for better be tried again in time, whatever else it has been looked at for."""
    why = workload.explanation
    if why is not None and why.reason in PATIENT and workload.phase is Phase.WAITING:
        begin_waiting(state, workload)


@dataclass(frozen=True, slots=True)
class Patience:
    """That a workload waits for nodes near its data.

    Attributes:
        index: The first ask that finds too few of them.
        why: The same in words.
    """

    index: int
    why: Explanation


def place_near_data(
    attempt: AdmissionAttempt, needs: Sequence[PodSetRequest], asks: Sequence[Ask]
) -> list[Rows] | Patience | None:
    """Place a workload as near its data as it can be, if it has to be near it by now.

    Returns:
        The rows of each ask, on the nearest nodes that have room for all; why it waits, where it would have room
        farther away; None where nothing speaks against going anywhere.
    """
    state, workload = attempt.state, attempt.workload
    rules = data_rules(state, workload, needs)
    nodes = state.cluster.nodes
    if rules is None or all(rules.distances(ask.pod_class, nodes) is None for ask in asks):
        return None
    allowed, short = distance_allowed(state, workload, rules), None
    for within in range(min(allowed, rules.anywhere - 1) + 1):
        near = [_within(ask, within) for ask in asks]
        found = place_together(nodes, attempt.transaction, near, attempt.profile, apart=attempt.apart)
        if not isinstance(found, Diagnosis):
            return found
        short = found
    if allowed >= rules.anywhere or short is None:
        return None
    mark = attempt.transaction.mark()
    elsewhere = place_together(nodes, attempt.transaction, asks, attempt.profile, apart=attempt.apart)
    if isinstance(elsewhere, Diagnosis):
        return None
    attempt.transaction.rollback(mark)
    if attempt.may_ask:
        begin_waiting(state, workload)
    return Patience(short.index, _told(rules, asks[short.index], short, allowed))


def _within(ask: Ask, distance: int) -> Ask:
    """Return an ask that is kept to nodes so near its data."""
    where = msgspec.structs.replace(ask.where, data_within=distance)
    return Ask(ask.pod_class, ask.required, ask.extra, where, ask.topology)


def _told(rules: DataRules, ask: Ask, short: Diagnosis, allowed: int) -> Explanation:
    """Say what a workload waits for, and for how long at most."""
    error = short.fit_error
    names = datasets_in(ask.pod_class.labels.get(DATASET_LABEL, ""))
    data = ", ".join(escape_controls(shortened(one)) for one in names)
    levels = rules.levels[:allowed]
    near = f"hold {data}" if not levels else f"are in one {levels[-1]} with such that hold {data}"
    text = (
        f"There is room, but nodes that {near} have room for {error.fits} of {counted(error.wanted, 'pod')}; it waits "
        f"for these for {rules.wait * rules.anywhere:g} s in all, and then goes anywhere"
    )
    details = {"datasets": data, "fits": str(error.fits), "needed": str(error.wanted), "within": str(allowed)}
    return Explanation(Gate.PLACEMENT, WAITING_FOR_DATA, text, details)
