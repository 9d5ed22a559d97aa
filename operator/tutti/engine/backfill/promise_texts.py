"""What a head is told is kept for it, and what was told of that before a restart, read from the same words.

A status has it in the details of its reason. The condition of a single pod has no details, so it is read from the text.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tutti.api.conditions import timestamp
from tutti.api.messages import followed_by
from tutti.engine.admission.throttling import THROTTLED
from tutti.engine.backfill.start_time import StartEstimate
from tutti.engine.lifecycle.told_before import ToldBefore
from tutti.engine.records.explanation import Explanation, Gate
from tutti.quota.assignment import NoFit

WOULD_DELAY = "WouldDelay"
PASSES = (
    (Gate.PLACEMENT, "Unschedulable"),
    (Gate.QUOTA, NoFit.WAITING_FOR_QUOTA.reason),
    (Gate.QUEUE, WOULD_DELAY),
    (Gate.THROTTLE, THROTTLED),
)
"""What a head may wait for: what never comes is not waited for."""

_PASSED = [reason for _, reason in PASSES]
_KEPT = "kept for it"
_SINCE = "keptSince"
_STARTS = re.compile(r"it (?:starts|gets its quota) at (\S+) at the latest")
_UNTIL = re.compile(rf"{_KEPT} until (\S+)")
_LEFT = re.compile(r"others go first until (\S+),")
_LEFT_UNTIL = "othersUntil"


class ToldPromise(NamedTuple):
    """What a head was told is kept for it.

    Attributes:
        passed: Whether it was told that it waits for what others may pass it by for.
        kept: Whether it was told that something is kept for it.
        since: Since when, Unix seconds; None where that was not told.
        starts_at: When it starts at the latest; None where it was not told.
        until: Until when it is kept; None where it was not told.
        left_until: Until when others go first, since it was kept for in vain; None where it was not told.
    """

    passed: bool = False
    kept: bool = False
    since: float | None = None
    starts_at: float | None = None
    until: float | None = None
    left_until: float | None = None


def promise_of(
    why: Explanation, found: StartEstimate, since: float, until: float, nodes: tuple[str, ...]
) -> Explanation:
    """Return what a head is told: why it waits, and what is kept for it."""
    where = f"node {nodes[0]}" if len(nodes) == 1 else f"{len(nodes)} nodes"
    details = {**why.details, "keptNodes": str(len(nodes)), _SINCE: timestamp(since)}
    if found.starts_at is None:
        what = (
            f"becomes free on {where}" if nodes else "quota becomes free" if found.usage else "throttles come to allow"
        )
        text = (
            f"nobody knows when: what {what} is {_KEPT} until {timestamp(until)} "
            "(reservationSeconds); give what runs there maximumExecutionTimeSeconds"
        )
        details["keptUntil"] = timestamp(until)
    else:
        at = f"at {timestamp(found.starts_at)} at the latest"
        text = f"it starts {at}, on {where} {_KEPT}" if nodes else f"it gets its quota {at}, and is then checked"
        details["startsAt"] = timestamp(found.starts_at)
    return Explanation(why.gate, why.reason, followed_by(why.message, text), details)


def left_to_others(why: Explanation, until: float) -> Explanation:
    """Return what a head is told for which nothing is kept for a while; nothing new where it was told so already."""
    if _LEFT_UNTIL in why.details or (why.gate, why.reason) not in PASSES:
        return why
    text = f"others go first until {timestamp(until)}, since what was kept was of no use"
    return Explanation(
        why.gate, why.reason, followed_by(why.message, text), {**why.details, _LEFT_UNTIL: timestamp(until)}
    )


def begins_to_keep(message: str, told: str) -> bool:
    """Whether a message tells that something is kept, or that others go first for a while, where nothing told so."""
    return (_KEPT in message and _KEPT not in told) or bool(_LEFT.search(message) and not _LEFT.search(told))


def told_promise(told: ToldBefore) -> ToldPromise:
    """Return what a workload was told is kept for it."""
    since = told.time(_SINCE)
    if told.reason not in _PASSED:
        return ToldPromise()
    if since is None and _KEPT not in told.message:
        return ToldPromise(passed=True, left_until=told.time_in(_LEFT))
    return ToldPromise(True, True, since, told.time_in(_STARTS), told.time_in(_UNTIL))
