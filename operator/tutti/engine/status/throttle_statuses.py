"""What the statuses of Throttles and ClusterThrottles say, in kube-throttler's fields, so that its users find it there.

Nothing of it is read back for decisions: what is used follows from the pods. A status is written when it says something
else than before; while only amounts move, once in `NUMBERS_SECONDS` at most.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from tutti.api.conditions import timestamp
from tutti.api.resources import format_amount
from tutti.api.throttles import GROUP, VERSION
from tutti.engine.records.decisions import EmitEvent, PatchStatus
from tutti.engine.records.faults import Whose
from tutti.engine.records.throttled_pods import ThrottleKey
from tutti.engine.status import StatusState
from tutti.quota.throttles import NOTHING, Limits, Load

NUMBERS_SECONDS = 1.0
"""How often the amounts in one status are written at most."""

API_VERSION = f"{GROUP}/{VERSION}"
_CALCULATED = "calculatedThreshold"


def next_throttles_due(state: StatusState) -> float | None:
    """Return when thresholds or statuses are to be looked at though nothing is observed, Unix seconds."""
    book = state.throttles
    if not book:
        return None
    waiting = [book.told_at[key] + NUMBERS_SECONDS for key in book.changed if key in book.told_at]
    return min([book.changes_at, *(time for time in waiting if time > state.now)])


def report_throttles(state: StatusState) -> None:
    """Write the statuses that say something else by now."""
    book = state.throttles
    if not book.changed:
        return
    later: dict[ThrottleKey, None] = {}
    for key in book.changed:
        if key in book.limits:
            whose = Whose(*key, API_VERSION, book.throttles[key].uid)
            is_told = state.attempt(whose, "telling what is used", partial(_report, state, key), otherwise=True)
        else:
            is_told = key not in book.throttles
        if not is_told:
            later[key] = None
    book.changed = later


def _report(state: StatusState, key: ThrottleKey) -> bool:
    """Write the status of one throttle; returns False where that is for later."""
    book = state.throttles
    found, told = book.throttles[key], book.told[key]
    now = throttle_status(book.limits[key], book.used.get(key, NOTHING), found.problems)
    news = {name: said for name, said in now.items() if said != _plain(told.get(name))}
    if not news:
        return True
    if set(news) == {"used"} and book.told_at.get(key, 0.0) + NUMBERS_SECONDS > state.now:
        return False
    if _CALCULATED in news:
        now[_CALCULATED] = news[_CALCULATED] = {**now[_CALCULATED], "calculatedAt": timestamp(state.now)}
        for problem in found.problems if problem_news(told, found.problems) else ():
            about = (API_VERSION, found.kind, found.namespace, found.name, found.uid)
            state.out.append(EmitEvent(*about, "Warning", "Unreadable", "Throttling", problem))
    patch = {name: _replacing(told.get(name), said) for name, said in news.items()}
    state.out.append(PatchStatus(found.kind, found.namespace, found.name, found.uid, patch, API_VERSION))
    book.told[key] = {**told, **news}
    book.told_at[key] = state.now
    return True


def throttle_status(limits: Limits, used: Load, problems: tuple[str, ...]) -> dict[str, Any]:
    """Return what a status says, but for since when its threshold holds.

    Args:
        limits: The threshold in force.
        used: By the pods that count.
        problems: What of it cannot be read.
    """
    flags = limits.over(used, on_equal=True)
    throttled: dict[str, Any] = {"resourceCounts": {"pod": flags.pods}}
    if flags.requests:
        throttled["resourceRequests"] = dict(flags.requests)
    calculated: dict[str, Any] = {"threshold": _written(limits.pods, limits.requests)}
    if problems:
        calculated["messages"] = list(problems)
    return {"used": _written(used.pods, used.requests), "throttled": throttled, _CALCULATED: calculated}


def problem_news(told: Mapping[str, Any], problems: tuple[str, ...]) -> bool:
    """Whether a status has not said yet what cannot be read."""
    said = told.get(_CALCULATED)
    return not isinstance(said, dict) or said.get("messages") != list(problems)


def _written(pods: int | None, requests: Mapping[str, int]) -> dict[str, Any]:
    out: dict[str, Any] = {} if pods is None else {"resourceCounts": {"pod": pods}}
    if requests:
        out["resourceRequests"] = {name: format_amount(name, amount) for name, amount in requests.items()}
    return out


def _plain(said: object) -> object:
    """Return a part of a status without since when it holds."""
    return {name: one for name, one in said.items() if name != "calculatedAt"} if isinstance(said, dict) else said


def _replacing(before: object, now: object) -> object:
    """Return the merge patch that leaves nothing but `now`."""
    if not isinstance(now, dict) or not isinstance(before, dict):
        return now
    gone = {name: None for name in before if name not in now}
    return gone | {name: _replacing(before.get(name), one) for name, one in now.items()}
