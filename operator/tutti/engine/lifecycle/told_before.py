"""What an earlier process has told a workload it waits for: its promises are read from that after a restart."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final, NamedTuple

from tutti.api.kinds import PodGroup
from tutti.api.kinds import Workload as WorkloadObject
from tutti.engine.lifecycle import LifecycleState
from tutti.engine.records.workloads import Workload

_MOST_DIGITS: Final = 9


class ToldBefore(NamedTuple):
    """Why a workload waits, as its status says; of a single pod, as its condition does, which has no figures.

    Attributes:
        reason: In one word.
        message: For people.
        details: The figures.
    """

    reason: str = ""
    message: str = ""
    details: Mapping[str, str] = {}

    def time(self, name: str) -> float | None:
        """Return a time that the figures tell, Unix seconds; None where they tell none."""
        return told_time(self.details.get(name, ""))

    def time_in(self, said: re.Pattern[str]) -> float | None:
        """Return a time that the message tells as the one group of a pattern, likewise."""
        found = said.search(self.message)
        return None if found is None else told_time(found[1])

    def number_in(self, said: re.Pattern[str]) -> int | None:
        """Return a number that the message tells, likewise; None also where nobody counts so far."""
        found = said.search(self.message)
        return None if found is None or len(found[1]) > _MOST_DIGITS else int(found[1])


def told_time(text: str) -> float | None:
    """Return a time that a status tells, Unix seconds; None where it tells none that can be read."""
    try:
        return datetime.fromisoformat(text).timestamp() if text else None
    except (ValueError, OverflowError):
        return None


def told_before(state: LifecycleState, workload: Workload) -> ToldBefore:
    """Return what a workload was told before the first turn of this process."""
    if workload.key[0] == "Pod":
        return next((ToldBefore(*member.reported[:2]) for member in workload.members()), ToldBefore())
    found = state.catalog.find(workload.key)
    if not isinstance(found, WorkloadObject | PodGroup):
        return ToldBefore()
    pending = found.status.pending if isinstance(found, WorkloadObject) else found.status.pending_reason
    if pending is None or not pending.reasons:
        return ToldBefore()
    first = pending.reasons[0]
    return ToldBefore(first.reason, first.message, first.details)
