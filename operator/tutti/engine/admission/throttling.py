"""Whether throttles let a workload start, and how many of its surplus pods (`tutti.quota.throttles` has the rules).

A workload is asked about as a whole, in the turn that places it: what it wants together is compared with what is used
and promised, so that a gang is never placed in half. Nobody is preempted for a throttle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import msgspec

from tutti.api.conditions import timestamp
from tutti.api.messages import HAS, agreeing, counted
from tutti.api.resources import PODS, format_amount
from tutti.api.throttles import GROUP, VERSION
from tutti.engine.admission import AdmissionState
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.faults import Whose
from tutti.engine.records.pod_sets import PodSetRequest
from tutti.engine.records.throttled_pods import ThrottleKey
from tutti.quota.throttles import NOTHING, Limits, Load, ThrottleStatus, check, load_of


def follow_throttles(state: AdmissionState) -> None:
    """Have the thresholds in force that hold now, and count the pods that throttles are about by now.

    A throttle of which that raises lets nobody start whom it is about, until it can be followed.
    """
    book = state.throttles
    state.attempt_part(COUNTING, partial(book.recount, state.cluster), None)
    for key in book.take_due(state.now):
        one = book.throttles[key]
        whose = Whose(*key, f"{GROUP}/{VERSION}", one.uid)
        if not state.attempt(whose, "following its threshold", partial(book.follow, key, state.now), otherwise=False):
            book.follow_at(key, state.faults.until(key, state.now) or state.now)


COUNTING = "counting the pods of throttles"
"""The part of the turn that does; beside that each throttle is followed by itself."""


THROTTLED = "Throttled"
"""The reason of who waits for a throttle."""

_ORDER = (
    ThrottleStatus.EXCEEDS,
    ThrottleStatus.ACTIVE,
    ThrottleStatus.INSUFFICIENT,
    ThrottleStatus.INSUFFICIENT_FOR_GROUP,
)
"""Which is told first, as kube-throttler's plugin has it."""


def throttled(state: AdmissionState, needs: Sequence[PodSetRequest]) -> Explanation | None:
    """Return which throttle keeps a workload from starting, and by what; None where none does.

    Args:
        state: The engine's memory.
        needs: Its pods; the required ones of these are to start together.
    """
    book = state.throttles
    if not book:
        return None
    whole = wanted_of(state, needs)
    if not whole:
        return None
    stuck = next((key for key in whole if book.is_stuck(key)), None)
    if stuck is not None:
        where = "/".join(filter(None, stuck[1:]))
        text = (
            f"{stuck[0]} {where} is set aside, because following it raises; nobody it is about starts until it can be"
        )
        return Explanation(Gate.THROTTLE, "SetAside", text, {"throttle": where, "kind": stuck[0]})
    told = _hits(state, needs, whole)
    if not told:
        return None
    hits = [(told[key], key, load) for key, load in whole.items() if key in told]
    status, key, wanted = min(hits, key=lambda one: (_ORDER.index(one[0]), bool(one[1][1])))
    return _told(state, status, key, wanted, others=len(hits) - 1)


def concerns(state: AdmissionState, need: PodSetRequest) -> bool:
    """Whether any throttle is about the pods of a need."""
    book, pod_class = state.throttles, need.pod_class
    return bool(book) and bool(book.of(pod_class.namespace, pod_class.labels))


def within_throttles(state: AdmissionState, needs: Sequence[PodSetRequest]) -> Sequence[PodSetRequest]:
    """Return the pods of a workload that may start together, with as few surplus pods as throttles let start.

    Args:
        state: The engine's memory.
        needs: Its pods; throttles let the required ones of these start.
    """
    if not state.throttles or not any(need.extra and concerns(state, need) for need in needs):
        return needs
    found, taken = list[PodSetRequest](), [(need, need.required) for need in needs if need.required]
    for need in needs:
        extra = _room_for(state, need, taken) if need.extra else 0
        taken.append((need, extra))
        found.append(need if extra == need.extra else msgspec.structs.replace(need, extra=extra))
    return found


def _room_for(state: AdmissionState, need: PodSetRequest, taken: Sequence[tuple[PodSetRequest, int]]) -> int:
    """Return how many surplus pods of a need throttles let start beside what is `taken`: so many pods of each need."""
    book, pod, most = state.throttles, load_of(need.pod_class.requests), need.extra
    beside = _together(state, taken)
    for key in book.of(need.pod_class.namespace, need.pod_class.labels):
        if book.is_stuck(key):
            return 0
        limits, used = book.limits[key], book.used.get(key, NOTHING)
        reserved = book.reserved.get(key, NOTHING) + beside.get(key, NOTHING)
        cluster = book.throttles[key].is_cluster
        if check(limits, used, reserved, pod, cluster=cluster) is not ThrottleStatus.NOT_THROTTLED:
            return 0
        held = used + reserved
        if limits.pods is not None:
            most = min(most, limits.pods - (held.pods or 0))
        for name in limits.requests:
            if pod.requests.get(name, 0) > 0:
                most = min(most, (limits.most(name) - held.requests.get(name, 0)) // pod.requests[name])
    return max(0, most)


def concerning(state: AdmissionState, needs: Sequence[PodSetRequest]) -> set[ThrottleKey]:
    """Return the throttles that are about any pods of some needs, required or not."""
    classes = [need.pod_class for need in needs]
    return {key for one in classes for key in state.throttles.of(one.namespace, one.labels)}


def lets_whole(state: AdmissionState, key: ThrottleKey, whole: Load) -> bool:
    """Whether a throttle lets a workload start that is so much to it."""
    book = state.throttles
    limits, used, reserved = book.limits[key], book.used.get(key, NOTHING), book.reserved.get(key, NOTHING)
    cluster = book.throttles[key].is_cluster
    return check(limits, used, reserved, whole, cluster=cluster) is ThrottleStatus.NOT_THROTTLED


def wanted_of(state: AdmissionState, needs: Sequence[PodSetRequest]) -> dict[ThrottleKey, Load]:
    """Return what the required pods of some needs are together to each throttle that is about any of them."""
    return _together(state, [(need, need.required) for need in needs if need.required])


def _together(state: AdmissionState, pods: Sequence[tuple[PodSetRequest, int]]) -> dict[ThrottleKey, Load]:
    """Return what so many pods of some needs are together to each throttle that is about any of them."""
    found: dict[ThrottleKey, Load] = {}
    for need, count in pods:
        load, together = load_of(need.pod_class.requests).times(count), dict[int, tuple[Load, Load]]()
        for key in state.throttles.of(need.pod_class.namespace, need.pod_class.labels):
            before = found.get(key, NOTHING)
            known = together.get(id(before))  # to those that are about the same pods they are the same
            if known is None:
                known = together[id(before)] = before, before + load
            found[key] = known[1]
    return found


def _hits(
    state: AdmissionState, needs: Sequence[PodSetRequest], whole: Mapping[ThrottleKey, Load]
) -> dict[ThrottleKey, ThrottleStatus]:
    """Return what each throttle that lets a workload not start says to the first pods of it that it does not let."""
    book, found = state.throttles, dict[ThrottleKey, ThrottleStatus]()
    for need in needs:
        if not need.required:
            continue
        pod, rests = load_of(need.pod_class.requests), dict[int, Load]()
        for key in book.of(need.pod_class.namespace, need.pod_class.labels):
            if key in found:
                continue
            rest = rests.get(id(whole[key]))
            if rest is None:
                rest = rests[id(whole[key])] = whole[key] - pod
            limits, used, reserved = book.limits[key], book.used.get(key, NOTHING), book.reserved.get(key, NOTHING)
            cluster = book.throttles[key].is_cluster
            status = check(limits, used, reserved, pod, rest=rest, cluster=cluster)
            if status is not ThrottleStatus.NOT_THROTTLED:
                found[key] = status
    return found


def _told(state: AdmissionState, status: ThrottleStatus, key: ThrottleKey, wanted: Load, *, others: int) -> Explanation:
    """Return why a workload waits, with the numbers of what it is short of, and when there is more."""
    book = state.throttles
    kind, namespace, name = key
    limits, used, reserved = book.limits[key], book.used.get(key, NOTHING), book.reserved.get(key, NOTHING)
    what = _short_of(limits, used + reserved, wanted)
    where = f"{namespace}/{name}" if namespace else name
    limit, in_use, needed = (_amount(what, _of(what, one)) for one in (limits, used + reserved, wanted))
    comes = next(_rising(state, key, what), None)
    if comes is None and limits.over(wanted, on_equal=False).hit(wanted):
        text = f"{kind} {where} never allows more than {limit} at once, and it needs {needed}"
    else:
        text = f"{kind} {where} allows {limit} at once: {in_use} in use, and it needs {needed}"
    details = {
        "throttle": where,
        "kind": kind,
        "status": status.value,
        "resource": what,
        "limit": limit,
        "used": _amount(what, _of(what, used)),
        "reserved": _amount(what, _of(what, reserved)),
        "needed": needed,
    }
    if comes is not None:
        at, more = comes
        text += f"; it allows {_amount(what, more)} from {timestamp(at)} on"
        details |= {"changes": timestamp(at)}
    elif limits.over(wanted, on_equal=False).hit(wanted):
        text += "; ask for less, or have its threshold raised"
    if others:
        text += f"; {counted(others, 'more throttle')} {agreeing(others, HAS)} no room either"
    return Explanation(Gate.THROTTLE, THROTTLED, text, details)


def _short_of(limits: Limits, held: Load, wanted: Load) -> str:
    """Return the resource that a limit has too little of, "pods" for the number of pods."""
    for on_equal, load in ((False, wanted), (False, held + wanted), (True, held)):
        flags = limits.over(load, on_equal=on_equal)
        if flags.pods:
            return PODS
        for name, is_over in flags.requests.items():
            if is_over and wanted.requests.get(name, 0) > 0:
                return name
    return PODS


def _of(what: str, load: Load | Limits) -> int:
    if what == PODS:
        return load.pods or 0
    return load.most(what) if isinstance(load, Limits) and what in load.requests else load.requests.get(what, 0)


def _amount(what: str, amount: int | None) -> str:
    if amount is None:
        return "any number"
    return counted(amount, "pod") if what == PODS else f"{format_amount(what, amount)} {what}"


def _rising(state: AdmissionState, key: ThrottleKey, what: str) -> Iterator[tuple[float, int | None]]:
    """Yield when a throttle allows more of something, Unix seconds, and how much then; None: any amount."""
    now = _of(what, state.throttles.limits[key])
    for at, limits in state.throttles.changes(key, state.now):
        then = limits.pods if what == PODS else limits.requests.get(what)
        if then is None or then > now:
            yield at, then
