"""What is told to people and machines: conditions, statuses and events, each written only when it changes.

A message with numbers in it changes with everything that happens in the cluster, so a newer text under the same
reason is written at most every `REFRESH_SECONDS`; a new reason is written at once, but for what is nearly always over
in a moment (`_is_soon_over`), and for a workload whose reasons change all the time (`_is_told_too_often`).

Every admission moves all those behind it, so a position that is written whenever it changes costs a write for each
workload that waits, each time. A position is written along with a new reason; apart from that, only every
`LOOK_SECONDS`, in queues in which something happened, at most `MOST_WRITES` workloads are told anew. First come those
whose position is most wrong (told 50 and now 10 before told 50 and now 40), then the one nearer to the head. So there
are never more than `MOST_WRITES` in `LOOK_SECONDS`, whatever happens; who is next is told soonest; and in a queue that
has come to rest every position becomes right. With them goes when the first few of a queue start, where that can be
known (`start_estimates.py`); that is worked out for one queue after the other, so that no turn takes long. It is
written when it has become known, is known no more, or lies elsewhere by more than a minute and a tenth of the wait.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import partial

from tutti.api.kinds import PodGroup
from tutti.api.model import API_VERSION
from tutti.engine.admission import usage_history
from tutti.engine.admission.patience import begin_waiting
from tutti.engine.backfill.promise_texts import begins_to_keep
from tutti.engine.ingest.implicit_gangs import keep_pod_group
from tutti.engine.reading.objects import InvalidObject
from tutti.engine.records.decisions import EmitEvent, PatchStatus
from tutti.engine.records.explanation import (
    AWAITING_DEVICES,
    MISSING,
    PASSING,
    PATIENT,
    REFRESH_SECONDS,
    SEEN_APART_SECONDS,
    Explanation,
    Gate,
)
from tutti.engine.records.faults import Whose
from tutti.engine.records.members import Reported
from tutti.engine.records.workloads import Workload, WorkloadKey
from tutti.engine.status import StatusState, pod_conditions, queue_statuses, statuses
from tutti.engine.status.start_estimates import FORESEEN, estimated_starts
from tutti.engine.status.statuses import PositionReport, reported_start
from tutti.engine.status.workload_conditions import report_gang_condition


def count(state: StatusState, workload: Workload) -> None:
    """Count a workload where it waits or runs: in its queues, in line, at its gate."""
    statuses.count_in_queues(state, workload)
    state.queue_positions.put(
        workload, usage_history.local_queue_of(state, workload) if state.catalog.by_past_use else ""
    )
    state.waiting_counts.put(workload)


def report_set_aside(state: StatusState, workloads: Iterable[Workload]) -> None:
    """Tell of workloads that could not be counted or reported that they are set aside."""
    for workload in workloads:
        if workload.explanation is not None:
            state.announce(workload, "Warning", "SetAside", workload.explanation.message)


def report_objects(state: StatusState) -> None:
    """Tell what is wrong with objects that cannot be read, and what has become of queues and cohorts."""
    for spoilt in state.catalog.news():
        whose = Whose(*spoilt.key, API_VERSION, spoilt.uid)
        state.attempt(whose, "telling what is wrong with it", partial(_report_invalid, state, spoilt), None)
    moved = dict.fromkeys(name for name in state.changed_queues if "/" not in name)
    state.queue_positions.moved.update(moved)
    state.attempt_part(queue_statuses.OVERUSE, partial(queue_statuses.report_overuse, state, moved), None)
    queue_statuses.report_queues(state)


def report_workload(state: StatusState, workload: Workload) -> None:
    """Tell what has become of one workload, wherever it is told."""
    if workload.key[0] == "Pod":
        _report_explanation(state, workload)  # and it has no object that says more
        return
    keep_pod_group(state, workload)
    _report_explanation(state, workload)
    report_status(state, workload)
    report_gang_condition(state, workload)


def _report_explanation(state: StatusState, workload: Workload) -> None:
    why = workload.explanation
    if workload.nominates and (why is None or why.reason in PASSING):
        pod_conditions.take_back_nominations(state, workload)
    if why is None:
        workload.reported, workload.report_at, workload.reported_explanation = ("", "", 0.0), None, None
        workload.missing_since = None
        return
    if why.reason in PASSING:
        return  # it lasts as long as a call, or a round of tries; what was told before stands until then
    if _is_soon_over(state, workload, why) or _is_told_too_often(state, workload, why):
        return
    gathering = pod_conditions.gathers(why)
    announced = why.gate is Gate.PERMIT  # by whoever gave the reservation back
    if why.reason != workload.reported[0] and not gathering and not announced:
        state.announce(workload, "Warning", "FailedScheduling", why.plain)
    if not _is_news(state, why.reason, why.message, workload.reported):
        _put_off(state, workload, why)
        shown = workload.reported_explanation
        if shown is not None and shown.reason == why.reason:
            pod_conditions.tell_others(state, workload, shown)
        return
    if why.reason in PATIENT:
        begin_waiting(state, workload)
    if why.reason != workload.reported[0]:
        workload.reason_since = state.now
        workload.told_until = max(workload.told_until, state.now) + _share(workload)
    workload.reported, workload.reported_explanation = (why.reason, why.message, state.now), why
    pod_conditions.tell_members(state, workload, why)


def _is_soon_over(state: StatusState, workload: Workload, why: Explanation) -> bool:
    """Whether what a workload waits for is nearly always there in a moment, and nobody was told that it waits at all.

    Its devices are to be written on its claims: that is two requests, so it is told only once it has lasted, for a
    condition would be one more for each pod. Who was told that it lacks a node is told at once that it has one: an
    autoscaler would add another. Or an object that it names, and which was created together with it, is to be seen.
    """
    if why.reason in MISSING:
        return _may_be_seen_yet(state, workload)
    workload.missing_since = None
    if why.reason != AWAITING_DEVICES or workload.reported[0] not in ("", *pod_conditions.GATHERING):
        return False
    since = workload.reserved_at
    if since is None or state.now >= since + REFRESH_SECONDS:
        return False
    state.report_in_time(workload, since)
    return True


TOLD_A_SECOND = 100
"""How many members of one workload are told of new reasons in a second, where these keep changing."""
MOST_AHEAD_SECONDS = 3 * REFRESH_SECONDS
"""How much of that may be used beforehand: so few changes are told at once, however many the members are."""


def _share(workload: Workload) -> float:
    """Return for how long telling all members of a workload is enough, in seconds."""
    return min(REFRESH_SECONDS, sum(len(group.members) for group in workload.groups.values()) / TOLD_A_SECOND)


def _is_told_too_often(state: StatusState, workload: Workload, why: Explanation) -> bool:
    """Whether a workload's reasons change so often that its members are told of this one later; it is looked at then.

    Whoever may write its object changes that a hundred times a second, and each time thousands of pods would be told.
    """
    due = workload.told_until - MOST_AHEAD_SECONDS
    if why.reason == workload.reported[0] or state.now >= due:
        return False
    state.report_in_time(workload, due - REFRESH_SECONDS)
    return True


def _may_be_seen_yet(state: StatusState, workload: Workload) -> bool:
    """Whether what a workload names may exist though it has not been seen; if so, that is looked at again in time."""
    if workload.reported[0]:
        return False
    if workload.missing_since is None:
        workload.missing_since = state.now
    due = workload.missing_since + SEEN_APART_SECONDS
    if state.now < due:
        state.set_alarm(workload, due)
    return state.now < due


def is_reported_later(state: StatusState, workload: Workload) -> bool:
    """Whether all that is new about a workload is the text of why it waits, which is then told when its time comes."""
    why = workload.explanation
    if why is None or why.reason != workload.reported[0]:
        return False
    _put_off(state, workload, why)
    return True


def _put_off(state: StatusState, workload: Workload, why: Explanation) -> None:
    if why.message != workload.reported[1]:
        state.report_in_time(workload)


def _is_news(state: StatusState, reason: str, message: str, told: Reported) -> bool:
    if reason != told[0] or message == told[1]:
        return reason != told[0]
    return state.now >= told[2] + REFRESH_SECONDS or begins_to_keep(message, told[1])  # which a restart has to find


def report_status(state: StatusState, workload: Workload, place: statuses.PositionReport | None = None) -> None:
    """Write what is new in the statuses of a workload's objects; where it stands, if that is given, is told anew."""
    kind, namespace, name = workload.key
    parts = state.catalog.referring(namespace, name) if kind == "Workload" else {}
    for pod_group, group in parts.items():
        part = state.catalog.get(PodGroup, namespace, pod_group)
        if part is not None and group in workload.groups:
            news = statuses.part_status_of(state, workload, workload.groups[group], part, place)
            if news:
                state.out.append(PatchStatus("PodGroup", namespace, pod_group, part.metadata.uid, news))
    found = state.catalog.find(workload.key)
    if found is None or not workload.uid:
        return
    status = statuses.status_of(state, workload, found, place)
    if status:
        state.out.append(PatchStatus(*workload.key, workload.uid, status))


def _report_invalid(state: StatusState, spoilt: InvalidObject) -> None:
    """Tell an object that cannot be read what is wrong with it, once.

    The conditions of queues, cohorts and flavors are the controller's, which says the same there.
    """
    about = (*spoilt.key, spoilt.uid)
    state.out.append(EmitEvent(API_VERSION, *about, "Warning", "Invalid", "Validating", str(spoilt.error)))
    news = statuses.invalid_status(state, spoilt) if spoilt.key[0] in ("Workload", "PodGroup") else {}
    if news:
        state.out.append(PatchStatus(*about, news))


LOOK_SECONDS = 10.0
"""How often it is looked at who is told what is not so any more."""

MOST_WRITES = 100
"""How many workloads are told anew at once."""

FORESEE_SECONDS = 1.0
"""How often, at most, the future of a queue is worked out, one after the other."""

SLACK = 0.1
"""By which part of the wait an expected start may be wrong before it is told anew."""

LEAST_SLACK = 60.0
"""By how many seconds it may always be."""


def next_refresh_due(state: StatusState) -> float | None:
    """Return when to look although nothing is observed, Unix seconds."""
    times = (state.queue_positions.look_at, state.queue_positions.foresee_at)
    return min((time for time in times if time is not None), default=None)


def refresh_positions(state: StatusState) -> None:
    """Tell anew where those stand who were told something else, if it is time to."""
    places = state.queue_positions
    if places.moved and places.look_at is None and places.queues():
        places.look_at = state.now + LOOK_SECONDS
    if places.look_at is not None and places.look_at <= state.now:
        _report_positions(state)
    if places.foresee_at is not None and places.foresee_at <= state.now:
        _foresee_one(state)


def _report_positions(state: StatusState) -> None:
    """Tell the most wrong positions anew, and have the future of the same queues worked out."""
    places = state.queue_positions
    moved, places.moved, places.look_at = places.moved, {}, None
    queues = _beside(state, moved)
    wrong = places.most_wrong(queues, MOST_WRITES)
    for position, workload in wrong:
        place = PositionReport(position, reported_start(workload) if position <= FORESEEN else None)
        act = partial(report_status, state, workload, place)
        state.attempt(Whose(*workload.key), "telling its position", act, None)
    if len(wrong) == MOST_WRITES:
        places.moved, places.look_at = dict.fromkeys(queues), state.now + LOOK_SECONDS
    by_clock = state.catalog.windows.calendars or state.throttles.changes_at < math.inf or state.looks_for_better
    places.unforeseen.update((name, None) for name in queues if state.ending or by_clock or name in places.expecting)
    if places.unforeseen and places.foresee_at is None:
        places.foresee_at = state.now


def _foresee_one(state: StatusState) -> None:
    """Work out the future of one queue, and tell its heads who expect another start than they were told."""
    places = state.queue_positions
    name = next(iter(places.unforeseen))
    del places.unforeseen[name]
    places.foresee_at = state.now + FORESEE_SECONDS if places.unforeseen else None
    queue = state.catalog.queues.get(name)
    starts: dict[WorkloadKey, float] = {}
    if queue is not None:
        whose = Whose("ClusterQueue", "", name)
        starts = state.attempt(whose, "foreseeing who starts when", partial(estimated_starts, state, queue), starts)
    places.expecting.pop(name, None)
    for position, workload in enumerate(places.heads(name, FORESEEN), start=1):
        said, at = reported_start(workload), starts.get(workload.key)
        if workload.uid and workload.reported_explanation is not None and not _holds(state, said, at):
            report_status(state, workload, PositionReport(position, at))
        elif said is not None:
            places.expecting[name] = None


def _beside(state: StatusState, moved: Mapping[str, None]) -> list[str]:
    """Return the queues with anybody in them in whose trees something happened, those where it did first."""
    roots = {state.ledger.root_of(name) for name in moved}
    known = [name for name in state.queue_positions.queues() if state.ledger.root_of(name) in roots]
    return sorted(known, key=lambda name: name not in moved)


def _holds(state: StatusState, told: float | None, at: float | None) -> bool:
    """Whether an expected start that was told is still near enough."""
    if told is None or at is None:
        return told is at
    return abs(told - at) <= max(LEAST_SLACK, SLACK * (at - state.now))
